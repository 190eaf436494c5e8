-- API keys, as operators make, see and revoke them.

-- name: create_api_key
-- Make a key for a merchant, and write it into the audit.
-- $1 merchant_id text
-- $2 client_id text
-- $3 secret_hash bytea
-- $4 name text
-- $5 created_by text
-- row: id bigint
-- order: one row
SELECT webhook.create_api_key($1, $2, $3, $4, $5) AS id;

-- name: revoke_api_key
-- Revoke a key for good.
-- $1 client_id text
-- $2 revoked_by text
-- row: is_revoked boolean
-- order: one row; false: it was before; null: there is none
SELECT webhook.revoke_api_key($1, $2) AS is_revoked;

-- name: list_api_keys
-- List keys, of all merchants or of one.
-- $1 merchant_id text
-- row: client_id text, merchant_id text, name text, created_at timestamptz, created_by text, last_used_at timestamptz,
--   revoked_at timestamptz, revoked_by text
-- order: by merchant, then as they were made
-- none: there are none
SELECT
    api_keys.client_id,
    api_keys.merchant_id,
    api_keys.name,
    api_keys.created_at,
    api_keys.created_by,
    api_keys.last_used_at,
    api_keys.revoked_at,
    api_keys.revoked_by
FROM webhook.api_keys
WHERE $1::text IS NULL OR api_keys.merchant_id = $1
ORDER BY api_keys.merchant_id, api_keys.created_at, api_keys.client_id;
