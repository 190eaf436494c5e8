-- Events that were sent, and that the database does not have since another server took over.

-- name: note_lost
-- Note those of these events that are neither owed nor finished here.
-- $1 event_ids uuid[]
-- $2 merchants text[]
-- $3 seqs bigint[]
-- $4 sent_ats timestamptz[]
-- $5 are_delivered boolean[]
-- row: lost bigint
-- order: one row
WITH sent AS MATERIALIZED (
    SELECT *
    FROM unnest($1::uuid[], $2::text[], $3::bigint[], $4::timestamptz[], $5::boolean[])
        AS entry (event_id, merchant_id, seq, sent_at, is_delivered)
),
noted AS (
    INSERT INTO webhook.lost_event (event_id, merchant_id, seq, sent_at, is_delivered)
    SELECT sent.event_id, sent.merchant_id, sent.seq, sent.sent_at, sent.is_delivered
    FROM sent
    WHERE
        (SELECT webhook.merchant_of(outbox.merchant_id) FROM webhook.outbox WHERE outbox.id = sent.event_id LIMIT 1)
        IS DISTINCT FROM sent.merchant_id
        AND (
            SELECT delivery_log.event_id
            FROM webhook.delivery_log
            WHERE
                delivery_log.event_id = sent.event_id
                -- Inside CASE: as a condition it would let all that a merchant was sent be read.
                AND CASE WHEN delivery_log.merchant_id = sent.merchant_id THEN true END
            LIMIT 1
        ) IS NULL
        -- Of an endpoint that is far behind: the event, and what the others got of it, may have been dropped from the log.
        AND (SELECT outbox.copy_of FROM webhook.outbox WHERE outbox.seq = sent.seq LIMIT 1) IS DISTINCT FROM sent.event_id
        AND (
            SELECT delivery_log.copy_of
            FROM webhook.delivery_log
            WHERE
                delivery_log.merchant_id = sent.merchant_id
                AND delivery_log.seq = sent.seq
                AND CASE WHEN delivery_log.copy_of = sent.event_id THEN true END
            LIMIT 1
        ) IS NULL
    ON CONFLICT DO NOTHING
    RETURNING lost_event.event_id
)
SELECT count(*) AS lost FROM noted;

-- name: read_lost
-- Say how many events were lost, which, and when that was noted last.
-- row: events bigint, merchants bigint, first_seq bigint, last_seq bigint, first_sent_at timestamptz,
--      last_sent_at timestamptz, noted_at timestamptz, is_recent boolean
-- order: one row
-- none: none was
SELECT
    count(*) AS events,
    count(DISTINCT lost_event.merchant_id) AS merchants,
    min(lost_event.seq) AS first_seq,
    max(lost_event.seq) AS last_seq,
    min(lost_event.sent_at) AS first_sent_at,
    max(lost_event.sent_at) AS last_sent_at,
    max(lost_event.noted_at) AS noted_at,
    max(lost_event.noted_at) > clock_timestamp() - interval '1 day' AS is_recent
FROM webhook.lost_event
HAVING count(*) > 0;

-- name: find_lost
-- Read what was noted of an event.
-- $1 event_id uuid
-- row: merchant_id text, sent_at timestamptz, is_delivered boolean, noted_at timestamptz
-- none: nothing
SELECT lost_event.merchant_id, lost_event.sent_at, lost_event.is_delivered, lost_event.noted_at
FROM webhook.lost_event
WHERE lost_event.event_id = $1;
