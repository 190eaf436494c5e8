-- Why:   what is written after all endpoints of a merchant were removed is held, as after its only one; an endpoint that is added
--        where all are paused is paused; fares do not stay behind; and one endpoint's resume is not another's.
-- Locks: none.
SET lock_timeout = '5s';
SET statement_timeout = '1min';
SET ROLE webhook_owner;

-- Whether nothing is sent to an endpoint, nor will be before it is resumed: 'held'; 'sending': a daemon has not released yet
-- what it leased before the pause, on the lane or on a retry; 'not_paused', or about to be resumed; 'not_configured'.
-- What a pause recalls is released when the attempt in flight has ended, and that of a daemon that died lapses: so nobody
-- need know which daemons there are. The lane stays locked, and a resume waits, until the transaction ends.
CREATE OR REPLACE FUNCTION webhook.lock_held(merchant text, number smallint) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- First the endpoint and then its lane, as a change of the endpoint locks them.
    its_lane text := webhook.lock_endpoint(merchant, number);
    found_lane webhook.lane;
BEGIN
    IF NOT EXISTS (SELECT FROM webhook.endpoint WHERE endpoint.merchant_id = its_lane) THEN
        RETURN 'not_configured';
    END IF;
    SELECT * INTO found_lane FROM webhook.lane WHERE lane.merchant_id = its_lane FOR NO KEY UPDATE;
    IF
        found_lane.paused IS NOT TRUE
        OR EXISTS (
            SELECT
            FROM webhook.control
            WHERE
                control.status = 'pending' AND control.subject = ANY(ARRAY[merchant]) AND control.command = 'resume'
                AND coalesce(control.args ->> 'endpoint' = lock_held.number::text, true)
        )
    THEN
        RETURN 'not_paused';
    END IF;
    IF
        found_lane.lease_until >= clock_timestamp()
        OR EXISTS (
            SELECT
            FROM webhook.outbox
            WHERE
                outbox.merchant_id = ANY(webhook.lanes_of(merchant, number))
                AND outbox.claim IS NOT NULL AND outbox.due_at >= clock_timestamp()
        )
    THEN
        RETURN 'sending';
    END IF;
    RETURN 'held';
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
        -- Where all that there are is paused, this is too: nothing is sent to a merchant that is paused.
        own.paused := (
            SELECT bool_and(lane.paused)
            FROM webhook.endpoint
            JOIN webhook.lane ON lane.merchant_id = endpoint.merchant_id
            WHERE endpoint.merchant_id > merchant AND endpoint.merchant_id < merchant || ' '
        );
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
    IF own.paused THEN
        UPDATE webhook.lane SET paused = true WHERE lane.merchant_id = webhook.lane_named(merchant, add_endpoint.number);
    END IF;
END
$$;

-- Number 1 alone is left, or nobody, and it owes no first attempt: its lane is the merchant's again. False: not yet.
CREATE OR REPLACE FUNCTION webhook.become_direct(merchant text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    first_lane text := webhook.lane_named(merchant, 1::smallint);
    is_configured boolean;
BEGIN
    -- Whoever holds one of these may wait for another: this asks again later.
    PERFORM FROM webhook.state WHERE state.is_only FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM FROM webhook.endpoint WHERE endpoint.merchant_id = first_lane FOR UPDATE SKIP LOCKED;
    is_configured := FOUND;
    IF
        is_configured IS DISTINCT FROM EXISTS (SELECT FROM webhook.endpoint WHERE endpoint.merchant_id = first_lane)
        OR EXISTS (
            SELECT FROM webhook.endpoint
            WHERE endpoint.merchant_id > first_lane AND endpoint.merchant_id < merchant || ' '
        )
    THEN
        RETURN false;
    END IF;
    PERFORM FROM webhook.lane
    WHERE lane.merchant_id IN (merchant, first_lane)
    ORDER BY lane.merchant_id
    FOR NO KEY UPDATE;
    IF
        NOT EXISTS (SELECT FROM webhook.lane WHERE lane.merchant_id = merchant AND lane.routed_at IS NOT NULL)
        OR EXISTS (
            SELECT FROM webhook.lane
            WHERE lane.merchant_id IN (merchant, first_lane) AND lane.lease_until >= clock_timestamp()
        )
        OR EXISTS (SELECT FROM webhook.outbox WHERE outbox.merchant_id = first_lane AND outbox.due_at IS NULL)
    THEN
        RETURN false;
    END IF;
    PERFORM webhook.move_fares(first_lane, merchant);
    UPDATE webhook.lane
    SET
        routed_at = NULL, epoch = floor(random() * 9007199254740992), lease_until = '-infinity', recalled = false,
        -- What was written since then is held for an endpoint to come.
        endpoint_removed_at = CASE
            WHEN NOT is_configured THEN (
                SELECT max(gone.endpoint_removed_at)
                FROM webhook.lane AS gone
                WHERE gone.merchant_id > merchant AND gone.merchant_id < merchant || ' '
            )
        END
    WHERE lane.merchant_id = merchant;
    -- What it owes is handed on when it is due.
    UPDATE webhook.lane
    SET
        epoch = floor(random() * 9007199254740992), lease_until = '-infinity', recalled = false, paused = false,
        suspended_at = NULL, wait_until = '-infinity', last_success_at = NULL, last_failure_at = NULL, failing_since = NULL,
        failures_in_a_row = 0, reported_failing_since = NULL, retry_at = clock_timestamp()
    WHERE lane.merchant_id = first_lane;
    UPDATE webhook.endpoint SET merchant_id = merchant WHERE endpoint.merchant_id = first_lane;
    PERFORM webhook.serve_programs(26);
    RETURN true;
END
$$;

UPDATE webhook.state SET schema_version = 27;
