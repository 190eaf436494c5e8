-- One delivery, as `explain` has it (insight.sql), for who signed in to the console.

-- name: show_events_deliveries
-- Read the deliveries of an event: one, but for an id that was used again after its end.
-- $1 session bytea
-- $2 event_id uuid
-- $3 most bigint
-- row: event_id uuid, seq bigint, merchant_id text, type text, created_at timestamptz, state text,
--   failed_reason text, attempts integer, next_attempt_at timestamptz, last_status integer, last_outcome text,
--   finished_at timestamptz, charge_id text, due_at timestamptz, is_claimed boolean, trigger text,
--   on_failure text, attempts_by_hand integer, scheduled_at timestamptz; ordered by seq
-- none: not known, or dropped with its day's log, or the session is over
SELECT page.*
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT known.*
    FROM (
        SELECT
            event_id, seq, merchant_id, type, created_at,
            CASE
                WHEN due_at IS NULL THEN 'pending' WHEN on_failure = 'delivered' THEN 'delivered' ELSE 'pending_retry'
            END AS state,
            NULL::text AS failed_reason, attempts::integer AS attempts,
            CASE WHEN NOT is_claimed THEN due_at END AS next_attempt_at,
            last_status::integer AS last_status, last_outcome::text AS last_outcome, NULL::timestamptz AS finished_at,
            charge_id, due_at, is_claimed, trigger::text AS trigger, on_failure::text AS on_failure,
            coalesce(attempts_by_hand, 0)::integer AS attempts_by_hand, scheduled_at
        FROM webhook.console_owed
        WHERE me.name IS NOT NULL AND event_id = $2
        UNION ALL
        SELECT
            event_id, seq, merchant_id, type, created_at, state::text, failed_reason::text, attempts::integer,
            NULL::timestamptz, last_status::integer, last_outcome::text, finished_at, charge_id, NULL::timestamptz, false,
            NULL::text, NULL::text, 0, NULL::timestamptz
        FROM webhook.console_finished
        WHERE me.name IS NOT NULL AND event_id = $2
        LIMIT $3
    ) AS known
    ORDER BY known.seq
    LIMIT $3
) AS page
ORDER BY page.seq;

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

-- name: show_attempts
-- Read the attempts of one event, the first ones.
-- $1 session bytea
-- $2 event_id uuid
-- $3 most bigint
-- row: attempt integer, trigger text, started_at timestamptz, duration_ms integer, status integer, outcome text,
--   reason text, response_excerpt text; ordered by started_at
-- none: not attempted yet, or dropped with their day's log, or the session is over
SELECT page.*
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT
        made.attempt::integer AS attempt, made.trigger::text AS trigger, made.started_at,
        made.duration_ms::integer AS duration_ms, made.status::integer AS status, made.outcome::text AS outcome,
        made.reason, made.response_excerpt
    FROM (
        SELECT * FROM webhook.console_attempts AS attempts WHERE me.name IS NOT NULL AND attempts.event_id = $2 OFFSET 0
    ) AS made
    ORDER BY made.started_at, made.attempt
    LIMIT $3
) AS page
ORDER BY page.started_at, page.attempt;

-- name: show_attempts_before
-- Read the latest attempts at one merchant, before an instant.
-- $1 session bytea
-- $2 merchant_id text
-- $3 before timestamptz
-- $4 most bigint
-- row: attempt integer, trigger text, started_at timestamptz, duration_ms integer, status integer, outcome text,
--   reason text, response_excerpt text
-- order: by started_at, the latest first
-- none: no attempt at this merchant is in the log, or the session is over
SELECT page.*
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT
        made.attempt::integer AS attempt, made.trigger::text AS trigger, made.started_at,
        made.duration_ms::integer AS duration_ms, made.status::integer AS status, made.outcome::text AS outcome,
        made.reason, NULL::text AS response_excerpt
    FROM webhook.console_attempts AS made
    WHERE me.name IS NOT NULL AND made.merchant_id = $2 AND made.started_at < $3
    ORDER BY made.merchant_id DESC, made.started_at DESC
    LIMIT $4
) AS page
ORDER BY page.started_at DESC;

-- name: show_overtaking
-- Find who overtook an event: a later one of its merchant whose first attempt came before its own. It looks at the
-- last attempts before that one. Not to be asked of what ended without an attempt, or is sent by hand.
-- $1 session bytea
-- $2 merchant_id text
-- $3 seq bigint
-- $4 created_at timestamptz
-- $5 before timestamptz
-- $6 most bigint
-- row: event_id uuid, seq bigint, started_at timestamptz
-- none: nobody, as far as has been looked, or the session is over
SELECT page.*
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT made.event_id, later.seq, made.started_at
    FROM (
        SELECT attempts.event_id, attempts.attempt, attempts.trigger, attempts.started_at
        FROM webhook.console_attempts AS attempts
        WHERE me.name IS NOT NULL
            AND attempts.merchant_id = $2 AND attempts.started_at >= $4 AND attempts.started_at < $5
        ORDER BY attempts.merchant_id DESC, attempts.started_at DESC
        LIMIT $6
    ) AS made
    CROSS JOIN LATERAL (
        SELECT known.seq
        FROM (
            SELECT owed.seq FROM webhook.console_owed AS owed WHERE owed.event_id = made.event_id
            UNION ALL
            -- It was finished after its attempt: that leaves out other days. The order is that of the index of events.
            (
                SELECT finished.seq
                FROM webhook.console_finished AS finished
                WHERE finished.event_id = ANY(ARRAY[made.event_id]) AND finished.finished_at >= made.started_at
                ORDER BY finished.event_id
                LIMIT 1
            )
        ) AS known
        LIMIT 1
    ) AS later
    WHERE made.attempt = 1 AND made.trigger = 'schedule' AND later.seq > $3
    ORDER BY made.started_at
    LIMIT 1
) AS page;

-- name: show_circumstances
-- Read what a merchant's event may wait for: pauses, its endpoint, its lane, and what is before it in order.
-- $1 session bytea
-- $2 merchant_id text
-- $3 seq bigint
-- $4 most bigint
-- row: now timestamptz, everything_is_paused boolean, url text, secret_created_at timestamptz, is_paused boolean,
--   is_held boolean, owner text, leased_at timestamptz, wait_until timestamptz,
--   endpoint_removed_at timestamptz, last_success_at timestamptz, failing_since timestamptz,
--   failures_in_a_row integer, suspended_at timestamptz, head_event_id uuid, head_seq bigint, head_created_at timestamptz, ahead bigint
-- order: one row; ahead is exact below the limit
-- none: the session is over
SELECT
    clock_timestamp() AS now,
    state.paused AS everything_is_paused,
    endpoint.url,
    endpoint.secret_created_at,
    coalesce(lane.paused, false) AS is_paused,
    coalesce(lane.lease_until > clock_timestamp(), false) AS is_held,
    lane.owner,
    lane.leased_at,
    lane.wait_until,
    lane.endpoint_removed_at,
    lane.last_success_at,
    lane.failing_since,
    coalesce(lane.failures_in_a_row, 0) AS failures_in_a_row,
    lane.suspended_at,
    head.event_id AS head_event_id,
    head.seq AS head_seq,
    head.created_at AS head_created_at,
    ahead.events AS ahead
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT console_state.paused FROM webhook.console_state WHERE me.name IS NOT NULL LIMIT 1
) AS state
LEFT JOIN LATERAL (
    SELECT endpoints.url, endpoints.secret_created_at
    FROM webhook.console_endpoints AS endpoints
    WHERE me.name IS NOT NULL AND endpoints.merchant_id = $2
    LIMIT 1
) AS endpoint ON true
LEFT JOIN LATERAL (
    SELECT lanes.* FROM webhook.console_lanes AS lanes WHERE me.name IS NOT NULL AND lanes.merchant_id = $2 LIMIT 1
) AS lane ON true
LEFT JOIN LATERAL (
    SELECT owed.event_id, owed.seq, owed.created_at
    FROM webhook.console_owed AS owed
    WHERE me.name IS NOT NULL
        AND (owed.merchant_id, owed.seq) > ($2, 0) AND owed.merchant_id <= $2 AND owed.due_at IS NULL
    ORDER BY owed.merchant_id, owed.seq
    LIMIT 1
) AS head ON true
CROSS JOIN LATERAL (
    SELECT count(*) AS events
    FROM (
        SELECT
        FROM webhook.console_owed AS owed
        -- No condition on seq alone: the primary key would answer it too, past the rows of all others.
        WHERE me.name IS NOT NULL
            AND owed.merchant_id >= $2 AND (owed.merchant_id, owed.seq) < ($2, $3) AND owed.due_at IS NULL
        LIMIT $4
    ) AS counted
) AS ahead;

-- name: show_pauses
-- Say who paused a merchant, and everything (an empty scope), as far as commands did.
-- $1 session bytea
-- $2 merchant_id text
-- row: scope text, command_id bigint, requested_by text, handled_at timestamptz
-- order: none
-- none: no command paused either, or the session is over
SELECT page.*
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT scope.merchant_id AS scope, latest.id AS command_id, latest.requested_by, latest.handled_at
    FROM unnest(ARRAY[$2::text, '']) AS scope (merchant_id)
    CROSS JOIN LATERAL (
        SELECT commands.id, commands.command, commands.requested_by, commands.handled_at
        FROM webhook.console_commands AS commands
        WHERE me.name IS NOT NULL
            AND left(coalesce(commands.merchant_id, ''), 128) = scope.merchant_id
            AND commands.command IN ('pause', 'resume')
            AND commands.status = 'done'
        ORDER BY left(coalesce(commands.merchant_id, ''), 128) DESC, commands.id DESC
        LIMIT 1
    ) AS latest
    WHERE latest.command = 'pause'
    OFFSET 0
) AS page;

-- name: show_commands_about
-- Read the commands about one event.
-- $1 session bytea
-- $2 event_id uuid
-- $3 most bigint
-- row: id bigint, command text, requested_by text, status text, created_at timestamptz, handled_at timestamptz
-- order: by id
-- none: nobody asked for anything, or the session is over
SELECT page.*
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT
        commands.id, commands.command, commands.requested_by, commands.status::text AS status, commands.created_at,
        commands.handled_at
    FROM webhook.console_commands AS commands
    WHERE me.name IS NOT NULL AND commands.event_id = $2
    LIMIT $3
) AS page
ORDER BY page.id;

-- name: show_predecessor
-- Find what an event waited behind: the earlier one of its merchant whose first attempt ended last before its own. It looks
-- at the last attempts before that one.
-- $1 session bytea
-- $2 merchant_id text
-- $3 seq bigint
-- $4 created_at timestamptz
-- $5 before timestamptz
-- $6 most bigint
-- row: event_id uuid, seq bigint, ended_at timestamptz
-- none: nothing, as far as has been looked, or the session is over
SELECT page.*
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT made.event_id, earlier.seq, made.ended_at
    FROM (
        SELECT
            attempts.event_id, attempts.attempt, attempts.trigger, attempts.started_at,
            attempts.started_at + attempts.duration_ms * interval '1 millisecond' AS ended_at
        FROM webhook.console_attempts AS attempts
        WHERE me.name IS NOT NULL AND attempts.merchant_id = $2
            AND attempts.started_at >= $4::timestamptz - interval '1 hour' AND attempts.started_at < $5
        ORDER BY attempts.merchant_id DESC, attempts.started_at DESC
        LIMIT $6
    ) AS made
    CROSS JOIN LATERAL (
        SELECT known.seq
        FROM (
            SELECT owed.seq FROM webhook.console_owed AS owed WHERE owed.event_id = made.event_id
            UNION ALL
            -- It was finished after its attempt: that leaves out other days. The order is that of the index of events.
            (
                SELECT finished.seq
                FROM webhook.console_finished AS finished
                WHERE finished.event_id = ANY(ARRAY[made.event_id]) AND finished.finished_at >= made.started_at
                ORDER BY finished.event_id
                LIMIT 1
            )
        ) AS known
        LIMIT 1
    ) AS earlier
    WHERE made.attempt = 1 AND made.trigger = 'schedule' AND made.ended_at >= $4 AND earlier.seq < $3
    ORDER BY made.ended_at DESC
    LIMIT 1
) AS page;

-- name: show_commands_around
-- Read the commands of a time that were about a merchant, or everybody, as far as has been looked: pauses, among them one
-- that went on into that time, and their ends; what goes through many deliveries.
-- $1 session bytea
-- $2 merchant_id text
-- $3 since timestamptz
-- $4 until timestamptz
-- $5 look_at_pauses bigint
-- $6 look bigint
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
                commands.id, commands.command, commands.requested_by, commands.status::text AS status,
                commands.created_at, commands.handled_at
            FROM webhook.console_commands AS commands
            WHERE me.name IS NOT NULL
                AND left(coalesce(commands.merchant_id, ''), 128) = scope.merchant_id
                AND commands.command IN ('pause', 'resume')
            ORDER BY left(coalesce(commands.merchant_id, ''), 128) DESC, commands.id DESC
            LIMIT (SELECT $5::bigint)
        ) AS looked
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
            commands.id, commands.command, commands.requested_by, commands.status::text AS status,
            commands.created_at, commands.handled_at, commands.merchant_id
        FROM webhook.console_commands AS commands
        WHERE me.name IS NOT NULL AND commands.id >= 0
        ORDER BY commands.id DESC
        LIMIT (SELECT $6::bigint)
    ) AS looked
    WHERE looked.command IN ('retry_failed', 'recover', 'skip')
        AND (num_nulls(looked.merchant_id) = 1 OR looked.merchant_id = $2)
        AND looked.created_at BETWEEN $3 AND $4
) AS page
ORDER BY page.id;

-- name: show_commands_that_sent
-- Find the mass commands that sent a delivery again: of each attempt that somebody wanted, the last one before it.
-- $1 session bytea
-- $2 seq bigint
-- $3 started_at timestamptz[]
-- $4 look bigint
-- row: id bigint, command text, requested_by text, status text, created_at timestamptz, handled_at timestamptz
-- order: none; one may come twice
-- none: none did, as far as has been looked, or the session is over
SELECT page.*
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT
        command.id, command.command, command.requested_by, command.status, command.created_at, command.handled_at
    FROM unnest($3::timestamptz[]) AS sent (started_at)
    CROSS JOIN LATERAL (
        SELECT looked.command_id
        FROM (
            SELECT chunks.command_id, chunks.seqs, chunks.at
            FROM webhook.console_command_chunks AS chunks
            WHERE me.name IS NOT NULL AND chunks.at <= sent.started_at
            ORDER BY chunks.at DESC
            LIMIT (SELECT $4::bigint)
        ) AS looked
        WHERE $2 = ANY(looked.seqs)
        ORDER BY looked.at DESC
        LIMIT 1
    ) AS chunk
    CROSS JOIN LATERAL (
        SELECT
            commands.id, commands.command, commands.requested_by, commands.status::text AS status,
            commands.created_at, commands.handled_at
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
-- $5 most bigint
-- row: id bigint, at timestamptz, role text, person text, action text, command_id bigint, url_before text, url_after text
-- order: by id
-- none: nothing was, or who looks is no operator, or the session is over
SELECT page.*
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT
        looked.id, looked.at, looked.role::text AS role, looked.person, looked.action::text AS action,
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
) AS page
ORDER BY page.id;

-- name: show_kept
-- Say since which day finished deliveries are kept, and whether charges are indexed.
-- $1 session bytea
-- row: kept_since date, has_charge_index boolean
-- order: one row; no day while there is no partition
-- none: the session is over
SELECT
    (
        SELECT min(to_date(right(child.relname, 8), 'YYYYMMDD'))
        FROM pg_inherits
        INNER JOIN pg_class AS parent ON parent.oid = pg_inherits.inhparent
        INNER JOIN pg_class AS child ON child.oid = pg_inherits.inhrelid
        WHERE
            parent.relnamespace = to_regnamespace('webhook')
            AND parent.relname = 'delivery_log'
            AND child.relname ~ '_[0-9]{8}$'
    ) AS kept_since,
    chosen.has_charge_index
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT console_state.has_charge_index FROM webhook.console_state WHERE me.name IS NOT NULL LIMIT 1
) AS chosen;
