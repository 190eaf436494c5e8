-- What the command line asks before it gives a mass command: how many deliveries that is about. They read views
-- alone, so that webhook_admin may ask, and count no further than they are told.

-- name: preview_recovery
-- Count what a recovery would send, by kind and by merchant; the kinds are states, or skipped.
-- $1 merchant_id text
-- $2 since timestamptz
-- $3 until timestamptz
-- $4 kinds text[]
-- $5 types text[]
-- $6 charge text
-- $7 retries bigint; of the schedule
-- $8 leave_out text[]; last_attempts, failing
-- $9 endpoint smallint; its number, of the merchant's; null: all
-- $10 most bigint
-- $11 merchants_shown bigint
-- row: kind text, merchant_id text, deliveries bigint, looked bigint, last_attempts bigint, failing bigint,
--   failing_merchants bigint
-- order: none; a row for each kind and those merchants that have most, and one without kind and merchant that counts merchants,
--   and of all that matches what waits for its last attempt, and whose latest attempt failed. Of more than $10 any are counted:
--   to have them in an order, all that match would have to be read
WITH matching AS MATERIALIZED (
    SELECT waiting.kind, waiting.merchant_id, waiting.is_last, endpoints.failing_since IS NOT NULL AS is_failing
    FROM (
        SELECT
            'pending_retry' AS kind, webhook.merchant_of(owed.merchant_id) AS merchant_id,
            coalesce(webhook.endpoint_of(owed.merchant_id), 1) AS endpoint,
            owed.attempts - coalesce(owed.attempts_by_hand, 0) >= $7::bigint AS is_last
        FROM webhook.owed
        WHERE
            owed.due_at > clock_timestamp()
            AND NOT owed.is_claimed
            AND owed.on_failure IS DISTINCT FROM 'delivered'
            AND 'pending_retry' = ANY($4::text[])
            AND owed.created_at < $3
            AND (
                $1::text IS NULL AND webhook.merchant_of(owed.merchant_id) <> '$platform'
                OR webhook.merchant_of(owed.merchant_id) = $1
            )
            AND ($5::text[] IS NULL OR owed.type = ANY($5))
            AND ($6::text IS NULL OR owed.charge_id = $6)
        UNION ALL
        SELECT
            CASE WHEN finished.failed_reason = 'skipped' THEN 'skipped' ELSE finished.state END AS kind,
            finished.merchant_id,
            coalesce(finished.endpoint, 1),
            false
        FROM webhook.finished
        WHERE
            finished.finished_at >= $2
            AND finished.finished_at < $3
            AND finished.state IN ('delivered', 'failed')
            AND CASE WHEN finished.failed_reason IN ('skipped', 'cancelled') THEN finished.failed_reason
                ELSE finished.state END = ANY($4::text[])
            AND finished.type <> 'webhook.test'
            AND ($1::text IS NULL AND finished.merchant_id <> '$platform' OR finished.merchant_id = $1)
            AND ($5::text[] IS NULL OR finished.type = ANY($5))
            AND ($6::text IS NULL OR finished.charge_id = $6)
            AND (
                $9::smallint IS NULL
                OR webhook.logged_endpoint(finished.endpoint, finished.copy_of, finished.attempts, (
                    SELECT lanes.routed_at FROM webhook.lanes WHERE lanes.merchant_id = $1
                )) = $9
            )
    ) AS waiting
    INNER JOIN webhook.endpoints ON endpoints.merchant_id = waiting.merchant_id AND endpoints.number = waiting.endpoint
    WHERE $9::smallint IS NULL OR waiting.endpoint = $9
    LIMIT $10
),
meant AS MATERIALIZED (
    SELECT matching.kind, matching.merchant_id
    FROM matching
    WHERE NOT (matching.is_last AND 'last_attempts' = ANY($8)) AND NOT (matching.is_failing AND 'failing' = ANY($8))
)
SELECT
    meant.kind, NULL::text AS merchant_id, count(*) AS deliveries, NULL::bigint AS looked,
    NULL::bigint AS last_attempts, NULL::bigint AS failing, NULL::bigint AS failing_merchants
FROM meant
GROUP BY meant.kind
UNION ALL
SELECT
    NULL, NULL, (SELECT count(DISTINCT meant.merchant_id) FROM meant), count(*), count(*) FILTER (WHERE matching.is_last),
    count(*) FILTER (WHERE matching.is_failing), count(DISTINCT matching.merchant_id) FILTER (WHERE matching.is_failing)
FROM matching
UNION ALL
(
    SELECT NULL, meant.merchant_id, count(*) AS deliveries, NULL, NULL, NULL, NULL
    FROM meant
    GROUP BY meant.merchant_id
    ORDER BY deliveries DESC, meant.merchant_id
    LIMIT $11
);

-- name: count_given_up_later
-- Count what was written in a recovery's range and failed after it: nobody who asks for a night expects to miss that.
-- $1 merchant_id text
-- $2 since timestamptz
-- $3 until timestamptz
-- $4 types text[]
-- $5 charge text
-- $6 endpoint smallint; its number, of the merchant's; null: all
-- $7 most bigint
-- row: deliveries bigint
-- order: one row
SELECT count(*) AS deliveries
FROM (
    SELECT
    FROM webhook.finished
    WHERE
        finished.state = 'failed'
        AND finished.finished_at >= $3
        AND finished.created_at >= $2
        AND finished.created_at < $3
        AND finished.failed_reason NOT IN ('skipped', 'cancelled')
        AND finished.type <> 'webhook.test'
        AND ($1::text IS NULL AND finished.merchant_id <> '$platform' OR finished.merchant_id = $1)
        AND ($4::text[] IS NULL OR finished.type = ANY($4))
        AND ($5::text IS NULL OR finished.charge_id = $5)
        AND (
            $6::smallint IS NULL
            OR webhook.logged_endpoint(finished.endpoint, finished.copy_of, finished.attempts, (
                SELECT lanes.routed_at FROM webhook.lanes WHERE lanes.merchant_id = $1
            )) = $6
        )
        AND (finished.merchant_id, coalesce(finished.endpoint, 1)) IN (
            SELECT endpoints.merchant_id, endpoints.number FROM webhook.endpoints
        )
    LIMIT $7
) AS counted;

-- name: preview_skip
-- Count what a skip would give up, by state, by type and by merchant; where that is more than it may count, those
-- that it gives up first.
-- $1 merchant_id text
-- $2 since timestamptz
-- $3 before timestamptz
-- $4 types text[]
-- $5 charge text
-- $6 endpoint smallint; its number, of the merchant's; null: all
-- $7 most bigint
-- $8 merchants_shown bigint
-- row: kind text, type text, merchant_id text, deliveries bigint
-- order: none; a row for each kind, each type and those merchants that have most, and one without any of them that
--   counts merchants
WITH matching AS MATERIALIZED (
    SELECT
        CASE WHEN owed.due_at IS NULL THEN 'pending' ELSE 'pending_retry' END AS kind,
        owed.type,
        webhook.merchant_of(owed.merchant_id) AS merchant_id
    FROM webhook.owed
    WHERE
        owed.on_failure IS DISTINCT FROM 'delivered'
        AND owed.created_at >= $2
        AND owed.created_at < $3
        AND (
            $1::text IS NULL AND webhook.merchant_of(owed.merchant_id) <> '$platform'
            OR webhook.merchant_of(owed.merchant_id) = $1
        )
        AND ($4::text[] IS NULL OR owed.type = ANY($4))
        AND ($5::text IS NULL OR owed.charge_id = $5)
        AND (
            $6::smallint IS NULL
            OR coalesce(webhook.endpoint_of(owed.merchant_id), 1) = $6
            AND (owed.due_at IS NOT NULL OR owed.merchant_id = (SELECT webhook.lane_of($1, $6)))
        )
    ORDER BY owed.seq
    LIMIT $7
)
SELECT matching.kind, NULL::text AS type, NULL::text AS merchant_id, count(*) AS deliveries
FROM matching
GROUP BY matching.kind
UNION ALL
SELECT NULL, matching.type, NULL, count(*) FROM matching GROUP BY matching.type
UNION ALL
SELECT NULL, NULL, NULL, count(DISTINCT matching.merchant_id) FROM matching
UNION ALL
(
    SELECT NULL, NULL, matching.merchant_id, count(*) AS deliveries
    FROM matching
    GROUP BY matching.merchant_id
    ORDER BY deliveries DESC, matching.merchant_id
    LIMIT $8
);

-- name: find_pause_of
-- Tell whose a delivery is, and whether its endpoint, or everything, is paused; of an id that was used again, what commands find.
-- $1 event_id uuid
-- row: merchant_id text, endpoint smallint, merchant_is_paused boolean, everything_is_paused boolean; the endpoint's number where
--   there are several
-- none: the event is not known
SELECT
    deliveries.merchant_id,
    CASE
        WHEN (SELECT lanes.routed_at FROM webhook.lanes WHERE lanes.merchant_id = deliveries.merchant_id) IS NOT NULL
            THEN coalesce(deliveries.endpoint, 1::smallint)
    END AS endpoint,
    coalesce((
        SELECT bool_or(lanes.paused)
        FROM webhook.lanes
        -- Number 1 may have been at the merchant's own lane then, or be there now.
        WHERE lanes.merchant_id = ANY(ARRAY[
            webhook.lane_named(deliveries.merchant_id, coalesce(deliveries.endpoint, 1::smallint)),
            CASE WHEN coalesce(deliveries.endpoint, 1) = 1 THEN deliveries.merchant_id END
        ])
    ), false) AS merchant_is_paused,
    (SELECT state.paused FROM webhook.state WHERE state.is_only) AS everything_is_paused
FROM webhook.deliveries
WHERE deliveries.event_id = $1
ORDER BY deliveries.finished_at IS NOT NULL, deliveries.seq DESC
LIMIT 1;

-- name: stop_command
-- Have a running mass command end after its chunk.
-- $1 id bigint
-- $2 stopped_by text
-- row: is_asked boolean
-- order: one row; false where it is no mass command, or has ended
SELECT webhook.stop_command($1, $2) AS is_asked;
