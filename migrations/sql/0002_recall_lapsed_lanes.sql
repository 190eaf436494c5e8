-- Why:   a lane whose lease has lapsed may have a holder all the same, who was frozen or without the database
--        and whose epoch is still the latest: it is recalled too. Still serves programs for version 1.
-- Locks: the function in the catalogue, and the one row of state.
SET lock_timeout = '5s';
SET statement_timeout = '1min';
SET ROLE webhook_owner;

CREATE OR REPLACE FUNCTION webhook.recall_lane() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO webhook.lane AS lane (merchant_id, endpoint_removed_at)
    VALUES (
        coalesce(NEW.merchant_id, OLD.merchant_id),
        CASE TG_OP WHEN 'DELETE' THEN clock_timestamp() END
    )
    ON CONFLICT (merchant_id) DO UPDATE SET
        recalled = lane.recalled OR lane.lease_until > '-infinity',
        wait_until = '-infinity',
        paused = lane.paused AND TG_OP <> 'DELETE',
        endpoint_removed_at = excluded.endpoint_removed_at;
    RETURN NULL;
END
$$;

UPDATE webhook.state SET schema_version = 2;
