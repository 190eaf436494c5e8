-- Why:   a secret that was replaced signed all that waited at once, before its merchant had it: the receiver refused each event,
--        and their order was lost. From now on it can be replaced while the merchant is paused and nothing is sent to it.
--        Four functions more; those without `hold` stay for programs of before. Still serves programs for version 8, and
--        daemons of version 1.
-- Locks: state's one row.
SET lock_timeout = '5s';
SET statement_timeout = '1min';
SET ROLE webhook_owner;

-- Whether nothing is sent to a merchant, nor will be before it is resumed: 'held'; 'sending': a daemon has not released yet
-- what it leased before the pause, on the lane or on a retry; 'not_paused', or about to be resumed; 'not_configured'.
-- What a pause recalls is released when the attempt in flight has ended, and that of a daemon that died lapses: so nobody
-- need know which daemons there are. The lane stays locked, and a resume waits, until the transaction ends.
CREATE FUNCTION webhook.lock_held(merchant text) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found_lane webhook.lane;
BEGIN
    -- First the endpoint and then its lane, as a change of the endpoint locks them.
    PERFORM FROM webhook.endpoint WHERE endpoint.merchant_id = merchant FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN 'not_configured';
    END IF;
    SELECT * INTO found_lane FROM webhook.lane WHERE lane.merchant_id = merchant FOR NO KEY UPDATE;
    IF
        found_lane.paused IS NOT TRUE
        OR EXISTS (
            SELECT
            FROM webhook.control
            WHERE
                control.status = 'pending' AND control.subject = ANY(ARRAY[merchant]) AND control.command = 'resume'
        )
    THEN
        RETURN 'not_paused';
    END IF;
    IF
        found_lane.lease_until >= clock_timestamp()
        OR EXISTS (
            SELECT
            FROM webhook.outbox
            WHERE outbox.merchant_id = merchant AND outbox.claim IS NOT NULL AND outbox.due_at >= clock_timestamp()
        )
    THEN
        RETURN 'sending';
    END IF;
    RETURN 'held';
END
$$;

-- Replace a merchant's secret; with an overlap the one before it goes on signing until that ends; with hold only while nothing
-- is sent. 'rotated', 'key_is_old', 'not_configured', 'not_paused', 'sending'. waiting: how much is owed, 10,000 at most, which
-- the new secret signs. Who asks was found before.
CREATE FUNCTION webhook.rotate_secret(
    merchant text, secret bytea, key_id text, overlap interval, hold boolean,
    OUT result text, OUT previous_until timestamptz, OUT waiting bigint
)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    IF overlap <= interval '0' OR overlap > interval '30 days' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'the overlap is not within 30 days';
    END IF;
    IF NOT webhook.is_sealed_currently(secret, rotate_secret.key_id) THEN
        result := 'key_is_old';
        RETURN;
    END IF;
    IF hold THEN
        result := webhook.lock_held(merchant);
        IF result <> 'held' THEN
            RETURN;
        END IF;
    END IF;
    UPDATE webhook.endpoint
    SET
        previous_secret = CASE WHEN overlap IS NOT NULL THEN endpoint.secret END,
        previous_key_id = CASE WHEN overlap IS NOT NULL THEN endpoint.key_id END,
        previous_until = clock_timestamp() + overlap,
        secret = rotate_secret.secret,
        key_id = rotate_secret.key_id,
        secret_created_at = clock_timestamp(),
        updated_at = clock_timestamp()
    WHERE endpoint.merchant_id = merchant
    RETURNING endpoint.previous_until INTO rotate_secret.previous_until;
    result := CASE WHEN FOUND THEN 'rotated' ELSE 'not_configured' END;
    SELECT count(*) INTO rotate_secret.waiting
    FROM (
        (
            SELECT
            FROM webhook.outbox
            WHERE outbox.merchant_id = merchant AND outbox.due_at IS NULL
            ORDER BY outbox.merchant_id, outbox.seq
            LIMIT 10000
        )
        UNION ALL
        (
            SELECT
            FROM webhook.outbox
            WHERE outbox.merchant_id = merchant AND outbox.due_at IS NOT NULL
            ORDER BY outbox.merchant_id, outbox.due_at
            LIMIT 10000
        )
        LIMIT 10000
    ) AS owed;
END
$$;

CREATE FUNCTION webhook.own_rotate_secret(
    token bytea, secret bytea, key_id text, overlap interval, hold boolean,
    OUT result text, OUT previous_until timestamptz, OUT waiting bigint
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own text := (webhook.authorized_merchant(token)).merchant;
BEGIN
    SELECT rotated.result, rotated.previous_until, rotated.waiting INTO result, previous_until, waiting
    FROM webhook.rotate_secret(own, secret, key_id, overlap, hold) AS rotated;
END
$$;

CREATE FUNCTION webhook.console_rotate_secret(
    session bytea, merchant text, secret bytea, key_id text, overlap interval, hold boolean,
    OUT result text, OUT previous_until timestamptz, OUT waiting bigint
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM webhook.person_who_changes(session);
    SELECT rotated.result, rotated.previous_until, rotated.waiting INTO result, previous_until, waiting
    FROM webhook.rotate_secret(merchant, secret, key_id, overlap, hold) AS rotated;
END
$$;

REVOKE EXECUTE ON FUNCTION
webhook.lock_held, webhook.rotate_secret(text, bytea, text, interval, boolean),
webhook.own_rotate_secret(bytea, bytea, text, interval, boolean),
webhook.console_rotate_secret(bytea, text, bytea, text, interval, boolean)
FROM public;
GRANT EXECUTE ON FUNCTION webhook.lock_held TO webhook_admin;
GRANT EXECUTE ON FUNCTION webhook.own_rotate_secret(bytea, bytea, text, interval, boolean) TO webhook_api;
GRANT EXECUTE ON FUNCTION webhook.console_rotate_secret(bytea, text, bytea, text, interval, boolean) TO webhook_console;

UPDATE webhook.state SET schema_version = 17;
