-- Carrying out the control table. One dispatcher at a time takes commands up, in order of id, each in a
-- transaction of its own: what a command does and that it is done are committed together.

-- name: lock_control
-- Become the one that takes up commands, for this transaction.
-- row: is_only boolean
-- none: another dispatcher is at it
SELECT state.is_only FROM webhook.state FOR NO KEY UPDATE SKIP LOCKED;

-- name: next_command
-- Read the oldest command that nobody has taken up, or whose worker has gone, leaving out those that are
-- postponed and whatever they have a merchant or event in common with.
-- $1 except_ids bigint[]
-- row: id bigint, command text, merchant_id text, event_id uuid, args jsonb, result jsonb,
--      created_at timestamptz
-- none: nothing to do
SELECT
    control.id, control.command, control.merchant_id, control.event_id, control.args,
    control.result, control.created_at
FROM webhook.control
WHERE
    (
        control.status = 'pending'
        OR (control.status = 'running' AND control.running_until < clock_timestamp())
    )
    AND NOT EXISTS (
        SELECT FROM webhook.control AS postponed
        WHERE
            postponed.id = ANY($1::bigint[])
            AND (
                postponed.id = control.id
                OR postponed.merchant_id = control.merchant_id
                OR postponed.event_id = control.event_id
            )
    )
ORDER BY control.id
LIMIT 1;

-- name: finish_command
-- Say what became of a command.
-- $1 id bigint
-- $2 status text
-- $3 result jsonb
-- $4 error_code integer
-- $5 error_message text
-- $6 running_until timestamptz
-- row: id bigint
-- none: running_until was given and is not the lease it has: another worker has it
UPDATE webhook.control
SET
    status = $2, handled_at = clock_timestamp(), running_until = NULL,
    result = coalesce($3, control.result), error_code = $4, error_message = $5
WHERE control.id = $1 AND ($6::timestamptz IS NULL OR control.running_until = $6)
RETURNING control.id;

-- name: run_command
-- Mark a long command as running, or show how far it has come; its worker has until the lease's end.
-- $1 id bigint
-- $2 lease interval
-- $3 result jsonb
-- $4 running_until timestamptz
-- row: running_until timestamptz
-- none: running_until was given and is not the lease it has: another worker has it
UPDATE webhook.control
SET status = 'running', running_until = clock_timestamp() + $2::interval, result = $3
WHERE control.id = $1 AND ($4::timestamptz IS NULL OR control.running_until = $4)
RETURNING control.running_until;

-- name: purge_control
-- Forget commands handled longer ago than the audit trail is kept.
-- $1 keep interval
-- none: always
DELETE FROM webhook.control WHERE control.handled_at < clock_timestamp() - $1::interval;

-- name: lock_lane
-- Lock one lane, so that nobody claims from it or records into it until this transaction ends.
-- $1 merchant_id text
-- row: is_leased boolean, paused boolean
-- none: there is no such lane
SELECT lane.lease_until > clock_timestamp() AS is_leased, lane.paused
FROM webhook.lane
WHERE lane.merchant_id = $1
FOR NO KEY UPDATE;

-- name: find_delivery
-- Find the latest delivery of an event, wherever it stands.
-- $1 event_id uuid
-- row: seq bigint, merchant_id text, type text, state text, failed_reason text, is_owed boolean, is_in_flight boolean, finished_at timestamptz
-- none: not known, or dropped with its day's log
SELECT * FROM (
    SELECT
        outbox.seq, outbox.merchant_id, outbox.type,
        CASE
            WHEN outbox.on_failure = 'delivered' THEN 'delivered'
            WHEN outbox.due_at IS NULL THEN 'pending'
            ELSE 'pending_retry'
        END AS state,
        NULL AS failed_reason,
        true AS is_owed,
        CASE
            WHEN outbox.due_at IS NULL THEN coalesce(lane.lease_until > clock_timestamp(), false) AND NOT EXISTS (
                SELECT FROM webhook.outbox AS earlier
                WHERE
                    earlier.merchant_id = outbox.merchant_id
                    AND earlier.due_at IS NULL
                    AND earlier.seq < outbox.seq
            )
            ELSE outbox.claim IS NOT NULL AND outbox.due_at > clock_timestamp()
        END AS is_in_flight,
        NULL::timestamptz AS finished_at
    FROM webhook.outbox
    LEFT JOIN webhook.lane ON lane.merchant_id = outbox.merchant_id
    WHERE outbox.id = $1
    UNION ALL
    SELECT
        delivery_log.seq, delivery_log.merchant_id, delivery_log.type, delivery_log.state,
        delivery_log.failed_reason, false AS is_owed, false AS is_in_flight, delivery_log.finished_at
    FROM webhook.delivery_log
    WHERE delivery_log.event_id = $1
) AS known
ORDER BY known.is_owed DESC, known.seq DESC
LIMIT 1;

-- name: hasten_retry
-- Make a waiting retry due now.
-- $1 seq bigint
-- row: seq bigint
-- none: it is in flight, or no longer owed
UPDATE webhook.outbox
SET due_at = clock_timestamp(), trigger = 'manual'
WHERE
    outbox.seq = $1
    AND outbox.due_at IS NOT NULL
    AND (outbox.claim IS NULL OR outbox.due_at <= clock_timestamp())
RETURNING outbox.seq;

-- name: reopen_delivery
-- Move a finished delivery back into the outbox for one attempt; if that fails it returns to its state.
-- One that was never attempted goes back to its place in the order, any other is due now.
-- $1 seq bigint
-- $2 finished_at timestamptz
-- row: seq bigint, is_in_order boolean
-- none: an event with the same id is owed, or the delivery was dropped meanwhile
WITH finished AS MATERIALIZED (
    SELECT
        delivery_log.seq, delivery_log.finished_at, delivery_log.event_id, delivery_log.merchant_id,
        delivery_log.type, delivery_log.created_at, delivery_log.object, delivery_log.state,
        delivery_log.attempts, delivery_log.last_status, delivery_log.last_outcome
    FROM webhook.delivery_log
    WHERE delivery_log.seq = $1 AND delivery_log.finished_at = $2
    FOR UPDATE
),
owed AS (
    INSERT INTO webhook.outbox (
        seq, id, merchant_id, type, created_at, object, attempts, due_at, trigger, on_failure,
        last_status, last_outcome
    )
    OVERRIDING SYSTEM VALUE
    SELECT
        finished.seq, finished.event_id, finished.merchant_id, finished.type, finished.created_at,
        finished.object, finished.attempts,
        CASE WHEN finished.attempts > 0 THEN clock_timestamp() END, 'manual', finished.state,
        finished.last_status, finished.last_outcome
    FROM finished
    ON CONFLICT (id) DO NOTHING
    RETURNING outbox.seq, outbox.attempts
)
DELETE FROM webhook.delivery_log
USING owed
WHERE delivery_log.seq = owed.seq AND delivery_log.finished_at = $2
RETURNING delivery_log.seq, owed.attempts = 0 AS is_in_order;

-- name: announce
-- Let the lanes of these merchants be looked at for due rows at once, and for rows put back in order.
-- $1 merchants text[]
-- $2 heads bigint[]
-- none: always; a null head where nothing was put back in order
WITH concerned AS MATERIALIZED (
    SELECT lane.merchant_id, entry.head
    FROM unnest($1::text[], $2::bigint[]) AS entry (merchant_id, head)
    INNER JOIN webhook.lane ON lane.merchant_id = entry.merchant_id
    ORDER BY lane.merchant_id
    FOR NO KEY UPDATE OF lane
)
UPDATE webhook.lane
SET
    retry_at = least(lane.retry_at, clock_timestamp()),
    from_seq = least(lane.from_seq, concerned.head - 1),
    recalled = lane.recalled
    OR (concerned.head IS NOT NULL AND lane.lease_until > clock_timestamp())
FROM concerned
WHERE lane.merchant_id = concerned.merchant_id;

-- name: cancel_delivery
-- Turn an owed delivery into a cancelled one.
-- $1 event_id uuid
-- row: seq bigint, attempts smallint
-- none: it is no longer owed
WITH cancelled AS (
    DELETE FROM webhook.outbox
    WHERE outbox.id = $1 AND outbox.on_failure IS DISTINCT FROM 'delivered'
    RETURNING outbox.seq, outbox.id, outbox.merchant_id, outbox.type, outbox.created_at, outbox.object,
        outbox.attempts, outbox.last_status, outbox.last_outcome
)
INSERT INTO webhook.delivery_log (
    seq, event_id, merchant_id, type, created_at, object,
    state, failed_reason, attempts, last_status, last_outcome, finished_at
)
SELECT
    cancelled.seq, cancelled.id, cancelled.merchant_id, cancelled.type, cancelled.created_at,
    cancelled.object, 'failed', 'cancelled', cancelled.attempts,
    cancelled.last_status, cancelled.last_outcome, clock_timestamp()
FROM cancelled
RETURNING delivery_log.seq, delivery_log.attempts;

-- name: recall_lane
-- Ask the holder of a lane to give it back before it starts anything else.
-- $1 merchant_id text
-- none: always
UPDATE webhook.lane
SET recalled = lane.lease_until > clock_timestamp()
WHERE lane.merchant_id = $1;

-- name: pause_lane
-- Pause or resume one merchant.
-- $1 merchant_id text
-- $2 paused boolean
-- none: always
UPDATE webhook.lane
SET paused = $2, recalled = lane.recalled OR ($2 AND lane.lease_until > clock_timestamp())
WHERE lane.merchant_id = $1;

-- name: pause_everything
-- Pause or resume all sending.
-- $1 paused boolean
-- none: always
UPDATE webhook.state SET paused = $1;

-- name: is_configured
-- Tell whether a merchant has an endpoint, and whether it is paused.
-- $1 merchant_id text
-- row: is_paused boolean
-- none: not configured
SELECT coalesce(lane.paused, false) OR (SELECT state.paused FROM webhook.state) AS is_paused
FROM webhook.endpoint
LEFT JOIN webhook.lane ON lane.merchant_id = endpoint.merchant_id
WHERE endpoint.merchant_id = $1;

-- name: set_url
-- Change the URL of a configured endpoint; its trigger recalls the lane.
-- $1 merchant_id text
-- $2 url text
-- row: merchant_id text
-- none: not configured
UPDATE webhook.endpoint
SET url = $2, updated_at = clock_timestamp()
WHERE endpoint.merchant_id = $1
RETURNING endpoint.merchant_id;

-- name: count_failed
-- Count what a mass retry will go through.
-- $1 merchant_id text
-- $2 since timestamptz
-- $3 until timestamptz
-- $4 most bigint
-- row: matched bigint
-- order: one row
SELECT count(*) AS matched FROM (
    SELECT FROM webhook.delivery_log
    WHERE
        delivery_log.state = 'failed'
        AND delivery_log.failed_reason <> 'cancelled'
        AND delivery_log.type <> 'webhook.test'
        AND delivery_log.finished_at >= $2
        AND delivery_log.finished_at < $3
        AND ($1::text IS NULL OR delivery_log.merchant_id = $1)
        AND EXISTS (SELECT FROM webhook.endpoint WHERE endpoint.merchant_id = delivery_log.merchant_id)
    LIMIT $4
) AS matching;

-- name: reopen_failed
-- Move the next chunk of failed deliveries back into the outbox, oldest first.
-- $1 merchant_id text
-- $2 after_finished_at timestamptz
-- $3 after_seq bigint
-- $4 until timestamptz
-- $5 most bigint
-- row: finished_at timestamptz, seq bigint, merchant_id text, is_reopened boolean, is_in_order boolean
-- order: by finished_at, seq; not reopened where an event with the same id is owed
-- none: the range is done
WITH finished AS MATERIALIZED (
    SELECT
        delivery_log.seq, delivery_log.finished_at, delivery_log.event_id, delivery_log.merchant_id,
        delivery_log.type, delivery_log.created_at, delivery_log.object,
        delivery_log.attempts, delivery_log.last_status, delivery_log.last_outcome
    FROM webhook.delivery_log
    WHERE
        delivery_log.state = 'failed'
        AND delivery_log.failed_reason <> 'cancelled'
        AND delivery_log.type <> 'webhook.test'
        AND (delivery_log.finished_at, delivery_log.seq) > ($2::timestamptz, $3::bigint)
        AND delivery_log.finished_at >= $2
        AND delivery_log.finished_at < $4
        AND ($1::text IS NULL OR delivery_log.merchant_id = $1)
        AND EXISTS (SELECT FROM webhook.endpoint WHERE endpoint.merchant_id = delivery_log.merchant_id)
    ORDER BY delivery_log.finished_at, delivery_log.seq
    LIMIT $5
    FOR UPDATE
),
owed AS (
    INSERT INTO webhook.outbox (
        seq, id, merchant_id, type, created_at, object, attempts, due_at, trigger, on_failure,
        last_status, last_outcome
    )
    OVERRIDING SYSTEM VALUE
    SELECT
        finished.seq, finished.event_id, finished.merchant_id, finished.type, finished.created_at,
        finished.object, finished.attempts,
        CASE WHEN finished.attempts > 0 THEN clock_timestamp() END, 'manual', 'failed',
        finished.last_status, finished.last_outcome
    FROM finished
    ON CONFLICT (id) DO NOTHING
    RETURNING outbox.seq
),
gone AS (
    DELETE FROM webhook.delivery_log
    USING owed, finished
    WHERE
        delivery_log.seq = owed.seq
        AND finished.seq = owed.seq
        AND delivery_log.finished_at = finished.finished_at
)
SELECT
    finished.finished_at, finished.seq, finished.merchant_id,
    owed.seq IS NOT NULL AS is_reopened,
    finished.attempts = 0 AS is_in_order
FROM finished
LEFT JOIN owed ON owed.seq = finished.seq
ORDER BY finished.finished_at, finished.seq;

-- name: log_test_event
-- Write down a test event and its one attempt.
-- $1 event_id uuid
-- $2 merchant_id text
-- $3 created_at timestamptz
-- $4 object json
-- $5 state text
-- $6 failed_reason text
-- $7 started_at timestamptz
-- $8 duration_ms integer
-- $9 status smallint
-- $10 outcome text
-- $11 finished_at timestamptz
-- none: always
WITH attempted AS (
    INSERT INTO webhook.attempt_log (
        event_id, merchant_id, attempt, trigger, started_at, duration_ms, status, outcome
    )
    VALUES ($1, $2, 1, 'manual', $7, $8, $9, $10)
    ON CONFLICT DO NOTHING
    RETURNING attempt_log.event_id
)
INSERT INTO webhook.delivery_log (
    seq, event_id, merchant_id, type, created_at, object,
    state, failed_reason, attempts, last_status, last_outcome, finished_at
)
SELECT nextval('webhook.outbox_seq_seq'), $1, $2, 'webhook.test', $3, $4, $5, $6, 1, $9, $10, $11
FROM attempted;
