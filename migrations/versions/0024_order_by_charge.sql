-- Why:   an endpoint may have several events attempted at once, in the order of each charge instead of the merchant's.
-- Locks: endpoint, against everybody until this ends: milliseconds.
SET lock_timeout = '5s';
SET statement_timeout = '1min';
SET ROLE webhook_owner;

ALTER TABLE webhook.endpoint ADD COLUMN at_once smallint CONSTRAINT at_once_is_2_to_32 CHECK (at_once BETWEEN 2 AND 32);

ALTER TYPE webhook.admission ADD ATTRIBUTE at_once smallint;

CREATE OR REPLACE VIEW webhook.endpoints AS
SELECT
    endpoint.merchant_id, endpoint.url, coalesce(lane.paused, false) AS paused, endpoint.created_at, endpoint.updated_at,
    endpoint.secret_created_at, lane.last_success_at, lane.failing_since,
    coalesce(lane.failures_in_a_row, 0) AS failures_in_a_row, lane.suspended_at, endpoint.types, endpoint.at_once
FROM webhook.endpoint
LEFT JOIN webhook.lane ON lane.merchant_id = endpoint.merchant_id;

CREATE OR REPLACE VIEW webhook.own_endpoint WITH (security_barrier) AS
SELECT
    merchant_id, url, paused, created_at, updated_at, secret_created_at, last_success_at, failing_since, failures_in_a_row,
    suspended_at, types, at_once
FROM webhook.endpoints
WHERE merchant_id = (SELECT webhook.current_merchant());

CREATE OR REPLACE VIEW webhook.console_endpoints AS
SELECT merchant_id, url, created_at, updated_at, secret_created_at, previous_until, types, at_once
FROM webhook.endpoint
WHERE (SELECT webhook.current_person_role()) IS NOT NULL;

CREATE OR REPLACE FUNCTION webhook.endpoint_without_secrets(endpoint webhook.endpoint) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT jsonb_build_object(
    'merchant_id', endpoint.merchant_id, 'url', endpoint.url, 'key_id', endpoint.key_id, 'secret_created_at', endpoint.secret_created_at,
    'previous_key_id', endpoint.previous_key_id, 'previous_until', endpoint.previous_until, 'types', endpoint.types,
    'at_once', endpoint.at_once
)
$$;

CREATE OR REPLACE FUNCTION webhook.audit_endpoint() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO webhook.audit (person, action, merchant_id, before, after)
    VALUES (
        nullif(current_setting('webhook.person', true), ''),
        CASE
            WHEN TG_OP = 'INSERT' THEN 'endpoint set'
            WHEN TG_OP = 'DELETE' THEN 'endpoint removed'
            WHEN NEW.merchant_id <> OLD.merchant_id THEN 'endpoint moved'
            WHEN NEW.secret_created_at <> OLD.secret_created_at THEN 'secret rotated'
            WHEN NEW.key_id <> OLD.key_id THEN 'secret rekeyed'
            WHEN NEW.secret <> OLD.secret THEN 'secret changed'
            WHEN NEW.url <> OLD.url THEN 'url changed'
            WHEN NEW.types IS DISTINCT FROM OLD.types THEN 'types changed'
            WHEN NEW.at_once IS DISTINCT FROM OLD.at_once THEN 'order changed'
            ELSE 'endpoint changed'
        END,
        coalesce(NEW.merchant_id, OLD.merchant_id),
        CASE WHEN TG_OP <> 'INSERT' THEN webhook.endpoint_without_secrets(OLD) END,
        CASE WHEN TG_OP <> 'DELETE' THEN webhook.endpoint_without_secrets(NEW) END
    );
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION webhook.oldest_served() RETURNS integer
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE
        WHEN EXISTS (SELECT FROM webhook.endpoint WHERE endpoint.at_once IS NOT NULL) THEN 24
        WHEN EXISTS (SELECT FROM webhook.endpoint WHERE endpoint.types IS NOT NULL) THEN 23
        WHEN webhook.event_types_hold() IN ('types', 'owed', 'open') THEN 22
        WHEN state.header_prefix <> 'Service-' OR state.user_agent IS NOT NULL OR state.signatures <> '{service}' THEN 21
        WHEN EXISTS (SELECT FROM webhook.api_key) THEN 6
        ELSE 1
    END
    FROM webhook.state
    WHERE state.is_only
$$;

-- Older programs send one event at a time: they are refused while an endpoint is by charge, and none becomes so while one of
-- their dispatchers works. When the last one is not any more, the programs are served that know all else that is in use.
CREATE FUNCTION webhook.serve_order() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    older text;
BEGIN
    IF NEW.at_once IS NOT DISTINCT FROM OLD.at_once THEN
        RETURN NULL;
    END IF;
    PERFORM FROM webhook.state WHERE state.is_only FOR NO KEY UPDATE;
    -- Statements of their own: they see what was changed while that one waited.
    IF NEW.at_once IS NOT NULL THEN
        SELECT string_agg(format('%s (%s)', first.host, first.version), ', ' ORDER BY first.owner) INTO older
        FROM (
            SELECT dispatcher.owner, dispatcher.host, dispatcher.version
            FROM webhook.dispatcher
            WHERE
                dispatcher.schema_version < 24
                AND dispatcher.beat_at > clock_timestamp() - interval '30 seconds'
            LIMIT 5
        ) AS first;
        IF older IS NOT NULL THEN
            RAISE object_not_in_prerequisite_state USING
                MESSAGE = format('these dispatchers know no order by charge, and work: %s', older), HINT = 'replace them first';
        END IF;
        UPDATE webhook.state SET compatible_from = 24
        WHERE state.is_only AND state.compatible_from < 24;
    ELSE
        UPDATE webhook.state SET compatible_from = webhook.oldest_served()
        WHERE state.is_only AND state.compatible_from = 24;
    END IF;
    RETURN NULL;
END
$$;
-- By its name before the trigger that locks the lane, which comes after state.
CREATE TRIGGER endpoint_order_needs_programs AFTER INSERT OR UPDATE OR DELETE ON webhook.endpoint
FOR EACH ROW EXECUTE FUNCTION webhook.serve_order();

-- Have so many of a merchant's events attempted at once, in the order of each charge; null: one, in the order of the merchant.
-- 'changed', 'unchanged' (nothing is written), or 'not_configured'. Who asks was found before.
CREATE FUNCTION webhook.set_order(merchant text, at_once integer) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    known webhook.endpoint;
BEGIN
    SELECT endpoint.* INTO known FROM webhook.endpoint WHERE endpoint.merchant_id = merchant FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN 'not_configured';
    END IF;
    IF known.at_once IS NOT DISTINCT FROM set_order.at_once THEN
        RETURN 'unchanged';
    END IF;
    UPDATE webhook.endpoint SET at_once = set_order.at_once, updated_at = clock_timestamp()
    WHERE endpoint.merchant_id = merchant;
    RETURN 'changed';
END
$$;

CREATE FUNCTION webhook.own_set_order(token bytea, at_once integer) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own text := (webhook.authorized_merchant(token)).merchant;
BEGIN
    RETURN webhook.set_order(own, at_once);
END
$$;

CREATE FUNCTION webhook.console_set_order(session bytea, merchant text, at_once integer) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM webhook.person_who_changes(session);
    RETURN webhook.set_order(merchant, at_once);
END
$$;

CREATE OR REPLACE FUNCTION webhook.admit_token(
    token bytea, most integer, span interval, clock timestamptz DEFAULT NULL, with_endpoint boolean DEFAULT false
)
RETURNS webhook.admission
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    admitted webhook.admission;
BEGIN
    SELECT
        CASE
            WHEN api_token.expires_at <= clock_timestamp() THEN 'expired'
            WHEN api_key.revoked_at IS NOT NULL THEN 'revoked'
            ELSE 'live'
        END,
        api_key.id,
        api_key.client_id,
        api_key.merchant_id,
        coalesce(api_key.last_used_at <= clock_timestamp() - interval '1 minute', true)
    INTO admitted.state, admitted.api_key_id, admitted.client_id, admitted.merchant_id, admitted.is_use_due
    FROM webhook.api_token
    JOIN webhook.api_key ON api_key.id = api_token.api_key_id
    WHERE api_token.hash = token;
    IF admitted.state IS DISTINCT FROM 'live' THEN
        RETURN ROW(
            coalesce(admitted.state, 'unknown'), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
            NULL, NULL, NULL, NULL, NULL
        )::webhook.admission;
    END IF;
    IF most IS DISTINCT FROM 0 THEN
        -- Nearly always there is no doubt: the row was written within a window of now, and even with those that are over
        -- there are fewer than the limit. Where others changed it meanwhile, all of this is evaluated once more, by the
        -- row as it is when it is locked: the clock is never read before another's entry was committed.
        UPDATE webhook.api_usage
        SET
            taken
            = webhook.entries_since(since, taken, webhook.microseconds(webhook.read_clock(clock) - span))
            || webhook.one_more(since, taken, webhook.microseconds(webhook.read_clock(clock))),
            expires_at = webhook.read_clock(clock) + span
        WHERE
            api_usage.subject = 'key:' || admitted.api_key_id
            AND cardinality(api_usage.taken) < most
            AND api_usage.expires_at > webhook.read_clock(clock)
            AND api_usage.expires_at <= webhook.read_clock(clock) + span
        RETURNING most - cardinality(api_usage.taken) INTO admitted.remaining;
        IF NOT FOUND THEN
            SELECT taken.retry_after, taken.remaining INTO admitted.retry_after, admitted.remaining
            FROM webhook.take_limit('key:' || admitted.api_key_id, most, span, clock) AS taken;
        END IF;
    END IF;
    IF with_endpoint AND admitted.retry_after IS NULL THEN
        SELECT
            endpoints.url, endpoints.paused, endpoints.created_at, endpoints.updated_at, endpoints.secret_created_at,
            endpoints.last_success_at, endpoints.failing_since, endpoints.failures_in_a_row, endpoints.suspended_at,
            endpoints.types, endpoints.at_once
        INTO
            admitted.url, admitted.paused, admitted.created_at, admitted.updated_at, admitted.secret_created_at,
            admitted.last_success_at, admitted.failing_since, admitted.failures_in_a_row, admitted.suspended_at,
            admitted.types, admitted.at_once
        FROM webhook.endpoints
        WHERE endpoints.merchant_id = admitted.merchant_id;
    END IF;
    RETURN admitted;
END
$$;

REVOKE EXECUTE ON FUNCTION
webhook.serve_order, webhook.set_order, webhook.own_set_order, webhook.console_set_order
FROM public;
GRANT EXECUTE ON FUNCTION webhook.own_set_order TO webhook_api;
GRANT EXECUTE ON FUNCTION webhook.console_set_order TO webhook_console;

UPDATE webhook.state SET schema_version = 24;
