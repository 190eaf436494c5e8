-- Which of the indexes that an installation may do without are there.

-- name: lock_chosen_indexes
-- Keep others from making or dropping them until this connection is closed.
-- row: is_locked boolean
-- order: one row; false while somebody else does so
SELECT pg_try_advisory_lock(hashtext('webhook.chosen_indexes')) AS is_locked;

-- name: choose_indexes
-- Remember which there are to be, and say what was chosen; null is as before.
-- $1 charge boolean
-- $2 feed boolean
-- row: has_charge_index boolean, has_feed_index boolean
-- order: one row
UPDATE webhook.state
SET
    has_charge_index = coalesce($1, state.has_charge_index),
    has_feed_index = coalesce($2, state.has_feed_index)
WHERE state.is_only
RETURNING state.has_charge_index, state.has_feed_index;

-- name: has_log_index
-- Tell whether the log has the index of this suffix, or a part of it.
-- $1 suffix text
-- row: has_index boolean
-- order: one row
SELECT to_regclass('webhook.delivery_log_' || $1) IS NOT NULL AS has_index;

-- name: read_unindexed
-- Name the tables without an index that can be used: the outbox, and partitions of the log, the newest first.
-- $1 suffix text
-- row: relation name, index name, is_partition boolean, is_broken boolean, is_attached boolean
-- order: by relation, backwards; is_broken is null where there is no index of that name
-- none: all have it
SELECT
    owner.relname AS relation,
    coalesce(child.relname, (owner.relname || '_' || $1)::name) AS index,
    owner.is_partition,
    NOT coalesce(attached.indisvalid, left_over.indisvalid) AS is_broken,
    child.oid IS NOT NULL AS is_attached
FROM (
    SELECT 'webhook.outbox'::regclass AS oid, 'outbox'::name AS relname, false AS is_partition
    UNION ALL
    SELECT partition.oid, partition.relname, true
    FROM pg_inherits
    INNER JOIN pg_class AS partition ON partition.oid = pg_inherits.inhrelid
    WHERE pg_inherits.inhparent = 'webhook.delivery_log'::regclass AND NOT pg_inherits.inhdetachpending
) AS owner
LEFT JOIN pg_index AS attached
    ON
        attached.indrelid = owner.oid
        AND attached.indexrelid IN (
            SELECT pg_inherits.inhrelid FROM pg_inherits
            WHERE pg_inherits.inhparent = to_regclass('webhook.delivery_log_' || $1)
        )
LEFT JOIN pg_class AS child ON child.oid = attached.indexrelid
LEFT JOIN pg_index AS left_over
    ON left_over.indexrelid = to_regclass('webhook.' || quote_ident(owner.relname || '_' || $1))
WHERE
    CASE
        WHEN owner.is_partition THEN attached.indisvalid IS NOT TRUE
        ELSE left_over.indisvalid IS NOT TRUE
    END
ORDER BY owner.relname DESC;
