-- Whether deliveries are found by their charge, and which tables lack the index for it.

-- name: choose
-- Remember whether there is to be an index of charges, and say what was chosen.
-- $1 wanted boolean
-- row: has_charge_index boolean
-- order: one row
UPDATE webhook.state
SET has_charge_index = coalesce($1, state.has_charge_index)
WHERE state.is_only
RETURNING state.has_charge_index;

-- name: read_unindexed
-- Name the tables without the index: the outbox, and partitions of the log.
-- row: relation name, index text, is_partition boolean, is_broken boolean
-- order: by relation; broken where an interrupted attempt has left an index that cannot be used
-- none: all have it
SELECT
    owner.relname AS relation,
    owner.relname || '_charge' AS index,
    owner.is_partition,
    coalesce(NOT left_over.indisvalid, false) AS is_broken
FROM (
    SELECT 'webhook.outbox'::regclass AS oid, 'outbox'::name AS relname, false AS is_partition
    UNION ALL
    SELECT child.oid, child.relname, true
    FROM pg_inherits
    INNER JOIN pg_class AS child ON child.oid = pg_inherits.inhrelid
    WHERE pg_inherits.inhparent = 'webhook.delivery_log'::regclass AND NOT pg_inherits.inhdetachpending
) AS owner
LEFT JOIN pg_index AS left_over
    ON left_over.indexrelid = to_regclass('webhook.' || quote_ident(owner.relname || '_charge'))
WHERE CASE
    WHEN owner.is_partition THEN NOT EXISTS (
        SELECT
        FROM pg_index
        INNER JOIN pg_inherits AS attached ON attached.inhrelid = pg_index.indexrelid
        WHERE
            pg_index.indrelid = owner.oid
            AND attached.inhparent = to_regclass('webhook.delivery_log_charge')
    )
    ELSE left_over.indisvalid IS NOT TRUE
END
ORDER BY owner.relname;

-- name: is_there
-- Tell whether there is an index of charges, or a part of one.
-- row: is_there boolean
-- order: one row
SELECT num_nonnulls(to_regclass('webhook.delivery_log_charge'), to_regclass('webhook.outbox_charge')) > 0 AS is_there;
