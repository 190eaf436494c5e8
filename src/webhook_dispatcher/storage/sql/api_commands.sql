-- What a merchant reads of its commands, found by the token's hash as in api_deliveries.sql.

-- name: read_own_command
-- Read one command, and what has become of it.
-- $1 token bytea
-- $2 id bigint
-- row: id bigint, command text, event_id uuid, created_at timestamptz, status text, handled_at timestamptz,
--   result text, error_code integer, error_message text
-- none: not known, another merchant's or of no merchant, or the token is not live
SELECT given.*
FROM webhook.bearer($1) AS me
CROSS JOIN LATERAL (
    SELECT
        own_commands.id, own_commands.command, own_commands.event_id, own_commands.created_at,
        own_commands.status::text AS status, own_commands.handled_at, own_commands.result::text AS result,
        own_commands.error_code, own_commands.error_message
    FROM webhook.own_commands
    WHERE own_commands.id = $2 AND own_commands.merchant_id = me.merchant_id
    LIMIT 1
) AS given;
