-- What a merchant reads of its charges, each found by the token's hash as in api_deliveries.sql.

-- name: read_own_charge
-- Read the object of a charge's latest event (by seq), wherever it lies; copies of it have numbers of their own. All events of
-- the charge are found by its key before the latest is chosen; their objects are not read for that.
-- $1 token bytea
-- $2 charge_id text
-- row: object text
-- none: not known, dropped with its day's log, another merchant's, charges are not indexed, or the token is not live
SELECT latest.object
FROM webhook.bearer($1) AS me
CROSS JOIN LATERAL (
    SELECT known.object::text AS object
    FROM (
        SELECT seq, object
        FROM webhook.own_owed
        WHERE charge_id = $2 AND CASE WHEN merchant_id = me.merchant_id THEN copy_of IS NULL END
            AND (SELECT has_charge_index FROM webhook.state WHERE state.is_only)
        UNION ALL
        SELECT seq, object
        FROM webhook.own_logged
        WHERE charge_id = $2 AND CASE WHEN merchant_id = me.merchant_id THEN copy_of IS NULL END
            AND (SELECT has_charge_index FROM webhook.state WHERE state.is_only)
        OFFSET 0
    ) AS known
    ORDER BY known.seq DESC
    LIMIT 1
) AS latest;

-- name: are_charges_indexed
-- Tell whether charges can be asked for.
-- row: has_charge_index boolean
-- order: one row
SELECT state.has_charge_index FROM webhook.state WHERE state.is_only;
