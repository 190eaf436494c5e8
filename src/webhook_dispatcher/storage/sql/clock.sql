-- After the database's clock was set back: instants that lie further ahead of it than they can are corrected.
-- Lanes and rows that somebody holds are left out, and corrected by the next round.

-- name: correct_lanes
-- Correct a page of lanes, and what their merchants are owed outside the order: a lease, a claim, a rest and a retry's
-- delay begin anew where they end later than ones that begin now, and what has been is no later than now.
-- The holder of such a lease does not trust it for longer: it began before now.
-- Not retry_at: mend_retries lowers it.
-- $1 after_lane text
-- $2 page_size bigint
-- $3 lease interval
-- $4 delays interval[]; by the attempts of the schedule that were made: after more of them a row is due at once
-- $5 suspension_interval interval
-- $6 rest interval; of a lane that is not suspended
-- row: last_lane text, lanes bigint, retries bigint
-- order: one row; last_lane is null when the page was not full: the round is over
WITH now AS MATERIALIZED (SELECT clock_timestamp() AS at),
page AS MATERIALIZED (
    SELECT lane.merchant_id
    FROM webhook.lane
    WHERE lane.merchant_id > $1::text COLLATE "C"
    ORDER BY lane.merchant_id
    LIMIT $2
),
ahead AS MATERIALIZED (
    SELECT page.merchant_id, now.at
    FROM page
    CROSS JOIN now
    CROSS JOIN LATERAL (
        SELECT
        FROM webhook.lane
        WHERE
            lane.merchant_id = page.merchant_id
            AND (
                lane.lease_until > now.at + $3::interval
                OR lane.wait_until
                > now.at + CASE WHEN lane.suspended_at IS NULL THEN $6::interval ELSE $5::interval END
                OR greatest(
                    lane.last_success_at, lane.last_failure_at, lane.failing_since, lane.suspended_at,
                    lane.reported_failing_since, lane.endpoint_removed_at
                ) > now.at
            )
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS locked
),
corrected AS (
    UPDATE webhook.lane
    SET
        lease_until = least(lane.lease_until, ahead.at + $3::interval),
        wait_until = least(
            lane.wait_until,
            ahead.at + CASE WHEN lane.suspended_at IS NULL THEN $6::interval ELSE $5::interval END
        ),
        last_success_at = CASE WHEN lane.last_success_at > ahead.at THEN ahead.at ELSE lane.last_success_at END,
        last_failure_at = CASE WHEN lane.last_failure_at > ahead.at THEN ahead.at ELSE lane.last_failure_at END,
        failing_since = CASE WHEN lane.failing_since > ahead.at THEN ahead.at ELSE lane.failing_since END,
        suspended_at = CASE WHEN lane.suspended_at > ahead.at THEN ahead.at ELSE lane.suspended_at END,
        reported_failing_since = CASE
            WHEN lane.reported_failing_since > ahead.at THEN ahead.at ELSE lane.reported_failing_since
        END,
        endpoint_removed_at = CASE WHEN lane.endpoint_removed_at > ahead.at THEN ahead.at ELSE lane.endpoint_removed_at END
    FROM ahead
    WHERE lane.merchant_id = ANY(ARRAY[ahead.merchant_id])
    RETURNING lane.merchant_id
),
late AS MATERIALIZED (
    SELECT owed.seq, owed.due_at, owed.scheduled_at
    FROM page
    CROSS JOIN now
    CROSS JOIN LATERAL (
        SELECT
            outbox.seq,
            least(outbox.due_at, now.at + CASE WHEN outbox.claim IS NULL THEN next.delay ELSE $3::interval END) AS due_at,
            CASE WHEN outbox.scheduled_at IS NOT NULL THEN least(outbox.scheduled_at, now.at + next.delay) END AS scheduled_at
        FROM webhook.outbox
        CROSS JOIN LATERAL (
            SELECT
                coalesce(
                    ($4::interval[])[outbox.attempts - coalesce(outbox.attempts_by_hand, 0)], interval '0'
                ) AS delay
        ) AS next
        WHERE
            outbox.merchant_id = page.merchant_id
            AND outbox.due_at IS NOT NULL
            AND (
                outbox.due_at > now.at + CASE WHEN outbox.claim IS NULL THEN next.delay ELSE $3::interval END
                OR outbox.scheduled_at > now.at + next.delay
            )
        FOR NO KEY UPDATE OF outbox SKIP LOCKED
    ) AS owed
),
planned AS (
    UPDATE webhook.outbox
    SET due_at = late.due_at, scheduled_at = late.scheduled_at
    FROM late
    WHERE outbox.seq = ANY(ARRAY[late.seq])
    RETURNING outbox.seq
)
SELECT
    (SELECT CASE WHEN count(*) = $2 THEN max(page.merchant_id) END FROM page) AS last_lane,
    (SELECT count(*) FROM corrected) AS lanes,
    (SELECT count(*) FROM planned) AS retries;

-- name: correct_others
-- Correct commands that run, failures the platform was not told of yet, and when dispatchers noted themselves.
-- A command whose worker lives is lost to it by that, and goes on when the lease has ended.
-- $1 command_lease interval
-- none: always
WITH now AS MATERIALIZED (SELECT clock_timestamp() AS at),
commands AS (
    UPDATE webhook.control
    SET running_until = now.at + $1::interval
    FROM now
    WHERE control.status = 'running' AND control.running_until > now.at + $1::interval
),
failures AS (
    UPDATE webhook.unreported_failure
    SET finished_at = now.at
    FROM now
    WHERE unreported_failure.finished_at > now.at
)
UPDATE webhook.dispatcher
SET beat_at = now.at
FROM now
WHERE dispatcher.beat_at > now.at;
