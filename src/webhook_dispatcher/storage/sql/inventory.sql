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
-- Count what the schema consists of.
-- row: schema_version integer, tables bigint, views bigint, partitions bigint
-- order: one row
-- none: the schema was never migrated to its end
SELECT
    state.schema_version,
    found.tables,
    found.views,
    found.partitions
FROM webhook.state
CROSS JOIN (
    SELECT
        count(*) FILTER (WHERE relkind IN ('r', 'p') AND NOT relispartition) AS tables,
        count(*) FILTER (WHERE relkind = 'v') AS views,
        count(*) FILTER (WHERE relkind = 'r' AND relispartition) AS partitions
    FROM pg_class
    WHERE relnamespace = 'webhook'::regnamespace
) AS found
WHERE state.is_only;
