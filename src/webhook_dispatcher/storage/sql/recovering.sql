-- What mass commands do, chunk by chunk: recover sends a range of time again, skip gives up what is owed.
-- A look goes a bounded number of rows on, whatever they are; what it finds is locked and changed by a second
-- statement, in the same transaction. So no chunk reads more than a look, where little matches too.
-- A statement that makes a row due is followed by wake_lanes in the same transaction.

-- name: read_stop
-- Tell whether an operator wants a running command to stop.
-- $1 id bigint
-- row: is_stopping boolean
-- none: there is no such command
SELECT control.stopping AS is_stopping FROM webhook.control WHERE control.id = $1;

-- name: note_chunk
-- Note which events a command has sent again in this transaction, behind those before.
-- $1 command_id bigint
-- $2 seqs bigint[]
-- none: always
INSERT INTO webhook.command_chunk (command_id, place, seqs)
SELECT
    $1,
    coalesce((
        SELECT chunk.place + cardinality(chunk.seqs)
        FROM webhook.command_chunk AS chunk
        WHERE chunk.command_id = $1
        ORDER BY chunk.command_id DESC, chunk.place DESC
        LIMIT 1
    ), 0),
    $2;

-- name: find_waiting
-- Look on through what is owed, for retries that wait for their time; the platform's only where it is named.
-- $1 merchant_id text
-- $2 after_seq bigint
-- $3 until timestamptz
-- $4 types text[]
-- $5 charge text
-- $6 failing_since timestamptz; who fails since then, or for longer, is left out
-- $7 below_attempts bigint; of the schedule, or null
-- $8 endpoint smallint; its number, of the merchant's; null: all
-- $9 look bigint
-- $10 most bigint
-- row: seqs bigint[], kinds text[], looked bigint, reached bigint, is_over boolean
-- order: one row; the arrays by seq
WITH looked AS MATERIALIZED (
    SELECT
        outbox.seq, outbox.merchant_id AS lane, webhook.merchant_of(outbox.merchant_id) AS merchant_id, outbox.type,
        outbox.created_at,
        outbox.attempts - coalesce(outbox.attempts_by_hand, 0) AS attempts_of_schedule,
        outbox.due_at > clock_timestamp() AND outbox.claim IS NULL
        AND outbox.on_failure IS DISTINCT FROM 'delivered' AS is_waiting
    FROM webhook.outbox
    WHERE outbox.seq > $2
    ORDER BY outbox.seq
    LIMIT $9
),
matching AS MATERIALIZED (
    SELECT looked.seq
    FROM looked
    WHERE
        looked.is_waiting
        AND looked.created_at < $3
        AND ($1::text IS NULL AND looked.merchant_id <> '$platform' OR looked.merchant_id = $1)
        AND ($4::text[] IS NULL OR looked.type = ANY($4))
        AND (
            $5::text IS NULL
            OR (SELECT webhook.charge_key(outbox.object) FROM webhook.outbox WHERE outbox.seq = looked.seq) = $5
        )
        AND (looked.attempts_of_schedule < $7::bigint) IS NOT FALSE
        AND ($8::smallint IS NULL OR coalesce(webhook.endpoint_of(looked.lane), 1) = $8)
        AND (
            SELECT
                ((SELECT lane.failing_since FROM webhook.lane WHERE lane.merchant_id = endpoint.merchant_id) <= $6) IS NOT TRUE
            FROM webhook.endpoint
            WHERE endpoint.merchant_id = ANY(ARRAY[
                webhook.lane_named(looked.merchant_id, coalesce(webhook.endpoint_of(looked.lane), 1::smallint)),
                CASE WHEN coalesce(webhook.endpoint_of(looked.lane), 1) = 1 THEN looked.merchant_id END
            ])
            LIMIT 1
        )
    ORDER BY looked.seq
    LIMIT $10
),
found AS MATERIALIZED (
    SELECT
        coalesce(array_agg(matching.seq ORDER BY matching.seq), '{}') AS seqs,
        CASE WHEN count(*) >= $10 THEN max(matching.seq) END AS full_at
    FROM matching
)
SELECT
    found.seqs,
    array_fill('pending_retry'::text, ARRAY[cardinality(found.seqs)]) AS kinds,
    (SELECT count(*) FROM looked WHERE looked.seq <= coalesce(found.full_at, looked.seq)) AS looked,
    coalesce(found.full_at, (SELECT max(looked.seq) FROM looked), $2) AS reached,
    found.full_at IS NULL AND (SELECT count(*) FROM looked) < $9 AS is_over
FROM found;

-- name: run_waiting_now
-- Make these waiting retries due now, as run_retry_now does, but for those that are due already, or that somebody has
-- claimed or locked meanwhile.
-- $1 seqs bigint[]
-- row: seq bigint, lane text
-- order: none
-- none: none of them waits any more
WITH locked AS MATERIALIZED (
    SELECT held.seq
    FROM unnest($1::bigint[]) AS asked (seq)
    CROSS JOIN LATERAL (
        SELECT outbox.seq
        FROM webhook.outbox
        WHERE
            outbox.seq = asked.seq
            AND outbox.claim IS NULL
            AND CASE WHEN num_nulls(outbox.due_at) = 0 THEN outbox.due_at > clock_timestamp() END
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS held
)
UPDATE webhook.outbox
SET
    due_at = clock_timestamp(),
    trigger = 'manual',
    scheduled_at = CASE
        WHEN outbox.on_failure IS NULL AND outbox.trigger = 'manual' THEN coalesce(outbox.scheduled_at, outbox.due_at)
        WHEN outbox.on_failure IS NULL THEN outbox.due_at
    END
FROM locked
WHERE outbox.seq = ANY(ARRAY[locked.seq])
RETURNING outbox.seq, outbox.merchant_id AS lane;

-- name: find_finished
-- Look on through the log in order of seq, for deliveries that finished within a range of time.
-- The days are those of the partitions that the range touches: within them every row is looked at, and none is
-- thrown away before the look is over. Notices to the platform are sent again where it is named.
-- One merchant's are ordered by merchant too, and compared as a row: the index that begins with merchants is then the
-- only one in that order, and read from where the last look ended.
-- $1 merchant_id text; null: all
-- $2 after_seq bigint
-- $3 first_day timestamptz
-- $4 end_day timestamptz
-- $5 since timestamptz
-- $6 until timestamptz
-- $7 kinds text[]
-- $8 types text[]
-- $9 charge text
-- $10 failing_since timestamptz; who fails since then, or for longer, is left out
-- $11 endpoint smallint; its number, of the merchant's; null: all
-- $12 look bigint
-- $13 most bigint
-- row: seqs bigint[], merchants text[], kinds text[], finished_ats timestamptz[], looked bigint, reached bigint,
--   is_over boolean
-- order: one row; the arrays by seq; a kind is the state, or skipped
WITH looked AS MATERIALIZED (
    SELECT
        log.seq, log.merchant_id, log.endpoint, log.copy_of, log.attempts, log.finished_at, log.type,
        CASE WHEN log.failed_reason IN ('skipped', 'cancelled') THEN log.failed_reason ELSE log.state END AS kind
    FROM (
        (
            SELECT
                all_of.seq, all_of.merchant_id, all_of.endpoint, all_of.copy_of, all_of.attempts, all_of.finished_at,
                all_of.type, all_of.failed_reason, all_of.state
            FROM webhook.delivery_log AS all_of
            WHERE $1::text IS NULL AND all_of.seq > $2 AND all_of.finished_at >= $3 AND all_of.finished_at < $4
            ORDER BY all_of.seq
            LIMIT $12
        )
        UNION ALL
        (
            SELECT
                of_one.seq, of_one.merchant_id, of_one.endpoint, of_one.copy_of, of_one.attempts, of_one.finished_at,
                of_one.type, of_one.failed_reason, of_one.state
            FROM webhook.delivery_log AS of_one
            WHERE
                $1::text IS NOT NULL
                AND (of_one.merchant_id, of_one.seq) > ($1::text COLLATE "C", $2::bigint)
                AND of_one.merchant_id >= $1
                AND of_one.merchant_id <= $1
                AND of_one.finished_at >= $3
                AND of_one.finished_at < $4
            ORDER BY of_one.merchant_id, of_one.seq
            LIMIT $12
        )
    ) AS log
),
matching AS MATERIALIZED (
    SELECT looked.seq, looked.merchant_id, looked.finished_at, looked.kind
    FROM looked
    WHERE
        looked.finished_at >= $5
        AND looked.finished_at < $6
        AND looked.kind = ANY($7::text[])
        AND looked.type <> 'webhook.test'
        AND ($1::text IS NOT NULL OR looked.merchant_id <> '$platform')
        AND ($8::text[] IS NULL OR looked.type = ANY($8))
        AND (
            $11::smallint IS NULL
            OR webhook.logged_endpoint(looked.endpoint, looked.copy_of, looked.attempts, (
                SELECT lane.routed_at FROM webhook.lane WHERE lane.merchant_id = $1
            )) = $11
        )
        AND ($9::text IS NULL OR $9 = (
            SELECT webhook.charge_key(delivery_log.object)
            FROM webhook.delivery_log
            WHERE
                delivery_log.merchant_id = ANY(ARRAY[looked.merchant_id])
                AND delivery_log.seq BETWEEN looked.seq AND looked.seq
                AND delivery_log.finished_at = looked.finished_at
        ))
        AND (
            SELECT
                ((SELECT lane.failing_since FROM webhook.lane WHERE lane.merchant_id = endpoint.merchant_id) <= $10) IS NOT TRUE
            FROM webhook.endpoint
            WHERE endpoint.merchant_id = ANY(ARRAY[
                webhook.lane_named(looked.merchant_id, coalesce(looked.endpoint, 1::smallint)),
                CASE WHEN coalesce(looked.endpoint, 1) = 1 THEN looked.merchant_id END
            ])
            LIMIT 1
        )
    ORDER BY looked.seq
    LIMIT $13
),
found AS MATERIALIZED (
    SELECT
        coalesce(array_agg(matching.seq ORDER BY matching.seq), '{}') AS seqs,
        coalesce(array_agg(matching.merchant_id ORDER BY matching.seq), '{}') AS merchants,
        coalesce(array_agg(matching.kind ORDER BY matching.seq), '{}') AS kinds,
        coalesce(array_agg(matching.finished_at ORDER BY matching.seq), '{}') AS finished_ats,
        CASE WHEN count(*) >= $13 THEN max(matching.seq) END AS full_at
    FROM matching
)
SELECT
    found.seqs,
    found.merchants,
    found.kinds,
    found.finished_ats,
    (SELECT count(*) FROM looked WHERE looked.seq <= coalesce(found.full_at, looked.seq)) AS looked,
    coalesce(found.full_at, (SELECT max(looked.seq) FROM looked), $2) AS reached,
    found.full_at IS NULL AND (SELECT count(*) FROM looked) < $12 AS is_over
FROM found;

-- name: reopen_finished
-- Move these finished deliveries back into the outbox for one attempt; if that fails they return to their state.
-- One that failed before it was ever attempted goes back to its place in the order; any other is due now.
-- $1 seqs bigint[]
-- $2 finished_ats timestamptz[]
-- $3 merchants text[]
-- row: seq bigint, lane text, is_in_order boolean
-- order: by seq; left out where an event with the same id is owed, the object is lost, or the delivery is gone
-- none: all were left out
WITH finished AS MATERIALIZED (
    SELECT
        logged.seq, logged.finished_at, logged.event_id, logged.merchant_id, logged.type, logged.created_at,
        logged.object, logged.state, logged.attempts, logged.last_status, logged.last_outcome, logged.xid, logged.copy_of,
        CASE
            WHEN num_nulls(logged.copy_of) = 1 THEN logged.merchant_id
            ELSE webhook.lane_of(logged.merchant_id, coalesce(logged.endpoint, 1::smallint))
        END AS lane
    FROM unnest($1::bigint[], $2::timestamptz[], $3::text[]) AS asked (seq, finished_at, merchant_id)
    CROSS JOIN LATERAL (
        SELECT
            delivery_log.seq, delivery_log.finished_at, delivery_log.event_id, delivery_log.merchant_id,
            delivery_log.type, delivery_log.created_at, delivery_log.object, delivery_log.state,
            delivery_log.attempts, delivery_log.last_status, delivery_log.last_outcome, delivery_log.xid,
            delivery_log.endpoint, delivery_log.copy_of
        FROM webhook.delivery_log
        WHERE
            delivery_log.merchant_id = ANY(ARRAY[asked.merchant_id])
            AND delivery_log.seq BETWEEN asked.seq AND asked.seq
            AND delivery_log.finished_at = asked.finished_at
        FOR UPDATE
    ) AS logged
),
owed AS (
    INSERT INTO webhook.outbox (
        seq, id, merchant_id, type, created_at, object, attempts, due_at, trigger, on_failure,
        last_status, last_outcome, xid, copy_of
    )
    OVERRIDING SYSTEM VALUE
    SELECT
        finished.seq, finished.event_id, finished.lane, finished.type, finished.created_at,
        finished.object, finished.attempts,
        CASE WHEN finished.attempts > 0 OR finished.state = 'delivered' THEN clock_timestamp() END,
        CASE WHEN finished.state = 'delivered' THEN 'replay' ELSE 'manual' END, finished.state,
        finished.last_status, finished.last_outcome, finished.xid, finished.copy_of
    FROM finished
    WHERE json_typeof(finished.object) = 'object'
    ON CONFLICT (id) DO NOTHING
    RETURNING outbox.seq, outbox.due_at IS NULL AS is_in_order
),
-- IN is hashed; a join may compare each with each.
chunk AS MATERIALIZED (
    SELECT finished.finished_at, finished.seq, finished.merchant_id, finished.lane
    FROM finished
    WHERE finished.seq IN (SELECT owed.seq FROM owed)
),
gone AS (
    DELETE FROM webhook.delivery_log
    USING chunk
    WHERE
        delivery_log.merchant_id = ANY(ARRAY[chunk.merchant_id])
        AND delivery_log.seq BETWEEN chunk.seq AND chunk.seq
        AND delivery_log.finished_at = chunk.finished_at
)
SELECT chunk.seq, chunk.lane, chunk.seq IN (SELECT owed.seq FROM owed WHERE owed.is_in_order) AS is_in_order
FROM chunk
ORDER BY chunk.seq;

-- name: find_skippable
-- Look on through what is owed, for what was created within a range of time; not for what is sent once more, and
-- for notices to the platform only where it is named. What is not routed yet is no endpoint's.
-- $1 merchant_id text
-- $2 after_seq bigint
-- $3 since timestamptz
-- $4 before timestamptz
-- $5 types text[]
-- $6 charge text
-- $7 endpoint smallint; its number, of the merchant's; null: all
-- $8 look bigint
-- $9 most bigint
-- row: seqs bigint[], lanes text[], looked bigint, reached bigint, is_over boolean
-- order: one row; the arrays by seq
WITH looked AS MATERIALIZED (
    SELECT
        outbox.seq, outbox.merchant_id AS lane,
        outbox.created_at >= $3
        AND outbox.created_at < $4
        AND outbox.on_failure IS DISTINCT FROM 'delivered'
        AND (
            $1::text IS NULL AND webhook.merchant_of(outbox.merchant_id) <> '$platform'
            OR webhook.merchant_of(outbox.merchant_id) = $1
        )
        AND ($5::text[] IS NULL OR outbox.type = ANY($5))
        AND (
            $7::smallint IS NULL
            OR coalesce(webhook.endpoint_of(outbox.merchant_id), 1) = $7
            AND (outbox.due_at IS NOT NULL OR outbox.merchant_id = (SELECT webhook.lane_of($1, $7)))
        ) AS is_skippable
    FROM webhook.outbox
    WHERE outbox.seq > $2
    ORDER BY outbox.seq
    LIMIT $8
),
matching AS MATERIALIZED (
    SELECT looked.seq, looked.lane
    FROM looked
    WHERE
        looked.is_skippable
        AND (
            $6::text IS NULL
            OR (SELECT webhook.charge_key(outbox.object) FROM webhook.outbox WHERE outbox.seq = looked.seq) = $6
        )
    ORDER BY looked.seq
    LIMIT $9
),
found AS MATERIALIZED (
    SELECT
        coalesce(array_agg(matching.seq ORDER BY matching.seq), '{}') AS seqs,
        coalesce(array_agg(matching.lane ORDER BY matching.seq), '{}') AS lanes,
        CASE WHEN count(*) >= $9 THEN max(matching.seq) END AS full_at
    FROM matching
)
SELECT
    found.seqs,
    found.lanes,
    (SELECT count(*) FROM looked WHERE looked.seq <= coalesce(found.full_at, looked.seq)) AS looked,
    coalesce(found.full_at, (SELECT max(looked.seq) FROM looked), $2) AS reached,
    found.full_at IS NULL AND (SELECT count(*) FROM looked) < $8 AS is_over
FROM found;

-- name: lock_and_recall_lanes
-- Lock these lanes until this transaction ends, and recall those that somebody holds.
-- $1 lanes text[]
-- none: always
WITH concerned AS MATERIALIZED (
    SELECT asked.merchant_id
    FROM (SELECT entry.merchant_id FROM unnest($1::text[]) AS entry (merchant_id) ORDER BY entry.merchant_id) AS asked
    CROSS JOIN LATERAL (
        SELECT FROM webhook.lane WHERE lane.merchant_id = asked.merchant_id FOR NO KEY UPDATE
    ) AS locked
)
UPDATE webhook.lane
SET recalled = lane.recalled OR lane.lease_until > '-infinity'
FROM concerned
WHERE lane.merchant_id = ANY(ARRAY[concerned.merchant_id]);

-- name: skip_deliveries
-- Turn these owed deliveries into skipped ones. Their lanes are locked already.
-- $1 seqs bigint[]
-- row: type text, deliveries bigint
-- order: none
-- none: none of them is owed any more
WITH skipped AS (
    DELETE FROM webhook.outbox
    USING unnest($1::bigint[]) AS asked (seq)
    WHERE outbox.seq = ANY(ARRAY[asked.seq]) AND outbox.on_failure IS DISTINCT FROM 'delivered'
    RETURNING outbox.seq, outbox.id, outbox.merchant_id, outbox.type, outbox.created_at, outbox.object,
        outbox.attempts, outbox.last_status, outbox.last_outcome, outbox.xid, outbox.copy_of
),
logged AS (
    INSERT INTO webhook.delivery_log (
        seq, event_id, merchant_id, type, created_at, object,
        state, failed_reason, attempts, last_status, last_outcome, finished_at, xid, endpoint, copy_of
    )
    SELECT
        skipped.seq, skipped.id, webhook.merchant_of(skipped.merchant_id), skipped.type, skipped.created_at,
        skipped.object, 'failed', 'skipped', skipped.attempts,
        skipped.last_status, skipped.last_outcome, clock_timestamp(), skipped.xid,
        webhook.endpoint_of(skipped.merchant_id), skipped.copy_of
    FROM skipped
    RETURNING delivery_log.type
)
SELECT logged.type, count(*) AS deliveries FROM logged GROUP BY logged.type;
