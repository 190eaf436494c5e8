-- What people asked for, which events that sent again, and who changed what: the newest first, after a bounded look, as
-- in console_deliveries.sql.

-- name: show_commands
-- List commands.
-- $1 session bytea
-- $2 before_id bigint
-- $3 command text, or null, as the conditions that follow
-- $4 status text
-- $5 merchant_id text
-- $6 requested_by text
-- $7 look bigint
-- $8 most bigint
-- row: id bigint, created_at timestamptz, requested_by text, command text, merchant_id text, event_id uuid, args text,
--   status text, running_until timestamptz, is_stopping boolean, handled_at timestamptz, result text, error_code integer,
--   error_message text, has_events boolean, is_match boolean, is_last_looked_at boolean
-- order: by id, the newest first
-- none: none matches, or the session is over
SELECT
    page.id, page.created_at, page.requested_by, page.command, page.merchant_id, page.event_id,
    CASE WHEN octet_length(page.args::text) <= 65536 THEN page.args::text END AS args,
    page.status, page.running_until, page.is_stopping, page.handled_at,
    CASE WHEN octet_length(page.result::text) <= 65536 THEN page.result::text END AS result,
    page.error_code, page.error_message,
    -- Not EXISTS, which may be answered by a hash of all chunks.
    coalesce((
        SELECT true
        FROM webhook.console_command_chunks AS chunks
        WHERE chunks.command_id = page.id AND chunks.place >= 0
        ORDER BY chunks.command_id, chunks.place
        LIMIT 1
    ), false) AS has_events,
    page.is_match, page.is_last_looked_at
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT numbered.*, judged.is_match, numbered.number = $7 AS is_last_looked_at
    FROM (
        SELECT looked.*, row_number() OVER (ORDER BY looked.id DESC) AS number
        FROM (
            SELECT
                commands.id, commands.created_at, commands.requested_by, commands.command, commands.merchant_id,
                commands.event_id, commands.args, commands.status, commands.running_until, commands.is_stopping,
                commands.handled_at, commands.result, commands.error_code, commands.error_message
            FROM webhook.console_commands AS commands
            WHERE me.name IS NOT NULL AND commands.id < $2
            ORDER BY commands.id DESC
            LIMIT (SELECT $7::bigint)
        ) AS looked
    ) AS numbered
    CROSS JOIN LATERAL (
        SELECT
            ($3::text IS NULL OR numbered.command = $3)
            AND ($4::text IS NULL OR numbered.status = $4)
            AND ($5::text IS NULL OR numbered.merchant_id IS NOT DISTINCT FROM $5)
            AND ($6::text IS NULL OR numbered.requested_by = $6) AS is_match
    ) AS judged
    WHERE judged.is_match OR numbered.number = $7
    ORDER BY numbered.id DESC
    LIMIT $8
) AS page
ORDER BY page.id DESC;

-- name: show_command
-- Read one command.
-- $1 session bytea
-- $2 id bigint
-- row: id bigint, created_at timestamptz, requested_by text, command text, merchant_id text, event_id uuid, args text,
--   status text, running_until timestamptz, is_stopping boolean, handled_at timestamptz, result text, error_code integer,
--   error_message text, has_events boolean
-- none: there is no such command, or the session is over
SELECT
    page.id, page.created_at, page.requested_by, page.command, page.merchant_id, page.event_id,
    CASE WHEN octet_length(page.args::text) <= 65536 THEN page.args::text END AS args,
    page.status, page.running_until, page.is_stopping, page.handled_at,
    CASE WHEN octet_length(page.result::text) <= 65536 THEN page.result::text END AS result,
    page.error_code, page.error_message,
    -- Not EXISTS, which may be answered by a hash of all chunks.
    coalesce((
        SELECT true
        FROM webhook.console_command_chunks AS chunks
        WHERE chunks.command_id = page.id AND chunks.place >= 0
        ORDER BY chunks.command_id, chunks.place
        LIMIT 1
    ), false) AS has_events
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT commands.* FROM webhook.console_commands AS commands WHERE me.name IS NOT NULL AND commands.id = $2 LIMIT 1
) AS page;

-- name: show_command_events
-- List events that a command sent again, in that order, and how they stand now: by number, in the outbox, or in the log
-- since they were sent again; of what was routed, or handed on, since then, its first copy, which has its id. Place: how many of
-- the command's events come before, and this one.
-- $1 session bytea
-- $2 command_id bigint
-- $3 after_place bigint; a chunk has fewer than a thousand events
-- $4 only_failed boolean
-- $5 look bigint
-- $6 most bigint
-- row: place bigint, seq bigint, event_id uuid, merchant_id text, type text, charge_id text, state text, is_owed boolean,
--   last_outcome text, last_status smallint, finished_at timestamptz, is_match boolean, is_last_looked_at boolean
-- order: by place; without an event_id the delivery is gone
-- none: the command sent no more events, or the session is over
SELECT page.*
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT
        looked.place, looked.seq, delivery.event_id, delivery.merchant_id, delivery.type, delivery.charge_id,
        delivery.state, coalesce(delivery.is_owed, false) AS is_owed, delivery.last_outcome, delivery.last_status,
        delivery.finished_at, judged.is_match,
        looked.place = $3 + $5 AS is_last_looked_at
    FROM (
        SELECT chunk.place + sent.number AS place, chunk.place AS chunk_place, sent.number, sent.seq, chunk.at
        FROM (
            SELECT chunks.place, chunks.seqs, chunks.at
            FROM webhook.console_command_chunks AS chunks
            WHERE me.name IS NOT NULL AND chunks.command_id = $2 AND chunks.place > $3::bigint - 1000
            ORDER BY chunks.command_id, chunks.place
            LIMIT (SELECT $5::bigint)
        ) AS chunk
        CROSS JOIN LATERAL unnest(chunk.seqs) WITH ORDINALITY AS sent (seq, number)
        WHERE chunk.place + sent.number > $3
        ORDER BY chunk.place, sent.number
        LIMIT (SELECT $5::bigint)
    ) AS looked
    LEFT JOIN LATERAL (
        SELECT known.*
        FROM (
            SELECT owed.seq, NULL::timestamptz AS finished_at FROM webhook.console_owed AS owed WHERE owed.seq = looked.seq
            UNION ALL
            SELECT became.seq, became.finished_at
            FROM webhook.console_logged AS event
            CROSS JOIN LATERAL (
                SELECT event.seq, event.finished_at WHERE num_nulls(event.state) = 0
                UNION ALL
                (
                    SELECT copies.seq, copies.finished_at
                    FROM (
                        SELECT owed.seq, NULL::timestamptz AS finished_at
                        FROM webhook.console_owed AS owed
                        WHERE owed.event_id = event.event_id
                        UNION ALL
                        SELECT finished.seq, finished.finished_at
                        FROM webhook.console_finished AS finished
                        WHERE finished.event_id = event.event_id AND finished.finished_at >= looked.at - interval '1 minute'
                        OFFSET 0
                    ) AS copies
                    WHERE num_nulls(event.state) = 1 AND copies.seq > event.seq
                    ORDER BY copies.seq
                    LIMIT 1
                )
            ) AS became
            -- The chunk was written down after its rows were taken out of the log.
            WHERE event.seq = looked.seq AND event.finished_at >= looked.at - interval '1 minute'
        ) AS place
        CROSS JOIN LATERAL (
            SELECT
                event_id, webhook.merchant_of(merchant_id) AS merchant_id, type, charge_id,
                CASE
                    WHEN due_at IS NULL THEN 'pending'
                    WHEN on_failure = 'delivered' THEN 'delivered'
                    ELSE 'pending_retry'
                END AS state,
                true AS is_owed, last_outcome, last_status, NULL::timestamptz AS finished_at
            FROM webhook.console_owed
            WHERE seq = place.seq
            UNION ALL
            SELECT
                event_id, merchant_id, type, charge_id, state, false, last_outcome, last_status, finished_at
            FROM webhook.console_finished
            WHERE seq = place.seq AND finished_at = place.finished_at
        ) AS known
        LIMIT 1
    ) AS delivery ON true
    CROSS JOIN LATERAL (
        SELECT
            NOT $4::boolean
            OR (NOT coalesce(delivery.is_owed, true) AND delivery.last_outcome IS DISTINCT FROM 'delivered') AS is_match
    ) AS judged
    WHERE judged.is_match OR looked.place = $3 + $5
    -- As the rows come already: what is not shown is not looked for.
    ORDER BY looked.chunk_place, looked.number
    LIMIT $6
) AS page
ORDER BY page.place;

-- name: show_audit
-- List what was changed.
-- $1 session bytea
-- $2 before_id bigint
-- $3 most bigint
-- row: id bigint, at timestamptz, role text, person text, action text, merchant_id text, before text, after text
-- order: by id, the newest first
-- none: nothing was, or who looks is no operator, or the session is over
SELECT
    page.id, page.at, page.role, page.person, page.action, page.merchant_id, page.before::text AS before,
    page.after::text AS after
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT audit.*
    FROM webhook.console_audit AS audit
    WHERE me.name IS NOT NULL AND audit.id < $2
    ORDER BY audit.id DESC
    LIMIT (SELECT $3::bigint)
) AS page
ORDER BY page.id DESC;

-- name: show_audit_of_merchant
-- List what was changed about one merchant.
-- $1 session bytea
-- $2 merchant_id text
-- $3 before_id bigint
-- $4 most bigint
-- row: id bigint, at timestamptz, role text, person text, action text, merchant_id text, before text, after text
-- order: by id, the newest first
-- none: nothing was, or who looks is no operator, or the session is over
SELECT
    page.id, page.at, page.role, page.person, page.action, page.merchant_id, page.before::text AS before,
    page.after::text AS after
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT audit.*
    FROM webhook.console_audit AS audit
    WHERE me.name IS NOT NULL AND audit.merchant_id = ANY(ARRAY[$2]) AND audit.id < $3
    ORDER BY audit.merchant_id DESC, audit.id DESC
    LIMIT $4
) AS page
ORDER BY page.id DESC;
