-- What a merchant's token does with its own endpoint: it alone says whose that is.

-- name: list_own_endpoints
-- List the endpoints of the token's merchant, without their secrets.
-- $1 token bytea
-- row: url text, paused boolean, created_at timestamptz, updated_at timestamptz, secret_created_at timestamptz,
--   last_success_at timestamptz, failing_since timestamptz, failures_in_a_row integer, suspended_at timestamptz,
--   types text[], at_once smallint, number smallint, id uuid, name text; ordered by number
-- none: the token is not valid any more, or its merchant has no endpoint
SELECT
    own.url, own.paused, own.created_at, own.updated_at, own.secret_created_at, own.last_success_at,
    own.failing_since, own.failures_in_a_row, own.suspended_at, own.types, own.at_once, own.number, own.id, own.name
FROM webhook.bearer($1) AS me
CROSS JOIN LATERAL (
    SELECT
        own_endpoints.url, own_endpoints.paused, own_endpoints.created_at, own_endpoints.updated_at,
        own_endpoints.secret_created_at, own_endpoints.last_success_at, own_endpoints.failing_since,
        own_endpoints.failures_in_a_row, own_endpoints.suspended_at, own_endpoints.types, own_endpoints.at_once,
        own_endpoints.number, own_endpoints.id, own_endpoints.name
    FROM webhook.own_endpoints
    WHERE own_endpoints.merchant_id = me.merchant_id
    ORDER BY own_endpoints.number
    LIMIT 16
) AS own;

-- name: count_own_owed
-- Count what an endpoint is owed, in order and out of it apart, as far as a bound; not what was delivered and is sent again.
-- What is not known yet to whom it goes counts as number 1's.
-- $1 token bytea
-- $2 number smallint
-- $3 most bigint
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
            WHERE own_owed.merchant_id = ANY(ARRAY[
                webhook.lane_named(me.merchant_id, $2), CASE WHEN $2 = 1 THEN me.merchant_id END
            ])
                AND own_owed.due_at IS NULL
            LIMIT $3
        )
        UNION ALL
        (
            SELECT own_owed.on_failure
            FROM webhook.own_owed
            WHERE own_owed.merchant_id = ANY(ARRAY[
                webhook.lane_named(me.merchant_id, $2), CASE WHEN $2 = 1 THEN me.merchant_id END
            ])
                AND own_owed.due_at IS NOT NULL
            LIMIT $3
        )
        LIMIT $3
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

-- name: own_add_endpoint
-- Add an endpoint to those of the token's merchant. WH401 where the token is not valid, 55000 where a dispatcher works that knows
-- one endpoint alone, or no filters, or no order by charge.
-- $1 token bytea
-- $2 url text
-- $3 secret bytea
-- $4 key_id text
-- $5 name text
-- $6 types text[]; null: all
-- $7 at_once integer; null: one, in the order of the merchant
-- row: result text, id uuid
-- none: cannot be
SELECT added.result, added.id
FROM webhook.own_add_endpoint($1, $2, $3, $4, $5, $6, $7) AS added;

-- name: own_put_endpoint
-- Configure number 1 of the token's merchant, or change an endpoint's URL, types and name. WH401 where the token is not valid,
-- 55000 where a dispatcher works that knows no filters.
-- $1 token bytea
-- $2 endpoint uuid; null: number 1
-- $3 url text; null: as it is
-- $4 secret bytea
-- $5 key_id text
-- $6 types text[]; null: all
-- $7 keeps_types boolean
-- $8 name text; null: as it is; empty: none
-- row: result text
-- none: cannot be
SELECT webhook.own_put_endpoint($1, $3, $4, $5, $6, $7, $8, $2) AS result;

-- name: own_set_order
-- Have so many of an endpoint's events attempted at once. WH401 where the token is not valid; 55000 while a dispatcher works that
-- knows no order by charge.
-- $1 token bytea
-- $2 endpoint uuid; null: number 1
-- $3 at_once integer; null: one, in the order of the merchant
-- row: result text
-- none: cannot be
SELECT webhook.own_set_order($1, $3, $2) AS result;

-- name: own_rotate_secret
-- Replace the secret of an endpoint of the token's merchant. WH401 where the token is not valid.
-- $1 token bytea
-- $2 endpoint uuid; null: number 1
-- $3 secret bytea
-- $4 key_id text
-- $5 overlap interval
-- $6 hold boolean
-- row: result text, previous_until timestamptz, waiting bigint
-- none: cannot be
SELECT rotated.result, rotated.previous_until, rotated.waiting
FROM webhook.own_rotate_secret($1, $3, $4, $5, $6, $2) AS rotated;

-- name: own_remove_endpoint
-- Remove an endpoint of the token's merchant. WH401 where the token is not valid.
-- $1 token bytea
-- $2 endpoint uuid; null: number 1
-- row: result text
-- none: cannot be
SELECT CASE WHEN webhook.own_remove_endpoint($1, $2) THEN 'removed' ELSE 'not_configured' END AS result;

-- name: own_command
-- Give a command for the token's merchant; no id: the event, or the endpoint, is not the merchant's. WH401 where the token is not
-- valid, WH409 where too many of the merchant's have not ended.
-- $1 token bytea
-- $2 command text
-- $3 event_id uuid
-- $4 since timestamptz
-- $5 until timestamptz
-- $6 endpoint uuid; null: number 1, of a retry_failed all
-- row: id bigint, result text
-- none: cannot be
SELECT given.id, CASE WHEN given.id IS NULL THEN 'not_found' ELSE 'given' END AS result
FROM webhook.own_command($1, $2, $3, $4, $5, $6) AS given (id);
