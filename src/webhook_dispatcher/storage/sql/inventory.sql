-- What the first migration made.

-- name: read_roles
-- Name the schema's roles that this server has.
-- row: role name
-- order: by role
-- none: no database of this server has had the schema
SELECT rolname AS role
FROM pg_roles
WHERE rolname IN (
    'webhook_owner', 'webhook_producer', 'webhook_dispatcher', 'webhook_admin', 'webhook_observer', 'webhook_api',
    'webhook_console'
)
ORDER BY rolname;

-- name: read_inventory
-- List what the schema consists of.
-- row: schema_version integer, installation text, has_charge_index boolean, has_feed_index boolean, tables name[],
--   views name[], partitions bigint
-- order: one row
-- none: the schema was never migrated to its end
SELECT
    state.schema_version,
    state.installation,
    state.has_charge_index,
    state.has_feed_index,
    found.tables,
    found.views,
    found.partitions
FROM webhook.state
CROSS JOIN (
    SELECT
        array_agg(relname ORDER BY relname) FILTER (WHERE relkind IN ('r', 'p') AND NOT relispartition) AS tables,
        array_agg(relname ORDER BY relname) FILTER (WHERE relkind = 'v') AS views,
        count(*) FILTER (WHERE relkind = 'r' AND relispartition) AS partitions
    FROM pg_class
    WHERE relnamespace = 'webhook'::regnamespace
) AS found
WHERE state.is_only;
