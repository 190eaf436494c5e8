-- What a merchant reads of its events, in an order that never skips what commits late. The token is found as in
-- api_deliveries.sql.

-- name: list_own_events
-- List a merchant's events by the transaction that inserted them and their number, from a position on, and say what the
-- position is worth: all in one statement, so on one server, and all by one snapshot. Complete is what lies below the
-- transactions that were open in it and may write events: what is above comes too, without its object, to say that it is there. Where a client does not say from
-- which position, milestones say how far transactions were at an instant; a minute is left for their clocks.
-- Objects beyond so many bytes are for the next page; the first one always comes.
-- It is ordered by merchant too, so that only the indexes that begin with merchants have that order. The views' barriers
-- let an order reach an index as list_own_deliveries says.
-- $1 token bytea
-- $2 xid xid8; null: by the instant
-- $3 seq bigint
-- $4 since timestamptz; null: from the first that is kept
-- $5 most bigint
-- $6 most_bytes bigint
-- row: has_feed_index boolean, has_moved boolean, server bigint, timeline text, horizon xid8, kept_xid xid8,
--   looked bigint, xid xid8, seq bigint, event_id uuid, type text, created_at timestamptz, object text,
--   is_complete boolean; ordered by xid, seq; one row without an event where there is none
-- none: the token is not live
SELECT told.*
FROM webhook.bearer($1) AS me
CROSS JOIN LATERAL (
    SELECT
        known.has_feed_index, known.has_moved, known.server, known.timeline, known.horizon, known.kept_xid,
        page.looked, page.xid, page.seq, page.event_id, page.type, page.created_at, page.object, page.is_complete
    FROM (
        SELECT
            state.has_feed_index,
            coalesce(state.system_identifier <> here.server, false) AS has_moved,
            here.server, here.timeline, here.horizon,
            (SELECT first.next_xid FROM webhook.milestone AS first ORDER BY first.at LIMIT 1) AS kept_xid,
            coalesce($2, (
                SELECT reached.horizon
                FROM webhook.milestone AS reached
                WHERE reached.at <= $4::timestamptz - interval '1 minute'
                ORDER BY reached.at DESC
                LIMIT 1
            ), '0') AS from_xid,
            coalesce($3::bigint, 0) AS from_seq
        FROM webhook.state
        CROSS JOIN (
            SELECT
                webhook.server_identifier() AS server, webhook.timeline() AS timeline,
                webhook.feed_horizon() AS horizon
            OFFSET 0
        ) AS here
        WHERE state.is_only
        OFFSET 0
    ) AS known
    LEFT JOIN LATERAL (
        SELECT
            measured.looked, measured.xid, measured.seq, measured.event_id, measured.type, measured.created_at,
            CASE WHEN measured.is_complete THEN measured.object::text END AS object, measured.is_complete
        FROM (
            SELECT
                found.*,
                count(*) OVER () AS looked,
                sum(CASE WHEN found.is_complete THEN octet_length(found.object::text) END) OVER (
                    ORDER BY found.merchant_id, found.xid, found.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                ) AS bytes_before
            FROM (
                SELECT either.*, either.xid < known.horizon AS is_complete
                FROM (
                    (
                        SELECT
                            merchant_id, xid, seq, event_id, type, created_at, object,
                            row_number() OVER (ORDER BY merchant_id, xid, seq) AS place
                        FROM webhook.own_owed_events
                        WHERE
                            merchant_id = ANY(ARRAY[me.merchant_id])
                            AND xid >= '0'
                            AND (xid, seq) > (known.from_xid, known.from_seq)
                            AND known.has_feed_index
                        LIMIT (SELECT $5::bigint)
                    )
                    UNION ALL
                    (
                        SELECT
                            merchant_id, xid, seq, event_id, type, created_at, object,
                            row_number() OVER (ORDER BY merchant_id, xid, seq) AS place
                        FROM webhook.own_finished_events
                        WHERE
                            merchant_id = ANY(ARRAY[me.merchant_id])
                            AND xid >= '0'
                            AND (xid, seq) > (known.from_xid, known.from_seq)
                            AND known.has_feed_index
                        LIMIT (SELECT $5::bigint)
                    )
                ) AS either
                WHERE either.place <= $5
                ORDER BY either.merchant_id, either.xid, either.seq
                LIMIT (SELECT $5::bigint)
            ) AS found
        ) AS measured
        WHERE measured.bytes_before IS NULL OR measured.bytes_before < $6
    ) AS page ON true
    ORDER BY page.xid, page.seq
    OFFSET 0
) AS told;

-- name: is_feed_indexed
-- Tell whether events can be read in order.
-- row: has_feed_index boolean
-- order: one row
SELECT state.has_feed_index FROM webhook.state WHERE state.is_only;
