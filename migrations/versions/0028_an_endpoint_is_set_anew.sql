-- Why:   number 1 that was set anew was sent to at once while all others, and with them their merchant, were paused.
-- Locks: none.
SET lock_timeout = '5s';
SET statement_timeout = '1min';
SET ROLE webhook_owner;

-- Whoever changes an endpoint, by whatever way, the run that a daemon holds in memory is recalled; also of a lane whose lease
-- has lapsed: it may have a holder all the same, who was frozen or without the database and whose epoch is still the latest.
-- Another URL is another receiver: what is known of the one before says nothing of it.
CREATE OR REPLACE FUNCTION webhook.recall_lane() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    is_other boolean := TG_OP <> 'UPDATE' OR NEW.url <> OLD.url;
    merchant text := webhook.merchant_of(coalesce(NEW.merchant_id, OLD.merchant_id));
    has_several boolean;
    -- Where all others are paused, one that is added is too: nothing is sent to a merchant that is paused.
    is_paused boolean := false;
BEGIN
    -- Who routes goes by who there is and what they want; the lane is locked until this is so.
    IF TG_OP <> 'UPDATE' OR NEW.types IS DISTINCT FROM OLD.types THEN
        UPDATE webhook.lane SET recalled = lane.recalled OR lane.lease_until > '-infinity'
        WHERE lane.merchant_id = merchant AND lane.routed_at IS NOT NULL;
    END IF;
    IF TG_OP = 'INSERT' AND NEW.merchant_id <> merchant THEN
        is_paused := coalesce((
            SELECT bool_and(lane.paused)
            FROM webhook.endpoint
            JOIN webhook.lane ON lane.merchant_id = endpoint.merchant_id
            WHERE
                endpoint.merchant_id > merchant AND endpoint.merchant_id < merchant || ' '
                AND endpoint.merchant_id <> NEW.merchant_id
        ), false);
    END IF;
    INSERT INTO webhook.lane AS lane (merchant_id, paused, endpoint_removed_at)
    VALUES (
        coalesce(NEW.merchant_id, OLD.merchant_id),
        is_paused,
        CASE TG_OP WHEN 'DELETE' THEN clock_timestamp() END
    )
    ON CONFLICT (merchant_id) DO UPDATE SET
        recalled = lane.recalled OR lane.lease_until > '-infinity',
        -- A suspended merchant rests on unless its URL or secret is another: a rekey, which is of all at once, changes neither.
        wait_until = CASE
            WHEN lane.suspended_at IS NULL OR is_other OR NEW.secret_created_at <> OLD.secret_created_at THEN '-infinity'
            ELSE lane.wait_until
        END,
        paused = (lane.paused OR is_paused) AND TG_OP <> 'DELETE',
        endpoint_removed_at = excluded.endpoint_removed_at,
        last_success_at = CASE WHEN is_other THEN NULL ELSE lane.last_success_at END,
        last_failure_at = CASE WHEN is_other THEN NULL ELSE lane.last_failure_at END,
        failing_since = CASE WHEN is_other THEN NULL ELSE lane.failing_since END,
        failures_in_a_row = CASE WHEN is_other THEN 0 ELSE lane.failures_in_a_row END,
        reported_failing_since = CASE WHEN TG_OP <> 'DELETE' THEN lane.reported_failing_since END
    RETURNING lane.routed_at IS NOT NULL INTO has_several;
    IF TG_OP = 'INSERT' AND has_several THEN
        -- It waited while the second one was added, and is not where number 1 belongs from then on.
        RAISE serialization_failure USING MESSAGE = 'the merchant has got several endpoints just now', HINT = 'ask again';
    END IF;
    RETURN NULL;
END
$$;

-- Add an endpoint to a merchant's. 'created', 'too_many' (15 beside number 1), 'key_is_old' (seal again), 'sending' (the merchant's
-- lane is held, or is changed just now; it was recalled: ask again). Who asks was found before.
CREATE OR REPLACE FUNCTION webhook.add_endpoint(
    merchant text, url text, secret bytea, key_id text, name text, types text[], at_once integer,
    OUT result text, OUT number smallint, OUT id uuid
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    own webhook.lane;
    first_lane text := webhook.lane_named(merchant, 1::smallint);
BEGIN
    IF length(add_endpoint.url) NOT BETWEEN 1 AND 4096 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'this is no URL';
    END IF;
    -- Who may write endpoints anyway, as the command line, has the keys, and needs no dispatcher that tells the current one.
    IF
        NOT has_table_privilege(session_user, 'webhook.endpoint', 'INSERT')
        AND NOT webhook.is_sealed_currently(secret, add_endpoint.key_id)
    THEN
        result := 'key_is_old';
        RETURN;
    END IF;
    -- Endpoints, state, lanes: as a change of an endpoint locks them.
    PERFORM FROM webhook.endpoint
    WHERE endpoint.merchant_id >= merchant AND endpoint.merchant_id < merchant || ' '
    ORDER BY endpoint.merchant_id
    FOR NO KEY UPDATE;
    PERFORM FROM webhook.state WHERE state.is_only FOR NO KEY UPDATE;
    IF (
        SELECT count(*) FROM webhook.endpoint
        WHERE endpoint.merchant_id > first_lane AND endpoint.merchant_id < merchant || ' '
    ) >= 15 OR EXISTS (SELECT FROM webhook.lane WHERE lane.merchant_id = webhook.lane_named(merchant, 999::smallint)) THEN
        result := 'too_many';
        RETURN;
    END IF;
    SELECT lane.* INTO own FROM webhook.lane WHERE lane.merchant_id = merchant FOR NO KEY UPDATE;
    IF own.routed_at IS NOT NULL OR EXISTS (SELECT FROM webhook.endpoint WHERE endpoint.merchant_id = merchant) THEN
        IF own.routed_at IS NULL THEN
            IF own.lease_until >= clock_timestamp() THEN
                -- Who holds it does not know of the second, and would send it nothing.
                UPDATE webhook.lane
                SET recalled = true, wait_until = greatest(lane.wait_until, clock_timestamp() + interval '3 seconds')
                WHERE lane.merchant_id = merchant;
                result := 'sending';
                RETURN;
            END IF;
            PERFORM webhook.need_programs(true, 26, 'further endpoints');
            PERFORM webhook.move_fares(merchant, first_lane);
            UPDATE webhook.lane
            SET
                routed_at = clock_timestamp(), epoch = floor(random() * 9007199254740992), lease_until = '-infinity',
                recalled = false, paused = false, wait_until = '-infinity', suspended_at = NULL, last_success_at = NULL, last_failure_at = NULL,
                failing_since = NULL, failures_in_a_row = 0, reported_failing_since = NULL, retry_at = clock_timestamp()
            WHERE lane.merchant_id = merchant;
            UPDATE webhook.endpoint SET merchant_id = first_lane WHERE endpoint.merchant_id = merchant;
        END IF;
        SELECT greatest(2, 1 + max(webhook.endpoint_of(lane.merchant_id))) INTO add_endpoint.number
        FROM webhook.lane
        WHERE lane.merchant_id > merchant AND lane.merchant_id < merchant || ' ';
    ELSE
        add_endpoint.number := 1;
    END IF;
    INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id, name, types, at_once, since_seq)
    VALUES (
        CASE WHEN add_endpoint.number = 1 THEN merchant ELSE webhook.lane_named(merchant, add_endpoint.number) END,
        add_endpoint.url, add_endpoint.secret, add_endpoint.key_id, add_endpoint.name, add_endpoint.types, add_endpoint.at_once,
        CASE WHEN add_endpoint.number = 1 THEN 0 ELSE coalesce(pg_sequence_last_value('webhook.outbox_seq_seq'), 0) END
    )
    ON CONFLICT DO NOTHING
    RETURNING endpoint.id INTO add_endpoint.id;
    result := CASE WHEN FOUND THEN 'created' ELSE 'sending' END;
END
$$;

UPDATE webhook.state SET schema_version = 28;
