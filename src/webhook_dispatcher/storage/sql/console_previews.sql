-- How many deliveries a mass command would be about, counted before it is given: as previewing.sql has it, but of a bounded
-- look at each place where such deliveries are, so that a page may ask. Places: what waits, what failed, what was finished.

-- name: show_recovery
-- Count what a recovery, or a retry of what failed, would send: of all merchants the newest that were finished, or of one.
-- $1 session bytea
-- $2 merchant_id text; null: all
-- $3 before_seq bigint
-- $4 first_day timestamptz
-- $5 end_day timestamptz
-- $6 since timestamptz
-- $7 until timestamptz
-- $8 kinds text[]
-- $9 types text[], or null
-- $10 charge text, or null
-- $11 with_platform boolean; of all: the platform's too
-- $12 retries bigint; of the schedule
-- $13 leave_out text[]; last_attempts, failing
-- $14 endpoint smallint, or null; its number, of the merchant's
-- $15 before_waiting_seq bigint; of one merchant's
-- $16 look bigint
-- $17 merchants_shown bigint
-- row: kind text, merchant_id text, deliveries bigint, has_more boolean, last_attempts bigint, failing bigint,
--   failing_merchants bigint
-- order: none; a row for each kind and those merchants that have most, and one without kind and merchant that counts merchants,
--   says whether a look ended early, and counts, of all that matches, what waits for its last attempt, and whose latest attempt
--   failed
-- none: the session is over
SELECT page.*
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    WITH looked AS MATERIALIZED (
        (
            SELECT
                'waiting' AS place, 'pending_retry' AS kind, webhook.merchant_of(owed.merchant_id) AS merchant_id,
                webhook.endpoint_of(owed.merchant_id) AS endpoint, owed.type,
                owed.due_at > clock_timestamp() AND NOT owed.is_claimed
                AND owed.on_failure IS DISTINCT FROM 'delivered' AND owed.created_at < $7 AS is_meant,
                owed.attempts - coalesce(owed.attempts_by_hand, 0) >= $12::bigint AS is_last,
                CASE WHEN $10::text IS NOT NULL THEN owed.charge_id END AS charge_id
            FROM webhook.console_owed AS owed
            WHERE me.name IS NOT NULL AND $2::text IS NULL
                AND owed.due_at IS NOT NULL AND 'pending_retry' = ANY($8::text[])
            ORDER BY owed.merchant_id, owed.due_at
            LIMIT (SELECT $16::bigint)
        )
        UNION ALL
        (
            SELECT
                'failed', CASE WHEN finished.failed_reason IN ('skipped', 'cancelled') THEN finished.failed_reason
                    ELSE 'failed' END,
                finished.merchant_id, finished.endpoint, finished.type, true, false,
                CASE WHEN $10::text IS NOT NULL THEN finished.charge_id END
            FROM webhook.console_finished AS finished
            WHERE me.name IS NOT NULL AND $2::text IS NULL AND finished.state = 'failed'
                AND finished.finished_at >= $6 AND finished.finished_at < $7
                AND $8::text[] && ARRAY['failed', 'skipped']
            ORDER BY finished.finished_at DESC, finished.seq DESC
            LIMIT (SELECT $16::bigint)
        )
        UNION ALL
        (
            SELECT
                'finished', 'delivered', finished.merchant_id, finished.endpoint, finished.type,
                finished.state = 'delivered' AND finished.finished_at >= $6 AND finished.finished_at < $7, false,
                CASE WHEN $10::text IS NOT NULL THEN finished.charge_id END
            FROM webhook.console_logged AS finished
            WHERE me.name IS NOT NULL AND $2::text IS NULL AND finished.seq < $3 AND finished.seq >= 0
                AND finished.finished_at >= $4 AND finished.finished_at < $5
                AND 'delivered' = ANY($8::text[])
            ORDER BY finished.seq DESC
            LIMIT (SELECT $16::bigint)
        )
        UNION ALL
        (
            SELECT
                'waiting', 'pending_retry', webhook.merchant_of(lanes.merchant_id),
                webhook.endpoint_of(lanes.merchant_id), of_lane.*
            FROM webhook.console_lanes AS lanes
            CROSS JOIN LATERAL (
                SELECT
                    owed.type,
                    owed.due_at > clock_timestamp() AND NOT owed.is_claimed
                    AND owed.on_failure IS DISTINCT FROM 'delivered' AND owed.created_at < $7,
                    owed.attempts - coalesce(owed.attempts_by_hand, 0) >= $12::bigint,
                    CASE WHEN $10::text IS NOT NULL THEN owed.charge_id END
                FROM webhook.console_owed AS owed
                WHERE owed.merchant_id = ANY(ARRAY[lanes.merchant_id]) AND owed.seq < $15 AND owed.seq >= 0
                    AND owed.due_at IS NOT NULL AND 'pending_retry' = ANY($8::text[])
                ORDER BY owed.merchant_id DESC, owed.seq DESC
                LIMIT (SELECT $16::bigint)
            ) AS of_lane
            WHERE me.name IS NOT NULL AND $2::text IS NOT NULL AND lanes.merchant_id >= $2 AND lanes.merchant_id < $2::text || ' '
        )
        UNION ALL
        (
            SELECT
                'finished', CASE WHEN finished.failed_reason IN ('skipped', 'cancelled') THEN finished.failed_reason
                    ELSE finished.state END,
                finished.merchant_id, finished.endpoint, finished.type,
                finished.finished_at >= $6 AND finished.finished_at < $7
                AND (
                    $14::smallint IS NULL
                    OR webhook.logged_endpoint(finished.endpoint, finished.copy_of, finished.attempts, (
                        SELECT lanes.routed_at FROM webhook.console_lanes AS lanes WHERE lanes.merchant_id = $2
                    )) = $14
                ),
                false,
                CASE WHEN $10::text IS NOT NULL THEN finished.charge_id END
            FROM webhook.console_logged AS finished
            -- As find_finished: the index that begins with merchants is then the only one in that order.
            WHERE me.name IS NOT NULL AND $2::text IS NOT NULL
                AND (finished.merchant_id, finished.seq) < ($2::text COLLATE "C", $3::bigint)
                AND finished.merchant_id >= $2 AND finished.merchant_id <= $2
                AND finished.finished_at >= $4 AND finished.finished_at < $5
                AND $8::text[] && ARRAY['failed', 'skipped', 'delivered']
            ORDER BY finished.merchant_id DESC, finished.seq DESC
            LIMIT (SELECT $16::bigint)
        )
    ),
    counted AS MATERIALIZED (
        SELECT looked.kind, looked.merchant_id, looked.endpoint, looked.is_last, count(*) AS deliveries
        FROM looked
        WHERE looked.is_meant
            AND looked.kind = ANY($8::text[])
            AND looked.type <> 'webhook.test'
            AND ($11::boolean OR $2::text IS NOT NULL OR looked.merchant_id <> '$platform')
            AND ($9::text[] IS NULL OR looked.type = ANY($9))
            AND ($10::text IS NULL OR looked.charge_id = $10)
            AND ($14::smallint IS NULL OR coalesce(looked.endpoint, 1) = $14)
        GROUP BY looked.kind, looked.merchant_id, looked.endpoint, looked.is_last
    ),
    matching AS MATERIALIZED (
        SELECT counted.*, receiver.is_failing
        FROM counted
        CROSS JOIN LATERAL (
            SELECT
                (
                    SELECT lanes.failing_since IS NOT NULL
                    FROM webhook.console_lanes AS lanes
                    WHERE lanes.merchant_id = endpoints.merchant_id
                ) IS TRUE AS is_failing
            FROM webhook.console_endpoints AS endpoints
            -- Number 1 is at its merchant's own lane, or at its own.
            WHERE endpoints.merchant_id = ANY(ARRAY[
                CASE WHEN coalesce(counted.endpoint, 1) = 1 THEN counted.merchant_id END,
                webhook.lane_named(counted.merchant_id, coalesce(counted.endpoint, 1::smallint))
            ])
            LIMIT 1
        ) AS receiver
    ),
    meant AS MATERIALIZED (
        SELECT matching.*
        FROM matching
        WHERE NOT (matching.is_last AND 'last_attempts' = ANY($13::text[]))
            AND NOT (matching.is_failing AND 'failing' = ANY($13::text[]))
    )
    (
        SELECT
            meant.kind, NULL::text AS merchant_id, sum(meant.deliveries)::bigint AS deliveries, false AS has_more,
            NULL::bigint AS last_attempts, NULL::bigint AS failing, NULL::bigint AS failing_merchants
        FROM meant
        GROUP BY meant.kind
    )
    UNION ALL
    SELECT
        NULL, NULL, (SELECT count(DISTINCT meant.merchant_id) FROM meant),
        coalesce((SELECT max(each.rows) FROM (SELECT count(*) AS rows FROM looked GROUP BY looked.place) AS each) >= $16, false),
        coalesce(sum(matching.deliveries) FILTER (WHERE matching.is_last), 0)::bigint,
        coalesce(sum(matching.deliveries) FILTER (WHERE matching.is_failing), 0)::bigint,
        count(DISTINCT matching.merchant_id) FILTER (WHERE matching.is_failing)
    FROM matching
    UNION ALL
    (
        SELECT NULL, meant.merchant_id, sum(meant.deliveries)::bigint AS deliveries, false, NULL, NULL, NULL
        FROM meant
        GROUP BY meant.merchant_id
        ORDER BY deliveries DESC, meant.merchant_id
        LIMIT $17
    )
) AS page;

-- name: show_skip
-- Count what a skip would give up: of all merchants the oldest that are owed, or of one.
-- $1 session bytea
-- $2 merchant_id text; null: all
-- $3 since timestamptz
-- $4 before timestamptz
-- $5 types text[], or null
-- $6 charge text, or null
-- $7 endpoint smallint, or null; its number, of the merchant's; what is not routed yet is no endpoint's
-- $8 look bigint
-- $9 merchants_shown bigint
-- row: kind text, type text, merchant_id text, deliveries bigint, has_more boolean
-- order: none; a row for each kind, each type and those merchants that have most, and one without any of them that
--   counts merchants and says whether a look ended early
-- none: the session is over
SELECT page.*
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    WITH looked AS MATERIALIZED (
        (
            SELECT
                'all' AS place, CASE WHEN owed.due_at IS NULL THEN 'pending' ELSE 'pending_retry' END AS kind,
                webhook.merchant_of(owed.merchant_id) AS merchant_id, owed.type, owed.created_at,
                owed.on_failure IS DISTINCT FROM 'delivered' AND webhook.merchant_of(owed.merchant_id) <> '$platform' AS is_meant,
                CASE WHEN $6::text IS NOT NULL THEN owed.charge_id END AS charge_id
            FROM webhook.console_owed AS owed
            WHERE me.name IS NOT NULL AND $2::text IS NULL
            ORDER BY owed.seq
            LIMIT (SELECT $8::bigint)
        )
        UNION ALL
        (
            SELECT
                'in order', 'pending', webhook.merchant_of(lanes.merchant_id), of_lane.*
            FROM webhook.console_lanes AS lanes
            CROSS JOIN LATERAL (
                SELECT owed.type, owed.created_at, true, CASE WHEN $6::text IS NOT NULL THEN owed.charge_id END
                FROM webhook.console_owed AS owed
                WHERE owed.merchant_id = ANY(ARRAY[lanes.merchant_id]) AND owed.due_at IS NULL
                ORDER BY owed.merchant_id, owed.seq
                LIMIT (SELECT $8::bigint)
            ) AS of_lane
            WHERE me.name IS NOT NULL AND $2::text IS NOT NULL AND lanes.merchant_id >= $2 AND lanes.merchant_id < $2::text || ' '
                AND (
                    $7::smallint IS NULL
                    OR lanes.merchant_id = webhook.lane_named($2, $7)
                    OR $7 = 1 AND lanes.merchant_id = $2 AND num_nulls(lanes.routed_at) = 1
                )
        )
        UNION ALL
        (
            SELECT
                'retries', 'pending_retry', webhook.merchant_of(lanes.merchant_id), of_lane.*
            FROM webhook.console_lanes AS lanes
            CROSS JOIN LATERAL (
                SELECT
                    owed.type, owed.created_at, owed.on_failure IS DISTINCT FROM 'delivered',
                    CASE WHEN $6::text IS NOT NULL THEN owed.charge_id END
                FROM webhook.console_owed AS owed
                WHERE owed.merchant_id = ANY(ARRAY[lanes.merchant_id]) AND owed.due_at IS NOT NULL
                ORDER BY owed.merchant_id, owed.due_at
                LIMIT (SELECT $8::bigint)
            ) AS of_lane
            WHERE me.name IS NOT NULL AND $2::text IS NOT NULL AND lanes.merchant_id >= $2 AND lanes.merchant_id < $2::text || ' '
                AND ($7::smallint IS NULL OR coalesce(webhook.endpoint_of(lanes.merchant_id), 1) = $7)
        )
    ),
    meant AS MATERIALIZED (
        SELECT looked.kind, looked.type, looked.merchant_id, count(*) AS deliveries
        FROM looked
        WHERE looked.is_meant
            AND looked.created_at >= $3
            AND looked.created_at < $4
            AND ($5::text[] IS NULL OR looked.type = ANY($5))
            AND ($6::text IS NULL OR looked.charge_id = $6)
        GROUP BY looked.kind, looked.type, looked.merchant_id
    )
    SELECT
        meant.kind, NULL::text AS type, NULL::text AS merchant_id, sum(meant.deliveries)::bigint AS deliveries,
        false AS has_more
    FROM meant
    GROUP BY meant.kind
    UNION ALL
    SELECT NULL, meant.type, NULL, sum(meant.deliveries)::bigint, false FROM meant GROUP BY meant.type
    UNION ALL
    SELECT
        NULL, NULL, NULL, count(DISTINCT meant.merchant_id),
        coalesce((SELECT max(each.rows) FROM (SELECT count(*) AS rows FROM looked GROUP BY looked.place) AS each) >= $8, false)
    FROM meant
    UNION ALL
    (
        SELECT NULL, NULL, meant.merchant_id, sum(meant.deliveries)::bigint AS deliveries, false
        FROM meant
        GROUP BY meant.merchant_id
        ORDER BY deliveries DESC, meant.merchant_id
        LIMIT $9
    )
) AS page;

-- name: show_states
-- Say how deliveries stand that somebody has ticked.
-- $1 session bytea
-- $2 events uuid[]
-- $3 test_type text; such an event is left out once it has ended
-- row: event_id uuid, state text, endpoint smallint
-- order: none; of an id that was used again, each delivery
-- none: none is there, or the session is over
SELECT page.event_id, page.state, page.endpoint
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT finished.event_id, finished.state, finished.endpoint
    FROM webhook.console_finished AS finished
    WHERE me.name IS NOT NULL AND finished.event_id = ANY($2::uuid[]) AND finished.type <> $3
    UNION ALL
    SELECT
        owed.event_id,
        CASE
            WHEN owed.due_at IS NULL THEN 'pending' WHEN owed.on_failure = 'delivered' THEN 'delivered' ELSE 'pending_retry'
        END AS state,
        webhook.endpoint_of(owed.merchant_id) AS endpoint
    FROM webhook.console_owed AS owed
    WHERE me.name IS NOT NULL AND owed.event_id = ANY($2::uuid[])
    OFFSET 0
) AS page;
