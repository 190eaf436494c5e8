-- One command: the same for whoever may look at it (storage/statements.py, `Role`).

-- name: read_command
-- See what became of a command.
-- $1 reader bytea
-- $2 id bigint
-- row: id bigint, command text, event_id uuid, created_at timestamptz, status text, handled_at timestamptz,
--   result jsonb, error_code integer, error_message text
-- none: there is no such command, it is another merchant's, or nobody is found who asks
SELECT page.*
FROM role.reader AS me
CROSS JOIN LATERAL (
    SELECT
        commands.id, commands.command, commands.event_id, commands.created_at, commands.status, commands.handled_at,
        commands.result, commands.error_code, commands.error_message
    FROM role.commands AS commands
    WHERE role.may_read AND commands.id = $2
    LIMIT 1
) AS page;
