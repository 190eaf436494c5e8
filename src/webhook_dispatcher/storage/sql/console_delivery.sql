-- What the console shows of one delivery besides delivery.sql: its payload, and what was asked for and changed meanwhile.

-- name: show_payload
-- Read a delivery's payload.
-- $1 session bytea
-- $2 event_id uuid
-- $3 seq bigint
-- row: object text
-- none: the delivery is gone, or who looks is no operator, or the session is over
SELECT page.object
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT known.object
    FROM (
        SELECT payloads.seq, payloads.object::text AS object
        FROM webhook.console_payloads AS payloads
        WHERE me.name IS NOT NULL AND payloads.event_id = $2
        OFFSET 0
    ) AS known
    WHERE known.seq = $3
    LIMIT 1
) AS page;

-- name: show_commands_around
-- Read the commands of a time that were about an endpoint, its merchant, or everybody, as far as has been looked: pauses, among
-- them one that went on into that time, and their ends; what goes through many deliveries.
-- $1 session bytea
-- $2 merchant_id text
-- $3 since timestamptz
-- $4 until timestamptz
-- $5 look_at_pauses bigint
-- $6 look bigint
-- $7 endpoint smallint; its number
-- row: id bigint, command text, requested_by text, status text, created_at timestamptz, handled_at timestamptz
-- order: by id
-- none: nobody asked for anything, or the session is over
SELECT page.*
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT paused.id, paused.command, paused.requested_by, paused.status, paused.created_at, paused.handled_at
    FROM unnest(ARRAY[$2::text, '']) AS scope (merchant_id)
    CROSS JOIN LATERAL (
        SELECT looked.*, lead(looked.created_at) OVER (ORDER BY looked.id) AS next_at
        FROM (
            SELECT
                commands.id, commands.command, commands.requested_by, commands.status, commands.created_at,
                commands.handled_at, commands.args
            FROM webhook.console_commands AS commands
            WHERE me.name IS NOT NULL
                AND left(coalesce(commands.merchant_id, ''), 128) = scope.merchant_id
                AND commands.command IN ('pause', 'resume')
            ORDER BY left(coalesce(commands.merchant_id, ''), 128) DESC, commands.id DESC
            LIMIT (SELECT $5::bigint)
        ) AS looked
        WHERE coalesce(looked.args ->> 'endpoint', $7::smallint::text) = $7::smallint::text
    ) AS paused
    WHERE paused.created_at <= $4
        AND (
            paused.created_at >= $3
            OR (paused.command = 'pause' AND coalesce(paused.next_at, 'infinity') > $3)
        )
    UNION ALL
    SELECT looked.id, looked.command, looked.requested_by, looked.status, looked.created_at, looked.handled_at
    FROM (
        SELECT
            commands.id, commands.command, commands.requested_by, commands.status, commands.created_at,
            commands.handled_at, commands.merchant_id, commands.args
        FROM webhook.console_commands AS commands
        WHERE me.name IS NOT NULL AND commands.id >= 0
        ORDER BY commands.id DESC
        LIMIT (SELECT $6::bigint)
    ) AS looked
    WHERE looked.command IN ('retry_failed', 'recover', 'skip')
        AND (num_nulls(looked.merchant_id) = 1 OR looked.merchant_id = $2)
        AND coalesce(looked.args ->> 'endpoint', $7::smallint::text) = $7::smallint::text
        AND looked.created_at BETWEEN $3 AND $4
) AS page
ORDER BY page.id;

-- name: show_commands_that_sent
-- Find the mass commands that sent a delivery again: of each attempt that somebody wanted, the last one before it. A copy may have
-- been its event then, under that one's number.
-- $1 session bytea
-- $2 seq bigint
-- $3 copy_of uuid, or null
-- $4 started_at timestamptz[]
-- $5 look bigint
-- row: id bigint, command text, requested_by text, status text, created_at timestamptz, handled_at timestamptz
-- order: none; one may come twice
-- none: none did, as far as has been looked, or the session is over
SELECT page.*
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT
        command.id, command.command, command.requested_by, command.status, command.created_at, command.handled_at
    FROM (
        SELECT $2::bigint || ARRAY(
            SELECT event.seq
            FROM webhook.console_logged AS event
            WHERE me.name IS NOT NULL AND event.event_id = $3 AND event.seq < $2 AND num_nulls(event.state) = 1
        ) AS seqs
        OFFSET 0
    ) AS its
    CROSS JOIN unnest($4::timestamptz[]) AS sent (started_at)
    CROSS JOIN LATERAL (
        SELECT looked.command_id
        FROM (
            SELECT chunks.command_id, chunks.seqs, chunks.at
            FROM webhook.console_command_chunks AS chunks
            WHERE me.name IS NOT NULL AND chunks.at <= sent.started_at
            ORDER BY chunks.at DESC
            LIMIT (SELECT $5::bigint)
        ) AS looked
        WHERE looked.seqs && its.seqs
        ORDER BY looked.at DESC
        LIMIT 1
    ) AS chunk
    CROSS JOIN LATERAL (
        SELECT
            commands.id, commands.command, commands.requested_by, commands.status, commands.created_at,
            commands.handled_at
        FROM webhook.console_commands AS commands
        WHERE commands.id = chunk.command_id
        LIMIT 1
    ) AS command
    OFFSET 0
) AS page;

-- name: show_changes
-- List what was changed of a merchant's endpoint in a time, of the last changes.
-- $1 session bytea
-- $2 merchant_id text
-- $3 since timestamptz
-- $4 until timestamptz
-- $5 most bigint; as for all its endpoints
-- $6 endpoint smallint; its number
-- row: id bigint, at timestamptz, role text, person text, action text, command_id bigint, url_before text, url_after text
-- order: by id
-- none: nothing was, or who looks is no operator, or the session is over
SELECT page.*
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT
        looked.id, looked.at, looked.role, looked.person, looked.action,
        NULL::bigint AS command_id, looked.before ->> 'url' AS url_before, looked.after ->> 'url' AS url_after
    FROM (
        SELECT audit.*
        FROM webhook.console_audit AS audit
        WHERE me.name IS NOT NULL AND audit.merchant_id = ANY(ARRAY[$2])
        ORDER BY audit.merchant_id DESC, audit.id DESC
        LIMIT $5
    ) AS looked
    WHERE looked.at BETWEEN $3 AND $4
        AND looked.action NOT LIKE 'command %' AND looked.action NOT LIKE 'api key %'
        AND coalesce(coalesce(looked.after, looked.before) ->> 'endpoint', $6::smallint::text) = $6::smallint::text
) AS page
ORDER BY page.id;
