-- What commands do to deliveries: attempt them again, attempt them now, or cancel them.
-- A row of the log is looked up by its merchant as well: with the number alone, a plan may read an index that
-- begins with merchants from end to end.
-- A statement that makes a row due is followed by wake_lanes in the same transaction.

-- name: find_deliveries
-- Find the latest of each of these deliveries, in the outbox or in the log. It has no endpoint while it is not routed. Its lane is
-- where it is owed, or would be owed again: an event in its merchant's own.
-- $1 delivery_ids uuid[]
-- row: delivery_id uuid, copy_of uuid, seq bigint, merchant_id text, endpoint integer, lane text, type text, state text,
--      is_owed boolean, is_in_flight boolean, finished_at timestamptz
-- order: none
-- none: none of them is known
WITH asked AS MATERIALIZED (SELECT DISTINCT entry.delivery_id FROM unnest($1::uuid[]) AS entry (delivery_id)),
owed AS MATERIALIZED (
    SELECT found.*
    FROM asked
    CROSS JOIN LATERAL (
        SELECT
            outbox.id AS delivery_id, outbox.copy_of, outbox.seq, outbox.merchant_id AS lane, outbox.type, outbox.due_at,
            outbox.claim, outbox.on_failure
        FROM webhook.outbox
        WHERE outbox.id = asked.delivery_id
        LIMIT 1
    ) AS found
),
earliest AS MATERIALIZED (
    SELECT head.seq
    FROM (SELECT DISTINCT owed.lane FROM owed) AS concerned
    CROSS JOIN LATERAL (
        SELECT outbox.seq
        FROM webhook.outbox
        WHERE
            outbox.merchant_id = ANY(ARRAY[concerned.lane])
            AND outbox.due_at IS NULL
            AND (
                SELECT lane.lease_until > clock_timestamp()
                FROM webhook.lane
                WHERE lane.merchant_id = concerned.lane
            )
        ORDER BY outbox.merchant_id, outbox.seq
        LIMIT 1
    ) AS head
),
gone AS MATERIALIZED (
    SELECT asked.delivery_id FROM asked WHERE asked.delivery_id NOT IN (SELECT owed.delivery_id FROM owed)
)
SELECT
    owed.delivery_id, owed.copy_of, owed.seq, webhook.merchant_of(owed.lane) AS merchant_id,
    coalesce(webhook.endpoint_of(owed.lane), CASE
        WHEN
            num_nulls(owed.copy_of, owed.due_at) < 2
            OR (SELECT lane.routed_at FROM webhook.lane WHERE lane.merchant_id = owed.lane) IS NULL
            THEN 1
    END) AS endpoint,
    owed.lane, owed.type,
    CASE
        WHEN owed.on_failure = 'delivered' THEN 'delivered'
        WHEN owed.due_at IS NULL THEN 'pending'
        ELSE 'pending_retry'
    END AS state,
    true AS is_owed,
    CASE
        WHEN owed.due_at IS NULL THEN owed.seq IN (SELECT earliest.seq FROM earliest)
        ELSE owed.claim IS NOT NULL AND owed.due_at > clock_timestamp()
    END AS is_in_flight,
    NULL::timestamptz AS finished_at
FROM owed
UNION ALL
SELECT
    latest.event_id, latest.copy_of, latest.seq, latest.merchant_id,
    webhook.logged_endpoint(latest.endpoint, latest.copy_of, latest.attempts, (
        SELECT lane.routed_at FROM webhook.lane WHERE lane.merchant_id = latest.merchant_id
    )),
    CASE
        WHEN num_nulls(latest.copy_of) = 1 THEN latest.merchant_id
        ELSE webhook.lane_of(latest.merchant_id, coalesce(latest.endpoint, 1::smallint))
    END,
    latest.type, latest.state,
    false AS is_owed, false AS is_in_flight, latest.finished_at
FROM (
    SELECT DISTINCT ON (logged.event_id) logged.*
    FROM gone
    CROSS JOIN LATERAL (
        SELECT
            delivery_log.event_id, delivery_log.copy_of, delivery_log.seq, delivery_log.merchant_id, delivery_log.endpoint,
            delivery_log.type, delivery_log.state, delivery_log.attempts, delivery_log.finished_at
        FROM webhook.delivery_log
        WHERE delivery_log.event_id = gone.delivery_id AND num_nulls(delivery_log.state) = 0
        -- Each is looked up by its id, and not by going through all numbers.
        OFFSET 0
    ) AS logged
    ORDER BY logged.event_id, logged.seq DESC
) AS latest;

-- name: name_deliveries
-- Name all deliveries of these events, which were routed.
-- $1 event_ids uuid[]
-- row: event_id uuid, delivery_ids uuid[]
-- order: none
-- none: of no events
SELECT asked.event_id, webhook.delivery_ids(asked.event_id) AS delivery_ids
FROM unnest($1::uuid[]) AS asked (event_id);

-- name: run_retry_now
-- Make a waiting retry due now, beside its schedule, whose next attempt stays due when it was.
-- $1 seq bigint
-- row: seq bigint
-- none: it is due already, or in flight, or no longer owed
UPDATE webhook.outbox
SET
    due_at = clock_timestamp(),
    trigger = 'manual',
    scheduled_at = CASE
        WHEN outbox.on_failure IS NULL AND outbox.trigger = 'manual' THEN coalesce(outbox.scheduled_at, outbox.due_at)
        WHEN outbox.on_failure IS NULL THEN outbox.due_at
    END
WHERE
    outbox.seq = $1
    AND outbox.claim IS NULL
    -- Inside CASE: as a condition it would let outbox_due be read.
    AND CASE WHEN num_nulls(outbox.due_at) = 0 THEN outbox.due_at > clock_timestamp() END
RETURNING outbox.seq;

-- name: reopen_delivery
-- Move a finished delivery back into the outbox for one attempt; if that fails it returns to its state.
-- One that was never attempted goes back to its place in the order, any other is due now.
-- $1 seq bigint
-- $2 finished_at timestamptz
-- $3 merchant_id text
-- $4 lane text; as find_deliveries says
-- row: seq bigint, is_in_order boolean
-- none: an event with the same id is owed, the object is lost, or the delivery was dropped meanwhile
WITH finished AS MATERIALIZED (
    SELECT
        delivery_log.seq, delivery_log.finished_at, delivery_log.event_id, delivery_log.merchant_id,
        delivery_log.type, delivery_log.created_at, delivery_log.object, delivery_log.state,
        delivery_log.attempts, delivery_log.last_status, delivery_log.last_outcome, delivery_log.xid,
        delivery_log.copy_of
    FROM webhook.delivery_log
    WHERE delivery_log.seq = $1 AND delivery_log.finished_at = $2 AND delivery_log.merchant_id = $3
    FOR UPDATE
),
owed AS (
    INSERT INTO webhook.outbox (
        seq, id, merchant_id, type, created_at, object, attempts, due_at, trigger, on_failure,
        last_status, last_outcome, xid, copy_of
    )
    OVERRIDING SYSTEM VALUE
    SELECT
        finished.seq, finished.event_id, $4, finished.type, finished.created_at,
        finished.object, finished.attempts,
        CASE WHEN finished.attempts > 0 THEN clock_timestamp() END, 'manual', finished.state,
        finished.last_status, finished.last_outcome, finished.xid, finished.copy_of
    FROM finished
    WHERE json_typeof(finished.object) = 'object'
    ON CONFLICT (id) DO NOTHING
    RETURNING outbox.attempts
)
DELETE FROM webhook.delivery_log
USING owed
WHERE delivery_log.seq = $1 AND delivery_log.finished_at = $2 AND delivery_log.merchant_id = $3
RETURNING delivery_log.seq, owed.attempts = 0 AS is_in_order;

-- name: is_object_lost
-- Tell whether a finished delivery has lost its object: it could not be read, and was replaced by a JSON null.
-- $1 seq bigint
-- $2 finished_at timestamptz
-- $3 merchant_id text
-- row: is_lost boolean
-- none: the delivery was dropped meanwhile
SELECT json_typeof(delivery_log.object) <> 'object' AS is_lost
FROM webhook.delivery_log
WHERE delivery_log.seq = $1 AND delivery_log.finished_at = $2 AND delivery_log.merchant_id = $3;

-- name: wake_lanes
-- Make these merchants' lanes be looked at for due rows at once, and for rows that went back to the order.
-- $1 merchants text[]
-- $2 heads bigint[]
-- none: always; a null head where nothing was reopened in order
WITH concerned AS MATERIALIZED (
    SELECT asked.merchant_id, asked.head
    FROM (
        SELECT entry.merchant_id, entry.head
        FROM unnest($1::text[], $2::bigint[]) AS entry (merchant_id, head)
        ORDER BY entry.merchant_id
    ) AS asked
    CROSS JOIN LATERAL (
        SELECT FROM webhook.lane WHERE lane.merchant_id = asked.merchant_id FOR NO KEY UPDATE
    ) AS locked
)
UPDATE webhook.lane
SET
    retry_at = CASE WHEN lane.suspended_at IS NULL THEN least(lane.retry_at, clock_timestamp()) ELSE lane.retry_at END,
    from_seq = least(lane.from_seq, concerned.head - 1),
    recalled = lane.recalled
    OR (concerned.head IS NOT NULL AND lane.lease_until > '-infinity')
FROM concerned
WHERE lane.merchant_id = ANY(ARRAY[concerned.merchant_id]);

-- name: cancel_deliveries
-- Turn owed deliveries into cancelled ones.
-- $1 seqs bigint[]
-- row: seq bigint
-- order: none
-- none: none of them is owed any more
WITH cancelled AS (
    DELETE FROM webhook.outbox
    WHERE outbox.seq = ANY($1::bigint[]) AND outbox.on_failure IS DISTINCT FROM 'delivered'
    RETURNING outbox.seq, outbox.id, outbox.merchant_id, outbox.type, outbox.created_at, outbox.object,
        outbox.attempts, outbox.last_status, outbox.last_outcome, outbox.xid, outbox.copy_of
)
INSERT INTO webhook.delivery_log (
    seq, event_id, merchant_id, type, created_at, object,
    state, failed_reason, attempts, last_status, last_outcome, finished_at, xid, endpoint, copy_of
)
SELECT
    cancelled.seq, cancelled.id, webhook.merchant_of(cancelled.merchant_id), cancelled.type, cancelled.created_at,
    cancelled.object, 'failed', 'cancelled', cancelled.attempts,
    cancelled.last_status, cancelled.last_outcome, clock_timestamp(), cancelled.xid,
    webhook.endpoint_of(cancelled.merchant_id), cancelled.copy_of
FROM cancelled
RETURNING delivery_log.seq;

-- name: count_failed
-- Count what a mass retry will go through.
-- $1 merchant_id text
-- $2 since timestamptz
-- $3 until timestamptz
-- $4 most bigint
-- $5 endpoint smallint; null: all
-- row: matched bigint
-- order: one row
SELECT count(*) AS matched FROM (
    SELECT FROM webhook.delivery_log
    WHERE
        delivery_log.state = 'failed'
        AND delivery_log.failed_reason NOT IN ('cancelled', 'skipped')
        AND delivery_log.type <> 'webhook.test'
        AND delivery_log.finished_at >= $2
        AND delivery_log.finished_at < $3
        AND ($1::text IS NULL OR delivery_log.merchant_id = $1)
        AND (
            $5::smallint IS NULL
            OR webhook.logged_endpoint(delivery_log.endpoint, delivery_log.copy_of, delivery_log.attempts, (
                SELECT lane.routed_at FROM webhook.lane WHERE lane.merchant_id = $1
            )) = $5
        )
        AND (
            SELECT true
            FROM webhook.endpoint
            WHERE endpoint.merchant_id = ANY(ARRAY[
                webhook.lane_named(delivery_log.merchant_id, coalesce(delivery_log.endpoint, 1::smallint)),
                CASE WHEN coalesce(delivery_log.endpoint, 1) = 1 THEN delivery_log.merchant_id END
            ])
            LIMIT 1
        )
    LIMIT $4
) AS matching;

-- name: reopen_failed
-- Move the next chunk of failed deliveries back into the outbox, oldest first.
-- $1 merchant_id text
-- $2 after_finished_at timestamptz
-- $3 after_seq bigint
-- $4 until timestamptz
-- $5 most bigint
-- $6 endpoint smallint; null: all
-- row: finished_at timestamptz, seq bigint, lane text, is_reopened boolean, is_in_order boolean
-- order: by finished_at, seq; not reopened where an event with the same id is owed
-- none: the range is done
WITH finished AS MATERIALIZED (
    SELECT
        delivery_log.seq, delivery_log.finished_at, delivery_log.event_id, delivery_log.merchant_id,
        delivery_log.type, delivery_log.created_at, delivery_log.object,
        delivery_log.attempts, delivery_log.last_status, delivery_log.last_outcome, delivery_log.xid, delivery_log.copy_of,
        CASE
            WHEN num_nulls(delivery_log.copy_of) = 1 THEN delivery_log.merchant_id
            ELSE webhook.lane_of(delivery_log.merchant_id, coalesce(delivery_log.endpoint, 1::smallint))
        END AS lane
    FROM webhook.delivery_log
    WHERE
        delivery_log.state = 'failed'
        AND delivery_log.failed_reason NOT IN ('cancelled', 'skipped')
        AND delivery_log.type <> 'webhook.test'
        AND (delivery_log.finished_at, delivery_log.seq) > ($2::timestamptz, $3::bigint)
        AND delivery_log.finished_at >= $2
        AND delivery_log.finished_at < $4
        AND ($1::text IS NULL OR delivery_log.merchant_id = $1)
        AND (
            $6::smallint IS NULL
            OR webhook.logged_endpoint(delivery_log.endpoint, delivery_log.copy_of, delivery_log.attempts, (
                SELECT lane.routed_at FROM webhook.lane WHERE lane.merchant_id = $1
            )) = $6
        )
        AND (
            SELECT true
            FROM webhook.endpoint
            WHERE endpoint.merchant_id = ANY(ARRAY[
                webhook.lane_named(delivery_log.merchant_id, coalesce(delivery_log.endpoint, 1::smallint)),
                CASE WHEN coalesce(delivery_log.endpoint, 1) = 1 THEN delivery_log.merchant_id END
            ])
            LIMIT 1
        )
    ORDER BY delivery_log.finished_at, delivery_log.seq
    LIMIT $5
    FOR UPDATE
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
        CASE WHEN finished.attempts > 0 THEN clock_timestamp() END, 'manual', 'failed',
        finished.last_status, finished.last_outcome, finished.xid, finished.copy_of
    FROM finished
    ON CONFLICT (id) DO NOTHING
    RETURNING outbox.seq
),
-- IN is hashed; a join may compare each with each.
chunk AS MATERIALIZED (
    SELECT
        finished.finished_at, finished.seq, finished.merchant_id, finished.lane, finished.attempts,
        finished.seq IN (SELECT owed.seq FROM owed) AS is_reopened
    FROM finished
),
gone AS (
    DELETE FROM webhook.delivery_log
    USING chunk
    WHERE
        delivery_log.merchant_id = ANY(ARRAY[chunk.merchant_id])
        AND delivery_log.seq BETWEEN chunk.seq AND chunk.seq
        AND delivery_log.finished_at = chunk.finished_at
        AND chunk.is_reopened
)
SELECT chunk.finished_at, chunk.seq, chunk.lane, chunk.is_reopened, chunk.attempts = 0 AS is_in_order
FROM chunk
ORDER BY chunk.finished_at, chunk.seq;

-- name: count_waiting
-- Count those of a mass retry's deliveries that still wait for their attempt, or are under way; of what was routed, or handed on,
-- just now, its first copy, which has its id.
-- $1 seqs bigint[]
-- row: waiting bigint
-- order: one row
SELECT count(*) AS waiting
FROM unnest($1::bigint[]) AS asked (seq)
CROSS JOIN LATERAL (
    SELECT outbox.trigger FROM webhook.outbox WHERE outbox.seq = asked.seq
    UNION ALL
    SELECT outbox.trigger
    FROM (
        SELECT delivery_log.event_id
        FROM webhook.delivery_log
        WHERE
            delivery_log.seq = asked.seq
            AND delivery_log.finished_at >= statement_timestamp() - interval '1 minute'
            AND num_nulls(delivery_log.state) = 1
        LIMIT 1
    ) AS event
    INNER JOIN webhook.outbox ON outbox.id = event.event_id
) AS owed
WHERE owed.trigger IN ('manual', 'replay');

-- name: find_next_failed
-- Find where the next chunk of reopen_failed begins, without reading objects: to pass one delivery over.
-- $1 merchant_id text
-- $2 after_finished_at timestamptz
-- $3 after_seq bigint
-- $4 until timestamptz
-- $5 endpoint smallint; null: all
-- row: finished_at timestamptz, seq bigint
-- none: the range is done
SELECT delivery_log.finished_at, delivery_log.seq
FROM webhook.delivery_log
WHERE
    delivery_log.state = 'failed'
    AND delivery_log.failed_reason NOT IN ('cancelled', 'skipped')
    AND delivery_log.type <> 'webhook.test'
    AND (delivery_log.finished_at, delivery_log.seq) > ($2::timestamptz, $3::bigint)
    AND delivery_log.finished_at >= $2
    AND delivery_log.finished_at < $4
    AND ($1::text IS NULL OR delivery_log.merchant_id = $1)
    AND (
        $5::smallint IS NULL
        OR webhook.logged_endpoint(delivery_log.endpoint, delivery_log.copy_of, delivery_log.attempts, (
            SELECT lane.routed_at FROM webhook.lane WHERE lane.merchant_id = $1
        )) = $5
    )
    AND (
        SELECT true
        FROM webhook.endpoint
        WHERE endpoint.merchant_id = ANY(ARRAY[
            webhook.lane_named(delivery_log.merchant_id, coalesce(delivery_log.endpoint, 1::smallint)),
            CASE WHEN coalesce(delivery_log.endpoint, 1) = 1 THEN delivery_log.merchant_id END
        ])
        LIMIT 1
    )
ORDER BY delivery_log.finished_at, delivery_log.seq
LIMIT 1;
