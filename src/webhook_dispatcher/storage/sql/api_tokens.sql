-- Access tokens of the Partner API: who asks, and whether they may.

-- name: admit
-- Let a request in by its access token, and take one of its key's limit if the token is live.
-- $1 token_hash bytea
-- $2 most integer
-- $3 span interval
-- row: state text, api_key_id bigint, client_id text, merchant_id text, is_use_due boolean, retry_after interval,
--   remaining integer
-- order: one row
SELECT
    admitted.state,
    admitted.api_key_id,
    admitted.client_id,
    admitted.merchant_id,
    admitted.is_use_due,
    admitted.retry_after,
    admitted.remaining
FROM webhook.admit_token($1, $2, $3) AS admitted;

-- name: admit_with_endpoint
-- Let a request in as `admit` does, and show the endpoint of the token's merchant to one that is: a request for it takes
-- one statement.
-- $1 token_hash bytea
-- $2 most integer
-- $3 span interval
-- row: state text, api_key_id bigint, client_id text, merchant_id text, is_use_due boolean, retry_after interval,
--   remaining integer, url text, paused boolean, created_at timestamptz, updated_at timestamptz,
--   secret_created_at timestamptz, last_success_at timestamptz, failing_since timestamptz,
--   failures_in_a_row integer, suspended_at timestamptz, types text[], at_once smallint, number smallint, id uuid,
--   name text
-- order: one row; without a url where there is no endpoint
SELECT
    admitted.state,
    admitted.api_key_id,
    admitted.client_id,
    admitted.merchant_id,
    admitted.is_use_due,
    admitted.retry_after,
    admitted.remaining,
    admitted.url,
    admitted.paused,
    admitted.created_at,
    admitted.updated_at,
    admitted.secret_created_at,
    admitted.last_success_at,
    admitted.failing_since,
    admitted.failures_in_a_row,
    admitted.suspended_at,
    admitted.types,
    admitted.at_once,
    admitted.number,
    admitted.id,
    admitted.name
FROM webhook.admit_token($1, $2, $3, with_endpoint => true) AS admitted;

-- name: issue
-- Take one of each limit or none of any, and exchange a client's id and secret for an access token; of both the hash is
-- given. The first limit is of tokens that are issued: where none was, what was taken of it is released. All of it in one
-- statement, so that locks of limits last no longer than it, and others never see what is released.
-- $1 client_id text
-- $2 secret_hash bytea
-- $3 token_hash bytea
-- $4 lifetime interval
-- $5 subjects text[]
-- $6 limits integer[]
-- $7 windows interval[]
-- $8 is_durable boolean[]
-- row: retry_after interval, remaining integer[], state text, expires_at timestamptz, is_released boolean
-- order: one row; where a limit was reached, state is wrong, whatever the secret
SELECT
    taken.retry_after,
    taken.remaining,
    issued.state,
    issued.expires_at,
    CASE
        WHEN taken.retry_after IS NULL AND issued.state <> 'issued'
            THEN webhook.release_limit(($5::text[])[1], ($8::boolean[])[1], taken.taken_at)
        ELSE false
    END AS is_released
FROM webhook.take_limits($5, $6, $7, $8) AS taken
-- Its argument lets nothing be issued before the limits are taken, nor where one is reached: then nobody is named.
CROSS JOIN LATERAL webhook.issue_token(CASE WHEN taken.retry_after IS NULL THEN $1 END, $2, $3, $4) AS issued;

-- name: note_use
-- Write down that a key was used, unless it was within the last minute or somebody else is about to.
-- $1 api_key_id bigint
-- row: is_noted boolean
-- order: one row
SELECT webhook.note_key_use($1) AS is_noted;

-- name: find_bearer
-- Tell whether a token is live.
-- $1 token bytea
-- row: api_key_id bigint
-- none: it is unknown, expired or revoked
SELECT bearer.api_key_id
FROM webhook.bearer($1) AS bearer;
