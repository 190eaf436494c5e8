-- Why:   programs that do not know what is in use were asked for, refused and served again in four places; a command for an event
--        that was not wanted by its latest merchant counted as that one's; what nothing has used since version 20 goes.
-- Locks: endpoint, against everybody until this ends: milliseconds.
SET lock_timeout = '5s';
SET statement_timeout = '1min';
SET ROLE webhook_owner;

-- Refuse programs for an older schema from now on, which do not know what is about to be used. While dispatchers among them
-- work nothing is changed, and some of these are returned; else null.
CREATE FUNCTION webhook.require_programs(wanted_version integer) RETURNS text[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    older text[];
BEGIN
    PERFORM FROM webhook.state WHERE state.is_only FOR NO KEY UPDATE;
    -- Statements of their own: they see what was changed while that one waited.
    SELECT array_agg(format('%s (%s)', first.host, first.version) ORDER BY first.owner) INTO older
    FROM (
        SELECT dispatcher.owner, dispatcher.host, dispatcher.version
        FROM webhook.dispatcher
        WHERE dispatcher.schema_version < wanted_version AND dispatcher.beat_at > clock_timestamp() - interval '30 seconds'
        LIMIT 5
    ) AS first;
    IF older IS NULL THEN
        UPDATE webhook.state SET compatible_from = wanted_version WHERE state.is_only AND state.compatible_from < wanted_version;
    END IF;
    RETURN older;
END
$$;

-- Serve programs again that know all that is still in use, where it was this that they did not know.
CREATE FUNCTION webhook.serve_programs(known_since integer) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM webhook.state WHERE state.is_only FOR NO KEY UPDATE;
    UPDATE webhook.state SET compatible_from = webhook.oldest_served() WHERE state.is_only AND state.compatible_from = known_since;
END
$$;

-- Called when something begins or ceases to be used that programs have known since a version of the schema.
CREATE FUNCTION webhook.need_programs(is_used boolean, known_since integer, what text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    older text[];
BEGIN
    IF NOT is_used THEN
        PERFORM webhook.serve_programs(known_since);
        RETURN;
    END IF;
    older := webhook.require_programs(known_since);
    IF older IS NOT NULL THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('these dispatchers know no %s, and work: %s', what, array_to_string(older, ', ')),
            HINT = 'replace them first';
    END IF;
END
$$;

-- Older programs know no filters and no order by charge: they are refused while an endpoint has one, and none gets one while one
-- of their dispatchers works.
CREATE FUNCTION webhook.serve_endpoint() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.types IS DISTINCT FROM OLD.types THEN
        PERFORM webhook.need_programs(NEW.types IS NOT NULL, 23, 'filters');
    END IF;
    IF NEW.at_once IS DISTINCT FROM OLD.at_once THEN
        PERFORM webhook.need_programs(NEW.at_once IS NOT NULL, 24, 'order by charge');
    END IF;
    RETURN NULL;
END
$$;

-- Set the names that requests have: null leaves one as it is, and an empty User-Agent is each program's own. Older programs
-- know the default names alone. Returns which of their dispatchers work; then nothing is changed.
CREATE OR REPLACE FUNCTION webhook.set_names(header_prefix text, user_agent text, signatures text[], set_by text) RETURNS text[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known webhook.state;
    named webhook.state;
    older text[];
BEGIN
    SELECT state.* INTO STRICT known FROM webhook.state WHERE state.is_only FOR NO KEY UPDATE;
    named := known;
    named.header_prefix := coalesce($1, known.header_prefix);
    named.user_agent := nullif(coalesce($2, known.user_agent), '');
    named.signatures := coalesce($3, known.signatures);
    IF named.header_prefix <> 'Service-' OR named.user_agent IS NOT NULL OR named.signatures <> '{service}' THEN
        older := webhook.require_programs(21);
        IF older IS NOT NULL THEN
            RETURN older;
        END IF;
    END IF;
    UPDATE webhook.state SET
        header_prefix = named.header_prefix, user_agent = named.user_agent, signatures = named.signatures
    WHERE state.is_only;
    PERFORM webhook.serve_programs(21);
    INSERT INTO webhook.audit (person, action, before, after)
    VALUES (
        set_by, 'names set',
        jsonb_build_object(
            'header_prefix', known.header_prefix, 'user_agent', known.user_agent, 'signatures', known.signatures
        ),
        jsonb_build_object(
            'header_prefix', named.header_prefix, 'user_agent', named.user_agent, 'signatures', named.signatures
        )
    );
    RETURN '{}';
END
$$;

-- Let producers write a type of their own: a new one, or one that was retired; null leaves what is known of it. Older programs
-- do not send it: they are refused from then on, and nothing is changed while one of their dispatchers works. Returns which do.
CREATE OR REPLACE FUNCTION webhook.add_event_type(new_name text, new_sample json, new_charge_path text, added_by text) RETURNS text[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known webhook.event_type;
    made webhook.event_type;
    older text[];
BEGIN
    older := webhook.require_programs(22);
    IF older IS NOT NULL THEN
        RETURN older;
    END IF;
    SELECT event_type.* INTO known FROM webhook.event_type WHERE event_type.name = new_name;
    INSERT INTO webhook.event_type (name, sample, charge_path)
    VALUES (new_name, coalesce(new_sample, known.sample), coalesce(new_charge_path, known.charge_path, 'id'))
    ON CONFLICT (name) DO UPDATE SET
        sample = excluded.sample, charge_path = excluded.charge_path, retired_at = NULL, retired_xid = NULL
    RETURNING event_type.* INTO made;
    INSERT INTO webhook.audit (person, action, before, after)
    VALUES (
        added_by, 'event type added',
        CASE
            WHEN known.name IS NOT NULL
            THEN jsonb_build_object('charge_path', known.charge_path, 'retired_at', known.retired_at)
        END,
        jsonb_build_object('name', made.name, 'charge_path', made.charge_path)
    );
    RETURN '{}';
END
$$;

-- Let producers write a type no more: false where that is so already, null where there is none. What is owed of it is sent.
-- Given again, in another transaction, it serves older programs once nothing holds.
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
    PERFORM webhook.serve_programs(22);
    RETURN (SELECT false FROM webhook.event_type WHERE event_type.name = old_name);
END
$$;

CREATE OR REPLACE FUNCTION webhook.command_subject(given webhook.control) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    subject text := left(given.merchant_id, 128);
BEGIN
    IF given.command IN ('retry', 'cancel') AND given.event_id IS NOT NULL THEN
        -- The delivery that a command for this event finds: the one that is owed, else the latest.
        SELECT outbox.merchant_id INTO subject FROM webhook.outbox WHERE outbox.id = given.event_id;
        IF NOT FOUND THEN
            -- The offset keeps all rows from being gone through in the order that is asked for.
            SELECT logged.merchant_id INTO subject
            FROM (
                SELECT delivery_log.merchant_id, delivery_log.seq
                FROM webhook.delivery_log
                WHERE delivery_log.event_id = given.event_id AND delivery_log.state IS NOT NULL
                OFFSET 0
            ) AS logged
            ORDER BY logged.seq DESC
            LIMIT 1;
        END IF;
    END IF;
    IF subject IS NULL AND given.command IN ('pause', 'resume') THEN
        RETURN '';
    END IF;
    RETURN coalesce(subject, 'event ' || given.event_id, 'command ' || given.id);
EXCEPTION WHEN data_corrupted OR index_corrupted THEN
    RETURN 'event ' || given.event_id;
END
$$;

-- Make a key for a merchant that the outbox would take events of.
CREATE OR REPLACE FUNCTION webhook.create_api_key(
    merchant text, new_client_id text, new_secret_hash bytea, new_name text, created_by text
)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    person text := coalesce(nullif(left(btrim(created_by), 200), ''), session_user);
    created bigint;
BEGIN
    IF merchant = '$platform' THEN
        RAISE check_violation USING
            MESSAGE = 'the platform has no API key', CONSTRAINT = 'platform_has_no_api_key';
    END IF;
    PERFORM webhook.event_can_be_sent(merchant, 'charge.created', clock_timestamp(), '{}');
    INSERT INTO webhook.api_key (client_id, secret_hash, merchant_id, name, created_by)
    VALUES (new_client_id, new_secret_hash, merchant, btrim(new_name), person)
    RETURNING id INTO created;
    INSERT INTO webhook.audit (person, action, merchant_id, after)
    VALUES (
        person, 'api key created', merchant,
        jsonb_build_object('client_id', new_client_id, 'name', btrim(new_name))
    );
    RETURN created;
END
$$;

-- The oldest schema whose programs may work beside what is in use: whoever takes some of that away lowers it to this.
CREATE OR REPLACE FUNCTION webhook.oldest_served() RETURNS integer
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE
        WHEN EXISTS (SELECT FROM webhook.endpoint WHERE endpoint.at_once IS NOT NULL) THEN 24
        WHEN EXISTS (SELECT FROM webhook.endpoint WHERE endpoint.types IS NOT NULL) THEN 23
        WHEN webhook.event_types_hold() IN ('types', 'owed', 'open') THEN 22
        WHEN state.header_prefix <> 'Service-' OR state.user_agent IS NOT NULL OR state.signatures <> '{service}' THEN 21
        ELSE 1
    END
    FROM webhook.state
    WHERE state.is_only
$$;

DROP TRIGGER endpoint_filters_need_programs ON webhook.endpoint;
DROP TRIGGER endpoint_order_needs_programs ON webhook.endpoint;
-- By its name before the trigger that locks the lane, which comes after state.
CREATE TRIGGER endpoint_needs_programs AFTER INSERT OR UPDATE OR DELETE ON webhook.endpoint
FOR EACH ROW EXECUTE FUNCTION webhook.serve_endpoint();
-- squawk-ignore ban-drop-function
DROP FUNCTION webhook.serve_filters();
-- squawk-ignore ban-drop-function
DROP FUNCTION webhook.serve_order();

-- No program since version 20 uses these.
-- squawk-ignore ban-drop-function
DROP FUNCTION webhook.rotate_secret(text, bytea, text, interval);
-- squawk-ignore ban-drop-function
DROP FUNCTION webhook.own_rotate_secret(bytea, bytea, text, interval);
-- squawk-ignore ban-drop-function
DROP FUNCTION webhook.console_rotate_secret(bytea, text, bytea, text, interval);
-- squawk-ignore ban-drop-sequence
DROP SEQUENCE webhook.claim_token;

REVOKE EXECUTE ON FUNCTION
webhook.require_programs, webhook.serve_programs, webhook.need_programs, webhook.serve_endpoint
FROM public;

UPDATE webhook.state SET schema_version = 25;
