-- Whether encryption keys are those that their ids stand for.

-- name: read_key_checks
-- Read what is kept of keys.
-- $1 key_ids text[]
-- row: key_id text, value bytea
-- order: none
-- none: none of them has opened a stored secret yet
SELECT key_check.key_id, key_check.value
FROM webhook.key_check
WHERE key_check.key_id = ANY($1::text[]);

-- name: insert_key_check
-- Keep a key's check, unless there is one; waits for a transaction that is about to keep another.
-- $1 key_id text
-- $2 value bytea
-- row: key_id text
-- none: there is one already
INSERT INTO webhook.key_check (key_id, value)
VALUES ($1, $2)
ON CONFLICT (key_id) DO NOTHING
RETURNING key_id;

-- name: sample_sealed_secrets
-- Read a few secrets of each of some key ids, those included that still sign beside a newer one.
-- $1 key_ids text[]
-- $2 most bigint
-- row: key_id text, merchant_id text, sealed bytea
-- order: none
-- none: nothing is sealed with them
-- The condition on merchant_id is true of all: it lets them be read by an index, where scans of tables are off.
SELECT asked.key_id, stored.merchant_id, stored.sealed
FROM unnest($1::text[]) AS asked (key_id)
CROSS JOIN LATERAL (
    (
        SELECT endpoint.merchant_id, endpoint.secret AS sealed
        FROM webhook.endpoint
        WHERE endpoint.key_id = asked.key_id
        LIMIT $2
    )
    UNION ALL
    (
        SELECT endpoint.merchant_id, endpoint.previous_secret
        FROM webhook.endpoint
        WHERE
            endpoint.merchant_id >= ''
            AND endpoint.previous_key_id = asked.key_id
            AND endpoint.previous_until > clock_timestamp()
        LIMIT $2
    )
    LIMIT $2
) AS stored;
