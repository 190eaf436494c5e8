-- Why:   an endpoint is sent the types that it wants, and what it does not want goes into the log without a state.
-- Locks: endpoint, and the log of deliveries with all its days, against everybody until this ends: milliseconds.
SET lock_timeout = '5s';
SET statement_timeout = '1min';
SET ROLE webhook_owner;

ALTER TABLE webhook.endpoint
    ADD COLUMN types text[] CONSTRAINT types_are_1_to_64_names CHECK (
        cardinality(types) BETWEEN 1 AND 64
        AND string_to_array(array_to_string(types, ','), ',') = types
        AND array_to_string(types, ',') ~ '^[a-z0-9_.]{1,64}(,[a-z0-9_.]{1,64})*$'
    );

-- What programs of before read leaves out rows without a state, or looks for the two that there are.
-- squawk-ignore ban-drop-not-null
ALTER TABLE webhook.delivery_log ALTER COLUMN state DROP NOT NULL;

ALTER TYPE webhook.admission ADD ATTRIBUTE types text[];

CREATE OR REPLACE VIEW webhook.endpoints AS
SELECT
    endpoint.merchant_id, endpoint.url, coalesce(lane.paused, false) AS paused, endpoint.created_at, endpoint.updated_at,
    endpoint.secret_created_at, lane.last_success_at, lane.failing_since,
    coalesce(lane.failures_in_a_row, 0) AS failures_in_a_row, lane.suspended_at, endpoint.types
FROM webhook.endpoint
LEFT JOIN webhook.lane ON lane.merchant_id = endpoint.merchant_id;

CREATE OR REPLACE VIEW webhook.deliveries AS
SELECT known.*
FROM (
    SELECT
        id AS event_id, seq, merchant_id, type, created_at,
        CASE
            WHEN due_at IS NULL THEN 'pending' WHEN on_failure = 'delivered' THEN 'delivered' ELSE 'pending_retry'
        END AS state,
        NULL::text AS failed_reason, attempts, CASE WHEN claim IS NULL THEN due_at END AS next_attempt_at,
        last_status, last_outcome, NULL::timestamptz AS finished_at, object
    FROM webhook.outbox
    UNION ALL
    SELECT
        event_id, seq, merchant_id, type, created_at, state, failed_reason, attempts, NULL::timestamptz AS next_attempt_at,
        last_status, last_outcome, finished_at, object
    FROM webhook.delivery_log
) AS known
WHERE known.state IS NOT NULL;

CREATE VIEW webhook.logged AS
SELECT
    seq, event_id, merchant_id, type, created_at, state, failed_reason, attempts, last_status, last_outcome, finished_at,
    webhook.charge_key(object) COLLATE "C" AS charge_id
FROM webhook.delivery_log;

CREATE OR REPLACE VIEW webhook.finished AS
SELECT
    seq, event_id, merchant_id, type, created_at, state, failed_reason, attempts, last_status, last_outcome, finished_at,
    charge_id
FROM webhook.logged
WHERE state IS NOT NULL;

CREATE OR REPLACE VIEW webhook.own_endpoint WITH (security_barrier) AS
SELECT
    merchant_id, url, paused, created_at, updated_at, secret_created_at, last_success_at, failing_since, failures_in_a_row,
    suspended_at, types
FROM webhook.endpoints
WHERE merchant_id = (SELECT webhook.current_merchant());

CREATE VIEW webhook.own_logged WITH (security_barrier) AS
SELECT
    seq, event_id, merchant_id, type, created_at, state, failed_reason, attempts, last_status, last_outcome, finished_at,
    webhook.charge_key(object) COLLATE "C" AS charge_id, object
FROM webhook.delivery_log
WHERE CASE WHEN merchant_id = (SELECT webhook.current_merchant()) THEN true ELSE merchant_id <> merchant_id END
ORDER BY merchant_id DESC, seq DESC;

CREATE OR REPLACE VIEW webhook.own_finished WITH (security_barrier) AS
SELECT
    seq, event_id, merchant_id, type, created_at, state, failed_reason, attempts, last_status, last_outcome, finished_at,
    webhook.charge_key(object) COLLATE "C" AS charge_id, object
FROM webhook.delivery_log
WHERE CASE WHEN merchant_id = (SELECT webhook.current_merchant()) THEN true ELSE merchant_id <> merchant_id END
    AND state IS NOT NULL
ORDER BY merchant_id DESC, seq DESC;

CREATE VIEW webhook.console_logged AS
SELECT
    seq, event_id, merchant_id, type, created_at, state, failed_reason, attempts, last_status, last_outcome, finished_at,
    webhook.charge_key(object) COLLATE "C" AS charge_id
FROM webhook.delivery_log
WHERE (SELECT webhook.current_person_role()) IS NOT NULL;

CREATE OR REPLACE VIEW webhook.console_finished AS
SELECT
    seq, event_id, merchant_id, type, created_at, state, failed_reason, attempts, last_status, last_outcome, finished_at,
    webhook.charge_key(object) COLLATE "C" AS charge_id
FROM webhook.delivery_log
WHERE (SELECT webhook.current_person_role()) IS NOT NULL AND state IS NOT NULL;

CREATE OR REPLACE VIEW webhook.console_endpoints AS
SELECT merchant_id, url, created_at, updated_at, secret_created_at, previous_until, types
FROM webhook.endpoint
WHERE (SELECT webhook.current_person_role()) IS NOT NULL;

CREATE OR REPLACE FUNCTION webhook.endpoint_without_secrets(endpoint webhook.endpoint) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT jsonb_build_object(
    'merchant_id', endpoint.merchant_id, 'url', endpoint.url, 'key_id', endpoint.key_id, 'secret_created_at', endpoint.secret_created_at,
    'previous_key_id', endpoint.previous_key_id, 'previous_until', endpoint.previous_until, 'types', endpoint.types
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
            ELSE 'endpoint changed'
        END,
        coalesce(NEW.merchant_id, OLD.merchant_id),
        CASE WHEN TG_OP <> 'INSERT' THEN webhook.endpoint_without_secrets(OLD) END,
        CASE WHEN TG_OP <> 'DELETE' THEN webhook.endpoint_without_secrets(NEW) END
    );
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION webhook.event_types_hold() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE
        WHEN state.compatible_from < 22 THEN NULL
        WHEN EXISTS (SELECT FROM webhook.event_type WHERE event_type.retired_at IS NULL) THEN 'types'
        WHEN EXISTS (
            SELECT FROM webhook.outbox WHERE outbox.type IN (SELECT event_type.name FROM webhook.event_type)
        ) THEN 'owed'
        WHEN EXISTS (
            SELECT FROM webhook.event_type
            WHERE event_type.retired_xid >= pg_snapshot_xmin(pg_current_snapshot())
        ) THEN 'open'
        WHEN state.compatible_from = 22 THEN 'nothing'
    END
    FROM webhook.state
    WHERE state.is_only
$$;

-- The oldest schema whose programs may work beside what is in use: whoever takes some of that away lowers it to this.
CREATE FUNCTION webhook.oldest_served() RETURNS integer
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE
        WHEN EXISTS (SELECT FROM webhook.endpoint WHERE endpoint.types IS NOT NULL) THEN 23
        WHEN webhook.event_types_hold() IN ('types', 'owed', 'open') THEN 22
        WHEN state.header_prefix <> 'Service-' OR state.user_agent IS NOT NULL OR state.signatures <> '{service}' THEN 21
        WHEN EXISTS (SELECT FROM webhook.api_key) THEN 6
        ELSE 1
    END
    FROM webhook.state
    WHERE state.is_only
$$;

CREATE OR REPLACE FUNCTION webhook.retire_event_type(old_name text, retired_by text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM webhook.state WHERE state.is_only FOR NO KEY UPDATE;
    UPDATE webhook.event_type SET retired_at = clock_timestamp(), retired_xid = pg_current_xact_id()
    WHERE event_type.name = old_name AND event_type.retired_at IS NULL;
    IF FOUND THEN
        INSERT INTO webhook.audit (person, action, before)
        VALUES (retired_by, 'event type retired', jsonb_build_object('name', old_name));
        RETURN true;
    END IF;
    UPDATE webhook.state SET compatible_from = webhook.oldest_served()
    WHERE state.is_only AND webhook.event_types_hold() = 'nothing';
    RETURN (SELECT false FROM webhook.event_type WHERE event_type.name = old_name);
END
$$;

-- Older programs know no filters: they are refused while there is one, and none is set while one of their dispatchers works.
CREATE FUNCTION webhook.serve_filters() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    older text;
BEGIN
    IF NEW.types IS NOT DISTINCT FROM OLD.types THEN
        RETURN NULL;
    END IF;
    PERFORM FROM webhook.state WHERE state.is_only FOR NO KEY UPDATE;
    -- Statements of their own: they see what was changed while that one waited.
    IF NEW.types IS NOT NULL THEN
        SELECT string_agg(format('%s (%s)', first.host, first.version), ', ' ORDER BY first.owner) INTO older
        FROM (
            SELECT dispatcher.owner, dispatcher.host, dispatcher.version
            FROM webhook.dispatcher
            WHERE dispatcher.schema_version < 23 AND dispatcher.beat_at > clock_timestamp() - interval '30 seconds'
            LIMIT 5
        ) AS first;
        IF older IS NOT NULL THEN
            RAISE object_not_in_prerequisite_state USING
                MESSAGE = format('these dispatchers know no filters, and work: %s', older), HINT = 'replace them first';
        END IF;
        UPDATE webhook.state SET compatible_from = 23 WHERE state.is_only AND state.compatible_from < 23;
    ELSE
        UPDATE webhook.state SET compatible_from = webhook.oldest_served()
        WHERE state.is_only AND state.compatible_from = 23;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER endpoint_filters_need_programs AFTER INSERT OR UPDATE OR DELETE ON webhook.endpoint
FOR EACH ROW EXECUTE FUNCTION webhook.serve_filters();

-- Configure a merchant, or change its URL (null: as it is) and, unless they are kept, its types; its secret stays. 'created',
-- 'changed', 'unchanged' (nothing is written), or 'key_is_old' (seal again), 'not_configured' (there is no endpoint, and no URL
-- or secret was given). Who asks was found before.
CREATE FUNCTION webhook.put_endpoint(
    merchant text, url text, secret bytea, key_id text, types text[], keeps_types boolean
)
RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    known webhook.endpoint;
BEGIN
    IF length(put_endpoint.url) NOT BETWEEN 1 AND 4096 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'this is no URL';
    END IF;
    LOOP
        SELECT endpoint.* INTO known
        FROM webhook.endpoint
        WHERE endpoint.merchant_id = merchant
        FOR NO KEY UPDATE;
        IF FOUND THEN
            IF coalesce(put_endpoint.url, known.url) = known.url
                AND (keeps_types OR put_endpoint.types IS NOT DISTINCT FROM known.types)
            THEN
                RETURN 'unchanged';
            END IF;
            UPDATE webhook.endpoint
            SET
                url = coalesce(put_endpoint.url, endpoint.url),
                types = CASE WHEN keeps_types THEN endpoint.types ELSE put_endpoint.types END,
                updated_at = clock_timestamp()
            WHERE endpoint.merchant_id = merchant;
            RETURN 'changed';
        END IF;
        IF put_endpoint.url IS NULL OR secret IS NULL THEN
            RETURN 'not_configured';
        END IF;
        IF NOT webhook.is_sealed_currently(secret, put_endpoint.key_id) THEN
            RETURN 'key_is_old';
        END IF;
        INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id, types)
        VALUES (merchant, put_endpoint.url, put_endpoint.secret, put_endpoint.key_id, put_endpoint.types)
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN 'created';
        END IF;
    END LOOP;
END
$$;

CREATE FUNCTION webhook.own_put_endpoint(
    token bytea, url text, secret bytea, key_id text, types text[], keeps_types boolean
)
RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own text := (webhook.authorized_merchant(token)).merchant;
BEGIN
    RETURN webhook.put_endpoint(own, url, secret, key_id, types, keeps_types);
END
$$;

CREATE FUNCTION webhook.console_put_endpoint(
    session bytea, merchant text, url text, secret bytea, key_id text, types text[], keeps_types boolean
)
RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM webhook.person_who_changes(session);
    -- Of merchants that the outbox takes events of, and the platform.
    IF merchant IS DISTINCT FROM '$platform' THEN
        PERFORM webhook.event_can_be_sent(coalesce(merchant, ''), 'charge.created', clock_timestamp(), '{}');
    END IF;
    RETURN webhook.put_endpoint(merchant, url, secret, key_id, types, keeps_types);
END
$$;

-- These set an endpoint for programs that know no filters.
CREATE OR REPLACE FUNCTION webhook.own_put_endpoint(token bytea, url text, secret bytea, key_id text) RETURNS text
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
SELECT webhook.own_put_endpoint(token, coalesce(url, ''), secret, key_id, NULL, true)
$$;

CREATE OR REPLACE FUNCTION webhook.console_put_endpoint(session bytea, merchant text, url text, secret bytea, key_id text)
RETURNS text
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
SELECT webhook.console_put_endpoint(session, merchant, coalesce(url, ''), secret, key_id, NULL, true)
$$;

-- The two above alone called it.
-- squawk-ignore ban-drop-function
DROP FUNCTION webhook.put_endpoint(text, text, bytea, text);

CREATE OR REPLACE FUNCTION webhook.event_merchant(event_id uuid) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (
        SELECT found.merchant_id
        FROM (
            SELECT outbox.merchant_id, outbox.seq, true AS is_owed
            FROM webhook.outbox
            WHERE outbox.id = event_merchant.event_id
            UNION ALL
            SELECT delivery_log.merchant_id, delivery_log.seq, false
            FROM webhook.delivery_log
            WHERE delivery_log.event_id = event_merchant.event_id AND delivery_log.state IS NOT NULL
            -- Keeps all rows from being gone through in the order that is asked for.
            OFFSET 0
        ) AS found
        ORDER BY found.is_owed DESC, found.seq DESC
        LIMIT 1
    );
EXCEPTION WHEN data_corrupted OR index_corrupted THEN
    RETURN NULL;
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
            NULL, NULL, NULL, NULL
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
            endpoints.types
        INTO
            admitted.url, admitted.paused, admitted.created_at, admitted.updated_at, admitted.secret_created_at,
            admitted.last_success_at, admitted.failing_since, admitted.failures_in_a_row, admitted.suspended_at,
            admitted.types
        FROM webhook.endpoints
        WHERE endpoints.merchant_id = admitted.merchant_id;
    END IF;
    RETURN admitted;
END
$$;

REVOKE EXECUTE ON FUNCTION
webhook.oldest_served, webhook.serve_filters, webhook.put_endpoint,
webhook.own_put_endpoint(bytea, text, bytea, text, text[], boolean),
webhook.console_put_endpoint(bytea, text, text, bytea, text, text[], boolean)
FROM public;
GRANT SELECT ON webhook.logged TO webhook_admin, webhook_dispatcher;
GRANT SELECT ON webhook.own_logged TO webhook_api;
GRANT EXECUTE ON FUNCTION webhook.own_put_endpoint(bytea, text, bytea, text, text[], boolean) TO webhook_api;
GRANT SELECT ON webhook.console_logged TO webhook_console;
GRANT EXECUTE ON FUNCTION webhook.console_put_endpoint(bytea, text, text, bytea, text, text[], boolean) TO webhook_console;

UPDATE webhook.state SET schema_version = 23;
