-- The console's delivery log. A page looks at a bounded number of deliveries, the newest first, whatever is asked for: if
-- more may match, the last that was looked at comes back as well, to go on behind it. Conditions are judged after that
-- bound, and stand in one place, CROSS JOIN LATERAL (..) AS judged; inside the bound stand those alone that an index finds.
-- The charge is read of what is shown, by its number: it is computed from the payload. What nobody wanted has no state: it is
-- looked at, and never matches.
-- A bound that the planner does not know, (SELECT $n), keeps it from sorting whole tables that statistics call small.

-- name: show_numbers
-- Find between which numbers the events of a range of time are, from what dispatchers noted each minute. An event may have
-- been inserted up to ten minutes after its created_at (a long transaction), or one before (a clock). A copy has a number of when
-- it was routed, or handed on: of a merchant who has, or had, several endpoints a day later ends it, and there may be more behind.
-- $1 session bytea
-- $2 since timestamptz, or null
-- $3 until timestamptz, or null
-- $4 merchant_id text; null: all
-- row: first_seq bigint, end_seq bigint, has_copies boolean
-- order: one row; the first is included, the end is not
SELECT numbers.first_seq, numbers.end_seq, numbers.has_copies
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT
        coalesce((
            SELECT noted.seq
            FROM webhook.console_seq_by_minute AS noted
            WHERE me.name IS NOT NULL AND noted.minute <= $2::timestamptz - interval '2 minutes'
            ORDER BY noted.minute DESC
            LIMIT 1
        ), 0) AS first_seq,
        coalesce((
            SELECT noted.seq + 1
            FROM webhook.console_seq_by_minute AS noted
            WHERE
                me.name IS NOT NULL
                AND noted.minute >= $3::timestamptz + CASE WHEN copies.there_are THEN interval '1 day' ELSE interval '10 minutes' END
            ORDER BY noted.minute
            LIMIT 1
        ), 9223372036854775807) AS end_seq,
        copies.there_are AS has_copies
    FROM (
        SELECT
            coalesce((
                SELECT true
                FROM webhook.console_lanes AS lanes
                WHERE me.name IS NOT NULL
                    AND lanes.merchant_id LIKE E'%\x1f%'
                    AND webhook.merchant_of(lanes.merchant_id) = $4
                LIMIT 1
            ), false) AS there_are
    ) AS copies
    OFFSET 0
) AS numbers;

-- name: show_deliveries
-- List deliveries of all merchants by number.
-- $1 session bytea
-- $2 before_seq bigint
-- $3 first_seq bigint
-- $4 state text, or null, as the conditions that follow
-- $5 type text
-- $6 outcome text
-- $7 status integer
-- $8 since timestamptz
-- $9 until timestamptz
-- $10 look bigint
-- $11 most bigint
-- $12 of_end boolean; since and until are of finished_at, and not of created_at
-- row: event_id uuid, seq bigint, merchant_id text, endpoint smallint, type text, charge_id text, created_at timestamptz,
--   state text, failed_reason text, attempts smallint, next_attempt_at timestamptz, last_status smallint, last_outcome text,
--   finished_at timestamptz, is_match boolean, is_last_looked_at boolean; ordered by seq, the newest first
-- none: none matches, or the session is over
SELECT
    page.event_id, page.seq, page.merchant_id, page.endpoint, page.type,
    coalesce(
        (
            SELECT logged.charge_id
            FROM webhook.console_finished AS logged
            WHERE logged.merchant_id = ANY(ARRAY[page.merchant_id])
                AND logged.seq BETWEEN page.seq AND page.seq
                AND logged.finished_at = page.finished_at
            LIMIT 1
        ),
        (SELECT owed.charge_id FROM webhook.console_owed AS owed WHERE owed.seq = page.seq LIMIT 1)
    ) AS charge_id,
    page.created_at, page.state, page.failed_reason, page.attempts, page.next_attempt_at, page.last_status,
    page.last_outcome, page.finished_at, page.is_match, page.is_last_looked_at
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT numbered.*, judged.is_match, numbered.number = $10 AS is_last_looked_at
    FROM (
        SELECT looked.*, row_number() OVER (ORDER BY looked.seq DESC) AS number
        FROM (
            SELECT known.*
            FROM (
                (
                    SELECT
                        seq, event_id, webhook.merchant_of(merchant_id) AS merchant_id,
                        webhook.endpoint_of(merchant_id) AS endpoint, type, created_at,
                        CASE
                            WHEN due_at IS NULL THEN 'pending'
                            WHEN on_failure = 'delivered' THEN 'delivered'
                            ELSE 'pending_retry'
                        END AS state,
                        NULL::text AS failed_reason, attempts,
                        CASE WHEN NOT is_claimed THEN due_at END AS next_attempt_at, last_status, last_outcome,
                        NULL::timestamptz AS finished_at
                    FROM webhook.console_owed
                    WHERE me.name IS NOT NULL AND seq < $2 AND seq >= $3 AND ($4::text IS NULL OR $4 <> 'failed')
                    ORDER BY seq DESC
                    LIMIT (SELECT $10::bigint)
                )
                UNION ALL
                (
                    SELECT
                        seq, event_id, merchant_id, endpoint, type, created_at, state, failed_reason, attempts,
                        NULL::timestamptz AS next_attempt_at, last_status, last_outcome, finished_at
                    FROM webhook.console_logged
                    WHERE me.name IS NOT NULL AND seq < $2 AND seq >= $3
                        AND finished_at >= coalesce($8::timestamptz - interval '1 day', '-infinity')
                        AND ($4::text IS NULL OR $4 IN ('delivered', 'failed'))
                    ORDER BY seq DESC
                    LIMIT (SELECT $10::bigint)
                )
            ) AS known
            ORDER BY known.seq DESC
            LIMIT (SELECT $10::bigint)
        ) AS looked
    ) AS numbered
    CROSS JOIN LATERAL (
        SELECT
            num_nulls(numbered.state) = 0
            AND ($4::text IS NULL OR numbered.state = $4)
            AND ($5::text IS NULL OR numbered.type = $5)
            AND ($6::text IS NULL OR numbered.last_outcome IS NOT DISTINCT FROM $6)
            AND ($7::integer IS NULL OR numbered.last_status IS NOT DISTINCT FROM $7)
            AND ($8::timestamptz IS NULL OR CASE WHEN $12 THEN numbered.finished_at ELSE numbered.created_at END >= $8)
            AND ($9::timestamptz IS NULL OR CASE WHEN $12 THEN numbered.finished_at ELSE numbered.created_at END < $9) AS is_match
    ) AS judged
    WHERE judged.is_match OR numbered.number = $10
    ORDER BY numbered.seq DESC
    LIMIT $11
) AS page
ORDER BY page.seq DESC;

-- name: show_deliveries_of_merchant
-- List deliveries of one merchant by number. What is owed is asked apart in order and out of it: each has an index by
-- merchant and number. Ordered by merchant too, which ANY keeps the planner from dropping: no index but those that
-- begin with merchants has that order. Endpoints' lanes, where there are several, are not read in that order.
-- $1 session bytea
-- $2 merchant_id text
-- $3 before_seq bigint
-- $4 first_seq bigint
-- $5 state text, or null, as the conditions that follow
-- $6 type text
-- $7 outcome text
-- $8 status integer
-- $9 since timestamptz
-- $10 until timestamptz
-- $11 look bigint
-- $12 most bigint
-- $13 of_end boolean; since and until are of finished_at, and not of created_at
-- $14 endpoint smallint, or null; its number. What lies in the merchant's own lane is number 1's
-- row: event_id uuid, seq bigint, merchant_id text, endpoint smallint, type text, charge_id text, created_at timestamptz,
--   state text, failed_reason text, attempts smallint, next_attempt_at timestamptz, last_status smallint, last_outcome text,
--   finished_at timestamptz, is_match boolean, is_last_looked_at boolean; ordered by seq, the newest first
-- none: none matches, or the session is over
SELECT
    page.event_id, page.seq, page.merchant_id, page.endpoint, page.type,
    coalesce(
        (
            SELECT logged.charge_id
            FROM webhook.console_finished AS logged
            WHERE logged.merchant_id = ANY(ARRAY[page.merchant_id])
                AND logged.seq BETWEEN page.seq AND page.seq
                AND logged.finished_at = page.finished_at
            LIMIT 1
        ),
        (SELECT owed.charge_id FROM webhook.console_owed AS owed WHERE owed.seq = page.seq LIMIT 1)
    ) AS charge_id,
    page.created_at, page.state, page.failed_reason, page.attempts, page.next_attempt_at, page.last_status,
    page.last_outcome, page.finished_at, page.is_match, page.is_last_looked_at
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT numbered.*, judged.is_match, numbered.number = $11 AS is_last_looked_at
    FROM (
        SELECT looked.*, row_number() OVER (ORDER BY looked.merchant_id DESC, looked.seq DESC) AS number
        FROM (
            SELECT known.*
            FROM (
                (
                    SELECT
                        merchant_id, seq, event_id, NULL::smallint AS endpoint, type, created_at, 'pending' AS state,
                        NULL::text AS failed_reason, attempts, NULL::timestamptz AS next_attempt_at, last_status, last_outcome,
                        NULL::timestamptz AS finished_at
                    FROM webhook.console_owed
                    WHERE me.name IS NOT NULL AND merchant_id = ANY(ARRAY[$2]) AND seq < $3 AND seq >= $4
                        AND due_at IS NULL
                        AND ($5::text IS NULL OR $5 = 'pending')
                        AND ($14::smallint IS NULL OR $14 = 1)
                    ORDER BY merchant_id DESC, seq DESC
                    LIMIT (SELECT $11::bigint)
                )
                UNION ALL
                (
                    SELECT
                        merchant_id, seq, event_id, NULL::smallint AS endpoint, type, created_at,
                        CASE WHEN on_failure = 'delivered' THEN 'delivered' ELSE 'pending_retry' END AS state,
                        NULL::text AS failed_reason, attempts,
                        CASE WHEN NOT is_claimed THEN due_at END AS next_attempt_at, last_status, last_outcome,
                        NULL::timestamptz AS finished_at
                    FROM webhook.console_owed
                    WHERE me.name IS NOT NULL AND merchant_id = ANY(ARRAY[$2]) AND seq < $3 AND seq >= $4
                        AND due_at IS NOT NULL
                        AND ($5::text IS NULL OR $5 IN ('pending_retry', 'delivered'))
                        AND ($14::smallint IS NULL OR $14 = 1)
                    ORDER BY merchant_id DESC, seq DESC
                    LIMIT (SELECT $11::bigint)
                )
                UNION ALL
                (
                    SELECT
                        webhook.merchant_of(lanes.merchant_id), of_lane.seq, of_lane.event_id,
                        webhook.endpoint_of(lanes.merchant_id) AS endpoint, of_lane.type, of_lane.created_at, of_lane.state,
                        NULL::text AS failed_reason, of_lane.attempts, of_lane.next_attempt_at, of_lane.last_status,
                        of_lane.last_outcome, NULL::timestamptz AS finished_at
                    FROM webhook.console_lanes AS lanes
                    CROSS JOIN LATERAL (
                        (
                            SELECT
                                owed.seq, owed.event_id, owed.type, owed.created_at, 'pending' AS state, owed.attempts,
                                NULL::timestamptz AS next_attempt_at, owed.last_status, owed.last_outcome
                            FROM webhook.console_owed AS owed
                            WHERE owed.merchant_id = ANY(ARRAY[lanes.merchant_id]) AND owed.seq < $3 AND owed.seq >= $4
                                AND owed.due_at IS NULL
                                AND ($5::text IS NULL OR $5 = 'pending')
                            ORDER BY owed.merchant_id DESC, owed.seq DESC
                            LIMIT (SELECT $11::bigint)
                        )
                        UNION ALL
                        (
                            SELECT
                                owed.seq, owed.event_id, owed.type, owed.created_at,
                                CASE WHEN owed.on_failure = 'delivered' THEN 'delivered' ELSE 'pending_retry' END,
                                owed.attempts, CASE WHEN NOT owed.is_claimed THEN owed.due_at END, owed.last_status,
                                owed.last_outcome
                            FROM webhook.console_owed AS owed
                            WHERE owed.merchant_id = ANY(ARRAY[lanes.merchant_id]) AND owed.seq < $3 AND owed.seq >= $4
                                AND owed.due_at IS NOT NULL
                                AND ($5::text IS NULL OR $5 IN ('pending_retry', 'delivered'))
                            ORDER BY owed.merchant_id DESC, owed.seq DESC
                            LIMIT (SELECT $11::bigint)
                        )
                    ) AS of_lane
                    -- As the index of such lanes has it, which is empty where nobody has several endpoints.
                    WHERE me.name IS NOT NULL
                        AND webhook.merchant_of(lanes.merchant_id) = $2 AND lanes.merchant_id LIKE E'%\x1f%'
                        AND ($14::smallint IS NULL OR webhook.endpoint_of(lanes.merchant_id) = $14)
                )
                UNION ALL
                (
                    SELECT
                        merchant_id, seq, event_id, endpoint, type, created_at, state, failed_reason, attempts,
                        NULL::timestamptz AS next_attempt_at, last_status, last_outcome, finished_at
                    FROM webhook.console_logged
                    WHERE me.name IS NOT NULL AND merchant_id = ANY(ARRAY[$2]) AND seq < $3 AND seq >= $4
                        AND finished_at >= coalesce($9::timestamptz - interval '1 day', '-infinity')
                        AND ($5::text IS NULL OR $5 IN ('delivered', 'failed'))
                    ORDER BY merchant_id DESC, seq DESC
                    LIMIT (SELECT $11::bigint)
                )
            ) AS known
            ORDER BY known.merchant_id DESC, known.seq DESC
            LIMIT (SELECT $11::bigint)
        ) AS looked
    ) AS numbered
    CROSS JOIN LATERAL (
        SELECT
            num_nulls(numbered.state) = 0
            AND ($5::text IS NULL OR numbered.state = $5)
            AND ($6::text IS NULL OR numbered.type = $6)
            AND ($7::text IS NULL OR numbered.last_outcome IS NOT DISTINCT FROM $7)
            AND ($8::integer IS NULL OR numbered.last_status IS NOT DISTINCT FROM $8)
            AND ($9::timestamptz IS NULL OR CASE WHEN $13 THEN numbered.finished_at ELSE numbered.created_at END >= $9)
            AND ($10::timestamptz IS NULL OR CASE WHEN $13 THEN numbered.finished_at ELSE numbered.created_at END < $10)
            AND ($14::smallint IS NULL OR coalesce(numbered.endpoint, 1) = $14) AS is_match
    ) AS judged
    WHERE judged.is_match OR numbered.number = $11
    ORDER BY numbered.merchant_id DESC, numbered.seq DESC
    LIMIT $12
) AS page
ORDER BY page.seq DESC;

-- name: show_failed_deliveries
-- List what failed at all merchants, by when it failed: the log's index of failed deliveries has that order.
-- $1 session bytea
-- $2 before timestamptz, or null
-- $3 before_seq bigint
-- $4 type text, or null, as the conditions that follow
-- $5 outcome text
-- $6 status integer
-- $7 since timestamptz
-- $8 until timestamptz
-- $9 look bigint
-- $10 most bigint
-- $11 of_end boolean; since and until are of finished_at, and not of created_at
-- row: event_id uuid, seq bigint, merchant_id text, endpoint smallint, type text, charge_id text, created_at timestamptz,
--   state text, failed_reason text, attempts smallint, next_attempt_at timestamptz, last_status smallint, last_outcome text,
--   finished_at timestamptz, is_match boolean, is_last_looked_at boolean; ordered by finished_at and seq, the newest first
-- none: none matches, or the session is over
SELECT
    page.event_id, page.seq, page.merchant_id, page.endpoint, page.type,
    (
        SELECT logged.charge_id
        FROM webhook.console_finished AS logged
        WHERE logged.merchant_id = ANY(ARRAY[page.merchant_id])
            AND logged.seq BETWEEN page.seq AND page.seq
            AND logged.finished_at = page.finished_at
        LIMIT 1
    ) AS charge_id,
    page.created_at, page.state, page.failed_reason, page.attempts, page.next_attempt_at, page.last_status,
    page.last_outcome, page.finished_at, page.is_match, page.is_last_looked_at
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT numbered.*, judged.is_match, numbered.number = $9 AS is_last_looked_at
    FROM (
        SELECT looked.*, row_number() OVER (ORDER BY looked.finished_at DESC, looked.seq DESC) AS number
        FROM (
            SELECT
                seq, event_id, merchant_id, endpoint, type, created_at, state, failed_reason, attempts,
                NULL::timestamptz AS next_attempt_at, last_status, last_outcome, finished_at
            FROM webhook.console_finished
            WHERE me.name IS NOT NULL
                AND state = 'failed'
                AND (finished_at, seq) < (coalesce($2::timestamptz, 'infinity'), $3::bigint)
                AND finished_at <= coalesce($2::timestamptz, 'infinity')
                AND finished_at >= coalesce(
                    $7::timestamptz - CASE WHEN $11 THEN interval '0' ELSE interval '1 day' END, '-infinity'
                )
            ORDER BY finished_at DESC, seq DESC
            LIMIT (SELECT $9::bigint)
        ) AS looked
    ) AS numbered
    CROSS JOIN LATERAL (
        SELECT
            ($4::text IS NULL OR numbered.type = $4)
            AND ($5::text IS NULL OR numbered.last_outcome IS NOT DISTINCT FROM $5)
            AND ($6::integer IS NULL OR numbered.last_status IS NOT DISTINCT FROM $6)
            AND ($7::timestamptz IS NULL OR CASE WHEN $11 THEN numbered.finished_at ELSE numbered.created_at END >= $7)
            AND ($8::timestamptz IS NULL OR CASE WHEN $11 THEN numbered.finished_at ELSE numbered.created_at END < $8)
                AS is_match
    ) AS judged
    WHERE judged.is_match OR numbered.number = $9
    ORDER BY numbered.finished_at DESC, numbered.seq DESC
    LIMIT $10
) AS page
ORDER BY page.finished_at DESC, page.seq DESC;

-- name: show_few_deliveries
-- List the deliveries of one event, one to each endpoint, and more of an id that was used again after its end; or of one
-- charge: those of a charge are few. All of them are found first.
-- $1 session bytea
-- $2 event_id uuid; null: those of the charge
-- $3 charge_id text
-- $4 merchant_id text, or null, as the conditions that follow
-- $5 before_seq bigint
-- $6 state text
-- $7 type text
-- $8 outcome text
-- $9 status integer
-- $10 since timestamptz
-- $11 until timestamptz
-- $12 most bigint
-- $13 of_end boolean; since and until are of finished_at, and not of created_at
-- $14 endpoint smallint, or null; as of show_deliveries_of_merchant
-- row: event_id uuid, seq bigint, merchant_id text, endpoint smallint, type text, charge_id text, created_at timestamptz,
--   state text, failed_reason text, attempts smallint, next_attempt_at timestamptz, last_status smallint, last_outcome text,
--   finished_at timestamptz, is_match boolean, is_last_looked_at boolean; ordered by seq, the newest first
-- none: none matches, the session is over, or charges are not indexed
SELECT page.*, true AS is_match, false AS is_last_looked_at
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT CASE WHEN me.name IS NOT NULL AND num_nulls($2::uuid) = 0 THEN webhook.delivery_ids($2) END AS ids
    OFFSET 0
) AS of_event
CROSS JOIN LATERAL (
    SELECT known.*
    FROM (
        SELECT
            event_id, seq, webhook.merchant_of(merchant_id) AS merchant_id, webhook.endpoint_of(merchant_id) AS endpoint, type,
            charge_id, created_at,
            CASE
                WHEN due_at IS NULL THEN 'pending' WHEN on_failure = 'delivered' THEN 'delivered' ELSE 'pending_retry'
            END AS state,
            NULL::text AS failed_reason, attempts, CASE WHEN NOT is_claimed THEN due_at END AS next_attempt_at,
            last_status, last_outcome, NULL::timestamptz AS finished_at
        FROM (
            SELECT owed.*
            FROM webhook.console_owed AS owed
            WHERE me.name IS NOT NULL AND owed.event_id = ANY(of_event.ids)
            UNION ALL
            SELECT owed.*
            FROM webhook.console_owed AS owed
            WHERE me.name IS NOT NULL AND owed.charge_id = $3
                AND (SELECT console_state.has_charge_index FROM webhook.console_state)
        ) AS owed
        UNION ALL
        SELECT
            event_id, seq, merchant_id, endpoint, type, charge_id, created_at, state, failed_reason, attempts,
            NULL::timestamptz AS next_attempt_at, last_status, last_outcome, finished_at
        FROM (
            SELECT logged.*
            FROM webhook.console_finished AS logged
            WHERE me.name IS NOT NULL AND logged.event_id = ANY(of_event.ids)
            UNION ALL
            SELECT logged.*
            FROM webhook.console_finished AS logged
            WHERE me.name IS NOT NULL AND logged.charge_id = $3
                AND (SELECT console_state.has_charge_index FROM webhook.console_state)
        ) AS finished
        OFFSET 0
    ) AS known
    WHERE
        known.seq < $5
        AND ($4::text IS NULL OR known.merchant_id = $4)
        AND ($6::text IS NULL OR known.state = $6)
        AND ($7::text IS NULL OR known.type = $7)
        AND ($8::text IS NULL OR known.last_outcome = $8)
        AND ($9::integer IS NULL OR known.last_status = $9)
        AND ($10::timestamptz IS NULL OR CASE WHEN $13 THEN known.finished_at ELSE known.created_at END >= $10)
        AND ($11::timestamptz IS NULL OR CASE WHEN $13 THEN known.finished_at ELSE known.created_at END < $11)
        AND ($14::smallint IS NULL OR coalesce(known.endpoint, 1) = $14)
    ORDER BY known.seq DESC
    LIMIT $12
) AS page
ORDER BY page.seq DESC;

-- name: is_charge_shown
-- Tell whether deliveries are indexed by their charge.
-- $1 session bytea
-- row: is_indexed boolean
-- order: one row
-- none: the session is over
SELECT chosen.has_charge_index AS is_indexed
FROM webhook.console_reader($1) AS me
CROSS JOIN LATERAL (
    SELECT console_state.has_charge_index FROM webhook.console_state WHERE me.name IS NOT NULL LIMIT 1
) AS chosen;
