-- What a merchant reads of its deliveries. Each statement finds the merchant by the token's hash alone: webhook.bearer()
-- comes first, and what stands inside LATERAL, behind a LIMIT, is read for its row only (docs/contract.md, section 3).
-- An event that is another merchant's is answered as one that does not exist, by the same statement and plan.

-- name: list_own_deliveries
-- List deliveries, the newest first. At most 1,000 rows are examined, whatever the filter: if more than these may
-- match, the last of them comes back as well, though it may not match, to go on behind it. What nobody wanted is
-- among them, has no state and never matches.
-- What is owed is asked apart in order and out of it: each has an index by seq. So is what is owed in each lane of an endpoint,
-- where there are several; what lies in the merchant's own is number 1's, or not known yet to whom it goes. What is finished
-- lies in partitions by day: what was finished a day before `since` is not read, since it was created before that. It is
-- ordered by merchant too, which ANY keeps the planner from dropping: only the indexes that begin with merchants have that
-- order. A limit that the planner does not know keeps it from sorting all rows of a merchant whom statistics call small.
-- The views, which are security barriers, have that order themselves; rows are counted in it by row_number(), since behind an
-- ORDER BY the planner would forget the limit and sort them all. What is compared with a column is no COALESCE, which a
-- barrier keeps out.
-- $1 token bytea
-- $2 before_seq bigint
-- $3 state text, or null, as all that follows
-- $4 type text
-- $5 since timestamptz
-- $6 until timestamptz
-- $7 endpoint smallint; its number
-- $8 most bigint
-- row: event_id uuid, delivery_id uuid, endpoint_id uuid, seq bigint, type text, created_at timestamptz, state text,
--   failed_reason text, attempts smallint, next_attempt_at timestamptz, last_status smallint, last_outcome text,
--   finished_at timestamptz, is_match boolean, is_last_examined boolean; ordered by seq, the newest first
-- none: no delivery matches, or the token is not live
SELECT
    coalesce(page.copy_of, page.event_id) AS event_id, page.event_id AS delivery_id, page.endpoint_id,
    page.seq, page.type, page.created_at, page.state, page.failed_reason, page.attempts, page.next_attempt_at,
    page.last_status, page.last_outcome, page.finished_at, page.is_match, page.is_last_examined
FROM webhook.bearer($1) AS me
CROSS JOIN LATERAL (
    SELECT
        numbered.event_id, numbered.seq, numbered.type, numbered.created_at, numbered.state,
        numbered.failed_reason, numbered.attempts, numbered.next_attempt_at, numbered.last_status, numbered.last_outcome,
        numbered.finished_at, numbered.copy_of, CASE WHEN num_nulls(numbered.endpoint) = 0 THEN (
            SELECT own_endpoints.id FROM webhook.own_endpoints WHERE own_endpoints.number = numbered.endpoint
        ) END AS endpoint_id,
        judged.is_match,
        numbered.number = 1000 AS is_last_examined
    FROM (
        SELECT examined.*, row_number() OVER (ORDER BY examined.merchant_id DESC, examined.seq DESC) AS number
        FROM (
            SELECT known.*
            FROM (
                (
                    SELECT
                        merchant_id, seq, event_id, type, created_at, 'pending' AS state, NULL::text AS failed_reason,
                        attempts, NULL::timestamptz AS next_attempt_at, last_status, last_outcome,
                        NULL::timestamptz AS finished_at, NULL::smallint AS endpoint, copy_of,
                        row_number() OVER (ORDER BY merchant_id DESC, seq DESC) AS place
                    FROM webhook.own_owed
                    WHERE merchant_id = ANY(ARRAY[me.merchant_id]) AND seq < $2
                        AND due_at IS NULL
                        AND ($3::text IS NULL OR $3 = 'pending')
                        AND ($7::smallint IS NULL OR $7 = 1)
                    LIMIT (SELECT 1000)
                )
                UNION ALL
                (
                    SELECT
                        merchant_id, seq, event_id, type, created_at,
                        CASE WHEN on_failure = 'delivered' THEN 'delivered' ELSE 'pending_retry' END AS state,
                        NULL::text AS failed_reason, attempts,
                        CASE WHEN NOT is_claimed THEN due_at END AS next_attempt_at, last_status, last_outcome,
                        NULL::timestamptz AS finished_at, NULL::smallint AS endpoint, copy_of,
                        row_number() OVER (ORDER BY merchant_id DESC, seq DESC) AS place
                    FROM webhook.own_owed
                    WHERE merchant_id = ANY(ARRAY[me.merchant_id]) AND seq < $2
                        AND due_at IS NOT NULL
                        AND ($3::text IS NULL OR $3 IN ('pending_retry', 'delivered'))
                        AND ($7::smallint IS NULL OR $7 = 1)
                    LIMIT (SELECT 1000)
                )
                UNION ALL
                (
                    SELECT
                        merchant_id, seq, event_id, type, created_at, state, failed_reason, attempts,
                        NULL::timestamptz AS next_attempt_at, last_status, last_outcome, finished_at, endpoint, copy_of,
                        row_number() OVER (ORDER BY merchant_id DESC, seq DESC) AS place
                    FROM webhook.own_logged
                    WHERE merchant_id = ANY(ARRAY[me.merchant_id]) AND seq < $2
                        AND finished_at >= CASE WHEN $5::timestamptz IS NULL THEN '-infinity' ELSE $5 - interval '1 day' END
                        AND ($3::text IS NULL OR $3 IN ('delivered', 'failed'))
                    LIMIT (SELECT 1000)
                )
                UNION ALL
                (
                    SELECT
                        copied.merchant_id, copied.seq, copied.event_id, copied.type, copied.created_at, copied.state,
                        NULL::text AS failed_reason, copied.attempts, copied.next_attempt_at, copied.last_status,
                        copied.last_outcome, NULL::timestamptz AS finished_at, copied.endpoint, copied.copy_of,
                        row_number() OVER (ORDER BY copied.merchant_id DESC, copied.seq DESC) AS place
                    FROM (
                        SELECT me.merchant_id COLLATE "C" AS merchant_id, lane.number AS endpoint, owed.*
                        FROM webhook.own_lanes AS lane
                        CROSS JOIN LATERAL (
                            (
                                SELECT
                                    seq, event_id, type, created_at, 'pending' AS state, attempts,
                                    NULL::timestamptz AS next_attempt_at, last_status, last_outcome, copy_of
                                FROM webhook.own_owed
                                WHERE merchant_id = ANY(ARRAY[lane.merchant_id]) AND seq < $2
                                    AND due_at IS NULL
                                    AND ($3::text IS NULL OR $3 = 'pending')
                                LIMIT (SELECT 1000)
                            )
                            UNION ALL
                            (
                                SELECT
                                    seq, event_id, type, created_at,
                                    CASE WHEN on_failure = 'delivered' THEN 'delivered' ELSE 'pending_retry' END AS state,
                                    attempts, CASE WHEN NOT is_claimed THEN due_at END AS next_attempt_at, last_status,
                                    last_outcome, copy_of
                                FROM webhook.own_owed
                                WHERE merchant_id = ANY(ARRAY[lane.merchant_id]) AND seq < $2
                                    AND due_at IS NOT NULL
                                    AND ($3::text IS NULL OR $3 IN ('pending_retry', 'delivered'))
                                LIMIT (SELECT 1000)
                            )
                        ) AS owed
                        WHERE $7::smallint IS NULL OR lane.number = $7
                    ) AS copied
                    LIMIT (SELECT 1000)
                )
            ) AS known
            WHERE known.place <= 1000
            ORDER BY known.merchant_id DESC, known.seq DESC
            LIMIT (SELECT 1000)
        ) AS examined
    ) AS numbered
    CROSS JOIN LATERAL (
        SELECT
            num_nulls(numbered.state) = 0
            AND ($3::text IS NULL OR numbered.state = $3)
            AND ($4::text IS NULL OR numbered.type = $4)
            AND ($5::timestamptz IS NULL OR numbered.created_at >= $5)
            AND ($6::timestamptz IS NULL OR numbered.created_at < $6)
            AND ($7::smallint IS NULL OR coalesce(numbered.endpoint, 1) = $7) AS is_match
    ) AS judged
    WHERE judged.is_match OR numbered.number = 1000
    ORDER BY numbered.merchant_id DESC, numbered.seq DESC
    LIMIT $8
) AS page
ORDER BY page.seq DESC;

-- name: list_own_failed
-- List deliveries that failed, the newest first: as list_own_deliveries, by the index of what failed alone, whose
-- predicate it repeats.
-- $1 token bytea
-- $2 before_seq bigint
-- $3 type text, or null, as all that follows
-- $4 since timestamptz
-- $5 until timestamptz
-- $6 endpoint smallint; its number
-- $7 most bigint
-- row: event_id uuid, delivery_id uuid, endpoint_id uuid, seq bigint, type text, created_at timestamptz, state text,
--   failed_reason text, attempts smallint, next_attempt_at timestamptz, last_status smallint, last_outcome text,
--   finished_at timestamptz, is_match boolean, is_last_examined boolean; ordered by seq, the newest first
-- none: no delivery matches, or the token is not live
SELECT
    coalesce(page.copy_of, page.event_id) AS event_id, page.event_id AS delivery_id, page.endpoint_id,
    page.seq, page.type, page.created_at, page.state, page.failed_reason, page.attempts, page.next_attempt_at,
    page.last_status, page.last_outcome, page.finished_at, page.is_match, page.is_last_examined
FROM webhook.bearer($1) AS me
CROSS JOIN LATERAL (
    SELECT
        numbered.event_id, numbered.seq, numbered.type, numbered.created_at, 'failed' AS state,
        numbered.failed_reason, numbered.attempts, NULL::timestamptz AS next_attempt_at, numbered.last_status,
        numbered.last_outcome, numbered.finished_at, numbered.copy_of, CASE WHEN num_nulls(numbered.endpoint) = 0 THEN (
            SELECT own_endpoints.id FROM webhook.own_endpoints WHERE own_endpoints.number = numbered.endpoint
        ) END AS endpoint_id,
        judged.is_match,
        numbered.number = 1000 AS is_last_examined
    FROM (
        SELECT
            merchant_id, seq, event_id, type, created_at, failed_reason, attempts, last_status, last_outcome,
            finished_at, endpoint, copy_of, row_number() OVER (ORDER BY merchant_id DESC, seq DESC) AS number
        FROM webhook.own_finished
        WHERE merchant_id = ANY(ARRAY[me.merchant_id]) AND seq < $2
            AND state = 'failed' AND attempts >= -32768
            AND finished_at >= CASE WHEN $4::timestamptz IS NULL THEN '-infinity' ELSE $4 - interval '1 day' END
        LIMIT (SELECT 1000)
    ) AS numbered
    CROSS JOIN LATERAL (
        SELECT
            ($3::text IS NULL OR numbered.type = $3)
            AND ($4::timestamptz IS NULL OR numbered.created_at >= $4)
            AND ($5::timestamptz IS NULL OR numbered.created_at < $5)
            AND ($6::smallint IS NULL OR coalesce(numbered.endpoint, 1) = $6) AS is_match
    ) AS judged
    WHERE judged.is_match OR numbered.number = 1000
    ORDER BY numbered.merchant_id DESC, numbered.seq DESC
    LIMIT $7
) AS page
ORDER BY page.seq DESC;

-- name: list_own_deliveries_of_charge
-- List the deliveries of one charge, the newest first: as list_own_deliveries, found by the charge key. Those of a
-- charge are few, and all of them are found before they are sorted. The merchant's lanes are told by comparisons, which a
-- barrier lets through.
-- $1 token bytea
-- $2 before_seq bigint
-- $3 state text, or null, as all that follows
-- $4 type text
-- $5 since timestamptz
-- $6 until timestamptz
-- $7 endpoint smallint; its number
-- $8 charge_id text
-- $9 most bigint
-- row: event_id uuid, delivery_id uuid, endpoint_id uuid, seq bigint, type text, created_at timestamptz, state text,
--   failed_reason text, attempts smallint, next_attempt_at timestamptz, last_status smallint, last_outcome text,
--   finished_at timestamptz, is_match boolean, is_last_examined boolean; ordered by seq, the newest first
-- none: no delivery matches, the token is not live, or charges are not indexed
SELECT
    coalesce(page.copy_of, page.event_id) AS event_id, page.event_id AS delivery_id, page.endpoint_id,
    page.seq, page.type, page.created_at, page.state, page.failed_reason, page.attempts, page.next_attempt_at,
    page.last_status, page.last_outcome, page.finished_at, page.is_match, page.is_last_examined
FROM webhook.bearer($1) AS me
CROSS JOIN LATERAL (
    SELECT
        known.*, CASE WHEN num_nulls(known.endpoint) = 0 THEN (
            SELECT own_endpoints.id FROM webhook.own_endpoints WHERE own_endpoints.number = known.endpoint
        ) END AS endpoint_id,
        true AS is_match, false AS is_last_examined
    FROM (
        SELECT
            event_id, seq, type, created_at,
            CASE
                WHEN due_at IS NULL THEN 'pending' WHEN on_failure = 'delivered' THEN 'delivered' ELSE 'pending_retry'
            END AS state,
            NULL::text AS failed_reason, attempts, CASE WHEN NOT is_claimed THEN due_at END AS next_attempt_at,
            last_status, last_outcome, NULL::timestamptz AS finished_at, webhook.endpoint_of(merchant_id) AS endpoint, copy_of
        FROM webhook.own_owed
        WHERE charge_id = $8
            AND CASE WHEN merchant_id >= me.merchant_id AND merchant_id < me.merchant_id || ' ' THEN true END
            AND (SELECT has_charge_index FROM webhook.state WHERE state.is_only)
        UNION ALL
        SELECT
            event_id, seq, type, created_at, state, failed_reason, attempts,
            NULL::timestamptz AS next_attempt_at, last_status, last_outcome, finished_at, endpoint, copy_of
        FROM webhook.own_finished
        WHERE charge_id = $8 AND CASE WHEN merchant_id = me.merchant_id THEN true END
            AND (SELECT has_charge_index FROM webhook.state WHERE state.is_only)
        OFFSET 0
    ) AS known
    WHERE
        known.seq < $2
        AND ($3::text IS NULL OR known.state = $3)
        AND ($4::text IS NULL OR known.type = $4)
        AND ($5::timestamptz IS NULL OR known.created_at >= $5)
        AND ($6::timestamptz IS NULL OR known.created_at < $6)
        AND ($7::smallint IS NULL OR coalesce(known.endpoint, 1) = $7)
    ORDER BY known.seq DESC
    LIMIT $9
) AS page
ORDER BY page.seq DESC;

-- name: list_own_deliveries_of_event
-- List the deliveries of one event, the newest first, one for each endpoint that was to get it. They are found by their ids.
-- $1 token bytea
-- $2 before_seq bigint
-- $3 state text, or null, as all that follows
-- $4 type text
-- $5 since timestamptz
-- $6 until timestamptz
-- $7 endpoint smallint; its number
-- $8 charge_id text
-- $9 event_id uuid
-- $10 most bigint
-- row: event_id uuid, delivery_id uuid, endpoint_id uuid, seq bigint, type text, created_at timestamptz, state text,
--   failed_reason text, attempts smallint, next_attempt_at timestamptz, last_status smallint, last_outcome text,
--   finished_at timestamptz, is_match boolean, is_last_examined boolean; ordered by seq, the newest first
-- none: no delivery matches, or the token is not live
SELECT
    coalesce(page.copy_of, page.event_id) AS event_id, page.event_id AS delivery_id, page.endpoint_id,
    page.seq, page.type, page.created_at, page.state, page.failed_reason, page.attempts, page.next_attempt_at,
    page.last_status, page.last_outcome, page.finished_at, page.is_match, page.is_last_examined
FROM webhook.bearer($1) AS me
CROSS JOIN LATERAL (
    SELECT
        known.*, CASE WHEN num_nulls(known.endpoint) = 0 THEN (
            SELECT own_endpoints.id FROM webhook.own_endpoints WHERE own_endpoints.number = known.endpoint
        ) END AS endpoint_id,
        true AS is_match, false AS is_last_examined
    FROM (
        SELECT found.*
        FROM (
            SELECT $9 AS id
            UNION ALL
            SELECT webhook.delivery_id($9, own_lanes.number)
            FROM webhook.own_lanes
            WHERE webhook.merchant_of(own_lanes.merchant_id) = me.merchant_id
        ) AS one
        CROSS JOIN LATERAL (
            SELECT
                event_id, seq, type, created_at, state, failed_reason, attempts, next_attempt_at, last_status, last_outcome,
                finished_at, endpoint, copy_of, object
            FROM webhook.own_deliveries
            WHERE event_id = one.id AND merchant_id = me.merchant_id
            OFFSET 0
        ) AS found
    ) AS known
    WHERE
        known.seq < $2
        AND ($3::text IS NULL OR known.state = $3)
        AND ($4::text IS NULL OR known.type = $4)
        AND ($5::timestamptz IS NULL OR known.created_at >= $5)
        AND ($6::timestamptz IS NULL OR known.created_at < $6)
        AND ($7::smallint IS NULL OR coalesce(known.endpoint, 1) = $7)
        AND ($8::text IS NULL OR webhook.charge_key(known.object) = $8)
    ORDER BY known.seq DESC
    LIMIT $10
) AS page
ORDER BY page.seq DESC;

-- name: read_own_delivery
-- Read one delivery with its payload, by its own id: the event's is that of the first, or only, one. Of an id that was used
-- again, the latest.
-- $1 token bytea
-- $2 event_id uuid
-- row: event_id uuid, delivery_id uuid, endpoint_id uuid, seq bigint, type text, created_at timestamptz, state text,
--   failed_reason text, attempts smallint, next_attempt_at timestamptz, last_status smallint, last_outcome text,
--   finished_at timestamptz, object text
-- none: not known, dropped with its day's log, another merchant's, or the token is not live
SELECT
    coalesce(page.copy_of, page.event_id) AS event_id, page.event_id AS delivery_id, page.endpoint_id,
    page.seq, page.type, page.created_at, page.state, page.failed_reason, page.attempts, page.next_attempt_at,
    page.last_status, page.last_outcome, page.finished_at, page.object
FROM webhook.bearer($1) AS me
CROSS JOIN LATERAL (
    SELECT
        known.event_id, known.seq, known.type, known.created_at, known.state, known.failed_reason,
        known.attempts, known.next_attempt_at, known.last_status, known.last_outcome, known.finished_at, known.copy_of,
        CASE WHEN num_nulls(known.endpoint) = 0 THEN (
            SELECT own_endpoints.id FROM webhook.own_endpoints WHERE own_endpoints.number = known.endpoint
        ) END AS endpoint_id,
        known.object::text AS object
    FROM (
        SELECT
            event_id, seq, type, created_at, state, failed_reason, attempts, next_attempt_at, last_status, last_outcome,
            finished_at, endpoint, copy_of, object
        FROM webhook.own_deliveries
        WHERE event_id = $2 AND merchant_id = me.merchant_id
        OFFSET 0
    ) AS known
    ORDER BY known.seq DESC
    LIMIT 1
) AS page;

-- name: read_cursor_key
-- Read what the cursors of lists are encrypted with.
-- row: key bytea
-- order: one row
SELECT cursor_key.key
FROM webhook.cursor_key
WHERE cursor_key.is_only;
