-- Finding the row for whose sake a statement was refused that was asked for many. Used only after that.

-- name: read_next
-- Read the next event of a leased lane, all but its object.
-- $1 merchant_id text
-- $2 after_seq bigint
-- row: merchant_id text, seq bigint, id uuid, type text, created_at timestamptz, trigger text, on_failure text, copy_of uuid
-- none: the lane owes nothing behind after_seq
SELECT
    outbox.merchant_id, outbox.seq, outbox.id, outbox.type, outbox.created_at, outbox.trigger,
    outbox.on_failure, outbox.copy_of
FROM webhook.outbox
-- As read_runs has it: no condition on seq alone.
WHERE (outbox.merchant_id, outbox.seq) > ($1, $2) AND outbox.merchant_id <= $1 AND outbox.due_at IS NULL
ORDER BY outbox.merchant_id, outbox.seq
LIMIT 1;

-- name: name_due
-- Name the due rows that claim_retries would take if nothing else were in flight. Reads no objects.
-- $1 lanes text[]
-- $2 per_lane bigint
-- $3 except_seqs bigint[]
-- row: merchant_id text, seq bigint, id uuid
-- none: nothing is due
SELECT wanted.merchant_id, due.seq, due.id
FROM unnest($1::text[]) AS wanted (merchant_id)
CROSS JOIN LATERAL (
    SELECT outbox.seq, outbox.id
    FROM webhook.outbox
    WHERE
        outbox.merchant_id = wanted.merchant_id
        AND outbox.due_at <= (SELECT clock_timestamp())
        AND outbox.seq <> ALL($3::bigint[])
    ORDER BY outbox.due_at
    LIMIT $2
) AS due;

-- name: find_row
-- See one row, without its object.
-- $1 seq bigint
-- row: id uuid
-- none: it is not owed any more
SELECT outbox.id FROM webhook.outbox WHERE outbox.seq = $1;

-- name: try_rows
-- Read in the database what reading or changing these rows would read.
-- $1 seqs bigint[]
-- row: object_bytes integer, can_be_sent boolean
-- none: they are not owed any more
SELECT
    CASE
        WHEN outbox.object_bytes <= 262144 THEN octet_length(convert_to(outbox.object::text, 'UTF8'))
    END AS object_bytes,
    webhook.event_can_be_sent(outbox.merchant_id, outbox.type, outbox.created_at, outbox.object) AS can_be_sent
FROM webhook.outbox
WHERE outbox.seq = ANY($1::bigint[]);

-- name: close_row
-- Finish a due row that can be read and not be claimed, as unsendable; what was delivered before stays so.
-- $1 seq bigint
-- $2 id uuid
-- row: type text, state text
-- none: it is not due any more
WITH closed AS (
    DELETE FROM webhook.outbox
    WHERE outbox.seq = $1 AND CASE WHEN outbox.id = $2 THEN outbox.due_at <= clock_timestamp() END
    RETURNING
        outbox.seq, outbox.id, outbox.merchant_id, outbox.type, outbox.created_at, outbox.object,
        outbox.on_failure IS NOT DISTINCT FROM 'delivered' AS is_delivered,
        outbox.attempts, outbox.last_status, outbox.last_outcome, outbox.xid, outbox.copy_of
),
logged AS (
    INSERT INTO webhook.delivery_log (
        seq, event_id, merchant_id, type, created_at, object,
        state, failed_reason, attempts, last_status, last_outcome, finished_at, xid, endpoint, copy_of
    )
    SELECT
        closed.seq, closed.id, webhook.merchant_of(closed.merchant_id), closed.type, closed.created_at, closed.object,
        CASE WHEN closed.is_delivered THEN 'delivered' ELSE 'failed' END,
        CASE WHEN NOT closed.is_delivered THEN 'unsendable' END,
        closed.attempts, closed.last_status, closed.last_outcome, clock_timestamp(), closed.xid,
        webhook.endpoint_of(closed.merchant_id), closed.copy_of
    FROM closed
    RETURNING
        delivery_log.seq, coalesce(delivery_log.copy_of, delivery_log.event_id) AS event_id, delivery_log.merchant_id,
        delivery_log.type, delivery_log.state, delivery_log.failed_reason, delivery_log.finished_at
),
unreported AS (
    -- As record has it.
    INSERT INTO webhook.unreported_failure (finished_at, seq, event_id, merchant_id, reason)
    SELECT logged.finished_at, logged.seq, logged.event_id, logged.merchant_id, logged.failed_reason
    FROM logged
    WHERE
        (SELECT true FROM webhook.endpoint WHERE endpoint.merchant_id >= '$platform' AND endpoint.merchant_id < '$platform ' LIMIT 1)
        AND logged.state = 'failed'
        AND logged.merchant_id <> '$platform'
        AND logged.type <> 'webhook.test'
    ON CONFLICT DO NOTHING
)
SELECT logged.type, logged.state FROM logged;

-- name: look_later
-- Let lanes whose due rows cannot even be named wait a while for the next look.
-- $1 lanes text[]
-- $2 wait interval
-- none: always
UPDATE webhook.lane
SET retry_at = greatest(lane.retry_at, clock_timestamp() + $2::interval)
WHERE lane.merchant_id = ANY($1::text[]);
