-- What goes on just now. Everything is counted up to a limit.

-- name: show_counts
-- Count what waits, what failed in 24 hours, endpoints that are suspended, and merchants that are paused, or one of whose
-- endpoints is.
-- $1 session bytea
-- $2 most bigint
-- row: now timestamptz, everything_is_paused boolean, waiting bigint, waiting_for_retry bigint, failed bigint,
--   suspended bigint, paused bigint
-- order: one row
-- none: the session is over
SELECT
    clock_timestamp() AS now,
    state.paused AS everything_is_paused,
    waiting.rows AS waiting,
    retries.rows AS waiting_for_retry,
    failed.rows AS failed,
    suspended.rows AS suspended,
    paused.rows AS paused
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT console_state.paused FROM webhook.console_state WHERE me.name IS NOT NULL LIMIT 1
) AS state
CROSS JOIN LATERAL (
    SELECT count(*) AS rows
    FROM (
        SELECT
        FROM webhook.console_owed AS owed
        WHERE me.name IS NOT NULL AND owed.due_at IS NULL
        ORDER BY owed.merchant_id, owed.seq
        LIMIT (SELECT $2::bigint)
    ) AS counted
) AS waiting
CROSS JOIN LATERAL (
    SELECT count(*) AS rows
    FROM (
        SELECT
        FROM webhook.console_owed AS owed
        WHERE me.name IS NOT NULL AND owed.due_at IS NOT NULL
        ORDER BY owed.merchant_id, owed.due_at
        LIMIT (SELECT $2::bigint)
    ) AS counted
) AS retries
CROSS JOIN LATERAL (
    SELECT count(*) AS rows
    FROM (
        SELECT
        FROM webhook.console_finished AS finished
        WHERE me.name IS NOT NULL
            AND finished.state = 'failed' AND finished.finished_at >= statement_timestamp() - interval '1 day'
        ORDER BY finished.finished_at DESC, finished.seq DESC
        LIMIT (SELECT $2::bigint)
    ) AS counted
) AS failed
CROSS JOIN LATERAL (
    SELECT count(*) AS rows
    FROM (
        SELECT
        FROM webhook.console_lanes AS lanes
        WHERE me.name IS NOT NULL AND lanes.suspended_at IS NOT NULL
        ORDER BY lanes.wait_until
        LIMIT (SELECT $2::bigint)
    ) AS counted
) AS suspended
CROSS JOIN LATERAL (
    SELECT count(DISTINCT webhook.merchant_of(counted.merchant_id)) AS rows
    FROM (
        SELECT lanes.merchant_id
        FROM webhook.console_lanes AS lanes
        WHERE me.name IS NOT NULL AND lanes.paused AND lanes.merchant_id > ''::text COLLATE "C"
        ORDER BY lanes.merchant_id
        LIMIT (SELECT $2::bigint)
    ) AS counted
) AS paused;

-- name: show_oldest_waiting
-- Find what waits longest for its first attempt: among the lowest numbers that are owed, and the next ones of some
-- merchants (a loose index scan).
-- $1 session bytea
-- $2 merchants_looked_at bigint
-- $3 rows_looked_at bigint
-- row: event_id uuid, seq bigint, merchant_id text, created_at timestamptz
-- order: one row at most
-- none: nothing waits, or the session is over
SELECT page.event_id, page.seq, page.merchant_id, page.created_at
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    WITH RECURSIVE head AS (
        (
            SELECT owed.merchant_id, owed.seq, owed.event_id, owed.created_at
            FROM webhook.console_owed AS owed
            WHERE me.name IS NOT NULL AND owed.due_at IS NULL AND owed.merchant_id > ''::text COLLATE "C"
            ORDER BY owed.merchant_id, owed.seq
            LIMIT 1
        )
        UNION ALL
        SELECT following.merchant_id, following.seq, following.event_id, following.created_at
        FROM head
        CROSS JOIN LATERAL (
            SELECT owed.merchant_id, owed.seq, owed.event_id, owed.created_at
            FROM webhook.console_owed AS owed
            WHERE owed.due_at IS NULL AND owed.merchant_id > head.merchant_id
            ORDER BY owed.merchant_id, owed.seq
            LIMIT 1
        ) AS following
    ),
    round AS MATERIALIZED (SELECT head.* FROM head LIMIT $2),
    lowest AS MATERIALIZED (
        SELECT looked.*
        FROM (
            SELECT owed.merchant_id, owed.seq, owed.event_id, owed.created_at, owed.due_at
            FROM webhook.console_owed AS owed
            WHERE me.name IS NOT NULL AND owed.seq >= 0
            ORDER BY owed.seq
            LIMIT (SELECT $3::bigint)
        ) AS looked
        WHERE num_nulls(looked.due_at) = 1
    )
    SELECT webhook.merchant_of(known.merchant_id) AS merchant_id, known.seq, known.event_id, known.created_at
    FROM (
        SELECT round.merchant_id, round.seq, round.event_id, round.created_at FROM round
        UNION ALL
        SELECT lowest.merchant_id, lowest.seq, lowest.event_id, lowest.created_at FROM lowest
    ) AS known
    ORDER BY known.created_at
    LIMIT 1
) AS page;

-- name: show_lag
-- Measure the time from created_at to the first attempt, of those of the newest finished deliveries that had one attempt
-- and finished within the hour.
-- $1 session bytea
-- $2 most bigint
-- row: events bigint, median double precision, high double precision
-- order: one row; median and the 95th percentile in seconds, null without events
-- none: the session is over
SELECT lag.events, lag.median, lag.high
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT
        count(*) AS events,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY measured.seconds) AS median,
        percentile_cont(0.95) WITHIN GROUP (ORDER BY measured.seconds) AS high
    FROM (
        SELECT greatest(extract(EPOCH FROM made.started_at - newest.created_at), 0)::double precision AS seconds
        FROM (
            SELECT finished.event_id, finished.created_at, finished.finished_at, finished.attempts
            FROM webhook.console_logged AS finished
            WHERE me.name IS NOT NULL AND finished.seq >= 0
            ORDER BY finished.seq DESC
            LIMIT (SELECT $2::bigint)
        ) AS newest
        CROSS JOIN LATERAL (
            SELECT attempts.started_at
            FROM webhook.console_attempts AS attempts
            -- The times leave out other days' logs; the order is that of the one index that begins with events.
            WHERE
                attempts.event_id = ANY(ARRAY[newest.event_id])
                AND attempts.attempt = 1
                AND attempts.trigger = 'schedule'
                AND attempts.started_at >= newest.finished_at - interval '1 hour'
                AND attempts.started_at <= newest.finished_at
            ORDER BY attempts.event_id
            LIMIT 1
        ) AS made
        WHERE newest.attempts = 1 AND newest.finished_at >= statement_timestamp() - interval '1 hour'
    ) AS measured
) AS lag;

-- name: show_dispatchers
-- List the dispatchers as they noted themselves.
-- $1 session bytea
-- $2 alive_for interval
-- $3 most bigint
-- row: owner text, host text, version text, started_at timestamptz, beat_at timestamptz, lanes integer,
--   attempts_in_flight integer, is_ready boolean, reasons text[], faults text[], settings jsonb, is_alive boolean
-- order: by beat_at, the latest first
-- none: none has noted itself within a day, or the session is over
SELECT page.*
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT
        dispatchers.owner, dispatchers.host, dispatchers.version, dispatchers.started_at, dispatchers.beat_at,
        dispatchers.lanes, dispatchers.attempts_in_flight, dispatchers.is_ready, dispatchers.reasons,
        dispatchers.faults, dispatchers.settings, dispatchers.beat_at > clock_timestamp() - $2::interval AS is_alive
    FROM webhook.console_dispatchers AS dispatchers
    WHERE me.name IS NOT NULL AND dispatchers.owner >= ''::text COLLATE "C"
    LIMIT (SELECT $3::bigint)
) AS page
ORDER BY page.beat_at DESC, page.owner;

-- name: show_attempts_by_step
-- Count attempts by outcome in steps of time, from an instant on.
-- $1 session bytea
-- $2 since timestamptz
-- $3 step interval; steps begin at midnight UTC
-- row: at timestamptz, outcome text, attempts bigint
-- order: none
-- none: nothing was attempted, or the session is over
SELECT page.at, page.outcome, page.attempts
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT
        date_bin($3::interval, noted.minute, '2000-01-01 00:00:00+00') AS at,
        noted.outcome,
        sum(noted.attempts)::bigint AS attempts
    FROM webhook.console_attempts_by_minute AS noted
    WHERE me.name IS NOT NULL AND noted.minute >= $2
    GROUP BY 1, 2
) AS page;
