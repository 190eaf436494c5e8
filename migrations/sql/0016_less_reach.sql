-- Why:   whoever connects may make functions in pg_temp and take any advisory lock. A function that costs nothing was called
--        before a view's own condition, with what is another merchant's; a lock by a known number, or a transaction that
--        is kept open, stopped merchants' commands, suspension, notices and the feed. Still serves daemons of version 1.
-- Locks: the views of webhook_api, for a moment; state's one row.
SET lock_timeout = '5s';
SET statement_timeout = '1min';
SET ROLE webhook_owner;

-- What merchants see of themselves: nothing but the view's own condition, and what cannot tell anything, is asked of
-- another's row. Behind such a barrier no order reaches an index, so that those of which lists are read bring the lists' own.
ALTER VIEW webhook.own_endpoint SET (security_barrier);
ALTER VIEW webhook.own_deliveries SET (security_barrier);
ALTER VIEW webhook.own_attempts SET (security_barrier);
ALTER VIEW webhook.own_commands SET (security_barrier);

CREATE OR REPLACE VIEW webhook.own_owed WITH (security_barrier) AS
SELECT
    outbox.seq,
    outbox.id AS event_id,
    outbox.merchant_id,
    outbox.type,
    outbox.created_at,
    outbox.attempts,
    outbox.due_at,
    outbox.claim IS NOT NULL AS is_claimed,
    outbox.on_failure,
    outbox.last_status,
    outbox.last_outcome,
    webhook.charge_key(outbox.object) COLLATE "C" AS charge_id,
    outbox.object
FROM webhook.outbox
WHERE
    CASE
        WHEN outbox.merchant_id = (SELECT webhook.current_merchant()) THEN true
        ELSE outbox.merchant_id <> outbox.merchant_id
    END
ORDER BY outbox.merchant_id DESC, outbox.seq DESC;

CREATE OR REPLACE VIEW webhook.own_finished WITH (security_barrier) AS
SELECT
    delivery_log.seq,
    delivery_log.event_id,
    delivery_log.merchant_id,
    delivery_log.type,
    delivery_log.created_at,
    delivery_log.state,
    delivery_log.failed_reason,
    delivery_log.attempts,
    delivery_log.last_status,
    delivery_log.last_outcome,
    delivery_log.finished_at,
    webhook.charge_key(delivery_log.object) COLLATE "C" AS charge_id,
    delivery_log.object
FROM webhook.delivery_log
WHERE
    CASE
        WHEN delivery_log.merchant_id = (SELECT webhook.current_merchant()) THEN true
        ELSE delivery_log.merchant_id <> delivery_log.merchant_id
    END
ORDER BY delivery_log.merchant_id DESC, delivery_log.seq DESC;

CREATE OR REPLACE VIEW webhook.own_owed_events WITH (security_barrier) AS
SELECT
    outbox.merchant_id,
    outbox.xid,
    outbox.seq,
    outbox.id AS event_id,
    outbox.type,
    outbox.created_at,
    outbox.object
FROM webhook.outbox
WHERE
    CASE
        WHEN outbox.merchant_id = (SELECT webhook.current_merchant()) THEN true
        ELSE outbox.merchant_id <> outbox.merchant_id
    END
ORDER BY outbox.merchant_id, outbox.xid, outbox.seq;

CREATE OR REPLACE VIEW webhook.own_finished_events WITH (security_barrier) AS
SELECT
    delivery_log.merchant_id,
    delivery_log.xid,
    delivery_log.seq,
    delivery_log.event_id,
    delivery_log.type,
    delivery_log.created_at,
    delivery_log.object
FROM webhook.delivery_log
WHERE CASE WHEN delivery_log.merchant_id = (SELECT webhook.current_merchant()) THEN true END
ORDER BY delivery_log.merchant_id, delivery_log.xid, delivery_log.seq;

-- As before, but for what is locked. While this is applied, commands that are being given at that moment are not seen.
CREATE OR REPLACE FUNCTION webhook.own_command(token bytea, command text, event_id uuid, since timestamptz, until timestamptz)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET lock_timeout = '1s'
AS $$
#variable_conflict use_column
DECLARE
    asking record := webhook.authorized_merchant(token);
    given webhook.control;
    open_commands bigint;
    open_mass_commands bigint;
BEGIN
    given.command := own_command.command;
    CASE own_command.command
        WHEN 'test_event', 'pause', 'resume' THEN
            given.merchant_id := asking.merchant;
            given.args := '{}';
        WHEN 'retry' THEN
            given.event_id := own_command.event_id;
            given.args := '{}';
            IF webhook.event_merchant(own_command.event_id) IS DISTINCT FROM asking.merchant THEN
                RETURN NULL;
            END IF;
        WHEN 'retry_failed' THEN
            IF NOT coalesce(isfinite(since) AND isfinite(until) AND since < until, false) THEN
                RAISE invalid_parameter_value USING MESSAGE = 'a mass retry needs a range of time';
            END IF;
            given.merchant_id := asking.merchant;
            given.args := jsonb_build_object('since', since, 'until', until);
        ELSE
            RAISE invalid_parameter_value USING MESSAGE = 'no merchant may give this command';
    END CASE;
    -- One at a time of a merchant, or two at once would each find room for one more. It is the merchant's first API key
    -- that is locked: whoever may not write there cannot lock it either; a lock by a number is everybody's to take.
    BEGIN
        PERFORM FROM webhook.api_key
        WHERE api_key.merchant_id = asking.merchant
        ORDER BY api_key.merchant_id, api_key.id
        LIMIT 1
        FOR NO KEY UPDATE;
    EXCEPTION WHEN lock_not_available THEN
        RAISE SQLSTATE 'WH409' USING MESSAGE = 'other commands of this merchant are being given';
    END;
    -- Apart, so that each is found by its index. What runs has a time until which it does.
    SELECT count(*), count(*) FILTER (WHERE open.command = 'retry_failed')
    INTO open_commands, open_mass_commands
    FROM (
        SELECT control.command, control.requested_by
        FROM webhook.control
        WHERE control.subject = asking.merchant AND control.status = 'pending'
        UNION ALL
        SELECT control.command, control.requested_by
        FROM webhook.control
        WHERE
            control.subject = asking.merchant AND control.status = 'running'
            AND control.running_until IS NOT NULL
    ) AS open
    WHERE starts_with(open.requested_by, 'api:');
    IF open_commands >= 10 OR (given.command = 'retry_failed' AND open_mass_commands > 0) THEN
        RAISE SQLSTATE 'WH409' USING MESSAGE = 'too many commands of this merchant have not ended yet';
    END IF;
    INSERT INTO webhook.control (command, merchant_id, event_id, args, requested_by)
    VALUES (given.command, given.merchant_id, given.event_id, given.args, asking.person)
    RETURNING control.id INTO given.id;
    RETURN given.id;
END
$$;

-- Below which transaction the feed is complete for this snapshot: the lowest that was open and might have written an event.
-- A session in another database cannot, nor one that logged in as a role that only reads, whatever it calls itself now:
-- those delay nobody, however long they stay open. What has ended since, or has no session, counts as open.
CREATE FUNCTION webhook.feed_horizon() RETURNS xid8
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN coalesce((
        SELECT open.xid
        FROM pg_snapshot_xip(pg_current_snapshot()) AS open (xid)
        WHERE NOT EXISTS (
            SELECT
            FROM pg_stat_activity AS session
            WHERE
                session.backend_xid = open.xid::xid
                AND (session.datname <> current_database() OR webhook.only_reads(session.usesysid))
        )
        ORDER BY open.xid
        LIMIT 1
    ), pg_snapshot_xmax(pg_current_snapshot()));
END
$$;

-- Whether a login is one of ours that writes no event, and was not made a member of another.
CREATE FUNCTION webhook.only_reads(login oid) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT EXISTS (
    SELECT
    FROM pg_roles
    WHERE
        pg_roles.oid = login
        AND pg_roles.rolname IN ('webhook_observer', 'webhook_api', 'webhook_console')
        AND NOT pg_roles.rolsuper
        AND NOT has_any_column_privilege(pg_roles.oid, 'webhook.outbox', 'INSERT')
        AND NOT EXISTS (SELECT FROM pg_auth_members WHERE pg_auth_members.member = pg_roles.oid)
)
$$;
REVOKE EXECUTE ON FUNCTION webhook.feed_horizon, webhook.only_reads FROM public;
GRANT EXECUTE ON FUNCTION webhook.feed_horizon TO webhook_api;
GRANT EXECUTE ON FUNCTION webhook.only_reads TO webhook_api, webhook_admin, webhook_dispatcher;
-- For `check`, which names who has been open for long.
GRANT SELECT ON webhook.milestone TO webhook_admin;

UPDATE webhook.state SET schema_version = 16;
