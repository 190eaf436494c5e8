-- Claiming due rows outside the order: retries and whatever was asked for by hand.
-- Locking, claiming and planning are one transaction, each with a snapshot of its own. What was claimed is read after it:
-- while a client reads nothing, the server waits for it without any time-out, and a transaction keeps its locks.
-- Suspended lanes are left out (`suspended_at IS NULL`): suspending.sql tries one retry of each once an interval (contract 2.8).

-- name: find_due_lanes
-- Name lanes that have something due, the longest due first, behind one that was named before.
-- Two conditions on retry_at: the index finds the place by the first, the second tells apart equal times.
-- $1 after_retry_at text
-- $2 after_lane text
-- $3 most bigint
-- row: retry_at text, merchant_id text
-- order: by retry_at, merchant_id
-- none: the round is over, begin again behind -infinity and an empty text
SELECT lane.retry_at::text AS retry_at, lane.merchant_id
FROM webhook.lane
WHERE
    lane.retry_at >= $1::text::timestamptz
    AND (lane.retry_at, lane.merchant_id) > ($1::text::timestamptz, $2::text COLLATE "C")
    AND lane.retry_at <= (SELECT clock_timestamp())
    AND lane.retry_at < 'infinity'
    AND NOT lane.paused
    AND lane.suspended_at IS NULL
    AND NOT (SELECT state.paused FROM webhook.state WHERE state.is_only)
ORDER BY lane.retry_at, lane.merchant_id
LIMIT $3;

-- name: lock_longest_due_lanes
-- Lock lanes that have something due, the longest due first.
-- The clock stands in a subselect: a volatile function is never an index condition.
-- $1 most bigint
-- row: merchant_id text
-- none: nothing is due
SELECT lane.merchant_id
FROM webhook.lane
WHERE
    lane.retry_at <= (SELECT clock_timestamp())
    AND lane.retry_at < 'infinity'
    AND NOT lane.paused
    AND lane.suspended_at IS NULL
    AND NOT (SELECT state.paused FROM webhook.state WHERE state.is_only)
ORDER BY lane.retry_at
LIMIT $1
FOR NO KEY UPDATE SKIP LOCKED;

-- name: lock_due_lanes_of
-- Lock those of these lanes that have something due.
-- $1 lanes text[]
-- row: merchant_id text
-- none: nothing of theirs is due
SELECT lane.merchant_id
FROM webhook.lane
WHERE
    lane.merchant_id = ANY($1::text[])
    AND lane.retry_at <= (SELECT clock_timestamp())
    AND NOT lane.paused
    AND lane.suspended_at IS NULL
    AND NOT (SELECT state.paused FROM webhook.state WHERE state.is_only)
FOR NO KEY UPDATE SKIP LOCKED;

-- name: claim_retries
-- Claim due rows of locked lanes, as many as each lane has free slots, each under a token: its upper half tells
-- the owner (release_retries_of), its lower half is drawn, as epochs are.
-- $1 lanes text[]
-- $2 per_lane bigint
-- $3 most bigint
-- $4 lease interval
-- $5 except_seqs bigint[]; rows that are left alone
-- $6 owner text
-- row: seq bigint, claim bigint, bytes integer; counted here, so that a damaged row is noticed before any is claimed
-- order: none
-- none: all slots are taken, or the rows are locked by somebody
WITH free AS MATERIALIZED (
    SELECT
        wanted.merchant_id,
        greatest($2 - (
            -- Filtered here: as a condition due_at would let outbox_due be read, all that waits for a retry.
            SELECT count(*) FILTER (WHERE in_flight.due_at > clock_timestamp())
            FROM webhook.outbox AS in_flight
            WHERE in_flight.merchant_id = wanted.merchant_id AND in_flight.claim IS NOT NULL
        ), 0) AS slots
    FROM unnest($1::text[]) AS wanted (merchant_id)
),
due AS MATERIALIZED (
    SELECT ready.seq
    FROM free
    CROSS JOIN LATERAL (
        SELECT outbox.seq
        FROM webhook.outbox
        WHERE
            outbox.merchant_id = free.merchant_id
            AND outbox.due_at <= (SELECT clock_timestamp())
            AND outbox.seq <> ALL($5::bigint[])
        ORDER BY outbox.due_at
        LIMIT free.slots
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS ready
    LIMIT $3
)
UPDATE webhook.outbox
SET
    due_at = clock_timestamp() + $4::interval,
    claim = ((hashtext($6::text) & 2147483647)::bigint << 32) + floor(random() * 4294967296)::bigint
FROM due
WHERE outbox.seq = ANY(ARRAY[due.seq])
RETURNING
    outbox.seq,
    outbox.claim,
    octet_length(CASE WHEN outbox.object_bytes <= 262144 THEN convert_to(outbox.object::text, 'UTF8') END) AS bytes;

-- name: read_claimed
-- Read the rows of these claims, as far as they hold.
-- $1 seqs bigint[]
-- $2 claims bigint[]
-- row: merchant_id text, seq bigint, id uuid, type text, created_at timestamptz, object bytea, attempts smallint, attempts_by_hand smallint, trigger text, scheduled_at timestamptz, on_failure text, copy_of uuid, claim bigint, endpoint_removed_at timestamptz
-- order: none; object is null where it is larger than the rules allow
-- none: all have lapsed and were claimed anew, or ended
SELECT
    held.merchant_id,
    asked.seq,
    held.id,
    held.type,
    held.created_at,
    held.object,
    held.attempts,
    held.attempts_by_hand,
    held.trigger,
    held.scheduled_at,
    held.on_failure,
    held.copy_of,
    asked.claim,
    (SELECT lane.endpoint_removed_at FROM webhook.lane WHERE lane.merchant_id = held.merchant_id) AS endpoint_removed_at
FROM unnest($1::bigint[], $2::bigint[]) AS asked (seq, claim)
CROSS JOIN LATERAL (
    SELECT
        outbox.merchant_id, outbox.id, outbox.type, outbox.created_at,
        CASE WHEN outbox.object_bytes <= 262144 THEN convert_to(outbox.object::text, 'UTF8') END AS object,
        outbox.attempts, outbox.attempts_by_hand, outbox.trigger, outbox.scheduled_at, outbox.on_failure, outbox.copy_of
    FROM webhook.outbox
    -- Inside CASE: as a condition it would let the index of all claims be read.
    WHERE outbox.seq = asked.seq AND CASE WHEN outbox.claim = asked.claim THEN true END
    LIMIT 1
) AS held;

-- name: release_retries_of
-- Make due what a daemon that is known to be dead had claimed. What is locked for the moment is left out.
-- $1 owner text
-- row: retries bigint
-- order: one row
WITH claimed AS MATERIALIZED (
    SELECT outbox.seq, outbox.merchant_id
    FROM webhook.outbox
    WHERE outbox.claim IS NOT NULL AND outbox.claim >> 32 = (hashtext($1::text) & 2147483647)
),
planned AS (
    UPDATE webhook.lane
    SET retry_at = CASE WHEN lane.suspended_at IS NULL THEN least(lane.retry_at, clock_timestamp()) ELSE lane.retry_at END
    FROM (
        SELECT theirs.merchant_id
        FROM (SELECT DISTINCT claimed.merchant_id FROM claimed) AS theirs
        CROSS JOIN LATERAL (
            SELECT FROM webhook.lane WHERE lane.merchant_id = theirs.merchant_id FOR NO KEY UPDATE SKIP LOCKED
        ) AS locked
    ) AS free
    WHERE lane.merchant_id = ANY(ARRAY[free.merchant_id])
    RETURNING lane.merchant_id
),
released AS (
    UPDATE webhook.outbox
    SET due_at = clock_timestamp(), claim = NULL
    FROM (
        SELECT claimed.seq, claimed.merchant_id
        FROM claimed
        CROSS JOIN LATERAL (
            SELECT
            FROM webhook.outbox
            WHERE outbox.seq = claimed.seq AND outbox.claim >> 32 = (hashtext($1::text) & 2147483647)
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS locked
    ) AS free
    INNER JOIN planned ON planned.merchant_id = free.merchant_id
    WHERE outbox.seq = ANY(ARRAY[free.seq])
    RETURNING outbox.seq
)
SELECT count(*) AS retries FROM released;

-- name: plan_retries
-- Say when each locked lane must be looked at again. Only this and look_later raise retry_at.
-- A lane whose slots are all taken waits for the first claim to lapse: a record comes sooner.
-- A lane with rows that are left alone is looked at again after a second: others may be able to claim them,
-- and a time in the past would put it in front of all others at every look.
-- $1 lanes text[]
-- $2 per_lane bigint
-- $3 except_seqs bigint[]
-- none: always
WITH left_alone AS MATERIALIZED (
    -- Not a condition here: with it outbox_due could be read, all that waits for a retry.
    SELECT outbox.merchant_id, outbox.due_at IS NOT NULL AS is_out_of_order
    FROM webhook.outbox
    WHERE outbox.seq = ANY($3::bigint[])
)
UPDATE webhook.lane
SET
    retry_at = coalesce(
        CASE WHEN in_flight.slots_taken >= $2 THEN in_flight.lapses_at END,
        least(
            (
                SELECT outbox.due_at
                FROM webhook.outbox
                WHERE
                    outbox.merchant_id = lane.merchant_id
                    AND outbox.due_at IS NOT NULL
                    AND outbox.seq <> ALL($3::bigint[])
                ORDER BY outbox.due_at
                LIMIT 1
            ),
            CASE
                WHEN lane.merchant_id IN (
                    SELECT left_alone.merchant_id FROM left_alone WHERE left_alone.is_out_of_order
                )
                    THEN clock_timestamp() + interval '1 second'
            END
        ),
        'infinity'
    )
FROM unnest($1::text[]) AS wanted (merchant_id)
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE outbox.due_at > clock_timestamp()) AS slots_taken,
        min(outbox.due_at) FILTER (WHERE outbox.due_at > clock_timestamp()) AS lapses_at
    FROM webhook.outbox
    WHERE outbox.merchant_id = wanted.merchant_id AND outbox.claim IS NOT NULL
) AS in_flight
WHERE lane.merchant_id = ANY(ARRAY[wanted.merchant_id]);

-- name: mend_retries
-- Go round the merchants with rows outside the order, one look-up each, and mend lanes that look for them too
-- late or are missing: after an operator's edit, or a bug. A loose index scan.
-- $1 after_lane text
-- $2 page_size bigint
-- row: merchant_id text, is_mended boolean
-- order: by merchant_id
-- none: the round is over, begin again with an empty text
WITH RECURSIVE head AS (
    (
        SELECT outbox.merchant_id, outbox.due_at
        FROM webhook.outbox
        WHERE outbox.due_at IS NOT NULL AND outbox.merchant_id > $1::text COLLATE "C"
        ORDER BY outbox.merchant_id, outbox.due_at
        LIMIT 1
    )
    UNION ALL
    SELECT following.merchant_id, following.due_at
    FROM head
    CROSS JOIN LATERAL (
        SELECT outbox.merchant_id, outbox.due_at
        FROM webhook.outbox
        WHERE outbox.due_at IS NOT NULL AND outbox.merchant_id > head.merchant_id
        ORDER BY outbox.merchant_id, outbox.due_at
        LIMIT 1
    ) AS following
),
page AS MATERIALIZED (
    SELECT head.merchant_id, head.due_at FROM head LIMIT $2
),
late AS MATERIALIZED (
    SELECT page.merchant_id, page.due_at
    FROM page
    CROSS JOIN LATERAL (
        SELECT
        FROM webhook.lane
        WHERE lane.merchant_id = page.merchant_id AND lane.retry_at > page.due_at AND lane.suspended_at IS NULL
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS locked
),
lowered AS (
    UPDATE webhook.lane
    SET retry_at = least(lane.retry_at, late.due_at)
    FROM late
    WHERE lane.merchant_id = ANY(ARRAY[late.merchant_id])
    RETURNING lane.merchant_id
),
made AS (
    INSERT INTO webhook.lane (merchant_id, retry_at)
    SELECT page.merchant_id, page.due_at
    FROM page
    WHERE (SELECT lane.merchant_id FROM webhook.lane WHERE lane.merchant_id = page.merchant_id) IS NULL
    ON CONFLICT (merchant_id) DO NOTHING
    RETURNING lane.merchant_id
)
SELECT
    page.merchant_id,
    lowered.merchant_id IS NOT NULL OR made.merchant_id IS NOT NULL AS is_mended
FROM page
LEFT JOIN lowered ON lowered.merchant_id = page.merchant_id
LEFT JOIN made ON made.merchant_id = page.merchant_id
ORDER BY page.merchant_id;
