-- Writing what attempts showed. Every instant was fixed by the caller, so that a batch whose COMMIT
-- was lost can be written again and changes nothing.

-- name: record
-- Write a batch of outcomes and of what becomes of the lanes, in one statement that waits for nobody:
-- a lane or row that somebody else holds is left out and written next time.
-- An outcome counts only under the fence it was claimed with: the lane's epoch for a first attempt,
-- the row's claim for a retry; compared on the locked versions, not on the snapshot. Numbers alone prove nothing:
-- a server that was behind at a failover gives them again, to other events.
-- An outcome without attempt (null outcome) finishes or reschedules a row that was not sent. What is unwanted goes into
-- the log without a state, and stays owed while its lane is recalled: the filter may be another by now.
-- Each row and lane is looked up where it is named: a join of two tables may read the whole of one.
-- Parameters are the columns of two tables. Of outcomes ("batch"):
-- $1 seqs bigint[]
-- $2 merchants text[]
-- $3 event_ids uuid[]
-- $4 fences bigint[]
-- $5 are_retries boolean[]
-- $6 states text[]
-- $7 reasons text[]
-- $8 attempts smallint[]
-- $9 due_ats timestamptz[]
-- $10 statuses smallint[]
-- $11 outcomes text[]
-- $12 attempt_reasons text[]
-- $13 response_excerpts text[]
-- $14 triggers text[]
-- $15 started_ats timestamptz[]
-- $16 durations_ms integer[]
-- $17 finished_ats timestamptz[]
-- Of lanes that the batch renews or releases ("turn"):
-- $18 lanes text[]
-- $19 lane_epochs bigint[]
-- $20 lanes_are_over boolean[]
-- $21 lane_waits timestamptz[]
-- $22 lane_reaches bigint[]
-- $23 lane_servers_started_at timestamptz[]; a lease of before this server was started is lost
-- And of leases that are renewed, how long they are:
-- $24 lease interval
-- row: written bigint[], kept text[], released text[], recalled text[], lost text[]
-- order: one row; a lane in none of the lists was locked by somebody and is written next time
WITH batch AS MATERIALIZED (
    SELECT *
    FROM unnest(
        $1::bigint[], $2::text[], $3::uuid[], $4::bigint[], $5::boolean[], $6::text[], $7::text[],
        $8::smallint[], $9::timestamptz[], $10::smallint[], $11::text[], $12::text[], $13::text[],
        $14::text[], $15::timestamptz[], $16::integer[], $17::timestamptz[]
    ) AS entry (
        seq, merchant_id, event_id, fence, is_retry, state, reason,
        attempts, due_at, status, outcome, attempt_reason, response_excerpt,
        trigger, started_at, duration_ms, finished_at
    )
),
turn AS MATERIALIZED (
    SELECT *
    FROM unnest($18::text[], $19::bigint[], $20::boolean[], $21::timestamptz[], $22::bigint[], $23::timestamptz[])
        AS entry (merchant_id, epoch, is_over, wait_until, reach, server_started_at)
),
locked_lane AS MATERIALIZED (
    SELECT lane.merchant_id, lane.epoch, lane.recalled, lane.last_success_at
    FROM webhook.lane
    WHERE lane.merchant_id = ANY($2::text[] || $18::text[])
    ORDER BY lane.merchant_id
    FOR NO KEY UPDATE SKIP LOCKED
),
owed AS MATERIALIZED (
    SELECT batch.*
    FROM batch
    INNER JOIN locked_lane ON locked_lane.merchant_id = batch.merchant_id
    CROSS JOIN LATERAL (
        SELECT
        FROM webhook.outbox
        WHERE
            outbox.seq = batch.seq
            AND CASE
                WHEN (outbox.id, outbox.merchant_id) <> (batch.event_id, batch.merchant_id) THEN false
                WHEN batch.is_retry THEN outbox.claim = batch.fence
                WHEN batch.state = 'unwanted' AND locked_lane.recalled THEN false
                ELSE outbox.due_at IS NULL AND locked_lane.epoch = batch.fence
            END
        FOR UPDATE SKIP LOCKED
    ) AS locked
),
finished AS (
    DELETE FROM webhook.outbox
    USING owed
    WHERE outbox.seq = ANY(ARRAY[owed.seq]) AND owed.state IS NOT NULL
    RETURNING
        outbox.seq, outbox.id, outbox.merchant_id, outbox.type, outbox.created_at, outbox.object, outbox.xid, outbox.copy_of,
        owed.state, owed.reason, owed.attempts,
        CASE WHEN owed.outcome IS NULL THEN outbox.last_status ELSE owed.status END AS status,
        coalesce(owed.outcome, outbox.last_outcome) AS outcome,
        owed.finished_at
),
logged AS (
    INSERT INTO webhook.delivery_log (
        seq, event_id, merchant_id, type, created_at, object,
        state, failed_reason, attempts, last_status, last_outcome, finished_at, xid, endpoint, copy_of
    )
    SELECT
        finished.seq, finished.id, webhook.merchant_of(finished.merchant_id), finished.type, finished.created_at,
        finished.object, nullif(finished.state, 'unwanted'), finished.reason, finished.attempts,
        finished.status, finished.outcome, finished.finished_at, finished.xid,
        webhook.endpoint_of(finished.merchant_id), finished.copy_of
    FROM finished
),
unreported AS (
    -- What the platform is told of later (notices.sql); what operators gave up themselves is no news.
    INSERT INTO webhook.unreported_failure (finished_at, seq, event_id, merchant_id, reason)
    SELECT
        finished.finished_at, finished.seq, coalesce(finished.copy_of, finished.id),
        webhook.merchant_of(finished.merchant_id), finished.reason
    FROM finished
    WHERE
        (SELECT true FROM webhook.endpoint WHERE endpoint.merchant_id >= '$platform' AND endpoint.merchant_id < '$platform ' LIMIT 1)
        AND finished.state = 'failed'
        AND finished.reason IN ('exhausted', 'not_configured', 'unsendable')
        AND webhook.merchant_of(finished.merchant_id) <> '$platform'
        AND finished.type <> 'webhook.test'
    ON CONFLICT DO NOTHING
),
postponed AS (
    UPDATE webhook.outbox
    SET
        attempts = owed.attempts,
        due_at = owed.due_at,
        claim = NULL,
        trigger = CASE WHEN owed.outcome IS NULL THEN outbox.trigger ELSE 'schedule' END,
        -- An attempt by hand counts, and leaves the schedule where it is.
        attempts_by_hand = CASE
            WHEN owed.outcome IS NOT NULL AND owed.trigger = 'manual' AND outbox.scheduled_at IS NOT NULL
                THEN least(coalesce(outbox.attempts_by_hand, 0) + 1, owed.attempts)
            ELSE outbox.attempts_by_hand
        END,
        scheduled_at = CASE WHEN owed.outcome IS NULL THEN outbox.scheduled_at END,
        last_status = CASE WHEN owed.outcome IS NULL THEN outbox.last_status ELSE owed.status END,
        last_outcome = coalesce(owed.outcome, outbox.last_outcome)
    FROM owed
    WHERE outbox.seq = ANY(ARRAY[owed.seq]) AND owed.state IS NULL
),
attempted AS (
    INSERT INTO webhook.attempt_log (
        event_id, merchant_id, attempt, trigger, started_at, duration_ms, status, outcome,
        reason, response_excerpt
    )
    SELECT
        owed.event_id, owed.merchant_id, owed.attempts, owed.trigger,
        owed.started_at, owed.duration_ms, owed.status, owed.outcome,
        owed.attempt_reason, owed.response_excerpt
    FROM owed
    WHERE owed.outcome IS NOT NULL
    ON CONFLICT DO NOTHING
),
progress AS MATERIALIZED (
    SELECT
        batch.merchant_id,
        coalesce(bool_and(owed.seq IS NOT NULL) FILTER (WHERE NOT batch.is_retry), true)
            AS is_written,
        min(batch.seq) FILTER (WHERE NOT batch.is_retry AND owed.seq IS NULL) - 1
            AS before_unwritten,
        min(batch.due_at) FILTER (WHERE batch.state IS NULL AND owed.seq IS NOT NULL)
            AS due_at,
        bool_or(batch.is_retry AND owed.seq IS NOT NULL) AS frees_a_slot,
        -- What attempts say of their merchant; not those that could not even be made.
        max(owed.started_at + owed.duration_ms * interval '1 millisecond')
            FILTER (WHERE owed.outcome = 'delivered') AS succeeded_at,
        array_agg(owed.started_at + owed.duration_ms * interval '1 millisecond')
            FILTER (WHERE owed.outcome NOT IN ('delivered', 'unsendable')) AS failed_ats
    FROM batch
    LEFT JOIN owed ON owed.seq = batch.seq
    GROUP BY batch.merchant_id
),
plan AS MATERIALIZED (
    SELECT
        locked_lane.merchant_id,
        coalesce(turn.epoch = locked_lane.epoch AND turn.server_started_at = pg_postmaster_start_time(), false) AS is_ours,
        turn.is_over AND coalesce(progress.is_written, true) AS is_over,
        turn.wait_until,
        least(turn.reach, progress.before_unwritten) AS reach,
        -- Where a slot was freed, whatever is due next may use it.
        least(progress.due_at, CASE WHEN progress.frees_a_slot THEN (
            SELECT outbox.due_at
            FROM webhook.outbox
            WHERE outbox.merchant_id = locked_lane.merchant_id AND outbox.due_at IS NOT NULL
            ORDER BY outbox.due_at
            LIMIT 1
        ) END) AS due_at,
        progress.succeeded_at IS NOT NULL OR progress.failed_ats IS NOT NULL AS is_attempted,
        progress.succeeded_at,
        (SELECT max(failed.at) FROM unnest(progress.failed_ats) AS failed (at)) AS failed_at,
        since_success.failing_since,
        since_success.failures
    FROM locked_lane
    LEFT JOIN turn ON turn.merchant_id = locked_lane.merchant_id
    LEFT JOIN progress ON progress.merchant_id = locked_lane.merchant_id
    CROSS JOIN LATERAL (
        SELECT min(failed.at) AS failing_since, count(*) AS failures
        FROM unnest(progress.failed_ats) AS failed (at)
        WHERE (failed.at > greatest(locked_lane.last_success_at, progress.succeeded_at)) IS NOT FALSE
    ) AS since_success
),
updated AS (
    -- Of lanes that go on, this is the renewal of the lease: there is no other.
    UPDATE webhook.lane
    SET
        -- What a command has reopened in order may lie below what a recalled session has reached, and a lane
        -- that is released already may have changed since: then this is a batch written again.
        from_seq = CASE
            WHEN plan.is_ours AND NOT lane.recalled AND lane.lease_until > '-infinity' THEN greatest(lane.from_seq, plan.reach)
            ELSE lane.from_seq
        END,
        lease_until = CASE
            WHEN NOT plan.is_ours OR lane.lease_until = '-infinity' THEN lane.lease_until
            WHEN plan.is_over THEN '-infinity'
            ELSE clock_timestamp() + $24::interval
        END,
        -- A suspended merchant may have been tried by a retry since the lease lapsed, and rests.
        wait_until = CASE
            WHEN NOT plan.is_ours OR NOT plan.is_over OR lane.recalled OR lane.lease_until = '-infinity'
                THEN lane.wait_until
            WHEN num_nulls(lane.suspended_at) = 0 THEN greatest(lane.wait_until, plan.wait_until)
            ELSE plan.wait_until
        END,
        recalled = lane.recalled AND NOT (plan.is_ours AND plan.is_over),
        -- Of a merchant that is suspended nothing is looked for.
        retry_at = CASE WHEN lane.suspended_at IS NULL THEN least(lane.retry_at, plan.due_at) ELSE lane.retry_at END,
        last_success_at = greatest(lane.last_success_at, plan.succeeded_at),
        -- Where a merchant's events are routed nobody fails: what had been in flight is no endpoint's.
        last_failure_at = CASE
            WHEN num_nulls(lane.routed_at) = 1 THEN greatest(lane.last_failure_at, plan.failed_at)
        END,
        -- A success ends what failed before it. Of failures on both sides of it the last one is known.
        failing_since = CASE
            WHEN num_nulls(lane.routed_at) = 1 THEN coalesce(
                CASE
                    WHEN (lane.failing_since > plan.succeeded_at) IS NOT FALSE THEN lane.failing_since
                    WHEN lane.last_failure_at > plan.succeeded_at THEN lane.last_failure_at
                END,
                plan.failing_since
            )
        END,
        failures_in_a_row = plan.failures + CASE
            WHEN (lane.failing_since > plan.succeeded_at) IS NOT FALSE THEN lane.failures_in_a_row
            WHEN lane.last_failure_at > plan.succeeded_at THEN 1
            ELSE 0
        END
    FROM plan
    WHERE
        lane.merchant_id = ANY(ARRAY[plan.merchant_id])
        AND (plan.is_ours OR plan.due_at < lane.retry_at OR plan.is_attempted)
    RETURNING lane.merchant_id, lane.recalled, plan.is_ours, plan.is_over
)
SELECT
    coalesce((SELECT array_agg(owed.seq) FROM owed), '{}') AS written,
    coalesce(array_agg(updated.merchant_id) FILTER (WHERE updated.is_ours AND NOT updated.is_over), '{}') AS kept,
    coalesce(array_agg(updated.merchant_id) FILTER (WHERE updated.is_ours AND updated.is_over), '{}') AS released,
    coalesce(
        array_agg(updated.merchant_id) FILTER (WHERE updated.is_ours AND updated.recalled), '{}'
    ) AS recalled,
    coalesce((
        SELECT array_agg(turn.merchant_id)
        FROM turn
        LEFT JOIN plan ON plan.merchant_id = turn.merchant_id
        WHERE
            NOT plan.is_ours
            -- A scalar subselect looks each one up; EXISTS may be hashed, which reads every lane there is.
            OR (
                SELECT lane.merchant_id FROM webhook.lane WHERE lane.merchant_id = turn.merchant_id
            ) IS NULL
    ), '{}') AS lost
FROM updated;

-- name: read_unwritten
-- Say which outcomes that were not written may still be written under their fence.
-- $1 seqs bigint[]
-- $2 merchants text[]
-- $3 event_ids uuid[]
-- $4 fences bigint[]
-- $5 are_retries boolean[]
-- $6 states text[]
-- row: seq bigint
-- none: all of them came too late
SELECT batch.seq
FROM unnest($1::bigint[], $2::text[], $3::uuid[], $4::bigint[], $5::boolean[], $6::text[])
    AS batch (seq, merchant_id, event_id, fence, is_retry, state)
CROSS JOIN LATERAL (
    SELECT outbox.id, outbox.merchant_id, outbox.claim, outbox.due_at
    FROM webhook.outbox
    WHERE outbox.seq = batch.seq
    LIMIT 1
) AS owed
WHERE
    CASE
        WHEN (owed.id, owed.merchant_id) <> (batch.event_id, batch.merchant_id) THEN false
        WHEN batch.is_retry THEN owed.claim = batch.fence
        ELSE owed.due_at IS NULL AND batch.fence = (
            SELECT lane.epoch
            FROM webhook.lane
            WHERE lane.merchant_id = batch.merchant_id AND NOT (batch.state IS NOT DISTINCT FROM 'unwanted' AND lane.recalled)
        )
    END;

-- name: record_late
-- Write an attempt whose fence has fallen. The attempt is a fact. A 2xx closes the delivery wherever it
-- now stands, but for one that was delivered before and is sent again; a failure changes nothing but the
-- count and the last answer of a delivery that was cancelled or skipped meanwhile.
-- $1 seq bigint
-- $2 event_id uuid
-- $3 merchant_id text
-- $4 attempt smallint
-- $5 trigger text
-- $6 started_at timestamptz
-- $7 duration_ms integer
-- $8 status smallint
-- $9 outcome text
-- $10 finished_at timestamptz
-- $11 is_delivered boolean
-- $12 reason text
-- $13 response_excerpt text
-- row: is_settled boolean
-- order: one row; not settled where an owed row or its lane is locked by somebody: write it again
WITH locked_lane AS MATERIALIZED (
    SELECT lane.merchant_id
    FROM webhook.lane
    WHERE lane.merchant_id = $3 AND $11
    FOR NO KEY UPDATE SKIP LOCKED
),
owed AS MATERIALIZED (
    SELECT outbox.seq
    FROM webhook.outbox
    WHERE
        outbox.seq = $1
        AND CASE WHEN $11 THEN (outbox.id, outbox.merchant_id) = ($2, $3) END
        -- What was delivered and is to be sent once more is not done by an attempt that was made before.
        AND (outbox.on_failure IS DISTINCT FROM 'delivered' OR outbox.attempts < $4)
        AND (
            EXISTS (SELECT FROM locked_lane)
            OR NOT EXISTS (SELECT FROM webhook.lane WHERE lane.merchant_id = $3)
        )
    FOR UPDATE SKIP LOCKED
),
closed AS (
    DELETE FROM webhook.outbox
    USING owed
    WHERE outbox.seq = ANY(ARRAY[owed.seq])
    RETURNING outbox.seq, outbox.id, outbox.merchant_id, outbox.type, outbox.created_at,
        outbox.object, outbox.attempts, outbox.xid, outbox.copy_of
),
freed AS (
    -- Another attempt of it may be in flight and take up a slot: that slot is free now.
    UPDATE webhook.lane
    SET
        retry_at = least(lane.retry_at, clock_timestamp()),
        last_success_at = greatest(lane.last_success_at, $10),
        failing_since = CASE
            WHEN lane.failing_since > $10 THEN lane.failing_since
            WHEN lane.last_failure_at > $10 THEN lane.last_failure_at
        END,
        failures_in_a_row = CASE
            WHEN lane.failing_since > $10 THEN lane.failures_in_a_row
            WHEN lane.last_failure_at > $10 THEN 1
            ELSE 0
        END
    FROM closed
    WHERE lane.merchant_id = ANY(ARRAY[closed.merchant_id])
),
logged AS (
    INSERT INTO webhook.delivery_log (
        seq, event_id, merchant_id, type, created_at, object,
        state, failed_reason, attempts, last_status, last_outcome, finished_at, xid, endpoint, copy_of
    )
    SELECT
        closed.seq, closed.id, webhook.merchant_of(closed.merchant_id), closed.type, closed.created_at, closed.object,
        'delivered', NULL, greatest(closed.attempts, $4), $8, $9, $10, closed.xid,
        webhook.endpoint_of(closed.merchant_id), closed.copy_of
    FROM closed
),
corrected AS (
    UPDATE webhook.delivery_log
    SET
        state = CASE WHEN $11 THEN 'delivered' ELSE delivery_log.state END,
        failed_reason = CASE WHEN NOT $11 THEN delivery_log.failed_reason END,
        attempts = greatest(delivery_log.attempts, $4),
        last_status = $8,
        last_outcome = $9
    WHERE
        delivery_log.seq = $1
        AND delivery_log.merchant_id = webhook.merchant_of($3)
        AND CASE WHEN delivery_log.event_id = $2 THEN true END
        AND delivery_log.finished_at > $6::timestamptz - interval '2 days'
        -- Inside CASE: as a condition it would let the index of all that has failed be read.
        AND CASE
            -- Sent all the same, by who held the lane before the filter. Of what was handed on meanwhile the copy is recorded.
            WHEN num_nulls(delivery_log.state) = 1
                THEN
                    $11
                    AND (SELECT true FROM webhook.outbox WHERE outbox.id = $2) IS NOT TRUE
                    AND (
                        SELECT true FROM webhook.delivery_log AS copy
                        WHERE copy.event_id = $2 AND copy.seq <> $1 AND copy.finished_at > $6::timestamptz - interval '2 days'
                        LIMIT 1
                    ) IS NOT TRUE
            WHEN delivery_log.state = 'failed'
                THEN $11 OR (delivery_log.failed_reason IN ('cancelled', 'skipped') AND delivery_log.attempts < $4)
        END
),
attempted AS (
    INSERT INTO webhook.attempt_log (
        event_id, merchant_id, attempt, trigger, started_at, duration_ms, status, outcome,
        reason, response_excerpt
    )
    VALUES ($2, $3, $4, $5, $6, $7, $8, $9, $12, $13)
    ON CONFLICT DO NOTHING
)
SELECT
    NOT $11
    OR EXISTS (SELECT FROM owed)
    OR NOT EXISTS (
        SELECT
        FROM webhook.outbox
        WHERE
            outbox.seq = $1
            AND CASE
                WHEN (outbox.id, outbox.merchant_id) = ($2, $3)
                    THEN outbox.on_failure IS DISTINCT FROM 'delivered' OR outbox.attempts < $4
            END
    ) AS is_settled;
