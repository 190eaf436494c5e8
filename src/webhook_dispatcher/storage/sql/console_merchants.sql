-- The console's merchants. A list is found first, each in its own order; how those on a page fare is read by their ids (fares.sql).

-- name: show_merchants_by_id
-- List merchants by id, from an id on.
-- $1 session bytea
-- $2 after text
-- $3 first text; what ids begin with
-- $4 last text; behind all that begin so
-- $5 most bigint
-- row: merchant_id text
-- order: by merchant_id
-- none: there are no more, or the session is over
SELECT page.merchant_id
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT lanes.merchant_id
    FROM webhook.console_lanes AS lanes
    WHERE me.name IS NOT NULL AND lanes.merchant_id > $2 AND lanes.merchant_id >= $3 AND lanes.merchant_id < $4
        AND webhook.endpoint_of(lanes.merchant_id) IS NULL
    ORDER BY lanes.merchant_id
    LIMIT $5
) AS page
ORDER BY page.merchant_id;

-- name: show_paused_merchants
-- List merchants that are paused, or an endpoint of which is, each by itself, by id.
-- $1 session bytea
-- $2 after text
-- $3 first text; what ids begin with
-- $4 last text; behind all that begin so
-- $5 most bigint
-- row: merchant_id text
-- order: by merchant_id
-- none: there are no more, or the session is over
SELECT page.merchant_id
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT DISTINCT webhook.merchant_of(looked.merchant_id) AS merchant_id
    FROM (
        SELECT lanes.merchant_id
        FROM webhook.console_lanes AS lanes
        WHERE me.name IS NOT NULL AND lanes.paused
            -- Behind all lanes of that merchant.
            AND lanes.merchant_id >= $2::text || ' ' AND lanes.merchant_id >= $3 AND lanes.merchant_id < $4
        ORDER BY lanes.merchant_id
        -- A merchant's own, and those of sixteen endpoints.
        LIMIT 17 * $5::bigint
    ) AS looked
    ORDER BY merchant_id
    LIMIT $5
) AS page
ORDER BY page.merchant_id;

-- name: show_merchants_behind
-- List merchants by what waits longest for its first attempt. No index has that order: looked at are the merchants of the
-- lowest numbers that are owed, and a round of all that are owed something (a loose index scan), both up to a limit.
-- $1 session bytea
-- $2 oldest_waiting_at timestamptz
-- $3 after text; the merchants of that instant up to this one are left out
-- $4 first text; what ids begin with
-- $5 merchants_looked_at bigint
-- $6 rows_looked_at bigint
-- $7 most bigint
-- row: merchant_id text, oldest_waiting_at timestamptz, is_complete boolean
-- order: by oldest_waiting_at and merchant_id; is_complete: the round came to its end
-- none: there are no more, or the session is over
SELECT page.merchant_id, page.oldest_waiting_at, page.is_complete
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    WITH RECURSIVE head AS (
        (
            SELECT owed.merchant_id, owed.seq, owed.created_at
            FROM webhook.console_owed AS owed
            WHERE me.name IS NOT NULL AND owed.due_at IS NULL AND owed.merchant_id > ''::text COLLATE "C"
            ORDER BY owed.merchant_id, owed.seq
            LIMIT 1
        )
        UNION ALL
        SELECT following.merchant_id, following.seq, following.created_at
        FROM head
        CROSS JOIN LATERAL (
            SELECT owed.merchant_id, owed.seq, owed.created_at
            FROM webhook.console_owed AS owed
            WHERE owed.due_at IS NULL AND owed.merchant_id > head.merchant_id
            ORDER BY owed.merchant_id, owed.seq
            LIMIT 1
        ) AS following
    ),
    round AS MATERIALIZED (SELECT head.merchant_id, head.seq, head.created_at FROM head LIMIT $5),
    lowest AS MATERIALIZED (
        SELECT owed.merchant_id, owed.seq, owed.created_at, owed.due_at
        FROM webhook.console_owed AS owed
        WHERE me.name IS NOT NULL AND owed.seq >= 0
        ORDER BY owed.seq
        LIMIT (SELECT $6::bigint)
    ),
    of_lane AS (
        SELECT DISTINCT ON (found.merchant_id) found.merchant_id, found.created_at
        FROM (
            SELECT round.merchant_id, round.seq, round.created_at FROM round
            UNION ALL
            SELECT lowest.merchant_id, lowest.seq, lowest.created_at FROM lowest WHERE num_nulls(lowest.due_at) = 1
        ) AS found
        ORDER BY found.merchant_id, found.seq
    ),
    known AS (
        SELECT webhook.merchant_of(of_lane.merchant_id) AS merchant_id, min(of_lane.created_at) AS created_at
        FROM of_lane
        GROUP BY webhook.merchant_of(of_lane.merchant_id)
    )
    SELECT
        known.merchant_id,
        known.created_at AS oldest_waiting_at,
        (SELECT count(*) FROM round) < $5 AS is_complete
    FROM known
    WHERE (known.created_at, known.merchant_id) > ($2, $3::text COLLATE "C") AND starts_with(known.merchant_id, $4)
    ORDER BY known.created_at, known.merchant_id
    LIMIT $7
) AS page
ORDER BY page.oldest_waiting_at, page.merchant_id;

-- name: show_merchants_by_volume
-- List merchants by how many of the newest events are theirs. No index counts them: some of the newest are looked at,
-- below a number, so that the pages of one list are of the same ones.
-- $1 session bytea
-- $2 before_seq bigint
-- $3 volume bigint
-- $4 after text; the merchants of that volume up to this one are left out
-- $5 first text; what ids begin with
-- $6 look bigint
-- $7 most bigint
-- row: merchant_id text, volume bigint, newest_seq bigint, looked_at bigint
-- order: by volume, the most first, and merchant_id
-- none: there are no more, or the session is over
SELECT page.merchant_id, page.volume, page.newest_seq, page.looked_at
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    WITH newest AS MATERIALIZED (
        SELECT known.merchant_id, known.seq, known.copy_of
        FROM (
            (
                SELECT owed.merchant_id, owed.seq, owed.copy_of
                FROM webhook.console_owed AS owed
                WHERE me.name IS NOT NULL AND owed.seq < $2
                ORDER BY owed.seq DESC
                LIMIT (SELECT $6::bigint)
            )
            UNION ALL
            (
                SELECT finished.merchant_id, finished.seq, finished.copy_of
                FROM webhook.console_logged AS finished
                WHERE me.name IS NOT NULL AND finished.seq < $2
                ORDER BY finished.seq DESC
                LIMIT (SELECT $6::bigint)
            )
        ) AS known
        ORDER BY known.seq DESC
        LIMIT (SELECT $6::bigint)
    ),
    -- An event lies in its merchant's own lane; copies of it are deliveries.
    counted AS (
        SELECT newest.merchant_id, count(*) AS volume
        FROM newest
        WHERE num_nulls(newest.copy_of) = 1
        GROUP BY newest.merchant_id
    )
    SELECT
        counted.merchant_id,
        counted.volume,
        (SELECT max(newest.seq) FROM newest) AS newest_seq,
        (SELECT count(*) FROM newest) AS looked_at
    FROM counted
    WHERE
        counted.volume <= $3
        AND (counted.volume < $3 OR counted.merchant_id > $4)
        AND starts_with(counted.merchant_id, $5)
    ORDER BY counted.volume DESC, counted.merchant_id
    LIMIT $7
) AS page
ORDER BY page.volume DESC, page.merchant_id;

-- name: show_failed_of
-- Count what failed of these merchants since an instant, among the latest of all failed deliveries.
-- $1 session bytea
-- $2 merchants text[]
-- $3 span interval; that ends now
-- $4 look bigint
-- row: merchant_id text, failed bigint, is_cut boolean
-- order: none; is_cut: more failed than were looked at
-- none: none was asked for, or the session is over
SELECT counted.merchant_id, counted.failed, counted.is_cut
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    WITH latest AS MATERIALIZED (
        SELECT finished.merchant_id
        FROM webhook.console_finished AS finished
        WHERE me.name IS NOT NULL AND finished.state = 'failed'
            AND finished.finished_at >= statement_timestamp() - $3::interval
        ORDER BY finished.finished_at DESC, finished.seq DESC
        LIMIT (SELECT $4::bigint)
    )
    SELECT asked.merchant_id, coalesce(found.failed, 0) AS failed, (SELECT count(*) FROM latest) >= $4 AS is_cut
    FROM unnest($2::text[]) AS asked (merchant_id)
    LEFT JOIN (
        SELECT latest.merchant_id, count(*) AS failed
        FROM latest
        WHERE latest.merchant_id = ANY($2::text[])
        GROUP BY latest.merchant_id
    ) AS found ON found.merchant_id = asked.merchant_id
) AS counted;

-- name: show_now
-- Read the database's time.
-- $1 session bytea
-- row: now timestamptz
-- order: one row
-- none: the session is over
SELECT clock_timestamp() AS now FROM webhook.console_reader($1) AS me WHERE me.name IS NOT NULL;

-- name: show_merchant
-- Read what concerns one merchant.
-- $1 session bytea
-- $2 merchant_id text
-- row: now timestamptz, endpoint_removed_at timestamptz, everything_is_paused boolean
-- order: one row
-- none: it never had an endpoint or an event, or the session is over
SELECT
    clock_timestamp() AS now,
    lane.endpoint_removed_at,
    (SELECT console_state.paused FROM webhook.console_state LIMIT 1) AS everything_is_paused
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT lanes.endpoint_removed_at
    FROM webhook.console_lanes AS lanes
    WHERE me.name IS NOT NULL AND lanes.merchant_id = $2
    LIMIT 1
) AS lane;

-- name: show_endpoints
-- Read one merchant's endpoints, without secrets.
-- $1 session bytea
-- $2 merchant_id text
-- row: number smallint, name text, url text, types text[], at_once smallint, secret_created_at timestamptz,
--   previous_secret_until timestamptz
-- order: by number
-- none: it has none, or the session is over
SELECT page.*
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT
        coalesce(webhook.endpoint_of(endpoints.merchant_id), 1::smallint) AS number,
        endpoints.name,
        endpoints.url,
        endpoints.types,
        endpoints.at_once,
        endpoints.secret_created_at,
        CASE WHEN endpoints.previous_until > clock_timestamp() THEN endpoints.previous_until END AS previous_secret_until
    FROM webhook.console_endpoints AS endpoints
    WHERE me.name IS NOT NULL AND endpoints.merchant_id >= $2 AND endpoints.merchant_id < $2::text || ' '
) AS page
ORDER BY page.number;

-- name: show_latest_attempts
-- Read the latest attempts at one merchant.
-- $1 session bytea
-- $2 merchant_id text
-- $3 most bigint
-- row: event_id uuid, attempt smallint, trigger text, started_at timestamptz, duration_ms integer, status smallint,
--   outcome text, reason text, endpoint smallint, type text, charge_id text; the last two are null where the delivery is gone
-- order: by started_at, the latest first
-- none: no attempt at this merchant is in the log, or the session is over
SELECT page.*, coalesce(owed.type, logged.type) AS type, coalesce(owed.charge_id, logged.charge_id) AS charge_id
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT of_lane.*
    FROM webhook.console_lanes AS lanes
    CROSS JOIN LATERAL (
        SELECT
            made.event_id, made.attempt, made.trigger, made.started_at, made.duration_ms, made.status, made.outcome,
            made.reason, webhook.endpoint_of(made.merchant_id) AS endpoint
        FROM webhook.console_attempts AS made
        WHERE made.merchant_id = lanes.merchant_id
        ORDER BY made.merchant_id DESC, made.started_at DESC
        LIMIT $3
    ) AS of_lane
    WHERE me.name IS NOT NULL AND lanes.merchant_id >= $2 AND lanes.merchant_id < $2::text || ' '
    ORDER BY of_lane.started_at DESC
    LIMIT $3
) AS page
LEFT JOIN LATERAL (
    SELECT found.type, found.charge_id FROM webhook.console_owed AS found WHERE found.event_id = page.event_id LIMIT 1
) AS owed ON true
LEFT JOIN LATERAL (
    SELECT found.type, found.charge_id
    FROM webhook.console_finished AS found
    WHERE found.event_id = ANY(ARRAY[page.event_id])
    LIMIT 1
) AS logged ON true
ORDER BY page.started_at DESC;

-- name: show_api_keys
-- List a merchant's keys of the Partner API, without what could prove one.
-- $1 session bytea
-- $2 merchant_id text
-- $3 most bigint
-- row: client_id text, merchant_id text, name text, created_at timestamptz, created_by text, last_used_at timestamptz,
--   revoked_at timestamptz, revoked_by text
-- order: the newest first
-- none: it has none, or the session is over
SELECT
    page.client_id, page.merchant_id, page.name, page.created_at, page.created_by, page.last_used_at, page.revoked_at,
    page.revoked_by
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT keys.*
    FROM webhook.console_api_keys AS keys
    WHERE me.name IS NOT NULL AND keys.merchant_id = ANY(ARRAY[$2])
    ORDER BY keys.merchant_id DESC, keys.id DESC
    LIMIT $3
) AS page
ORDER BY page.id DESC;

-- name: show_all_api_keys
-- List the keys of all merchants below a number, as show_api_keys does one merchant's.
-- $1 session bytea
-- $2 before bigint
-- $3 most bigint
-- row: id bigint, client_id text, merchant_id text, name text, created_at timestamptz, created_by text,
--   last_used_at timestamptz, revoked_at timestamptz, revoked_by text
-- order: the newest first
-- none: there are no more, or the session is over
SELECT
    page.id, page.client_id, page.merchant_id, page.name, page.created_at, page.created_by, page.last_used_at,
    page.revoked_at, page.revoked_by
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT keys.*
    FROM webhook.console_api_keys AS keys
    WHERE me.name IS NOT NULL AND keys.id < $2
    ORDER BY keys.id DESC
    LIMIT (SELECT $3::bigint)
) AS page
ORDER BY page.id DESC;

-- name: show_merchant_of_key
-- Find whose a key of the Partner API is.
-- $1 session bytea
-- $2 client_id text
-- row: merchant_id text
-- none: there is no such key, or the session is over
SELECT page.merchant_id
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT keys.merchant_id
    FROM webhook.console_api_keys AS keys
    WHERE me.name IS NOT NULL AND keys.client_id = ANY(ARRAY[$2])
    LIMIT 1
) AS page;
