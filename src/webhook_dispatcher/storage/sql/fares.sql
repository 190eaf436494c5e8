-- How merchants fare, and what waits for nothing but a dispatcher: for `merchants`, `status`, `check` and for who signed in to the
-- console (storage/statements.py, `Role`).

-- name: find_whoever_failed
-- List endpoints of which an attempt failed lately, or the latest before, and those that are suspended, with how their
-- latest attempts ended: whether that is too many is for domain.thresholds to say. No index knows who failed lately: all
-- lanes are looked at, up to a limit.
-- $1 reader bytea
-- $2 place_at timestamptz
-- $3 after text; the lanes of that instant up to this one are left out
-- $4 first text; what ids begin with
-- $5 with_suspended boolean
-- $6 within interval; attempts that count
-- $7 out_of bigint; of these, the latest
-- $8 lanes_looked_at bigint
-- $9 most bigint
-- row: lane text, merchant_id text, endpoint smallint, failing_since timestamptz, failures_in_a_row integer,
--   is_suspended boolean, place_at timestamptz, attempted bigint, attempts_failed bigint, is_complete boolean
-- order: by place_at (failing_since; the suspension of one that is suspended without failing; last of all, who accepted the
--   latest) and lane; endpoint: null of the only one; is_complete: there are no more lanes
-- none: there are no more, or the session is over
SELECT
    page.lane, webhook.merchant_of(page.lane) AS merchant_id, webhook.endpoint_of(page.lane) AS endpoint, page.failing_since,
    page.failures_in_a_row, page.is_suspended, page.place_at, lately.attempted, lately.failed AS attempts_failed,
    page.is_complete
FROM role.reader AS me
CROSS JOIN LATERAL (
    WITH looked AS MATERIALIZED (
        SELECT
            lanes.merchant_id AS lane, lanes.failing_since, lanes.failures_in_a_row, lanes.suspended_at,
            lanes.last_failure_at,
            coalesce(lanes.failing_since, lanes.suspended_at, '2100-01-01 00:00:00+00') AS place_at
        FROM role.lanes AS lanes
        WHERE role.may_read
        LIMIT $8
    )
    SELECT
        looked.lane, looked.failing_since, looked.failures_in_a_row, looked.suspended_at IS NOT NULL AS is_suspended,
        looked.place_at, (SELECT count(*) FROM looked) < $8 AS is_complete
    FROM looked
    WHERE
        (
            num_nonnulls(looked.failing_since, looked.suspended_at) > 0
            OR looked.last_failure_at >= statement_timestamp() - $6::interval
        )
        AND ($5 OR looked.suspended_at IS NULL)
        AND (looked.place_at, looked.lane) > ($2, $3::text COLLATE "C")
        AND starts_with(looked.lane, $4)
        -- What the lane of one of several says is nobody's without its endpoint.
        AND (
            num_nulls(webhook.endpoint_of(looked.lane)) = 1
            OR EXISTS (SELECT FROM role.endpoints AS endpoints WHERE endpoints.merchant_id = looked.lane)
        )
    ORDER BY looked.place_at, looked.lane
    LIMIT $9
) AS page
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE tried.outcome <> 'unsendable') AS attempted,
        count(*) FILTER (WHERE tried.outcome NOT IN ('delivered', 'unsendable')) AS failed
    FROM (
        SELECT attempts.outcome
        FROM role.attempts AS attempts
        WHERE attempts.merchant_id = page.lane AND attempts.started_at >= statement_timestamp() - $6::interval
        ORDER BY attempts.merchant_id DESC, attempts.started_at DESC
        LIMIT $7
    ) AS tried
) AS lately
ORDER BY page.place_at, page.lane;

-- name: read_fares
-- Say how the endpoints of these merchants fare, and what waits in the merchants' own lanes. Of the others those are left out
-- that are gone, but number 1, which may be set anew, and may have left retries behind.
-- $1 reader bytea
-- $2 merchants text[]
-- $3 count_limit bigint
-- $4 within interval; attempts that count
-- $5 out_of bigint; of these, the latest
-- $6 in_full boolean; else waiting_for_retry is 0, and what failed latest is null
-- row: merchant_id text, endpoint smallint, has_endpoint boolean, is_paused boolean, failing_since timestamptz, failures_in_a_row integer,
--   last_success_at timestamptz, suspended_at timestamptz, next_try_at timestamptz, oldest_waiting_at timestamptz,
--   waiting bigint, waiting_for_retry bigint, attempted bigint, attempts_failed bigint, paused_at timestamptz, paused_by text,
--   failed_event_id uuid, failed_at timestamptz, failed_outcome text, failed_status smallint, failed_reason text
-- order: none; a row for each lane, endpoint: null of the merchant's own
-- none: none was asked for, or the session is over
SELECT
    asked.merchant_id,
    webhook.endpoint_of(asked.lane) AS endpoint,
    num_nonnulls(endpoint.merchant_id, lane.routed_at) > 0 AS has_endpoint,
    coalesce(lane.paused, false) AS is_paused,
    lane.failing_since,
    coalesce(lane.failures_in_a_row, 0) AS failures_in_a_row,
    lane.last_success_at,
    lane.suspended_at,
    CASE WHEN lane.suspended_at IS NOT NULL THEN lane.wait_until END AS next_try_at,
    head.created_at AS oldest_waiting_at,
    waiting.events AS waiting,
    retries.events AS waiting_for_retry,
    lately.attempted,
    lately.failed AS attempts_failed,
    pause.handled_at AS paused_at,
    pause.requested_by AS paused_by,
    failure.event_id AS failed_event_id,
    failure.started_at AS failed_at,
    failure.outcome AS failed_outcome,
    failure.status AS failed_status,
    failure.reason AS failed_reason
FROM role.reader AS me
CROSS JOIN LATERAL (
    SELECT
        entry.merchant_id, coalesce(known.merchant_id, entry.merchant_id COLLATE "C") AS lane,
        coalesce(webhook.endpoint_of(known.merchant_id), 1)::text AS number
    FROM unnest($2::text[]) AS entry (merchant_id)
    LEFT JOIN LATERAL (
        SELECT lanes.merchant_id
        FROM role.lanes AS lanes
        WHERE
            lanes.merchant_id >= entry.merchant_id COLLATE "C"
            AND lanes.merchant_id < (entry.merchant_id || ' ') COLLATE "C"
        ORDER BY lanes.merchant_id
        LIMIT 1000
    ) AS known ON true
    WHERE role.may_read
    OFFSET 0
) AS asked
LEFT JOIN LATERAL (
    SELECT lanes.* FROM role.lanes AS lanes WHERE lanes.merchant_id = asked.lane LIMIT 1
) AS lane ON true
LEFT JOIN LATERAL (
    SELECT endpoints.merchant_id
    FROM role.endpoints AS endpoints
    WHERE endpoints.merchant_id = asked.lane
    LIMIT 1
) AS endpoint ON true
LEFT JOIN LATERAL (
    SELECT owed.created_at
    FROM role.owed AS owed
    -- Not an equal merchant_id: the order would be that of seq, which the primary key has too.
    WHERE
        (owed.merchant_id, owed.seq) > (asked.lane, 0)
        AND owed.merchant_id <= asked.lane
        AND owed.due_at IS NULL
    ORDER BY owed.merchant_id, owed.seq
    LIMIT 1
) AS head ON true
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE tried.outcome <> 'unsendable') AS attempted,
        count(*) FILTER (WHERE tried.outcome NOT IN ('delivered', 'unsendable')) AS failed
    FROM (
        SELECT attempts.outcome
        FROM role.attempts AS attempts
        WHERE attempts.merchant_id = asked.lane AND attempts.started_at >= statement_timestamp() - $4::interval
        ORDER BY attempts.merchant_id DESC, attempts.started_at DESC
        LIMIT $5
    ) AS tried
) AS lately
CROSS JOIN LATERAL (
    SELECT count(*) AS events
    FROM (
        SELECT
        FROM role.owed AS owed
        WHERE
            (owed.merchant_id, owed.seq) > (asked.lane, 0)
            AND owed.merchant_id <= asked.lane
            AND owed.due_at IS NULL
        ORDER BY owed.merchant_id, owed.seq
        LIMIT $3
    ) AS counted
) AS waiting
CROSS JOIN LATERAL (
    SELECT count(*) AS events
    FROM (
        SELECT
        FROM role.owed AS owed
        WHERE
            $6
            AND (owed.merchant_id, owed.seq) > (asked.lane, 0)
            AND owed.merchant_id <= asked.lane
            AND owed.due_at IS NOT NULL
        ORDER BY owed.merchant_id, owed.seq
        LIMIT $3
    ) AS counted
) AS retries
LEFT JOIN LATERAL (
    SELECT commands.command, commands.requested_by, commands.handled_at
    FROM role.commands AS commands
    WHERE
        lane.paused
        AND left(coalesce(commands.merchant_id, ''), 128) = asked.merchant_id
        AND commands.command IN ('pause', 'resume')
        AND commands.status = 'done'
        AND coalesce(commands.args ->> 'endpoint', asked.number) = asked.number
    ORDER BY left(coalesce(commands.merchant_id, ''), 128) DESC, commands.id DESC
    LIMIT 1
) AS pause ON pause.command = 'pause'
-- The latest failure: it began before failing_since at most by as long as an attempt takes.
LEFT JOIN LATERAL (
    SELECT attempts.event_id, attempts.started_at, attempts.outcome, attempts.status, attempts.reason
    FROM role.attempts AS attempts
    WHERE
        $6
        AND (lane.failing_since IS NOT NULL OR lately.failed > 0)
        AND attempts.merchant_id = asked.lane
        AND attempts.started_at
        >= coalesce(lane.failing_since - interval '10 minutes', statement_timestamp() - $4::interval)
        AND attempts.outcome <> 'delivered'
    ORDER BY attempts.merchant_id DESC, attempts.started_at DESC
    LIMIT 1
) AS failure ON true
WHERE asked.number = '1' OR endpoint.merchant_id IS NOT NULL;

-- name: find_stranded
-- Find what has waited longest, in order, although nothing is wanting but a dispatcher: nobody holds any lane, and this
-- one is neither paused nor suspended, does not rest, and has an endpoint; among so many merchants. It goes round them with
-- a look-up each (a loose index scan).
-- $1 reader bytea
-- $2 waited interval
-- $3 most bigint
-- row: merchant_id text, event_id uuid, created_at timestamptz, endpoint smallint
-- none: somebody holds a lane, everything is paused, nothing has waited for so long, or the session is over
SELECT
    webhook.merchant_of(page.lane) AS merchant_id, page.event_id, page.created_at, webhook.endpoint_of(page.lane) AS endpoint
FROM role.reader AS me
CROSS JOIN LATERAL (
    WITH RECURSIVE head AS (
        (
            SELECT owed.merchant_id, owed.event_id, owed.created_at
            FROM role.owed AS owed
            WHERE
                role.may_read
                AND owed.due_at IS NULL
                AND owed.merchant_id > ''::text COLLATE "C"
                AND NOT EXISTS (SELECT FROM role.lanes AS lane WHERE role.is_held)
                AND NOT (SELECT state.paused FROM role.state AS state LIMIT 1)
            ORDER BY owed.merchant_id, owed.seq
            LIMIT 1
        )
        UNION ALL
        SELECT following.merchant_id, following.event_id, following.created_at
        FROM head
        CROSS JOIN LATERAL (
            SELECT owed.merchant_id, owed.event_id, owed.created_at
            FROM role.owed AS owed
            WHERE owed.due_at IS NULL AND owed.merchant_id > head.merchant_id
            ORDER BY owed.merchant_id, owed.seq
            LIMIT 1
        ) AS following
    ),
    heads AS MATERIALIZED (SELECT head.* FROM head LIMIT $3)
    SELECT heads.merchant_id AS lane, heads.event_id, heads.created_at
    FROM heads
    LEFT JOIN LATERAL (
        SELECT lanes.* FROM role.lanes AS lanes WHERE lanes.merchant_id = heads.merchant_id LIMIT 1
    ) AS lane ON true
    LEFT JOIN LATERAL (
        SELECT endpoints.merchant_id
        FROM role.endpoints AS endpoints
        WHERE endpoints.merchant_id = heads.merchant_id
        LIMIT 1
    ) AS configured ON true
    WHERE
        num_nonnulls(configured.merchant_id, lane.routed_at) > 0
        AND heads.created_at < clock_timestamp() - $2::interval
        AND NOT coalesce(lane.paused, false)
        AND num_nulls(lane.suspended_at) = 1
        AND coalesce(lane.wait_until <= clock_timestamp(), true)
    ORDER BY heads.created_at
    LIMIT 1
) AS page;
