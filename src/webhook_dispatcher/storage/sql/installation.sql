-- Which installation a database belongs to, and on which server it was last known to be.

-- name: read_installation
-- Read what the schema says of itself, and which server this is (null where it may not be asked).
-- row: installation text, system_identifier bigint, server_identifier bigint
-- none: the schema was never migrated to its end
SELECT state.installation, state.system_identifier, webhook.server_identifier() AS server_identifier
FROM webhook.state
WHERE state.is_only;

-- name: name_installation
-- Give the schema its name, unless it has one, and note which server this is.
-- $1 installation text
-- row: installation text
-- none: it has a name already
UPDATE webhook.state
SET installation = $1, system_identifier = webhook.server_identifier()
WHERE state.is_only AND num_nulls(state.installation) = 1
RETURNING state.installation;

-- name: adopt_installation
-- Give the schema another name, and note which server this is now.
-- $1 installation text
-- $2 adopted_by text
-- row: is_done boolean
-- order: one row
SELECT webhook.adopt_installation($1, $2) AS is_done;

-- name: read_names
-- Read the names that requests have.
-- row: header_prefix text, user_agent text, signatures text[]
-- none: the schema was never migrated to its end
SELECT state.header_prefix, state.user_agent, state.signatures
FROM webhook.state
WHERE state.is_only;

-- name: read_owed
-- Read what a daemon that is started here would send.
-- row: pending bigint, pending_retry bigint, merchants bigint, oldest timestamptz
-- order: one row; nothing is owed: no oldest
SELECT
    count(*) FILTER (WHERE due_at IS NULL) AS pending,
    count(*) FILTER (WHERE due_at IS NOT NULL) AS pending_retry,
    count(DISTINCT webhook.merchant_of(merchant_id)) AS merchants,
    min(created_at) AS oldest
FROM webhook.owed
WHERE on_failure IS DISTINCT FROM 'delivered';
