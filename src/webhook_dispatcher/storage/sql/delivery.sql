-- One delivery with what stands around it, for `explain` and for who signed in to the console (storage/statements.py, `Role`).

-- name: read_deliveries
-- Read the deliveries of events, or single ones: one of each, but for an id that was used again after its end. What nobody
-- wanted, or was routed, is unwanted.
-- $1 reader bytea
-- $2 events uuid[]
-- $3 most bigint
-- $4 merchants text[]; whose these are, where they may have copies for further endpoints
-- row: event_id uuid, seq bigint, merchant_id text, type text, created_at timestamptz, state text,
--   failed_reason text, attempts smallint, next_attempt_at timestamptz, last_status smallint, last_outcome text,
--   finished_at timestamptz, charge_id text, due_at timestamptz, is_claimed boolean, trigger text,
--   on_failure text, attempts_by_hand integer, scheduled_at timestamptz, endpoint smallint, copy_of uuid
-- order: by seq; endpoint: null of the only one, and of what is not routed
-- none: not known, or dropped with its day's log, or the session is over
SELECT page.*
FROM role.reader AS me
CROSS JOIN LATERAL (
    SELECT ARRAY(
        SELECT event.id FROM unnest($2::uuid[]) AS event (id)
        UNION ALL
        SELECT webhook.delivery_id(event.id, further.number)
        FROM unnest($2::uuid[]) AS event (id)
        CROSS JOIN (
            SELECT DISTINCT webhook.endpoint_of(known.merchant_id) AS number
            FROM unnest($4::text[]) AS entry (merchant_id)
            CROSS JOIN LATERAL (
                SELECT lanes.merchant_id
                FROM role.lanes AS lanes
                WHERE
                    role.may_read
                    AND lanes.merchant_id > entry.merchant_id COLLATE "C"
                    AND lanes.merchant_id < (entry.merchant_id || ' ') COLLATE "C"
                ORDER BY lanes.merchant_id
                LIMIT 1000
            ) AS known
        ) AS further
    ) AS ids
) AS wanted
CROSS JOIN LATERAL (
    SELECT known.*
    FROM (
        SELECT
            event_id, seq, webhook.merchant_of(merchant_id) AS merchant_id, type, created_at,
            CASE
                WHEN due_at IS NULL THEN 'pending' WHEN on_failure = 'delivered' THEN 'delivered' ELSE 'pending_retry'
            END AS state,
            NULL::text AS failed_reason, attempts, CASE WHEN NOT is_claimed THEN due_at END AS next_attempt_at,
            last_status, last_outcome, NULL::timestamptz AS finished_at, charge_id, due_at, is_claimed, trigger,
            on_failure, coalesce(attempts_by_hand, 0)::integer AS attempts_by_hand, scheduled_at,
            webhook.endpoint_of(merchant_id) AS endpoint, copy_of
        FROM role.owed
        WHERE role.may_read AND event_id = ANY(wanted.ids)
        UNION ALL
        SELECT
            event_id, seq, merchant_id, type, created_at, coalesce(state, 'unwanted'), failed_reason, attempts, NULL,
            last_status, last_outcome, finished_at, charge_id, NULL, false, NULL, NULL, 0, NULL, endpoint, copy_of
        FROM role.logged
        WHERE role.may_read AND event_id = ANY(wanted.ids)
        LIMIT $3
    ) AS known
    ORDER BY known.seq
    LIMIT $3
) AS page
ORDER BY page.seq;

-- name: read_excerpts
-- Read how the answers to the attempts of one event begin, of the first ones that have any.
-- $1 reader bytea
-- $2 event_id uuid
-- $3 most bigint; null: all
-- row: attempt smallint, started_at timestamptz, response_excerpt text; ordered by started_at
-- none: nothing was kept, or who looks is no operator, or the session is over
SELECT page.*
FROM role.reader AS me
CROSS JOIN LATERAL (
    SELECT made.attempt, made.started_at, made.response_excerpt
    FROM (SELECT responses.* FROM role.responses AS responses WHERE role.may_read AND responses.event_id = $2 OFFSET 0) AS made
    WHERE made.response_excerpt IS NOT NULL
    ORDER BY made.started_at, made.attempt
    LIMIT $3
) AS page
ORDER BY page.started_at, page.attempt;

-- name: read_latest_attempts
-- Read the latest attempts at one endpoint, before an instant.
-- $1 reader bytea
-- $2 lane text
-- $3 before timestamptz
-- $4 most bigint
-- row: attempt smallint, trigger text, started_at timestamptz, duration_ms integer, status smallint, outcome text,
--   reason text
-- order: by started_at, the latest first
-- none: no attempt at this endpoint is in the log, or the session is over
SELECT page.*
FROM role.reader AS me
CROSS JOIN LATERAL (
    SELECT
        made.attempt, made.trigger, made.started_at, made.duration_ms, made.status, made.outcome, made.reason
    FROM role.attempts AS made
    WHERE role.may_read AND made.merchant_id = $2 AND made.started_at < $3
    ORDER BY made.merchant_id DESC, made.started_at DESC
    LIMIT $4
) AS page
ORDER BY page.started_at DESC;

-- name: read_neighbours
-- Read whose first attempts were among the last attempts at an endpoint, of a time before an instant.
-- $1 reader bytea
-- $2 lane text
-- $3 since timestamptz
-- $4 before timestamptz
-- $5 most bigint; attempts that are looked at
-- row: event_id uuid, seq bigint, started_at timestamptz, ended_at timestamptz, charge_id text
-- order: none
-- none: nobody's, or the session is over
SELECT page.*
FROM role.reader AS me
CROSS JOIN LATERAL (
    SELECT
        made.event_id, delivery.seq, made.started_at,
        made.started_at + made.duration_ms * interval '1 millisecond' AS ended_at, delivery.charge_id
    FROM (
        SELECT attempts.event_id, attempts.attempt, attempts.trigger, attempts.started_at, attempts.duration_ms
        FROM role.attempts AS attempts
        WHERE role.may_read
            AND attempts.merchant_id = $2 AND attempts.started_at >= $3 AND attempts.started_at < $4
        ORDER BY attempts.merchant_id DESC, attempts.started_at DESC
        LIMIT $5
    ) AS made
    CROSS JOIN LATERAL (
        SELECT known.seq, known.charge_id
        FROM (
            SELECT owed.seq, owed.charge_id FROM role.owed AS owed WHERE owed.event_id = made.event_id
            UNION ALL
            -- It was finished after its attempt: that leaves out other days. The order is that of the index of events.
            (
                SELECT finished.seq, finished.charge_id
                FROM role.finished AS finished
                WHERE finished.event_id = ANY(ARRAY[made.event_id]) AND finished.finished_at >= made.started_at
                ORDER BY finished.event_id
                LIMIT 1
            )
        ) AS known
        LIMIT 1
    ) AS delivery
    WHERE made.attempt = 1 AND made.trigger = 'schedule'
    OFFSET 0
) AS page;

-- name: read_circumstances
-- Read what a delivery may wait for: pauses, its endpoint, its lane, and what is before it in order.
-- $1 reader bytea
-- $2 lanes text[]; where its endpoint may be
-- $3 seq bigint
-- $4 most bigint
-- $5 lane text; in which it is owed; null: nowhere, and the endpoint's lane is told of
-- row: now timestamptz, everything_is_paused boolean, url text, secret_created_at timestamptz, is_paused boolean,
--   is_held boolean, owner text, leased_at timestamptz, wait_until timestamptz,
--   endpoint_removed_at timestamptz, last_success_at timestamptz, failing_since timestamptz,
--   suspended_at timestamptz, head_event_id uuid, head_seq bigint, head_created_at timestamptz, ahead bigint,
--   at_once smallint, lane text, is_routed boolean
-- order: one row; ahead is exact below the limit
-- none: the session is over
SELECT
    clock_timestamp() AS now,
    state.paused AS everything_is_paused,
    endpoint.url,
    endpoint.secret_created_at,
    coalesce(lane.paused, false) AS is_paused,
    coalesce(role.is_held, false) AS is_held,
    lane.owner,
    lane.leased_at,
    lane.wait_until,
    lane.endpoint_removed_at,
    lane.last_success_at,
    lane.failing_since,
    lane.suspended_at,
    head.event_id AS head_event_id,
    head.seq AS head_seq,
    head.created_at AS head_created_at,
    ahead.events AS ahead,
    endpoint.at_once,
    place.lane,
    lane.routed_at IS NOT NULL AS is_routed
FROM role.reader AS me
CROSS JOIN LATERAL (
    SELECT state.paused FROM role.state AS state WHERE role.may_read LIMIT 1
) AS state
LEFT JOIN LATERAL (
    SELECT endpoints.merchant_id AS lane, endpoints.url, endpoints.secret_created_at, endpoints.at_once
    FROM role.endpoints AS endpoints
    WHERE role.may_read AND endpoints.merchant_id = ANY($2::text[])
    LIMIT 1
) AS endpoint ON true
CROSS JOIN LATERAL (
    SELECT coalesce($5::text COLLATE "C", endpoint.lane, ($2::text[])[1]) AS lane
) AS place
LEFT JOIN LATERAL (
    SELECT lanes.* FROM role.lanes AS lanes WHERE role.may_read AND lanes.merchant_id = place.lane LIMIT 1
) AS lane ON true
LEFT JOIN LATERAL (
    SELECT owed.event_id, owed.seq, owed.created_at
    FROM role.owed AS owed
    WHERE role.may_read
        AND (owed.merchant_id, owed.seq) > (place.lane, 0) AND owed.merchant_id <= place.lane AND owed.due_at IS NULL
    ORDER BY owed.merchant_id, owed.seq
    LIMIT 1
) AS head ON true
CROSS JOIN LATERAL (
    SELECT count(*) AS events
    FROM (
        SELECT
        FROM role.owed AS owed
        -- No condition on seq alone: the primary key would answer it too, past the rows of all others.
        WHERE role.may_read
            AND owed.merchant_id >= place.lane AND (owed.merchant_id, owed.seq) < (place.lane, $3) AND owed.due_at IS NULL
        LIMIT $4
    ) AS counted
) AS ahead;

-- name: read_endpoints_since
-- Read which endpoints a merchant has that were there at an instant.
-- $1 reader bytea
-- $2 merchant_id text
-- $3 at timestamptz
-- row: number smallint; ordered by number
-- none: there is none, or the session is over
SELECT page.number
FROM role.reader AS me
CROSS JOIN LATERAL (
    SELECT coalesce(webhook.endpoint_of(endpoints.merchant_id), 1::smallint) AS number
    FROM role.endpoints AS endpoints
    WHERE role.may_read AND webhook.merchant_of(endpoints.merchant_id) = $2 AND endpoints.created_at <= $3
    ORDER BY number
    LIMIT 20
) AS page
ORDER BY page.number;

-- name: read_pauses
-- Say who paused an endpoint, or its merchant, and everything (an empty scope), as far as commands did.
-- $1 reader bytea
-- $2 lane text
-- row: scope text, command_id bigint, requested_by text, handled_at timestamptz
-- order: none
-- none: no command paused either, or the session is over
SELECT page.*
FROM role.reader AS me
CROSS JOIN LATERAL (
    SELECT scope.lane AS scope, latest.id AS command_id, latest.requested_by, latest.handled_at
    FROM (
        SELECT entry.lane, coalesce(webhook.endpoint_of(entry.lane), 1)::text AS number
        FROM unnest(ARRAY[$2::text, '']) AS entry (lane)
    ) AS scope
    CROSS JOIN LATERAL (
        SELECT commands.id, commands.command, commands.requested_by, commands.handled_at
        FROM role.commands AS commands
        WHERE role.may_read
            AND left(coalesce(commands.merchant_id, ''), 128) = webhook.merchant_of(scope.lane)
            AND commands.command IN ('pause', 'resume')
            AND commands.status = 'done'
            AND coalesce(commands.args ->> 'endpoint', scope.number) = scope.number
        ORDER BY left(coalesce(commands.merchant_id, ''), 128) DESC, commands.id DESC
        LIMIT 1
    ) AS latest
    WHERE latest.command = 'pause'
    OFFSET 0
) AS page;

-- name: read_commands_about
-- Read the commands about an event, or a delivery of it.
-- $1 reader bytea
-- $2 ids uuid[]
-- $3 most bigint
-- $4 endpoint smallint; of what was asked for of one endpoint, that of this number alone; null: all
-- row: id bigint, command text, requested_by text, status text, created_at timestamptz, handled_at timestamptz
-- order: by id
-- none: nobody asked for anything, or the session is over
SELECT page.*
FROM role.reader AS me
CROSS JOIN LATERAL (
    SELECT
        commands.id, commands.command, commands.requested_by, commands.status, commands.created_at, commands.handled_at
    FROM role.commands AS commands
    WHERE role.may_read AND commands.event_id = ANY($2)
        AND ($4::smallint IS NULL OR coalesce(commands.args ->> 'endpoint', $4::smallint::text) = $4::smallint::text)
    LIMIT $3
) AS page
ORDER BY page.id;

-- name: read_kept
-- Say since which day finished deliveries are kept, and whether charges are indexed.
-- $1 reader bytea
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
FROM role.reader AS me
CROSS JOIN LATERAL (
    SELECT state.has_charge_index FROM role.state AS state WHERE role.may_read LIMIT 1
) AS chosen;
