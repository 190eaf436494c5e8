-- What `status` and `merchants` ask, and `explain` besides delivery.sql: reading alone, by indexes, beside days of log.
-- Each is bounded by a limit of its own, or reads a row for each merchant at most.

-- name: find_charge
-- Name the first events of a charge, of one merchant where it is given, of ten times as many as are asked for.
-- That limit has no order: with one, all rows might be gone through in that order.
-- $1 charge_id text
-- $2 merchant_id text
-- $3 most bigint
-- row: event_id uuid; ordered by seq
-- none: not known, or dropped with its day's log
SELECT found.event_id
FROM (
    SELECT event_id, seq
    FROM webhook.charges
    WHERE charge_id = $1 AND ($2::text IS NULL OR merchant_id = $2)
    LIMIT 10 * $3::bigint
) AS found
ORDER BY found.seq
LIMIT $3;

-- name: read_secret
-- Read an endpoint's sealed secret, to see whether our keys open it.
-- $1 merchant_id text
-- $2 number smallint
-- row: key_id text, secret bytea
-- none: there is no such endpoint
SELECT endpoint.key_id, endpoint.secret
FROM webhook.endpoint
WHERE endpoint.merchant_id = webhook.lane_of($1, $2);

-- name: read_backlog
-- Count what is owed, up to a limit.
-- $1 most bigint
-- row: now timestamptz, everything_is_paused boolean, pending bigint, pending_retry bigint
-- order: one row
SELECT
    clock_timestamp() AS now,
    state.paused AS everything_is_paused,
    (SELECT count(*) FROM (SELECT FROM webhook.owed WHERE due_at IS NULL LIMIT $1) AS counted) AS pending,
    (SELECT count(*) FROM (SELECT FROM webhook.owed WHERE due_at IS NOT NULL LIMIT $1) AS counted) AS pending_retry
FROM webhook.state
WHERE state.is_only;

-- name: read_owing
-- Go round the lanes that are owed something, one look-up each: first in order, then out of it (a loose index
-- scan). Each comes with the first that is owed, and with what keeps it.
-- $1 most bigint
-- row: merchant_id text, is_in_order boolean, event_id uuid, seq bigint, created_at timestamptz,
--   due_at timestamptz, is_paused boolean, has_endpoint boolean, endpoint smallint
-- order: those in order first, then by lane
-- none: nothing is owed to anybody
WITH RECURSIVE head AS (
    (
        SELECT owed.merchant_id, owed.seq, owed.event_id, owed.created_at
        FROM webhook.owed
        WHERE owed.due_at IS NULL AND owed.merchant_id > ''::text COLLATE "C"
        ORDER BY owed.merchant_id, owed.seq
        LIMIT 1
    )
    UNION ALL
    SELECT following.merchant_id, following.seq, following.event_id, following.created_at
    FROM head
    CROSS JOIN LATERAL (
        SELECT owed.merchant_id, owed.seq, owed.event_id, owed.created_at
        FROM webhook.owed
        WHERE owed.due_at IS NULL AND owed.merchant_id > head.merchant_id
        ORDER BY owed.merchant_id, owed.seq
        LIMIT 1
    ) AS following
),
due AS (
    (
        SELECT owed.merchant_id, owed.seq, owed.event_id, owed.created_at, owed.due_at
        FROM webhook.owed
        WHERE owed.due_at IS NOT NULL AND owed.merchant_id > ''::text COLLATE "C"
        ORDER BY owed.merchant_id, owed.due_at
        LIMIT 1
    )
    UNION ALL
    SELECT following.merchant_id, following.seq, following.event_id, following.created_at, following.due_at
    FROM due
    CROSS JOIN LATERAL (
        SELECT owed.merchant_id, owed.seq, owed.event_id, owed.created_at, owed.due_at
        FROM webhook.owed
        WHERE owed.due_at IS NOT NULL AND owed.merchant_id > due.merchant_id
        ORDER BY owed.merchant_id, owed.due_at
        LIMIT 1
    ) AS following
),
-- A look-up follows from the one before, so the first are those of the lowest ids; an order would make all of them.
page AS MATERIALIZED (
    (SELECT head.merchant_id, head.seq, head.event_id, head.created_at, NULL::timestamptz AS due_at FROM head LIMIT $1)
    UNION ALL
    (SELECT due.merchant_id, due.seq, due.event_id, due.created_at, due.due_at FROM due LIMIT $1)
)
SELECT
    webhook.merchant_of(page.merchant_id) AS merchant_id,
    num_nulls(page.due_at) = 1 AS is_in_order,
    page.event_id,
    page.seq,
    page.created_at,
    page.due_at,
    coalesce(lane.paused, false) AS is_paused,
    num_nonnulls(endpoint.merchant_id, lane.routed_at) > 0 AS has_endpoint,
    webhook.endpoint_of(page.merchant_id) AS endpoint
FROM page
LEFT JOIN LATERAL (
    SELECT lanes.paused, lanes.routed_at FROM webhook.lanes WHERE lanes.merchant_id = page.merchant_id LIMIT 1
) AS lane ON true
LEFT JOIN LATERAL (
    SELECT endpoint.merchant_id
    FROM webhook.endpoint
    -- What number 1 left behind when its merchant became direct again is handed on to it.
    WHERE
        endpoint.merchant_id = ANY(
            ARRAY[
                page.merchant_id,
                CASE WHEN webhook.endpoint_of(page.merchant_id) = 1 THEN webhook.merchant_of(page.merchant_id) END
            ]
        )
    LIMIT 1
) AS endpoint ON true
ORDER BY num_nulls(page.due_at) DESC, page.merchant_id;

-- name: count_lanes
-- Count the merchants that are paused, whole or an endpoint of theirs, and the endpoints that are suspended; and say when one
-- of these is tried next.
-- row: paused bigint, suspended bigint, next_try_at timestamptz
-- order: one row
SELECT
    count(DISTINCT webhook.merchant_of(lanes.merchant_id)) FILTER (WHERE lanes.paused) AS paused,
    count(*) FILTER (WHERE lanes.suspended_at IS NOT NULL) AS suspended,
    min(lanes.wait_until) FILTER (WHERE lanes.suspended_at IS NOT NULL) AS next_try_at
FROM webhook.lanes;

-- name: read_holders
-- Say which dispatchers hold leases, and how many.
-- $1 most bigint
-- row: owner text, lanes bigint
-- order: by lanes, the most first
-- none: nobody holds any
SELECT lanes.owner, count(*) AS lanes
FROM webhook.lanes
WHERE lanes.is_held
GROUP BY lanes.owner
ORDER BY count(*) DESC, lanes.owner
LIMIT $1;

-- name: count_recent
-- Count the attempts since an instant by their outcome, up to a limit in all; and how many of them were first ones.
-- $1 since timestamptz
-- $2 most bigint
-- row: outcome text, attempts bigint, first_attempts bigint
-- order: by attempts, the most first
-- none: nothing was attempted
SELECT
    recent.outcome,
    count(*) AS attempts,
    count(*) FILTER (WHERE recent.attempt = 1 AND recent.trigger = 'schedule') AS first_attempts
FROM (
    SELECT attempts.outcome, attempts.attempt, attempts.trigger
    FROM webhook.attempted AS attempts
    WHERE attempts.started_at >= $1
    LIMIT $2
) AS recent
GROUP BY recent.outcome
ORDER BY count(*) DESC, recent.outcome;

-- name: count_arrivals
-- Count those of the newest events that were written since an instant, and say when the first of them was.
-- $1 since timestamptz
-- $2 most bigint
-- row: events bigint, first_at timestamptz
-- order: one row; no instant without events
SELECT count(*) AS events, min(newest.created_at) AS first_at
FROM (
    SELECT known.seq, known.created_at
    FROM (
        (
            SELECT owed.seq, owed.created_at
            FROM webhook.owed
            WHERE owed.seq >= 0 AND num_nulls(owed.copy_of) = 1
            ORDER BY owed.seq DESC
            LIMIT $2
        )
        UNION ALL
        (
            SELECT finished.seq, finished.created_at
            FROM webhook.logged AS finished
            WHERE finished.seq >= 0 AND num_nulls(finished.copy_of) = 1
            ORDER BY finished.seq DESC
            LIMIT $2
        )
    ) AS known
    ORDER BY known.seq DESC
    LIMIT $2
) AS newest
WHERE newest.created_at >= $1;

-- name: read_sizes
-- Say what the outbox and the logs take with their indexes, and of how many days the logs are.
-- row: name text, bytes bigint, days bigint, kept_since date
-- order: by name, the outbox last; no day of what has no partitions
SELECT
    stored.relname::text AS name,
    (
        pg_total_relation_size(stored.oid) + coalesce(sum(pg_total_relation_size(day.oid)), 0)
    )::bigint AS bytes,
    count(day.oid) AS days,
    min(to_date(right(day.relname, 8), 'YYYYMMDD')) AS kept_since
FROM pg_class AS stored
LEFT JOIN pg_inherits ON pg_inherits.inhparent = stored.oid
LEFT JOIN pg_class AS day ON day.oid = pg_inherits.inhrelid
WHERE
    stored.relnamespace = to_regnamespace('webhook')
    AND stored.relname = ANY(ARRAY['attempt_log', 'delivery_log', 'outbox'])
GROUP BY stored.oid, stored.relname
ORDER BY stored.relname;

-- name: measure_lag
-- Measure the time from created_at to the first attempt, of the latest first attempts since an instant.
-- An event that is finished was finished after its attempt: only the log from that instant on is looked at.
-- $1 since timestamptz
-- $2 most bigint
-- row: events bigint, median double precision, high double precision
-- order: one row; median and the 95th percentile in seconds, null without events
SELECT
    count(*) AS events,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY lag.seconds) AS median,
    percentile_cont(0.95) WITHIN GROUP (ORDER BY lag.seconds) AS high
FROM (
    SELECT greatest(extract(EPOCH FROM first.started_at - event.created_at), 0)::double precision AS seconds
    FROM (
        SELECT attempts.event_id, attempts.started_at
        FROM webhook.attempted AS attempts
        WHERE attempts.started_at >= $1 AND attempts.attempt = 1 AND attempts.trigger = 'schedule'
        ORDER BY attempts.started_at DESC
        LIMIT $2
    ) AS first
    CROSS JOIN LATERAL (
        SELECT deliveries.created_at
        FROM webhook.deliveries
        WHERE
            deliveries.event_id = first.event_id
            AND (deliveries.finished_at IS NULL OR deliveries.finished_at >= $1)
        LIMIT 1
    ) AS event
) AS lag;

-- name: count_commands
-- Count the commands that are not finished, and say since when the oldest waits.
-- row: pending bigint, running bigint, pending_since timestamptz
-- order: one row
SELECT
    waiting.pending,
    (SELECT count(*) FROM webhook.control WHERE control.status = 'running') AS running,
    waiting.pending_since
FROM (
    SELECT count(*) AS pending, min(control.created_at) AS pending_since
    FROM webhook.control
    WHERE control.status = 'pending'
) AS waiting;

-- name: find_merchants
-- Find merchants: those that fail first, then those whose events wait the longest.
-- $1 lanes text[]; null: all
-- $2 behind_since timestamptz
-- $3 only_paused boolean
-- $4 most bigint
-- row: merchant_id text
-- order: by failing_since, then by what waits longest
-- none: none matches; where behind_since is null, those that are not behind match too
SELECT webhook.merchant_of(known.lane) AS merchant_id
FROM (
    SELECT endpoint.merchant_id AS lane FROM webhook.endpoint
    UNION
    SELECT lanes.merchant_id FROM webhook.lanes
) AS known
LEFT JOIN LATERAL (
    SELECT lanes.paused, lanes.failing_since
    FROM webhook.lanes
    WHERE
        lanes.merchant_id = known.lane
        -- What the lane of one of several says is nobody's without its endpoint.
        AND (
            num_nulls(webhook.endpoint_of(known.lane)) = 1
            OR EXISTS (SELECT FROM webhook.endpoint WHERE endpoint.merchant_id = known.lane)
        )
    LIMIT 1
) AS lane ON true
LEFT JOIN LATERAL (
    SELECT owed.created_at
    FROM webhook.owed
    -- Not an equal merchant_id: the order would be that of seq, which the primary key has too.
    WHERE
        (owed.merchant_id, owed.seq) > (known.lane, 0)
        AND owed.merchant_id <= known.lane
        AND owed.due_at IS NULL
    ORDER BY owed.merchant_id, owed.seq
    LIMIT 1
) AS head ON true
WHERE
    ($1::text[] IS NULL OR known.lane = ANY($1))
    AND ($2::timestamptz IS NULL OR head.created_at < $2)
    AND (NOT $3 OR coalesce(lane.paused, false))
GROUP BY webhook.merchant_of(known.lane)
ORDER BY min(lane.failing_since), min(head.created_at), webhook.merchant_of(known.lane)
LIMIT $4;
