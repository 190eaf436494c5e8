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

-- name: confirm_sealing_key
-- Publish the public half of a key, or say that its holder is there. Another half under the same id counts for as long
-- as its holder says so; then it is withdrawn, and a look later it makes way: nobody seals with the one and stores
-- that as the other. Nothing is published under an id whose check is another key's.
-- $1 key_id text
-- $2 public_half bytea
-- $3 value bytea
-- row: is_published boolean
-- none: the id stands for another key
INSERT INTO webhook.sealing_key AS known (key_id, public_half)
SELECT $1, $2
WHERE NOT EXISTS (SELECT FROM webhook.key_check WHERE key_check.key_id = $1 AND key_check.value <> $3)
ON CONFLICT (key_id) DO UPDATE SET
    public_half = CASE WHEN known.confirmed_at = '-infinity' THEN excluded.public_half ELSE known.public_half END,
    confirmed_at = CASE
        WHEN known.confirmed_at = '-infinity' OR known.public_half = excluded.public_half THEN clock_timestamp()
        ELSE '-infinity'
    END
WHERE known.public_half = excluded.public_half OR known.confirmed_at < clock_timestamp() - interval '5 minutes'
RETURNING known.public_half = $2 AS is_published;

-- name: add_sealing_key
-- Publish the public half of a key whose id has none.
-- $1 key_id text
-- $2 public_half bytea
-- none: always
INSERT INTO webhook.sealing_key (key_id, public_half)
VALUES ($1, $2)
ON CONFLICT (key_id) DO NOTHING;

-- name: read_public_halves
-- Read which public halves are published for key ids, and whether their holders are there.
-- $1 key_ids text[]
-- row: key_id text, public_half bytea, is_confirmed boolean
-- order: none
-- none: for none of them
SELECT
    sealing_key.key_id, sealing_key.public_half,
    sealing_key.confirmed_at > clock_timestamp() - interval '5 minutes' AS is_confirmed
FROM webhook.sealing_key
WHERE sealing_key.key_id = ANY($1::text[]);

-- name: sample_sealed_secrets
-- Read a few secrets of each of some stored key ids, those included that still sign beside a newer one.
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
