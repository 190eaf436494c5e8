-- Gauges, partitions and retention.

-- name: read_schema
-- Read which schema this is, the oldest daemon it serves, and since when the server runs.
-- row: schema_version integer, compatible_from integer, server_started_at timestamptz
-- none: the schema was never migrated to its end
SELECT state.schema_version, state.compatible_from, pg_postmaster_start_time() AS server_started_at
FROM webhook.state
WHERE state.is_only;

-- name: awaits_standby
-- Tell whether commits wait for a synchronous standby although none is connected. Which are is not shown to everybody.
-- row: awaits_standby boolean
-- order: one row
SELECT
    current_setting('synchronous_standby_names') <> ''
    AND current_setting('synchronous_commit') NOT IN ('off', 'local')
    AND NOT EXISTS (SELECT FROM pg_stat_replication) AS awaits_standby;

-- name: read_role
-- Read as whom we are connected, and whether that role may deliver.
-- row: role name, may_deliver boolean
-- order: one row
SELECT
    current_user AS role,
    has_table_privilege('webhook.outbox', 'DELETE')
    AND has_table_privilege('webhook.lane', 'UPDATE')
    AND has_table_privilege('webhook.delivery_log', 'INSERT')
    AND has_table_privilege('webhook.attempt_log', 'INSERT')
    AND has_table_privilege('webhook.control', 'UPDATE')
    -- Without it pg_sequence_last_value says that nothing was ever inserted.
    AND has_sequence_privilege('webhook.outbox_seq_seq', 'SELECT') AS may_deliver;

-- name: read_encoding
-- Read in which encoding the database stores text.
-- row: encoding text
-- order: one row
SELECT current_setting('server_encoding') AS encoding;

-- name: read_gauges
-- Measure what is owed. Counts are exact up to a limit, then the statistics' estimate.
-- $1 count_limit bigint
-- row: pending bigint, pending_retry bigint, oldest_due_retry_age double precision, suspended bigint, failing bigint,
--   lost bigint
-- order: one row
SELECT
    CASE
        WHEN counted.pending < $1 THEN counted.pending
        ELSE greatest(counted.pending, estimated.pending)
    END AS pending,
    CASE
        WHEN counted.pending_retry < $1 THEN counted.pending_retry
        ELSE greatest(counted.pending_retry, estimated.pending_retry)
    END AS pending_retry,
    CASE WHEN isfinite(overdue.retry_at)
        THEN greatest(extract(EPOCH FROM clock_timestamp() - overdue.retry_at), 0) ELSE 0 END::double precision
        AS oldest_due_retry_age,
    (SELECT count(*) FROM webhook.lane WHERE lane.suspended_at IS NOT NULL) AS suspended,
    (
        SELECT count(*)
        FROM webhook.lane
        WHERE
            lane.failing_since <= (SELECT clock_timestamp() - interval '5 minutes')
            AND lane.suspended_at IS NULL
            AND lane.last_failure_at > clock_timestamp() - interval '1 hour'
            AND NOT lane.paused
    ) AS failing,
    (
        SELECT count(*) FROM webhook.lost_event WHERE lost_event.noted_at > clock_timestamp() - interval '1 day'
    ) AS lost
FROM (
    SELECT
        (SELECT count(*) FROM (SELECT FROM webhook.outbox WHERE due_at IS NULL LIMIT $1) AS counted_rows)
            AS pending,
        (SELECT count(*) FROM (SELECT FROM webhook.outbox WHERE due_at IS NOT NULL LIMIT $1) AS counted_rows)
            AS pending_retry
) AS counted
CROSS JOIN (
    SELECT
        coalesce(max(pg_class.reltuples) FILTER (WHERE pg_class.relname = 'outbox_in_order'), 0)::bigint
            AS pending,
        coalesce(max(pg_class.reltuples) FILTER (WHERE pg_class.relname = 'outbox_due'), 0)::bigint
            AS pending_retry
    FROM pg_class
    WHERE pg_class.relnamespace = to_regnamespace('webhook')
) AS estimated
LEFT JOIN LATERAL (
    SELECT lane.retry_at
    FROM webhook.lane
    WHERE lane.retry_at < 'infinity' AND NOT lane.paused AND lane.suspended_at IS NULL
    ORDER BY lane.retry_at
    LIMIT 1
) AS overdue ON true;

-- name: read_oldest_pending
-- Find the oldest of what waits for its first attempt. `seq` does not tell: who writes an event may say when it was
-- created. Of one merchant the next in order counts. Looked at are: the lowest number, the oldest found before, and
-- the next of a page of merchants (a loose index scan), which goes round all that are owed something.
-- $1 from_seq bigint
-- $2 known_seq bigint
-- $3 after_lane text
-- $4 page_size bigint
-- row: age double precision, first_seq bigint, oldest_seq bigint, last_lane text
-- order: one row
-- none: nothing is pending
WITH RECURSIVE head AS (
    (
        SELECT outbox.merchant_id, outbox.seq, outbox.created_at
        FROM webhook.outbox
        WHERE outbox.due_at IS NULL AND outbox.merchant_id > $3::text COLLATE "C"
        ORDER BY outbox.merchant_id, outbox.seq
        LIMIT 1
    )
    UNION ALL
    SELECT following.merchant_id, following.seq, following.created_at
    FROM head
    CROSS JOIN LATERAL (
        SELECT outbox.merchant_id, outbox.seq, outbox.created_at
        FROM webhook.outbox
        WHERE outbox.due_at IS NULL AND outbox.merchant_id > head.merchant_id
        ORDER BY outbox.merchant_id, outbox.seq
        LIMIT 1
    ) AS following
),
page AS MATERIALIZED (
    SELECT head.merchant_id, head.seq, head.created_at FROM head LIMIT $4
),
lowest AS MATERIALIZED (
    SELECT outbox.seq, outbox.created_at
    FROM webhook.outbox
    WHERE outbox.seq >= $1 AND num_nulls(outbox.due_at) = 1
    ORDER BY outbox.seq
    LIMIT 1
),
oldest AS (
    SELECT lowest.seq, lowest.created_at FROM lowest
    UNION ALL
    SELECT outbox.seq, outbox.created_at FROM webhook.outbox WHERE outbox.seq = $2 AND num_nulls(outbox.due_at) = 1
    UNION ALL
    SELECT page.seq, page.created_at FROM page
    ORDER BY created_at
    LIMIT 1
)
SELECT
    CASE WHEN isfinite(oldest.created_at)
        THEN extract(EPOCH FROM clock_timestamp() - oldest.created_at) ELSE 0 END::double precision AS age,
    (SELECT lowest.seq FROM lowest) AS first_seq,
    oldest.seq AS oldest_seq,
    (SELECT CASE WHEN count(*) = $4 THEN max(page.merchant_id) ELSE '' END FROM page) AS last_lane
FROM oldest;

-- name: read_unknown_keys
-- Read which of the stored key ids are not among those held.
-- $1 held text[]
-- row: key_id text
-- none: every stored secret can be opened
-- The condition on merchant_id is true of all: it lets them be read by an index, where scans of tables are off.
SELECT DISTINCT used.key_id
FROM webhook.endpoint
CROSS JOIN LATERAL (
    VALUES
    (endpoint.key_id),
    (CASE WHEN endpoint.previous_until > clock_timestamp() THEN endpoint.previous_key_id END)
) AS used (key_id)
WHERE endpoint.merchant_id >= '' AND used.key_id <> ALL($1::text[]);

-- name: read_partitions
-- List the log's partitions, the day each begins, and whether it holds rows; how many, statistics say.
-- row: log name, partition name, day date, has_rows boolean, rows bigint
-- order: by log, day
SELECT
    parent.relname AS log,
    child.relname AS partition,
    to_date(right(child.relname, 8), 'YYYYMMDD') AS day,
    pg_relation_size(child.oid) > 0 AS has_rows,
    greatest(child.reltuples, 0)::bigint AS rows
FROM pg_inherits
INNER JOIN pg_class AS parent ON parent.oid = pg_inherits.inhparent
INNER JOIN pg_class AS child ON child.oid = pg_inherits.inhrelid
WHERE
    parent.relnamespace = to_regnamespace('webhook')
    AND parent.relname IN ('delivery_log', 'attempt_log')
    AND child.relname ~ '_[0-9]{8}$'
ORDER BY parent.relname, day;

-- name: read_today
-- Read the database's day in UTC.
-- row: today date
-- order: one row
SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date AS today;

-- name: note_milestone
-- Note how far transactions are now, unless that was done a quarter of an hour ago. The instant is the one before.
-- none: always
INSERT INTO webhook.milestone (at, horizon, next_xid)
SELECT
    statement_timestamp(), pg_snapshot_xmin(pg_current_snapshot()), pg_snapshot_xmax(pg_current_snapshot())
WHERE NOT EXISTS (
    SELECT
    FROM webhook.milestone
    -- One of the future was noted while the clock was ahead, and does not count.
    WHERE milestone.at BETWEEN statement_timestamp() - interval '15 minutes' AND statement_timestamp()
)
ON CONFLICT DO NOTHING;

-- name: forget_milestones
-- Forget milestones of days whose log is about to be dropped.
-- $1 before timestamptz
-- none: always
DELETE FROM webhook.milestone WHERE milestone.at < $1;
