-- Why:   an installation may have types of event of its own, which its producers write and all dispatchers send.
-- Locks: none that is held beyond an instant; the rule of events is replaced for what is written from now on.
SET lock_timeout = '5s';
SET statement_timeout = '1min';
SET ROLE webhook_owner;

-- Types of one's own, beside ours. They are retired, never removed: what is kept of them is still told by its name. Charge
-- path: where in an event's object the id of its charge stands. The sample has there what tells a test of this type.
CREATE TABLE webhook.event_type (
    name text COLLATE "C" PRIMARY KEY
    CONSTRAINT name_has_1_to_64_of_a_to_z_0_to_9_dot_and_underscore CHECK (name ~ '^[a-z0-9_.]{1,64}$')
    CONSTRAINT name_is_none_of_ours CHECK (name <> ALL (ARRAY[
        'charge.created', 'charge.succeeded', 'charge.failed', 'charge.reversed',
        'charge.split_completed', 'charge.split_failed',
        'charge.fiscal_registered', 'charge.fiscal_failed', 'webhook.test',
        'delivery.failed', 'endpoint.failing', 'endpoint.recovered', 'endpoint.suspended'
    ])),
    sample json NOT NULL
    CONSTRAINT sample_is_an_object_of_at_most_256_kib
    CHECK (json_typeof(sample) = 'object' AND octet_length(sample::text) <= 262144),
    charge_path text NOT NULL
    CONSTRAINT charge_path_is_names_between_dots CHECK (charge_path ~ '^[A-Za-z0-9_]{1,64}([.][A-Za-z0-9_]{1,64}){0,7}$'),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    retired_at timestamptz,
    -- The transaction that retired it: one that was open then may still write such an event.
    retired_xid xid8,
    CONSTRAINT sample_has_its_type_as_its_charge CHECK (
        sample #>> string_to_array(charge_path, '.') IS NOT DISTINCT FROM 'ch_test:' || name
        AND substring(sample::text FROM '"ch_test:([a-z0-9_.]{1,64})"') IS NOT DISTINCT FROM name
    ),
    CONSTRAINT retired_by_a_transaction CHECK ((retired_at IS NULL) = (retired_xid IS NULL))
);

-- Stable: it reads a table now, though of types that are none of ours alone.
CREATE OR REPLACE FUNCTION webhook.event_can_be_sent(
    merchant_id pg_catalog.text,
    type pg_catalog.text,
    created_at pg_catalog.timestamptz,
    object pg_catalog.json
) RETURNS pg_catalog.bool
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    broken pg_catalog.text;
BEGIN
    IF
        pg_catalog.length(merchant_id) OPERATOR(pg_catalog.<) 1
        OR pg_catalog.length(merchant_id) OPERATOR(pg_catalog.>) 128
        OR merchant_id OPERATOR(pg_catalog.~)
        E'[\\u0001-\\u001f\\u007f-\\u00a0\\u00ad\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff0-\\uffff]'
        -- Fails by itself for bytes that are no text, which a database in SQL_ASCII stores and nobody can read.
        OR pg_catalog.convert_to(merchant_id, 'UTF8') IS NULL
    THEN
        broken := 'merchant_id_has_1_to_128_printable_characters';
    ELSIF
        merchant_id OPERATOR(pg_catalog.=) '$platform'
        AND NOT pg_catalog.has_table_privilege('webhook.outbox', 'DELETE')
    THEN
        broken := 'only_dispatchers_write_to_the_platform';
    ELSIF
        created_at OPERATOR(pg_catalog.<) '2000-01-01 00:00:00+00'
        OR created_at OPERATOR(pg_catalog.>=) '2100-01-01 00:00:00+00'
    THEN
        broken := 'created_at_is_between_the_years_2000_and_2100';
    ELSIF pg_catalog.json_typeof(object) OPERATOR(pg_catalog.<>) 'object' THEN
        broken := 'object_is_a_json_object';
    ELSIF pg_catalog.octet_length(object::pg_catalog.text) OPERATOR(pg_catalog.>) 262144 THEN
        broken := 'object_has_at_most_256_kib';
    ELSIF type OPERATOR(pg_catalog.<>) ALL (CASE
        WHEN merchant_id OPERATOR(pg_catalog.=) '$platform' THEN ARRAY[
            'delivery.failed', 'endpoint.failing', 'endpoint.recovered', 'endpoint.suspended', 'webhook.test'
        ]::pg_catalog.text[]
        ELSE ARRAY[
            'charge.created', 'charge.succeeded', 'charge.failed', 'charge.reversed',
            'charge.split_completed', 'charge.split_failed',
            'charge.fiscal_registered', 'charge.fiscal_failed', 'webhook.test'
        ]::pg_catalog.text[]
    END) THEN
        -- None of ours. Who may delete here is no producer: a CHECK is asked of each row that is changed, restored or
        -- replicated, and what is owed of a type that was retired, or is not restored yet, must get through.
        IF merchant_id OPERATOR(pg_catalog.=) '$platform' THEN
            NULL;
        ELSIF pg_catalog.has_table_privilege('webhook.outbox'::pg_catalog.regclass, 'DELETE') THEN
            IF
                type OPERATOR(pg_catalog.~) '^[a-z0-9_.]{1,64}$'
                AND type OPERATOR(pg_catalog.<>) ALL (ARRAY[
                    'delivery.failed', 'endpoint.failing', 'endpoint.recovered', 'endpoint.suspended'
                ]::pg_catalog.text[])
            THEN
                RETURN true;
            END IF;
        ELSE
            PERFORM FROM webhook.event_type
            WHERE event_type.name OPERATOR(pg_catalog.=) event_can_be_sent.type AND event_type.retired_at IS NULL;
            IF FOUND THEN
                RETURN true;
            END IF;
        END IF;
        broken := 'type_is_one_of_the_published_event_types';
    ELSE
        RETURN true;
    END IF;
    RAISE check_violation USING
        MESSAGE = pg_catalog.format('an event for webhook.outbox breaks the rule "%s"', broken),
        SCHEMA = 'webhook', TABLE = 'outbox', CONSTRAINT = broken;
END
$$;

-- Let producers write a type of their own: a new one, or one that was retired; null leaves what is known of it. Older programs
-- do not send it: they are refused from then on, and nothing is changed while one of their dispatchers works. Returns which do.
CREATE FUNCTION webhook.add_event_type(new_name text, new_sample json, new_charge_path text, added_by text) RETURNS text[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known webhook.event_type;
    made webhook.event_type;
    older text[];
BEGIN
    PERFORM FROM webhook.state WHERE state.is_only FOR NO KEY UPDATE;
    SELECT array_agg(format('%s (%s)', dispatcher.host, dispatcher.version) ORDER BY dispatcher.owner) INTO older
    FROM webhook.dispatcher
    WHERE dispatcher.schema_version < 22 AND dispatcher.beat_at > clock_timestamp() - interval '30 seconds';
    IF older IS NOT NULL THEN
        RETURN older;
    END IF;
    SELECT event_type.* INTO known FROM webhook.event_type WHERE event_type.name = new_name;
    INSERT INTO webhook.event_type (name, sample, charge_path)
    VALUES (new_name, coalesce(new_sample, known.sample), coalesce(new_charge_path, known.charge_path, 'id'))
    ON CONFLICT (name) DO UPDATE SET
        sample = excluded.sample, charge_path = excluded.charge_path, retired_at = NULL, retired_xid = NULL
    RETURNING event_type.* INTO made;
    UPDATE webhook.state SET compatible_from = 22 WHERE state.is_only AND state.compatible_from < 22;
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

-- What keeps programs from before types of one's own from being served: 'types' that producers may write, events that are
-- 'owed' of one that was retired, transactions that are 'open' since then and may have written one, or 'nothing' any more;
-- null: they are served.
CREATE FUNCTION webhook.event_types_hold() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE
        WHEN NOT EXISTS (SELECT FROM webhook.state WHERE state.compatible_from = 22) THEN NULL
        WHEN EXISTS (SELECT FROM webhook.event_type WHERE event_type.retired_at IS NULL) THEN 'types'
        WHEN EXISTS (
            SELECT FROM webhook.outbox WHERE outbox.type IN (SELECT event_type.name FROM webhook.event_type)
        ) THEN 'owed'
        WHEN EXISTS (
            SELECT FROM webhook.event_type
            WHERE event_type.retired_xid >= pg_snapshot_xmin(pg_current_snapshot())
        ) THEN 'open'
        ELSE 'nothing'
    END
$$;

-- Let producers write a type no more: false where that is so already, null where there is none. What is owed of it is sent.
-- Given again, in another transaction, it serves older programs once nothing holds.
CREATE FUNCTION webhook.retire_event_type(old_name text, retired_by text) RETURNS boolean
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
    UPDATE webhook.state SET compatible_from = CASE
        WHEN state.header_prefix <> 'Service-' OR state.user_agent IS NOT NULL OR state.signatures <> '{service}' THEN 21
        WHEN EXISTS (SELECT FROM webhook.api_key) THEN 6
        ELSE 1
    END
    WHERE state.is_only AND webhook.event_types_hold() = 'nothing';
    RETURN (SELECT false FROM webhook.event_type WHERE event_type.name = old_name);
END
$$;

REVOKE EXECUTE ON FUNCTION webhook.add_event_type, webhook.event_types_hold, webhook.retire_event_type FROM public;
GRANT EXECUTE ON FUNCTION webhook.add_event_type, webhook.event_types_hold, webhook.retire_event_type TO webhook_admin;
GRANT EXECUTE ON FUNCTION webhook.event_types_hold TO webhook_dispatcher;
GRANT SELECT (name, charge_path, created_at, retired_at) ON webhook.event_type
TO public, webhook_producer, webhook_observer, webhook_api, webhook_console;
GRANT SELECT ON webhook.event_type TO webhook_admin, webhook_dispatcher;

UPDATE webhook.state SET schema_version = 22;
