-- Limits of the Partner API, and upkeep of what expired.

-- name: take
-- Take one of each limit, or none of any.
-- $1 subjects text[]
-- $2 limits integer[]
-- $3 windows interval[]
-- $4 is_durable boolean[]
-- $5 clock timestamptz
-- row: retry_after interval, remaining integer[], taken_at timestamptz
-- order: one row
SELECT taken.retry_after, taken.remaining, taken.taken_at FROM webhook.take_limits($1, $2, $3, $4, $5) AS taken;

-- name: release
-- Release what was taken of one subject's limit at an instant.
-- $1 subject text
-- $2 is_durable boolean
-- $3 taken_at timestamptz
-- row: is_released boolean
-- order: one row
SELECT webhook.release_limit($1, $2, $3) AS is_released;

-- name: has_api_rows
-- Tell whether there is anything that could expire: not where no Partner API runs.
-- row: has_rows boolean
-- order: one row
SELECT
    EXISTS (SELECT FROM webhook.api_token WHERE api_token.expires_at > '-infinity')
    OR EXISTS (SELECT FROM webhook.api_request WHERE api_request.expires_at > '-infinity')
    OR EXISTS (SELECT FROM webhook.api_kept_bytes WHERE api_kept_bytes.expires_at > '-infinity')
    OR EXISTS (SELECT FROM webhook.api_usage WHERE api_usage.subject > '')
    OR EXISTS (SELECT FROM webhook.card_attempts WHERE card_attempts.subject > '') AS has_rows;

-- name: clear_tokens
-- Clear away access tokens that expired more than a while ago, as many as are asked for.
-- $1 margin interval
-- $2 chunk bigint
-- row: hash bytea
-- order: none
-- none: there are no more
DELETE FROM webhook.api_token
WHERE api_token.hash = ANY(ARRAY(
    SELECT expired.hash
    FROM webhook.api_token AS expired
    WHERE expired.expires_at < (SELECT clock_timestamp() - $1::interval)
    ORDER BY expired.expires_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
))
RETURNING api_token.hash;

-- name: clear_requests
-- Clear away what requests were answered that expired more than a while ago, as many as are asked for.
-- $1 margin interval
-- $2 chunk bigint
-- row: hash bytea
-- order: none
-- none: there are no more
DELETE FROM webhook.api_request
WHERE api_request.hash = ANY(ARRAY(
    SELECT expired.hash
    FROM webhook.api_request AS expired
    WHERE expired.expires_at < (SELECT clock_timestamp() - $1::interval)
    ORDER BY expired.expires_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
))
RETURNING api_request.hash;

-- name: clear_kept_bytes
-- Clear away counts of the bytes of answers that expired more than a while ago, as many as are asked for.
-- $1 margin interval
-- $2 chunk bigint
-- row: api_key_id bigint
-- order: none
-- none: there are no more
DELETE FROM webhook.api_kept_bytes
WHERE api_kept_bytes.ctid = ANY(ARRAY(
    SELECT expired.ctid
    FROM webhook.api_kept_bytes AS expired
    WHERE expired.expires_at < (SELECT clock_timestamp() - $1::interval)
    ORDER BY expired.expires_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
))
RETURNING api_kept_bytes.api_key_id;

-- name: clear_usage
-- Go on through what was taken of limits, and clear away what expired more than a while ago. Instants of expiry have no
-- index: it would have to change with each request.
-- $1 after_subject text
-- $2 margin interval
-- $3 chunk bigint
-- row: last_subject text
-- order: one row; null where fewer were left to be looked at than the chunk
WITH page AS MATERIALIZED (
    SELECT api_usage.subject, api_usage.expires_at
    FROM webhook.api_usage
    WHERE api_usage.subject > $1::text COLLATE "C"
    ORDER BY api_usage.subject
    LIMIT $3
),
cleared AS (
    DELETE FROM webhook.api_usage
    WHERE api_usage.subject = ANY(ARRAY(
        SELECT expired.subject
        FROM page
        CROSS JOIN LATERAL (
            SELECT api_usage.subject
            FROM webhook.api_usage
            WHERE api_usage.subject = page.subject AND api_usage.expires_at < clock_timestamp() - $2::interval
            LIMIT 1
            FOR UPDATE SKIP LOCKED
        ) AS expired
        WHERE page.expires_at < clock_timestamp() - $2::interval
    ))
)
SELECT CASE WHEN count(*) = $3 THEN max(page.subject) END AS last_subject FROM page;

-- name: clear_card_attempts
-- As clear_usage, of attempts at cards.
-- $1 after_subject text
-- $2 margin interval
-- $3 chunk bigint
-- row: last_subject text
-- order: one row; null where fewer were left to be looked at than the chunk
WITH page AS MATERIALIZED (
    SELECT card_attempts.subject, card_attempts.expires_at
    FROM webhook.card_attempts
    WHERE card_attempts.subject > $1::text COLLATE "C"
    ORDER BY card_attempts.subject
    LIMIT $3
),
cleared AS (
    DELETE FROM webhook.card_attempts
    WHERE card_attempts.subject = ANY(ARRAY(
        SELECT expired.subject
        FROM page
        CROSS JOIN LATERAL (
            SELECT card_attempts.subject
            FROM webhook.card_attempts
            WHERE card_attempts.subject = page.subject AND card_attempts.expires_at < clock_timestamp() - $2::interval
            LIMIT 1
            FOR UPDATE SKIP LOCKED
        ) AS expired
        WHERE page.expires_at < clock_timestamp() - $2::interval
    ))
)
SELECT CASE WHEN count(*) = $3 THEN max(page.subject) END AS last_subject FROM page;
