-- What keeps dispatchers from delivering, as far as the database knows.

-- name: show_health
-- Read which schema and installation this is, what is kept, what is paused and suspended.
-- $1 session bytea
-- $2 most bigint
-- row: now timestamptz, server_version text, schema_version integer, compatible_from integer, installation text,
--   known_server bigint, server bigint, has_charge_index boolean, has_feed_index boolean, everything_is_paused boolean,
--   kept_since date, made_until date, sealing_key_id text, sealing_key_confirmed_at timestamptz, suspended bigint
-- order: one row
-- none: the session is over
SELECT
    clock_timestamp() AS now,
    current_setting('server_version') AS server_version,
    state.schema_version,
    state.compatible_from,
    state.installation,
    state.system_identifier AS known_server,
    webhook.server_identifier() AS server,
    state.has_charge_index,
    state.has_feed_index,
    state.paused AS everything_is_paused,
    days.kept_since,
    days.made_until,
    sealing.key_id AS sealing_key_id,
    sealing.confirmed_at AS sealing_key_confirmed_at,
    suspended.merchants AS suspended
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (SELECT console_state.* FROM webhook.console_state WHERE me.name IS NOT NULL LIMIT 1) AS state
CROSS JOIN LATERAL (
    SELECT min(partition.day) AS kept_since, max(partition.day) AS made_until
    FROM (
        SELECT to_date(right(child.relname, 8), 'YYYYMMDD') AS day
        FROM pg_inherits
        INNER JOIN pg_class AS parent ON parent.oid = pg_inherits.inhparent
        INNER JOIN pg_class AS child ON child.oid = pg_inherits.inhrelid
        WHERE
            parent.relnamespace = to_regnamespace('webhook')
            AND parent.relname = 'delivery_log'
            AND child.relname ~ '_[0-9]{8}$'
    ) AS partition
) AS days
LEFT JOIN LATERAL (
    SELECT keys.key_id, keys.confirmed_at
    FROM webhook.console_sealing_keys AS keys
    WHERE me.name IS NOT NULL
    LIMIT 1
) AS sealing ON true
CROSS JOIN LATERAL (
    SELECT count(*) AS merchants
    FROM (
        SELECT
        FROM webhook.console_lanes AS lanes
        WHERE me.name IS NOT NULL AND lanes.suspended_at IS NOT NULL
        ORDER BY lanes.wait_until
        LIMIT (SELECT $2::bigint)
    ) AS counted
) AS suspended;

-- name: show_missing_partitions
-- Name the days, from today, that a log has no partition for: of those that this program made, which bear their day.
-- $1 session bytea
-- $2 days integer
-- row: log text, day date
-- order: by log and day
-- none: all are there, or the session is over
SELECT wanted.log, wanted.day
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT logs.log, (clock_timestamp() AT TIME ZONE 'UTC')::date + ahead AS day
    FROM unnest(ARRAY['delivery_log', 'attempt_log']) AS logs (log)
    CROSS JOIN generate_series(0, $2::integer - 1) AS ahead
    WHERE me.name IS NOT NULL
    OFFSET 0
) AS wanted
WHERE NOT EXISTS (
    SELECT
    FROM pg_inherits
    INNER JOIN pg_class AS partition ON partition.oid = pg_inherits.inhrelid
    WHERE
        pg_inherits.inhparent = to_regclass('webhook.' || wanted.log)
        AND NOT pg_inherits.inhdetachpending
        AND partition.relname = wanted.log || to_char(wanted.day, '_YYYYMMDD')
)
ORDER BY wanted.log, wanted.day;

-- name: show_suspended
-- Name merchants, or their endpoints, that are suspended, those first that are tried next.
-- $1 session bytea
-- $2 most bigint
-- row: merchant_id text, suspended_at timestamptz, next_try_at timestamptz, endpoint smallint
-- order: by next_try_at
-- none: nobody is suspended, or the session is over
SELECT
    webhook.merchant_of(page.merchant_id) AS merchant_id, page.suspended_at, page.wait_until AS next_try_at,
    webhook.endpoint_of(page.merchant_id) AS endpoint
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT lanes.merchant_id, lanes.suspended_at, lanes.wait_until
    FROM webhook.console_lanes AS lanes
    WHERE me.name IS NOT NULL AND lanes.suspended_at IS NOT NULL
    ORDER BY lanes.wait_until
    LIMIT (SELECT $2::bigint)
) AS page
ORDER BY page.wait_until, page.merchant_id;

-- name: show_urls
-- List where merchants are sent to, for the guard to judge.
-- $1 session bytea
-- $2 most bigint
-- row: merchants text[], urls text[]; a merchant and its URL have the same place
-- order: one row; the first merchants
-- none: the session is over
SELECT page.merchants, page.urls
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT
        coalesce(array_agg(webhook.merchant_of(listed.merchant_id)), '{}') AS merchants,
        coalesce(array_agg(listed.url), '{}') AS urls
    FROM (
        SELECT endpoints.merchant_id, endpoints.url
        FROM webhook.console_endpoints AS endpoints
        WHERE me.name IS NOT NULL AND endpoints.merchant_id > ''::text COLLATE "C"
        ORDER BY endpoints.merchant_id
        LIMIT (SELECT $2::bigint)
    ) AS listed
    HAVING me.name IS NOT NULL
) AS page;
