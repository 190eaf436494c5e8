-- What the platform is told by events of its own: deliveries that failed for good, merchants that have failed for long,
-- and those that have recovered. One daemon at a time does it, in one transaction that waits for no lock. What cannot
-- be told now is kept, and told later, more of it together.

-- name: may_report
-- Become the one who reports until this transaction ends: true if the platform has an endpoint that wants them and is owed few
-- enough, and nobody else is at it. The row of its first endpoint is the lock: roles that only read cannot take it.
-- $1 max_owed bigint
-- row: may_report boolean
-- order: one row
SELECT
    CASE
        WHEN (
            SELECT bool_and(owed.pending + owed.waiting >= $1)
            FROM webhook.endpoint
            CROSS JOIN LATERAL (
                SELECT
                    (
                        SELECT count(*)
                        FROM (
                            SELECT
                            FROM webhook.outbox
                            WHERE outbox.merchant_id = ANY(ARRAY['$platform', endpoint.merchant_id]) AND outbox.due_at IS NULL
                            LIMIT $1
                        ) AS first
                    ) AS pending,
                    (
                        SELECT count(*)
                        FROM (
                            SELECT
                            FROM webhook.outbox
                            WHERE outbox.merchant_id = ANY(ARRAY['$platform', endpoint.merchant_id]) AND outbox.due_at IS NOT NULL
                            LIMIT $1
                        ) AS first
                    ) AS waiting
            ) AS owed
            WHERE
                endpoint.merchant_id >= '$platform' AND endpoint.merchant_id < '$platform '
                -- One that wants none of them is owed none, and would never end the others'.
                AND (
                    num_nulls(endpoint.types) = 1
                    OR endpoint.types && '{delivery.failed, endpoint.failing, endpoint.recovered}'
                )
        ) IS NOT FALSE THEN false
        ELSE EXISTS (
            SELECT
            FROM webhook.endpoint
            WHERE endpoint.merchant_id = (
                SELECT min(first.merchant_id)
                FROM webhook.endpoint AS first
                WHERE first.merchant_id >= '$platform' AND first.merchant_id < '$platform '
            )
            FOR NO KEY UPDATE SKIP LOCKED
        )
    END AS may_report;

-- name: report_failures
-- Tell of deliveries that failed for good in minutes that are over: one notice for each merchant.
-- $1 look bigint
-- $2 max_merchants bigint
-- row: notices bigint, has_more boolean
-- order: one row
WITH looked AS MATERIALIZED (
    SELECT unreported_failure.finished_at, unreported_failure.seq, unreported_failure.merchant_id
    FROM webhook.unreported_failure
    WHERE unreported_failure.finished_at < (SELECT date_trunc('minute', clock_timestamp()))
    ORDER BY unreported_failure.finished_at, unreported_failure.seq
    LIMIT $1
    FOR UPDATE SKIP LOCKED
),
-- By windows: a join may compare each with each.
dated AS (
    SELECT
        looked.finished_at, looked.seq, looked.merchant_id,
        min(looked.finished_at) OVER (PARTITION BY looked.merchant_id) AS first_at
    FROM looked
),
ranked AS MATERIALIZED (
    SELECT dated.finished_at, dated.seq, dense_rank() OVER (ORDER BY dated.first_at, dated.merchant_id) AS place
    FROM dated
),
reported AS MATERIALIZED (
    SELECT ranked.finished_at, ranked.seq FROM ranked WHERE ranked.place <= $2
),
taken AS (
    DELETE FROM webhook.unreported_failure
    USING reported
    WHERE
        unreported_failure.finished_at = ANY(ARRAY[reported.finished_at])
        AND unreported_failure.seq = ANY(ARRAY[reported.seq])
    RETURNING
        unreported_failure.finished_at, unreported_failure.seq, unreported_failure.event_id,
        unreported_failure.merchant_id, unreported_failure.reason
),
-- Of an event whose copies failed the id is told once.
told AS (
    SELECT
        taken.*,
        row_number() OVER (PARTITION BY taken.merchant_id, taken.event_id ORDER BY taken.finished_at, taken.seq) = 1 AS is_first
    FROM taken
),
counted AS (
    SELECT
        told.merchant_id,
        count(*) AS failures,
        min(told.finished_at) AS since,
        max(told.finished_at) AS until,
        json_strip_nulls(json_build_object(
            'exhausted', nullif(count(*) FILTER (WHERE told.reason = 'exhausted'), 0),
            'not_configured', nullif(count(*) FILTER (WHERE told.reason = 'not_configured'), 0),
            'unsendable', nullif(count(*) FILTER (WHERE told.reason = 'unsendable'), 0)
        )) AS reasons,
        (array_agg(told.event_id ORDER BY told.finished_at, told.seq) FILTER (WHERE told.is_first))[:10] AS event_ids
    FROM told
    GROUP BY told.merchant_id
),
written AS (
    INSERT INTO webhook.outbox (merchant_id, type, object)
    SELECT
        '$platform',
        'delivery.failed',
        json_build_object(
            'merchantId', counted.merchant_id,
            'count', counted.failures,
            'since', to_char(counted.since AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
            'until', to_char(counted.until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
            'reasons', counted.reasons,
            'eventIds', counted.event_ids
        )
    FROM counted
    ORDER BY counted.since, counted.merchant_id
    RETURNING outbox.seq
)
SELECT
    (SELECT count(*) FROM written) AS notices,
    (SELECT count(*) >= $1 OR coalesce(max(ranked.place) > $2, false) FROM ranked) AS has_more;

-- name: report_failing
-- Tell of merchants that have only failed for so long: by a failure of the last minute, since without attempts nobody
-- knows, and by three events, since one alone may be at fault. Found without locks, then locked and looked at again.
-- $1 failing_after interval
-- $2 max_merchants bigint
-- row: notices bigint, has_more boolean
-- order: one row
WITH looked_at AS MATERIALIZED (
    SELECT clock_timestamp() AS now
),
found AS MATERIALIZED (
    SELECT lane.merchant_id, lane.failing_since
    FROM webhook.lane
    WHERE
        lane.failing_since <= (SELECT looked_at.now - $1::interval FROM looked_at)
        AND lane.last_failure_at > (SELECT looked_at.now - interval '1 minute' FROM looked_at)
        AND lane.reported_failing_since IS NULL
        AND webhook.merchant_of(lane.merchant_id) <> '$platform'
        AND (SELECT true FROM webhook.endpoint WHERE endpoint.merchant_id = lane.merchant_id)
        AND (
            SELECT count(DISTINCT latest.event_id) FILTER (WHERE latest.outcome NOT IN ('delivered', 'unsendable'))
            FROM (
                SELECT
                    attempt_log.event_id, attempt_log.outcome,
                    attempt_log.started_at + attempt_log.duration_ms * interval '1 millisecond' AS ended_at
                FROM webhook.attempt_log
                WHERE
                    attempt_log.merchant_id = lane.merchant_id
                    -- The attempt whose end that was began before; none takes longer.
                    AND attempt_log.started_at >= lane.failing_since - interval '10 minutes'
                    AND attempt_log.started_at <= (SELECT looked_at.now FROM looked_at)
                ORDER BY attempt_log.merchant_id DESC, attempt_log.started_at DESC
                LIMIT 25
            ) AS latest
            WHERE latest.ended_at >= lane.failing_since
        ) >= 3
    ORDER BY lane.failing_since
    LIMIT $2
),
locked AS MATERIALIZED (
    SELECT held.merchant_id
    FROM found
    CROSS JOIN LATERAL (
        SELECT lane.merchant_id
        FROM webhook.lane
        WHERE
            lane.merchant_id = found.merchant_id
            AND lane.failing_since = found.failing_since
            AND lane.reported_failing_since IS NULL
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS held
),
marked AS (
    UPDATE webhook.lane
    SET reported_failing_since = lane.failing_since
    FROM locked
    WHERE lane.merchant_id = ANY(ARRAY[locked.merchant_id])
    RETURNING lane.merchant_id, lane.failing_since, lane.last_success_at, lane.failures_in_a_row
),
written AS (
    INSERT INTO webhook.outbox (merchant_id, type, object)
    SELECT
        '$platform',
        'endpoint.failing',
        json_build_object(
            'merchantId', webhook.merchant_of(marked.merchant_id),
            'endpointId', (SELECT endpoint.id FROM webhook.endpoint WHERE endpoint.merchant_id = marked.merchant_id),
            'failingSince', to_char(marked.failing_since AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
            'lastSuccessAt', to_char(marked.last_success_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
            'failuresInARow', marked.failures_in_a_row
        )
    FROM marked
    ORDER BY marked.failing_since, marked.merchant_id
    RETURNING outbox.seq
)
SELECT
    (SELECT count(*) FROM written) AS notices,
    (SELECT count(*) FROM written) >= $2 AS has_more;

-- name: report_recovered
-- Tell of merchants that were reported as failing and have accepted something since.
-- $1 max_merchants bigint
-- row: notices bigint, has_more boolean
-- order: one row
WITH found AS MATERIALIZED (
    SELECT lane.merchant_id, lane.reported_failing_since
    FROM webhook.lane
    WHERE
        lane.reported_failing_since IS NOT NULL
        AND lane.last_success_at > lane.reported_failing_since
    ORDER BY lane.merchant_id
    LIMIT $1
    FOR NO KEY UPDATE SKIP LOCKED
),
marked AS (
    UPDATE webhook.lane
    SET reported_failing_since = NULL
    FROM found
    WHERE lane.merchant_id = ANY(ARRAY[found.merchant_id])
    RETURNING lane.merchant_id, found.reported_failing_since AS failing_since, lane.last_success_at
),
written AS (
    INSERT INTO webhook.outbox (merchant_id, type, object)
    SELECT
        '$platform',
        'endpoint.recovered',
        json_build_object(
            'merchantId', webhook.merchant_of(marked.merchant_id),
            'endpointId', (SELECT endpoint.id FROM webhook.endpoint WHERE endpoint.merchant_id = marked.merchant_id),
            'failingSince', to_char(marked.failing_since AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
            'recoveredAt', to_char(marked.last_success_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
        )
    FROM marked
    ORDER BY marked.last_success_at, marked.merchant_id
    RETURNING outbox.seq
)
SELECT
    (SELECT count(*) FROM written) AS notices,
    (SELECT count(*) FROM written) >= $1 AS has_more;

-- name: purge_unreported
-- Forget failures that were never told, because the platform's endpoint was removed or took nothing for that long.
-- $1 keep interval
-- none: always
DELETE FROM webhook.unreported_failure
WHERE unreported_failure.finished_at < (SELECT clock_timestamp() - $1::interval);
