-- Suspension: a merchant of whom nothing was accepted for too long is tried once an interval. Nothing here waits for
-- a lock: a lane that somebody holds is looked at again in a few seconds.

-- name: find_to_suspend
-- Name merchants to be suspended. A fresh failure decides: while no dispatcher ran, nothing can have succeeded. So
-- do the events among the latest attempts: one event says little, however often it was tried.
-- $1 suspend_after interval
-- $2 min_events bigint
-- $3 latest_attempts bigint
-- $4 most bigint
-- row: merchant_id text
-- order: none
-- none: nobody has failed for so long, or not with so many events
SELECT lane.merchant_id
FROM webhook.lane
CROSS JOIN LATERAL (
    SELECT
        count(DISTINCT latest.event_id) FILTER (WHERE latest.outcome NOT IN ('delivered', 'unsendable')) AS events
    FROM (
        SELECT attempt_log.event_id, attempt_log.outcome
        FROM webhook.attempt_log
        WHERE
            attempt_log.merchant_id = lane.merchant_id
            AND attempt_log.started_at >= lane.failing_since
            AND attempt_log.started_at <= (SELECT clock_timestamp())
        ORDER BY attempt_log.merchant_id DESC, attempt_log.started_at DESC
        LIMIT $3
    ) AS latest
) AS tried
WHERE
    lane.failing_since <= (SELECT clock_timestamp() - $1::interval)
    AND lane.suspended_at IS NULL
    AND lane.last_failure_at > clock_timestamp() - interval '1 minute'
    AND NOT lane.paused
    AND NOT (SELECT state.paused FROM webhook.state WHERE state.is_only)
    AND webhook.merchant_of(lane.merchant_id) <> '$platform'
    AND (SELECT endpoint.merchant_id FROM webhook.endpoint WHERE endpoint.merchant_id = lane.merchant_id) IS NOT NULL
    AND tried.events >= $2
LIMIT $4;

-- name: suspend_lanes
-- Suspend those of these merchants who still fail, and tell the platform of each, where it has an endpoint.
-- Whoever holds such a lane ends after the event in flight.
-- $1 lanes text[]
-- $2 suspend_after interval
-- $3 suspension_interval interval
-- row: merchant_id text, failing_since timestamptz, is_reported boolean
-- order: none
-- none: their lanes are locked by somebody, or changed meanwhile
WITH locked AS MATERIALIZED (
    SELECT wanted.merchant_id
    FROM unnest($1::text[]) AS wanted (merchant_id)
    CROSS JOIN LATERAL (
        SELECT
        FROM webhook.lane
        WHERE
            lane.merchant_id = wanted.merchant_id
            AND lane.failing_since <= clock_timestamp() - $2::interval
            AND lane.suspended_at IS NULL
            AND NOT lane.paused
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS still_failing
),
platform AS MATERIALIZED (
    SELECT FROM webhook.endpoint WHERE endpoint.merchant_id >= '$platform' AND endpoint.merchant_id < '$platform ' LIMIT 1
),
suspended AS (
    UPDATE webhook.lane
    SET
        suspended_at = clock_timestamp(),
        wait_until = clock_timestamp() + $3::interval,
        retry_at = 'infinity',
        recalled = lane.recalled OR lane.lease_until > '-infinity',
        reported_failing_since = CASE
            WHEN EXISTS (SELECT FROM platform) THEN coalesce(lane.reported_failing_since, lane.failing_since)
            ELSE lane.reported_failing_since
        END
    FROM locked
    WHERE lane.merchant_id = ANY(ARRAY[locked.merchant_id])
    RETURNING lane.merchant_id, lane.failing_since, lane.last_success_at, lane.suspended_at
),
notified AS (
    INSERT INTO webhook.outbox (merchant_id, type, object)
    SELECT
        '$platform',
        'endpoint.suspended',
        json_build_object(
            'merchantId', webhook.merchant_of(suspended.merchant_id),
            'endpointId', (SELECT endpoint.id FROM webhook.endpoint WHERE endpoint.merchant_id = suspended.merchant_id),
            'failingSince', to_char(suspended.failing_since AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
            'lastSuccessAt', to_char(suspended.last_success_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
            'suspendedAt', to_char(suspended.suspended_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
        )
    FROM suspended
    CROSS JOIN platform
)
SELECT suspended.merchant_id, suspended.failing_since, EXISTS (SELECT FROM platform) AS is_reported FROM suspended;

-- name: lift_suspensions
-- Lift the suspension of merchants who have accepted something, or have another URL or none: what failed is forgotten
-- then. Whoever holds such a lane ends after the event in flight, and does not make it wait.
-- $1 most bigint
-- row: merchant_id text
-- order: none
-- none: there is none to be lifted, or somebody has their lanes locked
WITH liftable AS MATERIALIZED (
    SELECT lane.merchant_id
    FROM webhook.lane
    WHERE
        lane.suspended_at IS NOT NULL
        AND (lane.failing_since IS NULL OR lane.failing_since > lane.suspended_at)
    LIMIT $1
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE webhook.lane
SET
    suspended_at = NULL,
    wait_until = '-infinity',
    retry_at = clock_timestamp(),
    recalled = lane.recalled OR lane.lease_until > '-infinity'
FROM liftable
WHERE lane.merchant_id = ANY(ARRAY[liftable.merchant_id])
RETURNING lane.merchant_id;

-- name: lift_all_suspensions
-- Lift any suspension, since nobody is to be suspended any more.
-- $1 most bigint
-- row: merchant_id text
-- order: none
-- none: nobody is suspended, or somebody has their lanes locked
WITH liftable AS MATERIALIZED (
    SELECT lane.merchant_id
    FROM webhook.lane
    WHERE lane.suspended_at IS NOT NULL
    ORDER BY lane.wait_until
    LIMIT $1
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE webhook.lane
SET
    suspended_at = NULL,
    wait_until = '-infinity',
    retry_at = clock_timestamp(),
    recalled = lane.recalled OR lane.lease_until > '-infinity'
FROM liftable
WHERE lane.merchant_id = ANY(ARRAY[liftable.merchant_id])
RETURNING lane.merchant_id;

-- name: pick_trials
-- Name suspended merchants to be tried by a retry: the interval is over, nothing waits in order (that would be tried
-- first), and something is due. Each rests again, for an interval, or until something is due, if that is sooner.
-- $1 looked_at bigint
-- $2 most bigint
-- $3 suspension_interval interval
-- row: merchant_id text
-- order: none
-- none: nobody is to be tried now
WITH rested AS MATERIALIZED (
    SELECT lane.merchant_id
    FROM webhook.lane
    WHERE
        lane.suspended_at IS NOT NULL
        AND lane.wait_until <= (SELECT clock_timestamp())
        AND lane.lease_until < clock_timestamp()
        AND NOT lane.paused
        AND NOT (SELECT state.paused FROM webhook.state WHERE state.is_only)
    ORDER BY lane.wait_until
    LIMIT $1
),
picked AS MATERIALIZED (
    SELECT rested.merchant_id, first.due_at
    FROM rested
    LEFT JOIN LATERAL (
        SELECT outbox.seq
        FROM webhook.outbox
        WHERE
            (outbox.merchant_id, outbox.seq) > (rested.merchant_id, 0)
            AND outbox.merchant_id <= rested.merchant_id
            AND outbox.due_at IS NULL
        ORDER BY outbox.merchant_id, outbox.seq
        LIMIT 1
    ) AS head ON true
    LEFT JOIN LATERAL (
        SELECT outbox.due_at
        FROM webhook.outbox
        WHERE outbox.merchant_id = rested.merchant_id AND outbox.due_at IS NOT NULL
        ORDER BY outbox.due_at
        LIMIT 1
    ) AS first ON true
    CROSS JOIN LATERAL (
        SELECT
        FROM webhook.lane
        WHERE
            lane.merchant_id = rested.merchant_id
            AND lane.suspended_at IS NOT NULL
            AND lane.wait_until <= clock_timestamp()
            AND head.seq IS NULL
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS locked
    LIMIT $2
),
updated AS (
    UPDATE webhook.lane
    SET
        wait_until = CASE
            WHEN picked.due_at > clock_timestamp() THEN least(picked.due_at, clock_timestamp() + $3::interval)
            ELSE clock_timestamp() + $3::interval
        END
    FROM picked
    WHERE lane.merchant_id = ANY(ARRAY[picked.merchant_id])
    RETURNING lane.merchant_id, picked.due_at <= clock_timestamp() AS is_due
)
SELECT updated.merchant_id FROM updated WHERE updated.is_due;

-- name: read_suspension
-- Say since when one of a merchant's endpoints is suspended.
-- $1 merchant_id text
-- $2 endpoint smallint
-- row: suspended_at timestamptz
-- none: it is not suspended
SELECT lane.suspended_at
FROM webhook.lane
WHERE lane.merchant_id = webhook.lane_of($1, $2) AND lane.suspended_at IS NOT NULL;
