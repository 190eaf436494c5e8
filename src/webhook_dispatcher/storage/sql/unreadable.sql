-- Getting past rows that cannot be read or changed (damaged storage): used only once a statement that was
-- asked for many rows has been refused.

-- name: read_suspect
-- Read the next event of a leased lane, all but its object.
-- $1 merchant_id text
-- $2 after_seq bigint
-- row: merchant_id text, seq bigint, id uuid, type text, created_at timestamptz, trigger text, on_failure text
-- none: the lane owes nothing behind after_seq
SELECT
    outbox.merchant_id, outbox.seq, outbox.id, outbox.type, outbox.created_at, outbox.trigger,
    outbox.on_failure
FROM webhook.outbox
-- As read_runs has it: no condition on seq alone.
WHERE (outbox.merchant_id, outbox.seq) > ($1, $2) AND outbox.merchant_id <= $1 AND outbox.due_at IS NULL
ORDER BY outbox.merchant_id, outbox.seq
LIMIT 1;

-- name: lock_due_rows
-- Lock due rows of one locked lane, the earliest first, without reading their objects.
-- places_left: how many of them may be claimed.
-- $1 merchant_id text
-- $2 places bigint
-- $3 most bigint
-- row: merchant_id text, seq bigint, id uuid, type text, created_at timestamptz, attempts smallint, trigger text, on_failure text, places_left bigint
-- order: by due_at
-- none: nothing is due, or the rows are locked by somebody
SELECT
    outbox.merchant_id, outbox.seq, outbox.id, outbox.type, outbox.created_at, outbox.attempts,
    outbox.trigger, outbox.on_failure,
    greatest($2 - (
        SELECT count(*) FILTER (WHERE flying.due_at > clock_timestamp())
        FROM webhook.outbox AS flying
        WHERE flying.merchant_id = $1 AND flying.claim IS NOT NULL
    ), 0) AS places_left
FROM webhook.outbox
WHERE outbox.merchant_id = $1 AND outbox.due_at <= (SELECT clock_timestamp())
ORDER BY outbox.due_at
LIMIT $3
FOR NO KEY UPDATE SKIP LOCKED;

-- name: claim_row
-- Claim one locked row, as claim_retries does with many.
-- $1 seq bigint
-- $2 lease interval
-- row: merchant_id text, seq bigint, id uuid, type text, created_at timestamptz, object bytea, attempts smallint, trigger text, on_failure text, claim bigint, endpoint_removed_at timestamptz
UPDATE webhook.outbox
SET due_at = clock_timestamp() + $2::interval, claim = nextval('webhook.claim_token')
WHERE outbox.seq = $1
RETURNING
    outbox.merchant_id,
    outbox.seq,
    outbox.id,
    outbox.type,
    outbox.created_at,
    CASE WHEN outbox.object_bytes <= 262144 THEN convert_to(outbox.object::text, 'UTF8') END AS object,
    outbox.attempts,
    outbox.trigger,
    outbox.on_failure,
    outbox.claim,
    (
        SELECT lane.endpoint_removed_at FROM webhook.lane WHERE lane.merchant_id = outbox.merchant_id
    ) AS endpoint_removed_at;

-- name: close_row
-- Finish one locked row that cannot be claimed, as unsendable; what was delivered before stays so.
-- A JSON null stands for an object that is lost: as no event has it, it cannot be sent by hand either.
-- $1 seq bigint
-- $2 is_object_lost boolean
-- none: always
WITH closed AS (
    DELETE FROM webhook.outbox
    WHERE outbox.seq = $1
    RETURNING
        outbox.seq, outbox.id, outbox.merchant_id, outbox.type, outbox.created_at,
        CASE WHEN $2::boolean THEN 'null'::json ELSE outbox.object END AS object,
        outbox.on_failure IS NOT DISTINCT FROM 'delivered' AS is_delivered,
        outbox.attempts, outbox.last_status, outbox.last_outcome
)
INSERT INTO webhook.delivery_log (
    seq, event_id, merchant_id, type, created_at, object,
    state, failed_reason, attempts, last_status, last_outcome, finished_at
)
SELECT
    closed.seq, closed.id, closed.merchant_id, closed.type, closed.created_at, closed.object,
    CASE WHEN closed.is_delivered THEN 'delivered' ELSE 'failed' END,
    CASE WHEN NOT closed.is_delivered THEN 'unsendable' END,
    closed.attempts, closed.last_status, closed.last_outcome, clock_timestamp()
FROM closed;

-- name: look_later
-- Let lanes whose earliest due row can be neither claimed nor finished wait a while for the next look.
-- $1 merchants text[]
-- $2 wait interval
-- none: always
UPDATE webhook.lane
SET retry_at = greatest(
    lane.retry_at,
    least(clock_timestamp() + $2::interval, (
        SELECT min(outbox.due_at)
        FROM webhook.outbox
        WHERE outbox.merchant_id = lane.merchant_id AND outbox.due_at > clock_timestamp()
    ))
)
WHERE lane.merchant_id = ANY($1::text[]);

-- name: find_row
-- See one row, without its object.
-- $1 seq bigint
-- row: merchant_id text, id uuid
-- none: it is not owed any more
SELECT outbox.merchant_id, outbox.id FROM webhook.outbox WHERE outbox.seq = $1;

-- name: try_reading
-- Read one row's object in the database.
-- $1 seq bigint
-- row: object_bytes integer
-- none: it is not owed any more
SELECT octet_length(convert_to(outbox.object::text, 'UTF8')) AS object_bytes
FROM webhook.outbox
WHERE outbox.seq = $1;

-- name: try_deleting
-- Delete one row, in a transaction that is rolled back.
-- $1 seq bigint
-- none: always
DELETE FROM webhook.outbox WHERE outbox.seq = $1;
