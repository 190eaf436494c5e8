-- What a merchant's token does with its own endpoint: it alone says whose that is.

-- name: read_own_endpoint
-- Show the endpoint of the token's merchant, without its secret.
-- $1 token bytea
-- row: url text, paused boolean, created_at timestamptz, updated_at timestamptz, secret_created_at timestamptz,
--   last_success_at timestamptz, failing_since timestamptz, failures_in_a_row integer, suspended_at timestamptz,
--   types text[], at_once smallint
-- none: the token is not valid any more, or its merchant has no endpoint
SELECT
    own.url, own.paused, own.created_at, own.updated_at, own.secret_created_at, own.last_success_at,
    own.failing_since, own.failures_in_a_row, own.suspended_at, own.types, own.at_once
FROM webhook.bearer($1) AS me
CROSS JOIN LATERAL (
    SELECT
        own_endpoint.url, own_endpoint.paused, own_endpoint.created_at, own_endpoint.updated_at,
        own_endpoint.secret_created_at, own_endpoint.last_success_at, own_endpoint.failing_since,
        own_endpoint.failures_in_a_row, own_endpoint.suspended_at, own_endpoint.types, own_endpoint.at_once
    FROM webhook.own_endpoint
    WHERE own_endpoint.merchant_id = me.merchant_id
    LIMIT 1
) AS own;

-- name: count_own_owed
-- Count what is owed, in order and out of it apart, as far as a bound; not what was delivered and is sent again.
-- $1 token bytea
-- $2 most bigint
-- row: waiting bigint
-- none: the token is not live
SELECT counted.waiting
FROM webhook.bearer($1) AS me
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE owed.on_failure IS DISTINCT FROM 'delivered') AS waiting
    FROM (
        (
            SELECT own_owed.on_failure
            FROM webhook.own_owed
            WHERE own_owed.merchant_id = ANY(ARRAY[me.merchant_id]) AND own_owed.due_at IS NULL
            LIMIT $2
        )
        UNION ALL
        (
            SELECT own_owed.on_failure
            FROM webhook.own_owed
            WHERE own_owed.merchant_id = ANY(ARRAY[me.merchant_id]) AND own_owed.due_at IS NOT NULL
            LIMIT $2
        )
        LIMIT $2
    ) AS owed
) AS counted;

-- name: read_current_sealing_key
-- Read the public half to seal with.
-- row: key_id text, public_half bytea
-- none: no dispatcher has confirmed one within the last hour
SELECT current_sealing_key.key_id, current_sealing_key.public_half
FROM webhook.current_sealing_key;

-- name: may_read_secrets
-- Tell whether this user could read secrets, sealed as they are: no process that the internet reaches may.
-- row: may_read_secrets boolean
-- order: one row
SELECT
    has_column_privilege('webhook.endpoint', 'secret', 'SELECT')
    OR has_column_privilege('webhook.endpoint', 'previous_secret', 'SELECT') AS may_read_secrets;

-- name: own_put_endpoint
-- Configure the token's merchant, or change its URL and types. WH401 where the token is not valid, 55000 where a dispatcher
-- works that knows no filters.
-- $1 token bytea
-- $2 url text; null: as it is
-- $3 secret bytea
-- $4 key_id text
-- $5 types text[]; null: all
-- $6 keeps_types boolean
-- row: result text
-- none: cannot be
SELECT webhook.own_put_endpoint($1, $2, $3, $4, $5, $6) AS result;

-- name: own_set_order
-- Have so many of the token's merchant's events attempted at once. WH401 where the token is not valid; 55000 while a
-- dispatcher works that knows no order by charge.
-- $1 token bytea
-- $2 at_once integer; null: one, in the order of the merchant
-- row: result text
-- none: cannot be
SELECT webhook.own_set_order($1, $2) AS result;

-- name: own_rotate_secret
-- Replace the secret of the token's merchant. WH401 where the token is not valid.
-- $1 token bytea
-- $2 secret bytea
-- $3 key_id text
-- $4 overlap interval
-- $5 hold boolean
-- row: result text, previous_until timestamptz, waiting bigint
-- none: cannot be
SELECT rotated.result, rotated.previous_until, rotated.waiting
FROM webhook.own_rotate_secret($1, $2, $3, $4, $5) AS rotated;

-- name: own_remove_endpoint
-- Remove the endpoint of the token's merchant. WH401 where the token is not valid.
-- $1 token bytea
-- row: result text
-- none: cannot be
SELECT CASE WHEN webhook.own_remove_endpoint($1) THEN 'removed' ELSE 'not_configured' END AS result;

-- name: own_command
-- Give a command for the token's merchant; no id: the event is not the merchant's. WH401 where the token is not valid,
-- WH409 where too many of the merchant's have not ended.
-- $1 token bytea
-- $2 command text
-- $3 event_id uuid
-- $4 since timestamptz
-- $5 until timestamptz
-- row: id bigint, result text
-- none: cannot be
SELECT given.id, CASE WHEN given.id IS NULL THEN 'not_found' ELSE 'given' END AS result
FROM webhook.own_command($1, $2, $3, $4, $5) AS given (id);
