-- Finding lanes with work, leasing them, and reading what they owe. None of these waits for a lock, but
-- create_lanes, for a lane that another transaction is making at the same moment.
-- Here and in all files: `num_nulls(x) = 1` is `x IS NULL`, but no partial index serves it; `y = ANY(ARRAY[x])` is `y = x`,
-- but rows are looked up by y's index and not joined. So statistics that are wrong cost nothing (ADR 0013).

-- name: read_arrivals
-- Read what was committed behind a cursor, how far the sequence has gone, and which transactions
-- may still be open: all below oldest_open have ended, none from next_transaction on has begun.
-- Another server_started_at: what was read before may not be there any more, and its numbers given again.
-- Reads a handful of buffers, whatever is dead in front of the cursor. How far the sequence has gone is asked
-- by a function: read as a table it costs as much as a scan of a table, which is switched off.
-- $1 cursor bigint
-- $2 most bigint
-- row: last_seq bigint, oldest_open bigint, next_transaction bigint, database_now timestamptz,
--      server_started_at timestamptz, seq bigint, merchant_id text
-- order: by seq; one row with a null seq when nothing has arrived
WITH sequence AS MATERIALIZED (
    SELECT coalesce(pg_sequence_last_value('webhook.outbox_seq_seq'), 0) AS last_seq
)
SELECT
    sequence.last_seq,
    pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS oldest_open,
    -- A snapshot's xmax is behind the latest transaction that has ended: later ones may be open already.
    -- Age reads the id that is given next, and gives none to this transaction.
    pg_snapshot_xmax(pg_current_snapshot())::text::bigint
    + age(pg_snapshot_xmax(pg_current_snapshot())::xid) AS next_transaction,
    clock_timestamp() AS database_now,
    pg_postmaster_start_time() AS server_started_at,
    arrival.seq,
    arrival.merchant_id
FROM sequence
LEFT JOIN LATERAL (
    SELECT outbox.seq, outbox.merchant_id
    FROM webhook.outbox
    -- Not IS NULL: of an outbox that was empty when this was planned, all of outbox_in_order would be read.
    WHERE outbox.seq > $1 AND num_nulls(outbox.due_at) = 1
    ORDER BY outbox.seq
    LIMIT $2
) AS arrival ON true;

-- name: read_gaps
-- Look again at numbers that were not visible when the cursor passed them.
-- $1 lows bigint[]
-- $2 highs bigint[]
-- $3 most bigint
-- row: seq bigint, merchant_id text
-- none: nothing has been committed there
SELECT late.seq, late.merchant_id
FROM unnest($1::bigint[], $2::bigint[]) AS gap (low, high)
CROSS JOIN LATERAL (
    SELECT outbox.seq, outbox.merchant_id
    FROM webhook.outbox
    -- Not IS NULL, as in read_arrivals.
    WHERE outbox.seq >= gap.low AND outbox.seq <= gap.high AND num_nulls(outbox.due_at) = 1
    ORDER BY outbox.seq
    LIMIT $3
) AS late;

-- name: sweep_lanes
-- Go round the merchants that are owed something in order, one look-up each (a loose index scan).
-- $1 after_lane text
-- $2 page_size bigint
-- row: merchant_id text, head_seq bigint, is_free boolean
-- order: by merchant_id
-- none: the round is over, begin again with an empty text
WITH RECURSIVE head AS (
    (
        SELECT outbox.merchant_id, outbox.seq
        FROM webhook.outbox
        WHERE outbox.due_at IS NULL AND outbox.merchant_id > $1::text COLLATE "C"
        ORDER BY outbox.merchant_id, outbox.seq
        LIMIT 1
    )
    UNION ALL
    SELECT following.merchant_id, following.seq
    FROM head
    CROSS JOIN LATERAL (
        SELECT outbox.merchant_id, outbox.seq
        FROM webhook.outbox
        WHERE outbox.due_at IS NULL AND outbox.merchant_id > head.merchant_id
        ORDER BY outbox.merchant_id, outbox.seq
        LIMIT 1
    ) AS following
),
page AS MATERIALIZED (
    SELECT head.merchant_id, head.seq FROM head LIMIT $2
)
SELECT
    page.merchant_id,
    page.seq AS head_seq,
    coalesce(lane_state.is_free, true) AS is_free
FROM page
LEFT JOIN LATERAL (
    SELECT
        lane.lease_until < clock_timestamp() AND lane.wait_until <= clock_timestamp() AND NOT lane.paused AS is_free
    FROM webhook.lane
    WHERE lane.merchant_id = page.merchant_id
    LIMIT 1
) AS lane_state ON true
ORDER BY page.merchant_id;

-- name: create_lanes
-- Make the lanes that are missing.
-- $1 lanes text[]
-- none: always
INSERT INTO webhook.lane (merchant_id)
SELECT wanted.merchant_id FROM unnest($1::text[]) AS wanted (merchant_id)
ORDER BY wanted.merchant_id
ON CONFLICT (merchant_id) DO NOTHING;

-- name: check_writable
-- Change no lane. A server that only reads, such as a standby, refuses this as it would refuse a lease.
-- none: always
UPDATE webhook.lane SET epoch = lane.epoch WHERE false;

-- name: lease_lanes
-- Lease those of the wanted lanes that are free, under a new epoch. It is drawn: one that is counted is given again
-- after a failover to a server that was behind, to another lease.
-- Never ask for a lane that the owner still holds in memory.
-- Each lane is looked up where it is named: a join of two tables may read the whole of one.
-- What was leased is taken out by NOT IN, which is hashed: a join may compare each with each.
-- A head_seq below from_seq is a straggler that was committed late: from_seq comes down to it.
-- $1 lanes text[]
-- $2 head_seqs bigint[]
-- $3 lease interval
-- $4 owner text
-- row: merchant_id text, epoch bigint, from_seq bigint, endpoint_removed_at timestamptz, is_suspended boolean,
--      server_started_at timestamptz, free_since timestamptz, is_routed boolean, is_missing boolean, is_locked boolean
-- order: none; one row for each wanted lane, epoch is null where it was not leased: the lane is missing,
--      it is free but locked by somebody for the moment, or it is not free
WITH wanted AS MATERIALIZED (
    SELECT entry.merchant_id, entry.head_seq
    FROM unnest($1::text[], $2::bigint[]) AS entry (merchant_id, head_seq)
),
free AS MATERIALIZED (
    SELECT wanted.merchant_id, wanted.head_seq
    FROM wanted
    CROSS JOIN LATERAL (
        SELECT
        FROM webhook.lane
        WHERE
            lane.merchant_id = wanted.merchant_id
            -- A lane that is ours already is one whose claim we believed lost: its COMMIT was, not the lease.
            AND (lane.lease_until < clock_timestamp() OR lane.owner = $4::text)
            AND lane.wait_until <= clock_timestamp()
            AND NOT lane.paused
            AND NOT (SELECT state.paused FROM webhook.state WHERE state.is_only)
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS locked
),
leased AS (
    UPDATE webhook.lane
    SET
        epoch = floor(random() * 9007199254740992),
        lease_until = clock_timestamp() + $3::interval,
        leased_at = clock_timestamp(),
        owner = $4::text,
        recalled = false,
        from_seq = least(lane.from_seq, free.head_seq - 1)
    FROM free
    WHERE lane.merchant_id = ANY(ARRAY[free.merchant_id])
    RETURNING
        lane.merchant_id, lane.epoch, lane.from_seq, lane.endpoint_removed_at,
        lane.suspended_at IS NOT NULL AS is_suspended,
        CASE
            WHEN lane.failing_since IS NOT NULL OR lane.suspended_at IS NOT NULL THEN lane.leased_at
            ELSE lane.last_success_at
        END AS free_since,
        lane.routed_at IS NOT NULL AS is_routed
)
SELECT
    leased.merchant_id,
    leased.epoch,
    leased.from_seq,
    leased.endpoint_removed_at,
    leased.is_suspended,
    pg_postmaster_start_time() AS server_started_at,
    leased.free_since,
    leased.is_routed,
    false AS is_missing,
    false AS is_locked
FROM leased
UNION ALL
SELECT
    wanted.merchant_id,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    lane_state.merchant_id IS NULL,
    coalesce(
        lane_state.lease_until < clock_timestamp()
        AND lane_state.wait_until <= clock_timestamp()
        AND NOT lane_state.paused,
        false
    )
FROM wanted
LEFT JOIN LATERAL (
    SELECT lane.merchant_id, lane.lease_until, lane.wait_until, lane.paused
    FROM webhook.lane
    WHERE lane.merchant_id = wanted.merchant_id
    LIMIT 1
) AS lane_state ON true
WHERE wanted.merchant_id NOT IN (SELECT leased.merchant_id FROM leased);

-- name: release_lanes_of
-- Release the lanes of a daemon that is known to be dead, as it would have by itself, and say what each owes first.
-- One that is locked for the moment is left out.
-- $1 owner text
-- row: merchant_id text, head_seq bigint
-- order: none; head_seq is 0 where nothing is owed in order
-- none: it held none
WITH held AS MATERIALIZED (
    SELECT lane.merchant_id
    FROM webhook.lane
    WHERE lane.owner = $1 AND lane.lease_until > '-infinity'
    FOR NO KEY UPDATE SKIP LOCKED
),
released AS (
    UPDATE webhook.lane
    SET lease_until = '-infinity'
    FROM held
    WHERE lane.merchant_id = ANY(ARRAY[held.merchant_id])
    RETURNING lane.merchant_id
)
SELECT
    released.merchant_id,
    coalesce((
        SELECT outbox.seq
        FROM webhook.outbox
        WHERE outbox.merchant_id = released.merchant_id AND outbox.due_at IS NULL
        ORDER BY outbox.merchant_id, outbox.seq
        LIMIT 1
    ), 0) AS head_seq
FROM released;

-- name: read_runs
-- Read the next events of leased lanes, in order, without row locks.
-- A statement of its own: inside the claiming statement its snapshot would still show rows that the
-- last holder has just finished. A lease of before this server was started reads nothing.
-- $1 lanes text[]
-- $2 after_seqs bigint[]
-- $3 max_events bigint[]
-- $4 max_bytes bigint[]
-- $5 servers_started_at timestamptz[]
-- row: merchant_id text, seq bigint, id uuid, type text, created_at timestamptz, object bytea,
--      trigger text, on_failure text, copy_of uuid
-- order: by seq within each merchant; object is null where it is larger than the rules allow
-- none: the lanes owe nothing behind after_seqs
SELECT wanted.merchant_id, run.seq, run.id, run.type, run.created_at,
    convert_to(run.object::text, 'UTF8') AS object, run.trigger, run.on_failure, run.copy_of
FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::timestamptz[])
    AS wanted (merchant_id, after_seq, max_events, max_bytes, server_started_at)
CROSS JOIN LATERAL (
    SELECT
        next.seq, next.id, next.type, next.created_at, next.object, next.trigger, next.on_failure, next.copy_of,
        sum(next.object_bytes) OVER (ORDER BY next.seq) - next.object_bytes AS bytes_before
    FROM (
        SELECT
            outbox.seq, outbox.id, outbox.type, outbox.created_at, outbox.trigger, outbox.on_failure, outbox.copy_of,
            CASE WHEN outbox.object_bytes BETWEEN 0 AND 262144 THEN outbox.object END AS object,
            CASE WHEN outbox.object_bytes BETWEEN 0 AND 262144 THEN outbox.object_bytes ELSE 0 END AS object_bytes
        FROM webhook.outbox
        -- No condition on seq alone: the primary key would answer it too, past the rows of all others.
        WHERE
            (outbox.merchant_id, outbox.seq) > (wanted.merchant_id, wanted.after_seq)
            AND outbox.merchant_id <= wanted.merchant_id
            AND outbox.due_at IS NULL
        ORDER BY outbox.merchant_id, outbox.seq
        LIMIT wanted.max_events
    ) AS next
) AS run
WHERE run.bytes_before < wanted.max_bytes AND wanted.server_started_at = (SELECT pg_postmaster_start_time());

-- name: read_endpoints
-- Read where merchants are reached and their sealed secrets, the newest first.
-- $1 lanes text[]
-- row: merchant_id text, url text, key_id text, secret bytea, types text[], at_once smallint,
--      previous_key_id text, previous_secret bytea
-- none: none of them is configured
SELECT
    endpoint.merchant_id,
    endpoint.url,
    endpoint.key_id,
    endpoint.secret,
    endpoint.types,
    endpoint.at_once,
    CASE WHEN endpoint.previous_until > clock_timestamp() THEN endpoint.previous_key_id END
        AS previous_key_id,
    CASE WHEN endpoint.previous_until > clock_timestamp() THEN endpoint.previous_secret END
        AS previous_secret
FROM webhook.endpoint
WHERE endpoint.merchant_id = ANY($1::text[]);

-- name: read_recalls
-- Read which lanes must be released, and whether everything is paused.
-- row: everything_is_paused boolean, merchant_id text
-- order: none; one row with a null merchant_id when no lane is recalled
SELECT state.paused AS everything_is_paused, recall.merchant_id
FROM (SELECT state.paused FROM webhook.state WHERE state.is_only LIMIT 1) AS state
LEFT JOIN webhook.lane AS recall ON recall.recalled;
