-- The schema as it is: each table, view, function and right once, in its final form. It is what `migrate` makes a new schema
-- with, and what all migrations make together; tests/integration/test_schema_file.py compares both.
--
--  1. State: which schema this is          7. Commands                     13. Partner API: requests that are repeated
--  2. Events that are owed                 8. Upkeep, notices, heartbeats  14. Partner API: events in order
--  3. Merchants: endpoints and lanes       9. Sealed secrets               15. Console: accounts and sessions
--  4. The log of deliveries and attempts  10. Partner API: keys, tokens    16. Console: what operators change
--  5. What is read of deliveries          11. Partner API: limits          17. Console: what is shown
--  6. Audit                               12. Partner API: one's own       18. Rights, role by role
--
-- Roles are made by roles.sql. All functions that run with their owner's rights name their search_path.
SET lock_timeout = '5s';
SET statement_timeout = '1min';
SET ROLE webhook_owner;

-- 1. State: which schema this is

-- One row: which schema this is, which daemons it serves, the switch that pauses everything, and the names that requests have.
CREATE TABLE webhook.state (
    is_only boolean PRIMARY KEY DEFAULT true CONSTRAINT state_has_one_row CHECK (is_only),
    schema_version integer NOT NULL,
    compatible_from integer NOT NULL,
    paused boolean NOT NULL DEFAULT false,
    has_charge_index boolean NOT NULL DEFAULT true,
    installation text CONSTRAINT installation_has_1_to_63_plain_characters CHECK (installation ~ '^[a-z0-9._-]{1,63}$'),
    system_identifier bigint,
    has_feed_index boolean NOT NULL DEFAULT false,
    header_prefix text NOT NULL DEFAULT 'Service-' CONSTRAINT header_prefix_is_of_letters_digits_and_hyphens
    CHECK (header_prefix ~ '^[A-Za-z][A-Za-z0-9-]{0,30}-$' AND header_prefix !~* '^webhook-'),
    user_agent text CONSTRAINT user_agent_is_a_line_of_ascii CHECK (user_agent ~ '^[!-~]([ -~]{0,254}[!-~])?$'),
    signatures text[] NOT NULL DEFAULT '{service}' CONSTRAINT signatures_are_service_and_standard
    CHECK (signatures IN ('{service}', '{service,standard}'))
);
INSERT INTO webhook.state (schema_version, compatible_from) VALUES (29, 1);

-- Which server this is; null where the function that tells it was taken from us.
CREATE FUNCTION webhook.server_identifier() RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT system_identifier FROM pg_control_system());
EXCEPTION WHEN insufficient_privilege THEN
    RETURN NULL;
END
$$;

-- Let the database belong to another installation, on the server that it is on now: for a copy that is to be one.
CREATE FUNCTION webhook.adopt_installation(installation text, adopted_by text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known webhook.state;
    adopted webhook.state;
BEGIN
    SELECT state.* INTO STRICT known FROM webhook.state WHERE state.is_only FOR NO KEY UPDATE;
    UPDATE webhook.state SET installation = $1, system_identifier = webhook.server_identifier()
    WHERE state.is_only
    RETURNING * INTO adopted;
    INSERT INTO webhook.audit (person, action, before, after)
    VALUES (
        adopted_by, 'installation adopted',
        jsonb_build_object('installation', known.installation, 'system_identifier', known.system_identifier),
        jsonb_build_object('installation', adopted.installation, 'system_identifier', adopted.system_identifier)
    );
    RETURN true;
END
$$;

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

-- Set the names that requests have: null leaves one as it is, and an empty User-Agent is each program's own. Older programs
-- know the default names alone. Returns which of their dispatchers work; then nothing is changed.
CREATE FUNCTION webhook.set_names(header_prefix text, user_agent text, signatures text[], set_by text) RETURNS text[]
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

-- 2. Events that are owed

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

-- What an event must be. PostgreSQL reads and compiles every CHECK of a table anew for each INSERT of a producer; a function is
-- compiled once in a session. What breaks a rule is told without the row, which would end up in logs. Names are given in full,
-- or a producer could put types, operators and functions of its own before the server's; SET search_path would cost more at
-- each call. Only dispatchers write to the platform: events of a merchant of its own, for which nobody else writes. The type
-- is asked for last: only then, and only of a type that is none of ours, a table is read.
CREATE FUNCTION webhook.event_can_be_sent(
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
        -- A copy of an event, in the lane of one of its merchant's endpoints: judged as the merchant's.
        IF
            merchant_id OPERATOR(pg_catalog.~) E'^[^\\u001f]+\\u001f[1-9][0-9]{0,2}$'
            AND pg_catalog.has_table_privilege('webhook.outbox', 'DELETE')
        THEN
            RETURN webhook.event_can_be_sent(pg_catalog.split_part(merchant_id, E'\x1f', 1), type, created_at, object);
        END IF;
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

-- The charge's id, by which merchants ask. Nothing that an object holds makes it fail, or an INSERT would: null where
-- the object cannot be read as a whole (an escaped zero byte or lone surrogate anywhere in it, nesting without end), or
-- the id is no text of at most 255 characters.
CREATE FUNCTION webhook.charge_key(object pg_catalog.json) RETURNS pg_catalog.text
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    key pg_catalog.text;
BEGIN
    key := object OPERATOR(pg_catalog.->) 'id';
    IF pg_catalog.left(key, 1) OPERATOR(pg_catalog.=) '"' THEN
        key := key::pg_catalog.json OPERATOR(pg_catalog.#>>) '{}';
        IF pg_catalog.length(key) OPERATOR(pg_catalog.<=) 255 THEN
            RETURN key;
        END IF;
    END IF;
    RETURN NULL;
EXCEPTION WHEN data_exception OR statement_too_complex OR feature_not_supported THEN
    RETURN NULL;
END
$$;

-- The hot table: exactly the events still owed. Due_at is null while an event waits for its first
-- attempt in its lane's order; afterwards it says when the next attempt may start, and while one is
-- in flight (claim is not null) when that claim lapses.
CREATE TABLE webhook.outbox (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id uuid NOT NULL DEFAULT gen_random_uuid() CONSTRAINT id_is_not_owed_already UNIQUE,
    merchant_id text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    object json NOT NULL,
    object_bytes integer NOT NULL GENERATED ALWAYS AS (octet_length(object::text)) STORED,
    attempts smallint NOT NULL DEFAULT 0,
    due_at timestamptz,
    claim bigint,
    trigger text COLLATE "C" NOT NULL DEFAULT 'schedule',
    on_failure text COLLATE "C",
    last_status smallint,
    last_outcome text COLLATE "C",
    xid xid8 DEFAULT pg_current_xact_id(),
    -- Those of `attempts` that were beside the schedule; null in nearly all rows.
    attempts_by_hand smallint,
    -- While one is asked for (trigger manual, no on_failure), when the schedule's next one is due; it says nothing of other rows.
    scheduled_at timestamptz,
    -- Of a copy in an endpoint's lane, the event that it is of. Null: this is the event, in its merchant's own lane.
    copy_of uuid
) WITH (
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_insert_scale_factor = 0.2,
    autovacuum_vacuum_cost_delay = 0
);
COMMENT ON COLUMN webhook.outbox.xid IS
'The transaction that inserted the event; by (xid, seq) merchants read on. It goes with the row into the log and back. A copy has none.';
-- Not valid, and so apart from the table: a dump that is restored brings its rows in before, and judges none again.
ALTER TABLE webhook.outbox ADD CONSTRAINT event_can_be_sent
CHECK (webhook.event_can_be_sent(merchant_id, type, created_at, object)) NOT VALID;
CREATE INDEX outbox_in_order ON webhook.outbox (merchant_id, seq) WHERE due_at IS NULL;
CREATE INDEX outbox_due ON webhook.outbox (merchant_id, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX outbox_in_flight ON webhook.outbox (merchant_id, due_at) WHERE claim IS NOT NULL;
-- A merchant's events outside the order, the newest first: no list reads all that waits for a retry. An event that is
-- delivered at its first attempt never has a row here, and costs nothing.
CREATE INDEX outbox_out_of_order ON webhook.outbox (merchant_id, seq) WHERE due_at IS NOT NULL;
-- As on the log: an installation may do without it. Text is compared by bytes, whatever the locale becomes.
CREATE INDEX outbox_charge ON webhook.outbox ((webhook.charge_key(object) COLLATE "C"));

-- 3. Merchants: endpoints and lanes

-- A lane is named after its merchant; where there are several endpoints, those of the endpoints after the merchant, U+001F and
-- the endpoint's number. Nothing else in SQL knows that. Inlined, and so without SET; their names are looked up here and now.
CREATE FUNCTION webhook.merchant_of(lane text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN split_part(lane, E'\x1f', 1);

-- Null: the merchant's own lane.
CREATE FUNCTION webhook.endpoint_of(lane text) RETURNS smallint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN nullif(split_part(lane, E'\x1f', 2), '')::smallint;

CREATE FUNCTION webhook.lane_named(merchant text, number smallint) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN number IS NULL THEN merchant ELSE merchant || E'\x1f' || number::text END;

-- The id of the delivery of an event to an endpoint that was not the first to get it.
CREATE FUNCTION webhook.delivery_id(event_id uuid, number smallint) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN encode(substr(sha256(uuid_send(event_id) || int2send(number)), 1, 16), 'hex')::uuid;

-- Which endpoint's a delivery in the log is; null: what was given up before it was sent or routed is no endpoint's, since it
-- would be routed. routed_at: its merchant's.
CREATE FUNCTION webhook.logged_endpoint(number smallint, copy_of uuid, attempts smallint, routed_at timestamptz) RETURNS smallint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN num_nulls(copy_of, number) < 2 OR attempts > 0 OR routed_at IS NULL THEN coalesce(number, 1::smallint) END;

CREATE TABLE webhook.endpoint (
    -- Its lane: where it is the merchant's only one, and number 1, the merchant's own.
    merchant_id text COLLATE "C" PRIMARY KEY,
    url text NOT NULL,
    secret bytea NOT NULL,
    key_id text NOT NULL,
    previous_secret bytea,
    previous_key_id text,
    previous_until timestamptz,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    secret_created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The filter: what is sent, besides tests and what is asked for by hand. Null: all.
    types text[] CONSTRAINT types_are_1_to_64_names CHECK (
        cardinality(types) BETWEEN 1 AND 64
        AND string_to_array(array_to_string(types, ','), ',') = types
        AND array_to_string(types, ',') ~ '^[a-z0-9_.]{1,64}(,[a-z0-9_.]{1,64})*$'
    ),
    -- How many of its events are attempted at once, in the order of each charge; null: one, in the order of the merchant.
    at_once smallint CONSTRAINT at_once_is_2_to_32 CHECK (at_once BETWEEN 2 AND 32),
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    name text CONSTRAINT name_has_1_to_100_characters CHECK (length(btrim(name)) BETWEEN 1 AND 100),
    -- It gets events whose numbers are higher.
    since_seq bigint NOT NULL DEFAULT 0,
    CONSTRAINT merchant_id_is_a_lane CHECK (merchant_id ~ E'^[^\\u001f]*(\\u001f[1-9][0-9]{0,2})?$'),
    CONSTRAINT a_previous_secret_has_its_key_and_its_end CHECK (
        num_nulls(previous_secret, previous_key_id, previous_until) IN (0, 3)
    )
);
CREATE INDEX endpoint_key_id ON webhook.endpoint (key_id);
CREATE INDEX endpoint_merchant ON webhook.endpoint (webhook.merchant_of(merchant_id));

-- One merchant's ordered way out, or one endpoint's, where a merchant has several. Epoch is drawn anew with every lease and fences what the holder records.
CREATE TABLE webhook.lane (
    merchant_id text COLLATE "C" PRIMARY KEY,
    epoch bigint NOT NULL DEFAULT 0,
    lease_until timestamptz NOT NULL DEFAULT '-infinity',
    owner text,
    from_seq bigint NOT NULL DEFAULT 0,
    -- Not to be claimed before: no endpoint yet, a key that we do not hold, a row that cannot be read, or a suspension.
    wait_until timestamptz NOT NULL DEFAULT '-infinity',
    -- No later than the earliest due_at that can be claimed.
    retry_at timestamptz NOT NULL DEFAULT 'infinity',
    paused boolean NOT NULL DEFAULT false,
    -- The holder must release the lane before it starts anything else.
    recalled boolean NOT NULL DEFAULT false,
    endpoint_removed_at timestamptz,
    -- How a merchant fares, by the outcomes of its attempts as they are recorded.
    last_success_at timestamptz,
    last_failure_at timestamptz,
    failing_since timestamptz,
    failures_in_a_row integer NOT NULL DEFAULT 0,
    -- Since when a merchant fails that the platform was told of; and since when its deliveries are held because nothing
    -- was accepted for too long.
    reported_failing_since timestamptz,
    suspended_at timestamptz,
    leased_at timestamptz,
    -- Since when a merchant has several endpoints: what waits here is copied into their lanes, and not sent.
    routed_at timestamptz
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);
COMMENT ON COLUMN webhook.lane.from_seq IS
'Everything in order up to here has been recorded. Sessions read from here on: too high, and it hides events.';
CREATE INDEX lane_retry_due ON webhook.lane (retry_at) WHERE retry_at < 'infinity' AND NOT paused;
CREATE INDEX lane_recalled ON webhook.lane (merchant_id) WHERE recalled;
CREATE INDEX lane_paused ON webhook.lane (merchant_id) WHERE paused;
CREATE INDEX lane_failing ON webhook.lane (failing_since) WHERE failing_since IS NOT NULL AND reported_failing_since IS NULL;
CREATE INDEX lane_reported ON webhook.lane (merchant_id) WHERE reported_failing_since IS NOT NULL;
CREATE INDEX lane_to_suspend ON webhook.lane (failing_since) WHERE failing_since IS NOT NULL AND suspended_at IS NULL;
CREATE INDEX lane_suspended ON webhook.lane (wait_until) WHERE suspended_at IS NOT NULL;
-- Not last_success_at: each success changes it, and an update of a column that an index knows writes to all of them. It
-- need not be asked for, since a success ends failing_since, or lets it begin anew.
CREATE INDEX lane_to_lift ON webhook.lane (merchant_id)
WHERE suspended_at IS NOT NULL AND (failing_since IS NULL OR failing_since > suspended_at);
CREATE INDEX lane_routed ON webhook.lane (merchant_id) WHERE routed_at IS NOT NULL;
-- Such lanes stay, so that no number is given twice.
CREATE INDEX lane_numbered ON webhook.lane (webhook.merchant_of(merchant_id)) WHERE merchant_id LIKE E'%\x1f%';

-- The lane of a merchant's endpoint.
CREATE FUNCTION webhook.lane_of(merchant text, number smallint) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
SELECT CASE
    WHEN number = 1 AND NOT EXISTS (
        SELECT FROM webhook.lane WHERE lane.merchant_id = merchant AND lane.routed_at IS NOT NULL
    ) THEN merchant
    ELSE webhook.lane_named(merchant, number)
END
$$;

-- Whoever changes an endpoint, by whatever way, the run that a daemon holds in memory is recalled; also of a lane whose lease
-- has lapsed: it may have a holder all the same, who was frozen or without the database and whose epoch is still the latest.
-- Another URL is another receiver: what is known of the one before says nothing of it.
CREATE FUNCTION webhook.recall_lane() RETURNS trigger
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
CREATE TRIGGER endpoint_recalls_its_lane AFTER INSERT OR UPDATE OR DELETE ON webhook.endpoint
FOR EACH ROW EXECUTE FUNCTION webhook.recall_lane();

-- Number 1 is set anew where it belongs, by whatever way; the others are added by a function.
CREATE FUNCTION webhook.place_endpoint() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    merchant text := webhook.merchant_of(NEW.merchant_id);
    is_routed boolean;
BEGIN
    IF NOT EXISTS (
        SELECT FROM webhook.lane
        WHERE lane.merchant_id > merchant AND lane.merchant_id < merchant || ' '
    ) THEN
        is_routed := false;
    ELSE
        PERFORM FROM webhook.state WHERE state.is_only FOR NO KEY UPDATE;
        -- A statement of its own: it sees what was changed while that one waited.
        is_routed := EXISTS (SELECT FROM webhook.lane WHERE lane.merchant_id = merchant AND lane.routed_at IS NOT NULL);
    END IF;
    IF is_routed AND NEW.merchant_id = merchant THEN
        NEW.merchant_id := webhook.lane_named(merchant, 1::smallint);
    ELSIF NOT is_routed AND NEW.merchant_id <> merchant THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = 'an endpoint with a number is added by webhook.add_endpoint()';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER endpoint_is_placed BEFORE INSERT ON webhook.endpoint
FOR EACH ROW EXECUTE FUNCTION webhook.place_endpoint();

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
-- By its name before the trigger that locks the lane, which comes after state.
CREATE TRIGGER endpoint_needs_programs AFTER INSERT OR UPDATE OR DELETE ON webhook.endpoint
FOR EACH ROW EXECUTE FUNCTION webhook.serve_endpoint();

-- 4. The log of deliveries and attempts

-- Finished deliveries, a partition for each day (UTC), and, without a state, events that nobody wanted: these are no deliveries,
-- and only the views `logged`, `own_logged` and `console_logged` show them beside those. No object_bytes as in the outbox: it bounds what a claim reads
-- into memory, and from here nothing is claimed.
CREATE TABLE webhook.delivery_log (
    seq bigint NOT NULL,
    event_id uuid NOT NULL,
    merchant_id text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    object json NOT NULL,
    -- A question for what is owed leaves out the log, without reading its partitions, because of this rule.
    state text COLLATE "C" CONSTRAINT state_is_delivered_or_failed CHECK (state IN ('delivered', 'failed')),
    failed_reason text COLLATE "C",
    attempts smallint NOT NULL,
    last_status smallint,
    last_outcome text COLLATE "C",
    finished_at timestamptz NOT NULL,
    -- As the event had it. The default is the moving transaction: who moves a row without it has it read once more, which
    -- passing over it would not be.
    xid xid8 DEFAULT pg_current_xact_id(),
    -- As in the outbox: of what is no copy, where its merchant has several endpoints, the row says that it was routed. And to
    -- which endpoint it was delivered, null where there was one.
    copy_of uuid,
    endpoint smallint,
    PRIMARY KEY (seq, finished_at)
) PARTITION BY RANGE (finished_at);
CREATE INDEX delivery_log_event ON webhook.delivery_log (event_id);
CREATE INDEX delivery_log_merchant ON webhook.delivery_log (merchant_id, seq);
CREATE INDEX delivery_log_failed ON webhook.delivery_log (finished_at, seq) WHERE state = 'failed';
CREATE INDEX delivery_log_time ON webhook.delivery_log USING brin (created_at, finished_at) WITH (pages_per_range = 32);
CREATE INDEX delivery_log_charge ON webhook.delivery_log ((webhook.charge_key(object) COLLATE "C"));
-- Of what failed alone: what is delivered is not in it, and pays nothing. The second half of the predicate holds for every row:
-- only the statement that repeats it can use the index, and no plan of another does, such as of what is to be sent again,
-- which goes by time.
CREATE INDEX delivery_log_given_up ON webhook.delivery_log (merchant_id, seq) WHERE state = 'failed' AND attempts >= -32768;

-- Every attempt, a partition for each day (UTC).
CREATE TABLE webhook.attempt_log (
    event_id uuid NOT NULL,
    -- The lane, by which an endpoint's latest are found among those of a busier one.
    merchant_id text COLLATE "C" NOT NULL,
    attempt smallint NOT NULL,
    trigger text COLLATE "C" NOT NULL,
    started_at timestamptz NOT NULL,
    duration_ms integer NOT NULL,
    status smallint,
    outcome text COLLATE "C" NOT NULL,
    -- What an attempt saw: why it failed, in words, and the beginning of the answer's body, which anybody may have written.
    reason text,
    response_excerpt text,
    PRIMARY KEY (event_id, attempt, started_at)
) PARTITION BY RANGE (started_at);
CREATE INDEX attempt_log_merchant ON webhook.attempt_log (merchant_id, started_at);
-- The attempts of the last minutes, in a log of days.
CREATE INDEX attempt_log_time ON webhook.attempt_log USING brin (started_at)
WITH (pages_per_range = 32, autosummarize = on);

-- The first days; daemons go on with them.
DO $$
DECLARE
    today date := (clock_timestamp() AT TIME ZONE 'UTC')::date;
    day date;
    log text;
BEGIN
    FOREACH log IN ARRAY ARRAY['delivery_log', 'attempt_log'] LOOP
        FOR day IN SELECT generate_series(today - 1, today + 8, interval '1 day')::date LOOP
            EXECUTE format(
                'CREATE TABLE webhook.%I PARTITION OF webhook.%I FOR VALUES FROM (%L) TO (%L)',
                log || to_char(day, '_YYYYMMDD'), log,
                day::text || ' 00:00:00+00', (day + 1)::text || ' 00:00:00+00'
            );
        END LOOP;
    END LOOP;
END
$$;

-- 5. What is read of deliveries

CREATE VIEW webhook.endpoints AS
SELECT
    webhook.merchant_of(endpoint.merchant_id) AS merchant_id, endpoint.url, coalesce(lane.paused, false) AS paused, endpoint.created_at, endpoint.updated_at,
    endpoint.secret_created_at, lane.last_success_at, lane.failing_since,
    coalesce(lane.failures_in_a_row, 0) AS failures_in_a_row, lane.suspended_at, endpoint.types, endpoint.at_once,
    coalesce(webhook.endpoint_of(endpoint.merchant_id), 1::smallint) AS number, endpoint.id, endpoint.name
FROM webhook.endpoint
LEFT JOIN webhook.lane ON lane.merchant_id = endpoint.merchant_id;

-- The condition stands behind UNION ALL: within it, it would keep the planner from reading both in the order of their indexes.
CREATE VIEW webhook.deliveries AS
SELECT known.*
FROM (
    SELECT
        id AS event_id, seq, webhook.merchant_of(merchant_id) AS merchant_id, type, created_at,
        CASE
            WHEN due_at IS NULL THEN 'pending' WHEN on_failure = 'delivered' THEN 'delivered' ELSE 'pending_retry'
        END AS state,
        NULL::text AS failed_reason, attempts, CASE WHEN claim IS NULL THEN due_at END AS next_attempt_at,
        last_status, last_outcome, NULL::timestamptz AS finished_at, object,
        webhook.endpoint_of(merchant_id) AS endpoint, copy_of
    FROM webhook.outbox
    UNION ALL
    SELECT
        event_id, seq, merchant_id, type, created_at, state, failed_reason, attempts, NULL::timestamptz AS next_attempt_at,
        last_status, last_outcome, finished_at, object, endpoint, copy_of
    FROM webhook.delivery_log
) AS known
WHERE known.state IS NOT NULL;

-- Events, and not their copies. A view of its own: the function keeps a query from being planned in parallel wherever it is named.
CREATE VIEW webhook.charges AS
SELECT webhook.charge_key(object) COLLATE "C" AS charge_id, id AS event_id, seq, merchant_id
FROM webhook.outbox
WHERE copy_of IS NULL
UNION ALL
SELECT webhook.charge_key(object) COLLATE "C" AS charge_id, event_id, seq, merchant_id
FROM webhook.delivery_log
WHERE copy_of IS NULL;

-- By merchant and by number each half is found by its index. The condition is one that the planner takes for true of nearly all.
CREATE VIEW webhook.attempts AS
SELECT
    event_id, merchant_id, attempt, trigger, started_at, duration_ms, status, outcome, reason, NULL::smallint AS endpoint
FROM webhook.attempt_log
WHERE CASE WHEN strpos(merchant_id, E'\x1f') = 0 THEN true END IS NOT NULL
UNION ALL
SELECT
    attempt_log.event_id, webhook.merchant_of(lane.merchant_id) AS merchant_id, attempt_log.attempt, attempt_log.trigger,
    attempt_log.started_at, attempt_log.duration_ms, attempt_log.status, attempt_log.outcome, attempt_log.reason,
    webhook.endpoint_of(lane.merchant_id) AS endpoint
FROM webhook.lane
INNER JOIN webhook.attempt_log ON attempt_log.merchant_id = lane.merchant_id
WHERE lane.merchant_id LIKE E'%\x1f%';

-- As the command line reads it: by lane.
CREATE VIEW webhook.attempted AS
SELECT event_id, merchant_id, attempt, trigger, started_at, duration_ms, status, outcome, reason
FROM webhook.attempt_log;

-- What a merchant answered may repeat the payload: not for those who read the attempts alone.
CREATE VIEW webhook.responses AS
SELECT event_id, webhook.merchant_of(merchant_id) AS merchant_id, attempt, started_at, response_excerpt,
    webhook.endpoint_of(merchant_id) AS endpoint
FROM webhook.attempt_log
WHERE response_excerpt IS NOT NULL;

-- What the command line reads: lanes, what is owed and what is finished, apart from each other and by columns that
-- indexes can find and sort by. No payload. is_held: somebody's lease of it runs.
CREATE VIEW webhook.lanes AS
SELECT
    merchant_id, paused, lease_until > clock_timestamp() AS is_held, owner, leased_at, wait_until, retry_at,
    endpoint_removed_at, last_success_at, failing_since, failures_in_a_row, suspended_at, last_failure_at, routed_at
FROM webhook.lane;

CREATE VIEW webhook.owed AS
SELECT
    seq, id AS event_id, merchant_id, type, created_at, attempts, due_at, claim IS NOT NULL AS is_claimed, trigger, on_failure,
    last_status, last_outcome, webhook.charge_key(object) COLLATE "C" AS charge_id, attempts_by_hand, scheduled_at,
    copy_of
FROM webhook.outbox;

-- With what nobody wanted, for what looks at a bounded number of rows, or says what became of an event.
CREATE VIEW webhook.logged AS
SELECT
    seq, event_id, merchant_id, type, created_at, state, failed_reason, attempts, last_status, last_outcome, finished_at,
    webhook.charge_key(object) COLLATE "C" AS charge_id, endpoint, copy_of
FROM webhook.delivery_log;

CREATE VIEW webhook.finished AS
SELECT
    seq, event_id, merchant_id, type, created_at, state, failed_reason, attempts, last_status, last_outcome, finished_at,
    charge_id, endpoint, copy_of
FROM webhook.logged
WHERE state IS NOT NULL;

-- 6. Audit

-- What operators changed. Rows are added by triggers and functions, and never changed.
CREATE TABLE webhook.audit (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    role text COLLATE "C" NOT NULL DEFAULT session_user,
    person text,
    action text COLLATE "C" NOT NULL,
    merchant_id text COLLATE "C",
    before jsonb,
    after jsonb
);
CREATE INDEX audit_merchant ON webhook.audit (merchant_id, id);

CREATE FUNCTION webhook.refuse_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE insufficient_privilege USING MESSAGE = 'the rows of webhook.audit are only added to';
END
$$;
CREATE TRIGGER audit_is_only_added_to BEFORE UPDATE OR DELETE OR TRUNCATE ON webhook.audit
FOR EACH STATEMENT EXECUTE FUNCTION webhook.refuse_change();

-- An endpoint as the audit tells it: all but the secrets.
CREATE FUNCTION webhook.endpoint_without_secrets(endpoint webhook.endpoint) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT jsonb_build_object(
    'merchant_id', webhook.merchant_of(endpoint.merchant_id), 'url', endpoint.url, 'key_id', endpoint.key_id, 'secret_created_at', endpoint.secret_created_at,
    'previous_key_id', endpoint.previous_key_id, 'previous_until', endpoint.previous_until, 'types', endpoint.types,
    'at_once', endpoint.at_once, 'endpoint', coalesce(webhook.endpoint_of(endpoint.merchant_id), 1), 'name', endpoint.name
)
$$;

CREATE FUNCTION webhook.audit_endpoint() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    merchant text := webhook.merchant_of(coalesce(NEW.merchant_id, OLD.merchant_id));
BEGIN
    -- It went to a lane of its own, or back: nobody changed it.
    IF TG_OP = 'UPDATE' AND NEW.merchant_id <> OLD.merchant_id AND webhook.merchant_of(OLD.merchant_id) = merchant THEN
        RETURN NULL;
    END IF;
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
            WHEN NEW.name IS DISTINCT FROM OLD.name THEN 'name changed'
            ELSE 'endpoint changed'
        END,
        merchant,
        CASE WHEN TG_OP <> 'INSERT' THEN webhook.endpoint_without_secrets(OLD) END,
        CASE WHEN TG_OP <> 'DELETE' THEN webhook.endpoint_without_secrets(NEW) END
    );
    RETURN NULL;
END
$$;
CREATE TRIGGER endpoint_is_audited AFTER INSERT OR UPDATE OR DELETE ON webhook.endpoint
FOR EACH ROW EXECUTE FUNCTION webhook.audit_endpoint();

-- Let producers write a type of their own: a new one, or one that was retired; null leaves what is known of it. Older programs
-- do not send it: they are refused from then on, and nothing is changed while one of their dispatchers works. Returns which do.
CREATE FUNCTION webhook.add_event_type(new_name text, new_sample json, new_charge_path text, added_by text) RETURNS text[]
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

-- What keeps programs from before types of one's own from being served: 'types' that producers may write, events that are
-- 'owed' of one that was retired, transactions that are 'open' since then and may have written one, or 'nothing' any more;
-- null: types do not.
CREATE FUNCTION webhook.event_types_hold() RETURNS text
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
    PERFORM webhook.serve_programs(22);
    RETURN (SELECT false FROM webhook.event_type WHERE event_type.name = old_name);
END
$$;

-- 7. Commands

CREATE TABLE webhook.control (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    command text NOT NULL,
    merchant_id text COLLATE "C",
    event_id uuid,
    args jsonb NOT NULL DEFAULT '{}',
    requested_by text NOT NULL
    CONSTRAINT requested_by_says_who_asks CHECK (length(btrim(requested_by)) BETWEEN 1 AND 200),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    status text COLLATE "C" NOT NULL DEFAULT 'pending',
    -- While running: whoever works on it has until then, afterwards another goes on with it.
    running_until timestamptz,
    handled_at timestamptz,
    result jsonb,
    error_code integer,
    error_message text,
    -- Whose commands a command waits for: a merchant's. That of a pause or resume of everything is the empty text; all else
    -- that is of no single merchant waits for those alone. Cut to what a merchant's id may have, or an overlong one would
    -- not fit into the index.
    subject text COLLATE "C",
    -- A mass command ends after its chunk; it is done then, and says that it was stopped.
    stopping boolean NOT NULL DEFAULT false,
    -- Operators' commands are a queue of their own, which waits for no merchant's.
    is_operators boolean NOT NULL DEFAULT false
);
-- Not valid, as the rule of events.
ALTER TABLE webhook.control ADD CONSTRAINT status_is_known
CHECK (status IN ('pending', 'running', 'done', 'rejected', 'withdrawn')) NOT VALID;
CREATE INDEX control_waiting ON webhook.control (subject, id) WHERE status = 'pending';
CREATE INDEX control_running ON webhook.control (running_until) WHERE status = 'running';
-- The first command of each subject in either queue. A skip is waited for by whatever would send what it gives up.
CREATE INDEX control_queues ON webhook.control (subject, is_operators, id) WHERE status = 'pending';
CREATE INDEX control_skips ON webhook.control (id) WHERE command = 'skip' AND status IN ('pending', 'running');
-- Who paused whom, or everything (an empty text), and what was asked for about an event.
CREATE INDEX control_pauses ON webhook.control (left(coalesce(merchant_id, ''), 128), id) WHERE command IN ('pause', 'resume');
CREATE INDEX control_event ON webhook.control (event_id) WHERE event_id IS NOT NULL;

CREATE FUNCTION webhook.command_subject(given webhook.control) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    subject text := left(given.merchant_id, 128);
BEGIN
    IF given.command IN ('retry', 'cancel') AND given.event_id IS NOT NULL THEN
        -- The delivery that a command for this event finds: the one that is owed, else the latest.
        SELECT webhook.merchant_of(outbox.merchant_id) INTO subject FROM webhook.outbox WHERE outbox.id = given.event_id;
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

-- Whose command it is, where it is a merchant's.
CREATE FUNCTION webhook.command_merchant(given webhook.control) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT CASE
    WHEN given.subject NOT IN ('', coalesce('event ' || given.event_id, ''), 'command ' || given.id) THEN given.subject
END
$$;

CREATE FUNCTION webhook.receive_command() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.subject := webhook.command_subject(NEW);
    -- The login that is connected, through however many functions. What a client says of itself, such as requested_by, is
    -- never asked.
    NEW.is_operators :=
        pg_has_role(session_user, 'webhook_admin', 'MEMBER') OR pg_has_role(session_user, 'webhook_console', 'MEMBER');
    INSERT INTO webhook.audit (person, action, merchant_id, after)
    VALUES (
        NEW.requested_by, 'command ' || left(NEW.command, 100),
        webhook.command_merchant(NEW),
        jsonb_build_object(
            'id', NEW.id, 'event_id', NEW.event_id,
            'args', CASE WHEN octet_length(NEW.args::text) <= 4096 THEN NEW.args END
        )
    );
    RETURN NEW;
END
$$;
CREATE TRIGGER command_is_received BEFORE INSERT ON webhook.control
FOR EACH ROW EXECUTE FUNCTION webhook.receive_command();

-- Take back a command that nobody has taken up: true if it was still waiting.
CREATE FUNCTION webhook.withdraw_command(command_id bigint, withdrawn_by text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    person text := coalesce(nullif(left(btrim(withdrawn_by), 200), ''), session_user);
    merchant text;
BEGIN
    -- Whoever carries commands out holds this row meanwhile, daemons of the version before among them.
    PERFORM FROM webhook.state WHERE state.is_only FOR NO KEY UPDATE;
    UPDATE webhook.control
    SET status = 'withdrawn', handled_at = clock_timestamp(), error_message = 'withdrawn by ' || person
    WHERE control.id = command_id AND control.status = 'pending'
    RETURNING webhook.command_merchant(control) INTO merchant;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO webhook.audit (person, action, merchant_id, before)
    VALUES (person, 'command withdrawn', merchant, jsonb_build_object('id', command_id));
    RETURN true;
END
$$;

-- Have a mass command end: one that runs, after its chunk; one that has not begun, at once. It is done then, and says that it
-- was stopped. True if it had not ended.
CREATE FUNCTION webhook.stop_command(command_id bigint, stopped_by text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    stopped webhook.control;
BEGIN
    UPDATE webhook.control SET stopping = true
    WHERE
        control.id = command_id AND control.status = 'running'
        AND control.command IN ('retry_failed', 'recover', 'skip')
    RETURNING * INTO stopped;
    IF NOT FOUND THEN
        -- As in withdraw_command(): nobody is taking it up meanwhile. Who was before us has it running now.
        PERFORM FROM webhook.state WHERE state.is_only FOR NO KEY UPDATE;
        UPDATE webhook.control
        SET
            stopping = true,
            status = CASE control.status WHEN 'pending' THEN 'done' ELSE control.status END,
            handled_at = CASE control.status WHEN 'pending' THEN clock_timestamp() END,
            result = CASE control.status
                WHEN 'running' THEN control.result
                ELSE CASE control.command
                    WHEN 'retry_failed' THEN '{"matched": 0, "retried": 0, "stopped": true}'
                    WHEN 'recover' THEN '{"matched": {}, "recovered": 0, "stopped": true}'
                    ELSE '{"skipped": 0, "stopped": true}'
                END::jsonb
            END
        WHERE
            control.id = command_id AND control.status IN ('pending', 'running')
            AND control.command IN ('retry_failed', 'recover', 'skip')
        RETURNING * INTO stopped;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
    END IF;
    INSERT INTO webhook.audit (person, action, merchant_id, before)
    VALUES (stopped_by, 'command stopped', webhook.command_merchant(stopped), jsonb_build_object('id', command_id));
    RETURN true;
END
$$;

-- Which events a mass command sent again, chunk by chunk. Place: how many it had sent before.
CREATE TABLE webhook.command_chunk (
    command_id bigint NOT NULL,
    place bigint NOT NULL,
    seqs bigint[] NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (command_id, place)
);
CREATE INDEX command_chunk_at ON webhook.command_chunk (at);

-- 8. Upkeep, notices, heartbeats

-- Deliveries that failed for good and are not told yet. Finished_at stands first: they are told minute by minute.
CREATE TABLE webhook.unreported_failure (
    finished_at timestamptz NOT NULL,
    seq bigint NOT NULL,
    event_id uuid NOT NULL,
    merchant_id text COLLATE "C" NOT NULL,
    reason text COLLATE "C" NOT NULL,
    PRIMARY KEY (finished_at, seq)
);

-- An event that was sent and that this database does not have: a server that takes over from another may lack its last ones.
-- Sent_at: the end of its latest attempt, by the clock of the server before.
CREATE TABLE webhook.lost_event (
    event_id uuid PRIMARY KEY,
    merchant_id text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    sent_at timestamptz NOT NULL,
    is_delivered boolean NOT NULL,
    noted_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX lost_event_noted ON webhook.lost_event (noted_at);

-- A dispatcher as it noted itself last, every ten seconds; one that ends removes its row. Reasons: why it is not ready;
-- faults: of its own, in words. Settings: those that are not as they are by default, as text by name; without secrets.
-- Schema version: what it is written for; those of 20 and before do not say it.
CREATE TABLE webhook.dispatcher (
    owner text COLLATE "C" PRIMARY KEY,
    host text NOT NULL,
    version text NOT NULL,
    started_at timestamptz NOT NULL,
    beat_at timestamptz NOT NULL,
    lanes integer NOT NULL,
    attempts_in_flight integer NOT NULL,
    is_ready boolean NOT NULL,
    reasons text[] NOT NULL,
    faults text[] NOT NULL,
    settings jsonb,
    schema_version integer NOT NULL DEFAULT 20
) WITH (fillfactor = 50);

-- Attempts that were recorded, by all dispatchers together: what one had not noted yet when it was killed is missing.
CREATE TABLE webhook.attempts_by_minute (
    minute timestamptz NOT NULL,
    outcome text COLLATE "C" NOT NULL,
    attempts bigint NOT NULL,
    PRIMARY KEY (minute, outcome)
) WITH (fillfactor = 50);

-- How far the outbox's numbers were at some instant of a minute: between which a range of time is.
CREATE TABLE webhook.seq_by_minute (
    minute timestamptz PRIMARY KEY,
    seq bigint NOT NULL
);

-- 9. Sealed secrets

-- For each encryption key, a few bytes that only its holder can compute: a wrong key under a right id is noticed.
CREATE TABLE webhook.key_check (
    key_id text COLLATE "C" PRIMARY KEY,
    value bytea NOT NULL CONSTRAINT value_has_16_bytes CHECK (octet_length(value) = 16),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Sealing without the keys that open: the public half of the encryption key that seals, published by who holds it and
-- confirmed once a minute by each dispatcher. What is sealed with it is stored under the key id 'hpke1:' and this one.
CREATE TABLE webhook.sealing_key (
    key_id text COLLATE "C" PRIMARY KEY
    CONSTRAINT key_id_has_1_to_64_plain_characters CHECK (key_id ~ '^[A-Za-z0-9._-]{1,64}$'),
    public_half bytea NOT NULL CONSTRAINT public_half_has_32_bytes CHECK (octet_length(public_half) = 32),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    confirmed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The one to seal with: the newest that dispatchers still confirm. One that they stopped confirming, though the others
-- go on, was taken out of their settings again; without any for an hour nothing is sealed.
CREATE VIEW webhook.current_sealing_key AS
SELECT sealing_key.key_id, sealing_key.public_half
FROM webhook.sealing_key
WHERE
    sealing_key.confirmed_at > clock_timestamp() - interval '1 hour'
    AND sealing_key.confirmed_at
    > (SELECT max(others.confirmed_at) - interval '5 minutes' FROM webhook.sealing_key AS others)
ORDER BY sealing_key.created_at DESC, sealing_key.key_id DESC
LIMIT 1;

-- Whether a secret is sealed with the current public half; keeps that half until the transaction ends. Bounds are
-- those of a secret: 24 bytes and the 48 that sealing adds.
CREATE FUNCTION webhook.is_sealed_currently(secret bytea, sealed_key_id text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    current_id text;
BEGIN
    IF secret IS NULL OR octet_length(secret) NOT BETWEEN 72 AND 1024 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'this is no sealed secret';
    END IF;
    PERFORM FROM webhook.sealing_key WHERE sealing_key.key_id = substr(sealed_key_id, 7) FOR SHARE;
    -- A statement of its own: it sees what was published while the one before waited.
    SELECT current_sealing_key.key_id INTO current_id FROM webhook.current_sealing_key;
    RETURN coalesce('hpke1:' || current_id = sealed_key_id, false);
END
$$;

-- Where what is owed to an endpoint may be: of number 1 also where it was before there were several, or while there were.
CREATE FUNCTION webhook.lanes_of(merchant text, number smallint) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN number = 1 THEN ARRAY[merchant] ELSE '{}'::text[] END || webhook.lane_named(merchant, number);

-- The lane of a merchant's endpoint, while none of the merchant's can be changed, added or moved by anybody else.
CREATE FUNCTION webhook.lock_endpoint(merchant text, number smallint) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM webhook.endpoint
    WHERE endpoint.merchant_id >= merchant AND endpoint.merchant_id < merchant || ' '
    ORDER BY endpoint.merchant_id
    FOR NO KEY UPDATE;
    -- A statement of its own: it sees where they were moved while that one waited.
    RETURN webhook.lane_of(merchant, number);
END
$$;

-- Configure a merchant's endpoint of this number, which is 1 of one that is new, or change its URL and name (null: as they are;
-- no name: '') and, unless they are kept, its types; its secret stays. 'created', 'changed', 'unchanged' (nothing is written), or
-- 'key_is_old' (seal again), 'not_configured' (there is no endpoint, and no URL or secret was given). Who asks was found before.
CREATE FUNCTION webhook.put_endpoint(
    merchant text, number smallint, url text, secret bytea, key_id text, types text[], keeps_types boolean, name text
)
RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    its_lane text;
    known webhook.endpoint;
BEGIN
    IF length(put_endpoint.url) NOT BETWEEN 1 AND 4096 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'this is no URL';
    END IF;
    LOOP
        its_lane := webhook.lock_endpoint(merchant, number);
        SELECT endpoint.* INTO known FROM webhook.endpoint WHERE endpoint.merchant_id = its_lane;
        IF FOUND THEN
            IF coalesce(put_endpoint.url, known.url) = known.url
                AND coalesce(put_endpoint.name, known.name, '') = coalesce(known.name, '')
                AND (keeps_types OR put_endpoint.types IS NOT DISTINCT FROM known.types)
            THEN
                RETURN 'unchanged';
            END IF;
            UPDATE webhook.endpoint
            SET
                url = coalesce(put_endpoint.url, endpoint.url),
                name = nullif(coalesce(put_endpoint.name, endpoint.name), ''),
                types = CASE WHEN keeps_types THEN endpoint.types ELSE put_endpoint.types END,
                updated_at = clock_timestamp()
            WHERE endpoint.merchant_id = known.merchant_id;
            RETURN 'changed';
        END IF;
        IF number <> 1 OR put_endpoint.url IS NULL OR secret IS NULL THEN
            RETURN 'not_configured';
        END IF;
        IF NOT webhook.is_sealed_currently(secret, put_endpoint.key_id) THEN
            RETURN 'key_is_old';
        END IF;
        INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id, types, name)
        VALUES (
            merchant, put_endpoint.url, put_endpoint.secret, put_endpoint.key_id, put_endpoint.types,
            nullif(put_endpoint.name, '')
        )
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN 'created';
        END IF;
    END LOOP;
END
$$;

-- Have so many of an endpoint's events attempted at once, in the order of each charge; null: one, in the order of the merchant.
-- 'changed', 'unchanged' (nothing is written), or 'not_configured'. Who asks was found before.
CREATE FUNCTION webhook.set_order(merchant text, number smallint, at_once integer) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    its_lane text := webhook.lock_endpoint(merchant, number);
    known webhook.endpoint;
BEGIN
    SELECT endpoint.* INTO known FROM webhook.endpoint WHERE endpoint.merchant_id = its_lane;
    IF NOT FOUND THEN
        RETURN 'not_configured';
    END IF;
    IF known.at_once IS NOT DISTINCT FROM set_order.at_once THEN
        RETURN 'unchanged';
    END IF;
    UPDATE webhook.endpoint SET at_once = set_order.at_once, updated_at = clock_timestamp()
    WHERE endpoint.merchant_id = known.merchant_id;
    RETURN 'changed';
END
$$;

-- Whether nothing is sent to an endpoint, nor will be before it is resumed: 'held'; 'sending': a daemon has not released yet
-- what it leased before the pause, on the lane or on a retry; 'not_paused', or about to be resumed; 'not_configured'.
-- What a pause recalls is released when the attempt in flight has ended, and that of a daemon that died lapses: so nobody
-- need know which daemons there are. The lane stays locked, and a resume waits, until the transaction ends.
CREATE FUNCTION webhook.lock_held(merchant text, number smallint) RETURNS text
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

-- Of number 1.
CREATE FUNCTION webhook.lock_held(merchant text) RETURNS text
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
SELECT webhook.lock_held(merchant, 1::smallint)
$$;

-- Replace an endpoint's secret; with an overlap the one before it goes on signing until that ends; with hold only while nothing
-- is sent. 'rotated', 'key_is_old', 'not_configured', 'not_paused', 'sending'. waiting: how much is owed, 10,000 at most, which
-- the new secret signs. Who asks was found before.
CREATE FUNCTION webhook.rotate_secret(
    merchant text, number smallint, secret bytea, key_id text, overlap interval, hold boolean,
    OUT result text, OUT previous_until timestamptz, OUT waiting bigint
)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    its_lane text := webhook.lock_endpoint(merchant, number);
BEGIN
    IF overlap <= interval '0' OR overlap > interval '30 days' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'the overlap is not within 30 days';
    END IF;
    IF NOT webhook.is_sealed_currently(secret, rotate_secret.key_id) THEN
        result := 'key_is_old';
        RETURN;
    END IF;
    IF hold THEN
        result := webhook.lock_held(merchant, number);
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
    WHERE endpoint.merchant_id = its_lane
    RETURNING endpoint.previous_until INTO rotate_secret.previous_until;
    result := CASE WHEN FOUND THEN 'rotated' ELSE 'not_configured' END;
    SELECT count(*) INTO rotate_secret.waiting
    FROM (
        SELECT
        FROM unnest(webhook.lanes_of(merchant, number)) AS place (lane)
        CROSS JOIN LATERAL (
            (
                SELECT
                FROM webhook.outbox
                WHERE outbox.merchant_id = place.lane AND outbox.due_at IS NULL
                ORDER BY outbox.merchant_id, outbox.seq
                LIMIT 10000
            )
            UNION ALL
            (
                SELECT
                FROM webhook.outbox
                WHERE outbox.merchant_id = place.lane AND outbox.due_at IS NOT NULL
                ORDER BY outbox.merchant_id, outbox.due_at
                LIMIT 10000
            )
        ) AS one
        LIMIT 10000
    ) AS owed;
END
$$;

-- Several endpoints: the second makes a merchant routed, and number 1 alone makes it direct again.

-- Add an endpoint to a merchant's. 'created', 'too_many' (15 beside number 1), 'key_is_old' (seal again), 'sending' (the merchant's
-- lane is held, or is changed just now; it was recalled: ask again). Who asks was found before.
CREATE FUNCTION webhook.add_endpoint(
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

-- Number 1 alone is left, or nobody, and it owes no first attempt: its lane is the merchant's again. False: not yet.
CREATE FUNCTION webhook.become_direct(merchant text) RETURNS boolean
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

-- Serve programs again that know but one endpoint, once nobody is routed and nothing is owed in an endpoint's lane.
CREATE FUNCTION webhook.serve_unrouted() RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (SELECT state.compatible_from = 26 FROM webhook.state WHERE state.is_only) AND webhook.oldest_served() < 26 THEN
        PERFORM webhook.serve_programs(26);
    END IF;
END
$$;

-- Have a lane fare as another does, and be paused and suspended as it is.
CREATE FUNCTION webhook.move_fares(from_lane text, to_lane text) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
INSERT INTO webhook.lane AS lane (
    merchant_id, paused, suspended_at, wait_until, last_success_at, last_failure_at, failing_since, failures_in_a_row,
    reported_failing_since, retry_at
)
SELECT
    to_lane, other.paused, other.suspended_at, CASE WHEN other.suspended_at IS NULL THEN '-infinity' ELSE other.wait_until END,
    other.last_success_at, other.last_failure_at, other.failing_since, other.failures_in_a_row, other.reported_failing_since,
    clock_timestamp()
FROM webhook.lane AS other
WHERE other.merchant_id = from_lane
ON CONFLICT (merchant_id) DO UPDATE SET
    paused = excluded.paused, suspended_at = excluded.suspended_at, wait_until = excluded.wait_until,
    last_success_at = excluded.last_success_at, last_failure_at = excluded.last_failure_at,
    failing_since = excluded.failing_since, failures_in_a_row = excluded.failures_in_a_row,
    reported_failing_since = excluded.reported_failing_since, retry_at = excluded.retry_at
$$;

-- The deliveries of an event: its own id is the first's, or the only one's.
CREATE FUNCTION webhook.delivery_ids(event_id uuid) RETURNS uuid[]
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    merchant text;
BEGIN
    SELECT webhook.merchant_of(outbox.merchant_id) INTO merchant FROM webhook.outbox WHERE outbox.id = delivery_ids.event_id;
    IF NOT FOUND THEN
        SELECT delivery_log.merchant_id INTO merchant
        FROM webhook.delivery_log
        WHERE delivery_log.event_id = delivery_ids.event_id
        LIMIT 1;
    END IF;
    RETURN ARRAY(
        SELECT delivery_ids.event_id
        UNION ALL
        SELECT webhook.delivery_id(delivery_ids.event_id, webhook.endpoint_of(lane.merchant_id))
        FROM webhook.lane
        WHERE lane.merchant_id > merchant AND lane.merchant_id < merchant || ' '
    );
END
$$;

-- 10. Partner API: keys, tokens

-- Who may ask for tokens. Of a secret of 256 random bits a hash is kept, which need not be a slow one.
CREATE TABLE webhook.api_key (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    client_id text COLLATE "C" NOT NULL UNIQUE
    CONSTRAINT client_id_has_1_to_64_plain_characters CHECK (client_id ~ '^[A-Za-z0-9._-]{1,64}$'),
    secret_hash bytea NOT NULL CONSTRAINT secret_hash_is_sha_256 CHECK (octet_length(secret_hash) = 32),
    merchant_id text COLLATE "C" NOT NULL
    CONSTRAINT platform_has_no_api_key CHECK (merchant_id <> '$platform'),
    name text NOT NULL CONSTRAINT name_has_1_to_100_characters CHECK (length(btrim(name)) BETWEEN 1 AND 100),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by text NOT NULL,
    -- Written once a minute at most.
    last_used_at timestamptz,
    revoked_at timestamptz,
    revoked_by text,
    CONSTRAINT who_revokes_is_known CHECK ((revoked_at IS NULL) = (revoked_by IS NULL))
);
CREATE INDEX api_key_merchant ON webhook.api_key (merchant_id, id);

-- The keys without what could prove one.
CREATE VIEW webhook.api_keys AS
SELECT client_id, merchant_id, name, created_at, created_by, last_used_at, revoked_at, revoked_by
FROM webhook.api_key;

-- A revoked key's tokens stay until they expire, or their holder would be told that they are unknown.
CREATE TABLE webhook.api_token (
    hash bytea PRIMARY KEY CONSTRAINT hash_is_sha_256 CHECK (octet_length(hash) = 32),
    api_key_id bigint NOT NULL REFERENCES webhook.api_key,
    expires_at timestamptz NOT NULL
);
CREATE INDEX api_token_expiry ON webhook.api_token (expires_at);

-- Make a key for a merchant that the outbox would take events of.
CREATE FUNCTION webhook.create_api_key(
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
CREATE FUNCTION webhook.oldest_served() RETURNS integer
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE
        WHEN
            EXISTS (SELECT FROM webhook.lane WHERE lane.routed_at IS NOT NULL)
            OR EXISTS (
                SELECT
                FROM webhook.lane
                INNER JOIN webhook.outbox ON outbox.merchant_id = lane.merchant_id
                WHERE lane.merchant_id LIKE E'%\x1f%'
            )
            THEN 26
        WHEN EXISTS (SELECT FROM webhook.endpoint WHERE endpoint.at_once IS NOT NULL) THEN 24
        WHEN EXISTS (SELECT FROM webhook.endpoint WHERE endpoint.types IS NOT NULL) THEN 23
        WHEN webhook.event_types_hold() IN ('types', 'owed', 'open') THEN 22
        WHEN state.header_prefix <> 'Service-' OR state.user_agent IS NOT NULL OR state.signatures <> '{service}' THEN 21
        ELSE 1
    END
    FROM webhook.state
    WHERE state.is_only
$$;

-- Revoke a key for good, and with it its access tokens: false where it was revoked before, null where there is none.
CREATE FUNCTION webhook.revoke_api_key(named text, revoked_by text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    person text := coalesce(nullif(left(btrim(revoke_api_key.revoked_by), 200), ''), session_user);
    revoked webhook.api_key;
BEGIN
    UPDATE webhook.api_key SET revoked_at = clock_timestamp(), revoked_by = person
    WHERE api_key.client_id = named AND api_key.revoked_at IS NULL
    RETURNING api_key.* INTO revoked;
    IF NOT FOUND THEN
        RETURN (SELECT false FROM webhook.api_key WHERE api_key.client_id = named);
    END IF;
    INSERT INTO webhook.audit (person, action, merchant_id, before)
    VALUES (
        person, 'api key revoked', revoked.merchant_id,
        jsonb_build_object('client_id', revoked.client_id, 'name', revoked.name)
    );
    RETURN true;
END
$$;

-- Exchange a client's id and secret, by its hash, for an access token, by its hash. State: issued, wrong (an unknown client
-- too, which takes as long) or revoked, which only the right secret is told. An hour at most.
CREATE FUNCTION webhook.issue_token(
    named text, given_hash bytea, token bytea, lifetime interval, OUT state text, OUT expires_at timestamptz
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    owner webhook.api_key;
    other webhook.api_key;
    is_right boolean;
BEGIN
    SELECT api_key.* INTO owner FROM webhook.api_key WHERE api_key.client_id = named;
    -- Of two look-ups one finds a key, whether or not the client is known: for an unknown one the first key stands in.
    SELECT api_key.* INTO other FROM webhook.api_key
    WHERE api_key.client_id >= CASE WHEN owner.id IS NULL THEN '' ELSE '~' END
    ORDER BY api_key.client_id
    LIMIT 1;
    is_right := coalesce(owner.secret_hash, other.secret_hash) = given_hash AND owner.id IS NOT NULL;
    state := CASE WHEN NOT is_right THEN 'wrong' WHEN owner.revoked_at IS NOT NULL THEN 'revoked' ELSE 'issued' END;
    IF state = 'issued' THEN
        INSERT INTO webhook.api_token (hash, api_key_id, expires_at)
        VALUES (token, owner.id, clock_timestamp() + least(lifetime, interval '1 hour'))
        RETURNING api_token.expires_at INTO issue_token.expires_at;
    END IF;
END
$$;

-- Write down that a key was used, once a minute at most and never waiting: true where it was written.
CREATE FUNCTION webhook.note_key_use(key_id bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM webhook.api_key
    WHERE api_key.id = key_id AND coalesce(api_key.last_used_at <= clock_timestamp() - interval '1 minute', true)
    FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE webhook.api_key SET last_used_at = clock_timestamp() WHERE api_key.id = key_id;
    RETURN true;
END
$$;

-- Find who asks by the hash of the token, and let the rest of this transaction (a statement, where there is no other)
-- see what is theirs. No row: unknown, expired or revoked; nothing is seen then.
CREATE FUNCTION webhook.bearer(token bytea, OUT merchant_id text, OUT api_key_id bigint, OUT client_id text)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT api_key.merchant_id, api_key.id, api_key.client_id INTO merchant_id, api_key_id, client_id
    FROM webhook.api_token
    JOIN webhook.api_key ON api_key.id = api_token.api_key_id
    WHERE
        api_token.hash = token AND api_token.expires_at > clock_timestamp()
        AND api_key.revoked_at IS NULL;
    IF FOUND THEN
        PERFORM set_config('webhook.bearer', encode(token, 'hex'), true);
        RETURN NEXT;
    ELSE
        PERFORM set_config('webhook.bearer', '', true);
    END IF;
END
$$;

-- Whose rows this transaction may see; null before bearer() found anybody. Looked up by the token once more: the
-- setting alone, which anybody can write, opens nothing.
CREATE FUNCTION webhook.current_merchant() RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Its plan is kept, which a function in SQL does not do before Postgres 18.
    RETURN (
        SELECT api_key.merchant_id
        FROM webhook.api_token
        JOIN webhook.api_key ON api_key.id = api_token.api_key_id
        WHERE
            api_token.hash = decode(nullif(current_setting('webhook.bearer', true), ''), 'hex')
            AND api_token.expires_at > clock_timestamp()
            AND api_key.revoked_at IS NULL
    );
END
$$;

-- Whose token this is, and let the audit name its key until the transaction ends. Without anybody all functions that
-- change something end here: none of them ever works for no merchant.
CREATE FUNCTION webhook.authorized_merchant(token bytea, OUT merchant text, OUT person text, OUT api_key_id bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT bearer.merchant_id, 'api:' || bearer.client_id, bearer.api_key_id INTO merchant, person, api_key_id
    FROM webhook.bearer(token) AS bearer;
    IF merchant IS NULL THEN
        RAISE SQLSTATE 'WH401' USING MESSAGE = 'the token is unknown, expired or revoked';
    END IF;
    PERFORM set_config('webhook.person', person, true);
END
$$;

-- 11. Partner API: limits

-- What was taken of limits, a row for each subject (an API key, an address). Unlogged: a crash of the database empties
-- it, and counting starts anew. Taken: milliseconds after `since`, ascending; since: milliseconds after 1970. Rows stay
-- where they are when they change. Functions alone write them, and is_limit() says what fits: constraints, which each
-- statement reads anew, would be a tenth of what a request costs.
CREATE UNLOGGED TABLE webhook.api_usage (
    subject text COLLATE "C" PRIMARY KEY,
    since bigint NOT NULL,
    taken integer[] NOT NULL,
    expires_at timestamptz NOT NULL
) WITH (fillfactor = 30);
-- CREATE TABLE says it from Postgres 16 on.
ALTER TABLE webhook.api_usage ALTER COLUMN subject SET STORAGE PLAIN, ALTER COLUMN taken SET STORAGE PLAIN;

-- The same of what guards a code that can be guessed. Logged: a crash frees no attempt.
CREATE TABLE webhook.card_attempts (LIKE webhook.api_usage INCLUDING ALL);

-- The next nine are expressions: the planner puts them in place of their names, and they cost no call. Whole numbers cost
-- little beside instants and intervals.
CREATE FUNCTION webhook.microseconds(at timestamptz) RETURNS bigint
LANGUAGE sql STABLE AS $$ SELECT (date_part('epoch', at) * 1000000)::bigint $$;

CREATE FUNCTION webhook.milliseconds(span interval) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT (date_part('epoch', span) * 1000)::bigint $$;

CREATE FUNCTION webhook.instant(milliseconds bigint) RETURNS timestamptz
LANGUAGE sql IMMUTABLE AS $$ SELECT to_timestamp(milliseconds / 1000.0::double precision) $$;

-- The time, or the one that a test gives. Where it stands twice, it is read twice.
CREATE FUNCTION webhook.read_clock(clock timestamptz) RETURNS timestamptz
LANGUAGE sql VOLATILE AS $$ SELECT coalesce(clock, clock_timestamp()) $$;

-- What a limit may be: a row of so many entries fits into a page. One of 0 is none.
CREATE FUNCTION webhook.is_limit(named text, most integer, span interval, is_durable boolean) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
SELECT (
    most BETWEEN 0 AND 1500 AND span BETWEEN interval '1 second' AND interval '1 day'
    AND octet_length(named) BETWEEN 1 AND 200 AND is_durable IS NOT NULL
) IS TRUE
$$;

-- The rule of all limits: span in milliseconds, now in microseconds after 1970. First, the entries of a row that are in a
-- window which began then: those at or before its beginning are over, and how many these are is searched by halves.
CREATE FUNCTION webhook.entries_since(since bigint, taken integer[], beginning bigint) RETURNS integer[]
LANGUAGE sql IMMUTABLE AS $$
SELECT taken[1 + width_bucket((beginning / 1000 - since)::integer, taken):]
$$;

-- The entries that still count. After the clock was set back by more than a window counting starts anew.
CREATE FUNCTION webhook.counted_entries(since bigint, taken integer[], span bigint, now bigint) RETURNS integer[]
LANGUAGE sql IMMUTABLE AS $$
SELECT CASE
    WHEN since + taken[cardinality(taken)] > now / 1000 + span THEN '{}'::integer[]
    ELSE webhook.entries_since(since, taken, now - span * 1000)
END
$$;

-- How long one more has to wait, in whole seconds: until the oldest is over that has to be before it fits. Null: it fits.
CREATE FUNCTION webhook.wait_for_one_more(since bigint, counted integer[], most integer, span bigint, now bigint)
RETURNS interval
LANGUAGE sql IMMUTABLE AS $$
SELECT CASE WHEN cardinality(counted) >= most THEN make_interval(
    secs => ((since + counted[cardinality(counted) - most + 1] + span) * 1000 - now + 999999) / 1000000
) END
$$;

-- The entry that one more becomes: ascending, whatever the clock does, and rounded up to milliseconds before it is compared
-- with a clock that is not.
CREATE FUNCTION webhook.one_more(since bigint, counted integer[], now bigint) RETURNS integer
LANGUAGE sql IMMUTABLE AS $$
SELECT greatest(((now + 999) / 1000 - since)::integer, counted[cardinality(counted)])
$$;

-- Read what a subject has used, and lock it, if asked to; its row is made then where it is missing. Which table it is in
-- is decided here, in write_usage() and in release_limit() alone. A row's entries are counted from another beginning before
-- milliseconds become more than an integer holds.
CREATE FUNCTION webhook.read_usage(named text, is_durable boolean, is_locking boolean, clock timestamptz)
RETURNS webhook.api_usage
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    place CONSTANT text := CASE WHEN is_durable THEN 'card_attempts' ELSE 'api_usage' END;
    day CONSTANT bigint := 86400000;
    now CONSTANT bigint := webhook.microseconds(coalesce(clock, clock_timestamp())) / 1000;
    made CONSTANT webhook.api_usage := ROW(named, now, '{}', webhook.instant(now));
    used webhook.api_usage;
BEGIN
    -- Upkeep may have removed the row between two looks.
    LOOP
        EXECUTE format('SELECT * FROM webhook.%I WHERE subject = $1', place)
            || CASE WHEN is_locking THEN ' FOR UPDATE' ELSE '' END
        INTO used USING named;
        EXIT WHEN used.subject IS NOT NULL;
        IF NOT is_locking THEN
            RETURN made;
        END IF;
        EXECUTE format('INSERT INTO webhook.%I SELECT $1.* ON CONFLICT DO NOTHING', place) USING made;
    END LOOP;
    IF abs(now - used.since) > 10 * day THEN
        used.taken := ARRAY(
            SELECT (used.since + entry - now)::integer
            FROM unnest(used.taken) AS entry
            WHERE abs(used.since + entry - now) <= day
            ORDER BY entry
        );
        used.since := now;
    END IF;
    RETURN used;
END
$$;

-- Write one more entry, of an instant in milliseconds, into a row that is locked and holds what counts.
CREATE FUNCTION webhook.write_usage(counted webhook.api_usage, at bigint, span bigint, is_durable boolean)
RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    EXECUTE format(
        'UPDATE webhook.%I SET since = $1, taken = $2, expires_at = $3 WHERE subject = $4',
        CASE WHEN is_durable THEN 'card_attempts' ELSE 'api_usage' END
    )
    USING
        counted.since, counted.taken || ARRAY[(at - counted.since)::integer], webhook.instant(at + span),
        counted.subject;
END
$$;

-- The places of several limits in the order in which their rows are locked.
CREATE FUNCTION webhook.order_of_limits(subjects text[], limits integer[], windows interval[], is_durable boolean[])
RETURNS integer[]
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF (SELECT count(*) > count(DISTINCT subject) FROM unnest(subjects) AS subject) THEN
        RAISE invalid_parameter_value USING MESSAGE = 'a subject has one limit at a time';
    END IF;
    IF NOT (
        SELECT bool_and(webhook.is_limit(subjects[place], limits[place], windows[place], order_of_limits.is_durable[place]))
        FROM generate_subscripts(subjects, 1) AS place
    ) THEN
        RAISE invalid_parameter_value USING MESSAGE = 'a limit is 0 to 1500 in 1 second to 1 day, of a subject';
    END IF;
    RETURN ARRAY(
        SELECT place
        FROM generate_subscripts(subjects, 1) AS place
        WHERE limits[place] > 0
        ORDER BY order_of_limits.is_durable[place], subjects[place] COLLATE "C"
    );
END
$$;

-- Take one of each limit, or none of any. In no window are more taken than the limit, over all processes: rows are locked
-- in one order, and the clock is read when all locks are held. Retry_after, in whole seconds, is null where it was taken.
-- Remaining: for each subject. A limit of 0 is none. Clock: for tests.
CREATE FUNCTION webhook.take_limits(
    subjects text[], limits integer[], windows interval[], is_durable boolean[], clock timestamptz DEFAULT NULL,
    OUT retry_after interval, OUT remaining integer[], OUT taken_at timestamptz
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    places CONSTANT integer[] := webhook.order_of_limits(subjects, limits, windows, is_durable);
    spans CONSTANT bigint[] := ARRAY(SELECT webhook.milliseconds(span) FROM unnest(windows) AS span);
    place integer;
    is_locking boolean;
    used webhook.api_usage[];
    one webhook.api_usage;
    now bigint;
    at bigint;
BEGIN
    remaining := array_fill(NULL::integer, ARRAY[cardinality(subjects)]);
    -- They are looked at without locks first: who is refused anyway leaves no row, and keeps nobody waiting.
    FOREACH is_locking IN ARRAY ARRAY[false, true] LOOP
        FOREACH place IN ARRAY places LOOP
            used[place] := webhook.read_usage(subjects[place], take_limits.is_durable[place], is_locking, clock);
        END LOOP;
        now := webhook.microseconds(coalesce(clock, clock_timestamp()));
        at := NULL;
        FOREACH place IN ARRAY places LOOP
            one := used[place];
            one.taken := webhook.counted_entries(one.since, one.taken, spans[place], now);
            used[place] := one;
            remaining[place] := greatest(limits[place] - cardinality(one.taken), 0);
            retry_after := greatest(
                retry_after, webhook.wait_for_one_more(one.since, one.taken, limits[place], spans[place], now)
            );
            at := greatest(at, one.since + webhook.one_more(one.since, one.taken, now));
        END LOOP;
        IF retry_after IS NOT NULL THEN
            RETURN;
        END IF;
    END LOOP;
    FOREACH place IN ARRAY places LOOP
        PERFORM webhook.write_usage(used[place], at, spans[place], take_limits.is_durable[place]);
        remaining[place] := remaining[place] - 1;
    END LOOP;
    taken_at := webhook.instant(at);
END
$$;

-- A row's entries without one of that instant; null where there is none.
CREATE FUNCTION webhook.without_taken(since bigint, taken integer[], at timestamptz) RETURNS integer[]
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    entry CONSTANT bigint := webhook.microseconds(at) / 1000 - since;
    place integer;
BEGIN
    IF abs(entry) <= 2147483647 THEN
        place := array_position(taken, entry::integer);
    END IF;
    RETURN CASE WHEN place IS NOT NULL THEN taken[:place - 1] || taken[place + 1:] END;
END
$$;

-- Release what take_limits() took of one subject's limit, named by the instant that it told: true where it was still
-- there. For an attempt that was none.
CREATE FUNCTION webhook.release_limit(named text, is_durable boolean, at timestamptz) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    released integer;
BEGIN
    EXECUTE format(
        'UPDATE webhook.%I SET taken = webhook.without_taken(since, taken, $2) '
        'WHERE subject = $1 AND webhook.without_taken(since, taken, $2) IS NOT NULL',
        CASE WHEN is_durable THEN 'card_attempts' ELSE 'api_usage' END
    )
    USING named, at;
    GET DIAGNOSTICS released = ROW_COUNT;
    RETURN released > 0;
END
$$;

-- Take one of one subject's limit, as take_limits() does, without its loops; not durable.
CREATE FUNCTION webhook.take_limit(
    named text, most integer, span interval, clock timestamptz, OUT retry_after interval, OUT remaining integer
)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    window_ms CONSTANT bigint := webhook.milliseconds(span);
    began bigint;
    counted integer[];
    now bigint;
    entry integer;
BEGIN
    IF NOT webhook.is_limit(named, most, span, false) THEN
        RAISE invalid_parameter_value USING MESSAGE = 'a limit is 0 to 1500 in 1 second to 1 day, of a subject';
    END IF;
    SELECT api_usage.since, api_usage.taken INTO began, counted
    FROM webhook.api_usage
    WHERE api_usage.subject = named
    FOR UPDATE;
    now := webhook.microseconds(webhook.read_clock(clock));
    IF NOT FOUND OR abs(now / 1000 - began) > 864000000 THEN
        -- It is made, or counted from another beginning.
        SELECT used.since, used.taken INTO began, counted FROM webhook.read_usage(named, false, true, clock) AS used;
        -- Another may have made it just now, and have been waited for.
        now := webhook.microseconds(webhook.read_clock(clock));
    END IF;
    counted := webhook.counted_entries(began, counted, window_ms, now);
    remaining := greatest(most - cardinality(counted), 0);
    retry_after := webhook.wait_for_one_more(began, counted, most, window_ms, now);
    IF retry_after IS NULL THEN
        remaining := remaining - 1;
        entry := webhook.one_more(began, counted, now);
        UPDATE webhook.api_usage
        SET since = began, taken = counted || entry, expires_at = webhook.instant(began + entry + window_ms)
        WHERE api_usage.subject = named;
    END IF;
END
$$;

-- What came of letting a request in. State: live, unknown, expired or revoked; all else is null but for live. Url and what
-- follows: the endpoint, where it was asked for and there is one.
CREATE TYPE webhook.admission AS (
    state text,
    api_key_id bigint,
    client_id text,
    merchant_id text,
    is_use_due boolean,
    retry_after interval,
    remaining integer,
    url text,
    paused boolean,
    created_at timestamptz,
    updated_at timestamptz,
    secret_created_at timestamptz,
    last_success_at timestamptz,
    failing_since timestamptz,
    failures_in_a_row integer,
    suspended_at timestamptz,
    types text[],
    at_once smallint,
    number smallint,
    id uuid,
    name text
);

-- Let a request in: whose access token it is, whether it still holds, and one taken of its key's limit, if it does. With
-- its merchant's endpoint, which the token alone finds. Clock: for tests, of the limit alone.
CREATE FUNCTION webhook.admit_token(
    token bytea, most integer, span interval, clock timestamptz DEFAULT NULL, with_endpoint boolean DEFAULT false
)
RETURNS webhook.admission
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own_lane text;
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
            NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
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
        own_lane := webhook.lane_of(admitted.merchant_id, 1::smallint);
        SELECT
            endpoint.url, coalesce(lane.paused, false), endpoint.created_at, endpoint.updated_at, endpoint.secret_created_at,
            lane.last_success_at, lane.failing_since, coalesce(lane.failures_in_a_row, 0), lane.suspended_at,
            endpoint.types, endpoint.at_once, 1::smallint, endpoint.id, endpoint.name
        INTO
            admitted.url, admitted.paused, admitted.created_at, admitted.updated_at, admitted.secret_created_at,
            admitted.last_success_at, admitted.failing_since, admitted.failures_in_a_row, admitted.suspended_at,
            admitted.types, admitted.at_once, admitted.number, admitted.id, admitted.name
        FROM webhook.endpoint
        LEFT JOIN webhook.lane ON lane.merchant_id = endpoint.merchant_id
        WHERE endpoint.merchant_id = own_lane;
    END IF;
    RETURN admitted;
END
$$;

-- 12. Partner API: one's own

-- What merchants see of themselves. A statement that forgets bearer() finds nothing here. Nothing but the view's own condition,
-- and what cannot tell anything, is asked of another's row: whoever connects may make functions in pg_temp, and one that costs
-- nothing would be called before. Behind such a barrier no order reaches an index, so that those of which lists are read bring
-- the lists' own.
CREATE VIEW webhook.own_endpoints WITH (security_barrier) AS
SELECT
    webhook.merchant_of(endpoint.merchant_id) AS merchant_id, endpoint.url, coalesce(lane.paused, false) AS paused,
    endpoint.created_at, endpoint.updated_at, endpoint.secret_created_at, lane.last_success_at, lane.failing_since,
    coalesce(lane.failures_in_a_row, 0) AS failures_in_a_row, lane.suspended_at, endpoint.types, endpoint.at_once,
    coalesce(webhook.endpoint_of(endpoint.merchant_id), 1::smallint) AS number, endpoint.id, endpoint.name
FROM webhook.endpoint
LEFT JOIN webhook.lane ON lane.merchant_id = endpoint.merchant_id
WHERE
    endpoint.merchant_id >= (SELECT webhook.current_merchant())
    AND endpoint.merchant_id < (SELECT webhook.current_merchant()) || ' ';

CREATE VIEW webhook.own_endpoint WITH (security_barrier) AS
SELECT
    merchant_id, url, paused, created_at, updated_at, secret_created_at, last_success_at, failing_since, failures_in_a_row,
    suspended_at, types, at_once
FROM webhook.own_endpoints
WHERE number = 1;

-- The lanes of the merchant's endpoints, where there are or were several.
CREATE VIEW webhook.own_lanes WITH (security_barrier) AS
SELECT merchant_id, webhook.endpoint_of(merchant_id) AS number
FROM webhook.lane
WHERE
    merchant_id > (SELECT webhook.current_merchant())
    AND merchant_id < (SELECT webhook.current_merchant()) || ' ';

CREATE VIEW webhook.own_deliveries WITH (security_barrier) AS
SELECT
    event_id, seq, merchant_id, type, created_at, state, failed_reason, attempts, next_attempt_at, last_status, last_outcome,
    finished_at, object, endpoint, copy_of
FROM webhook.deliveries
WHERE merchant_id = (SELECT webhook.current_merchant());

CREATE VIEW webhook.own_attempts WITH (security_barrier) AS
SELECT
    event_id, webhook.merchant_of(merchant_id) AS merchant_id, attempt, trigger, started_at, duration_ms, status, outcome, reason,
    webhook.endpoint_of(merchant_id) AS endpoint
FROM webhook.attempt_log
WHERE webhook.merchant_of(merchant_id) = (SELECT webhook.current_merchant());

CREATE VIEW webhook.own_commands WITH (security_barrier) AS
SELECT
    id, webhook.command_merchant(control) AS merchant_id, command, event_id, created_at, status, handled_at, result, error_code,
    error_message
FROM webhook.control
WHERE webhook.command_merchant(control) = (SELECT webhook.current_merchant());

-- What merchants read of their deliveries. What is owed and what is finished apart, by columns that indexes find and
-- sort by; charge_id as in webhook.charges. The merchant is compared inside CASE: a statement says itself by which
-- index its rows are found, and this condition, which is the second wall, changes nothing about the plan.
-- ELSE, which is never true, makes it the dearer one of two: the statement's own is looked at first, and of what is
-- another's current_merchant() is not called, as it is not of what is not there.
CREATE VIEW webhook.own_owed WITH (security_barrier) AS
SELECT
    seq, id AS event_id, merchant_id, type, created_at, attempts, due_at, claim IS NOT NULL AS is_claimed, on_failure,
    last_status, last_outcome, webhook.charge_key(object) COLLATE "C" AS charge_id, object, copy_of
FROM webhook.outbox
WHERE CASE
    WHEN webhook.merchant_of(merchant_id) = (SELECT webhook.current_merchant()) THEN true
    ELSE merchant_id <> merchant_id OR seq <> seq
END
ORDER BY merchant_id DESC, seq DESC;

CREATE VIEW webhook.own_logged WITH (security_barrier) AS
SELECT
    seq, event_id, merchant_id, type, created_at, state, failed_reason, attempts, last_status, last_outcome, finished_at,
    webhook.charge_key(object) COLLATE "C" AS charge_id, object, endpoint, copy_of
FROM webhook.delivery_log
WHERE CASE WHEN merchant_id = (SELECT webhook.current_merchant()) THEN true ELSE merchant_id <> merchant_id END
ORDER BY merchant_id DESC, seq DESC;

CREATE VIEW webhook.own_finished WITH (security_barrier) AS
SELECT
    seq, event_id, merchant_id, type, created_at, state, failed_reason, attempts, last_status, last_outcome, finished_at,
    webhook.charge_key(object) COLLATE "C" AS charge_id, object, endpoint, copy_of
FROM webhook.delivery_log
WHERE CASE WHEN merchant_id = (SELECT webhook.current_merchant()) THEN true ELSE merchant_id <> merchant_id END
    AND state IS NOT NULL
ORDER BY merchant_id DESC, seq DESC;

-- What a merchant's token does with its own endpoints. Which, their ids say; without one it is number 1.

-- The number of a merchant's endpoint; 0, which none has, where there is none of that id.
CREATE FUNCTION webhook.endpoint_number(merchant text, endpoint uuid) RETURNS smallint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT CASE WHEN endpoint IS NULL THEN 1::smallint ELSE coalesce((
    SELECT coalesce(webhook.endpoint_of(known.merchant_id), 1::smallint)
    FROM webhook.endpoint AS known
    WHERE known.merchant_id >= merchant AND known.merchant_id < merchant || ' ' AND known.id = endpoint
), 0::smallint) END
$$;

CREATE FUNCTION webhook.own_add_endpoint(
    token bytea, url text, secret bytea, key_id text, name text, types text[], at_once integer,
    OUT result text, OUT id uuid
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own text := (webhook.authorized_merchant(token)).merchant;
BEGIN
    SELECT added.result, added.id INTO result, id
    FROM webhook.add_endpoint(own, url, secret, key_id, name, types, at_once) AS added;
END
$$;

CREATE FUNCTION webhook.own_put_endpoint(
    token bytea, url text, secret bytea, key_id text, types text[], keeps_types boolean,
    name text DEFAULT NULL, endpoint uuid DEFAULT NULL
)
RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own text := (webhook.authorized_merchant(token)).merchant;
BEGIN
    RETURN webhook.put_endpoint(
        own, webhook.endpoint_number(own, endpoint), url, secret, key_id, types, keeps_types, name
    );
END
$$;

CREATE FUNCTION webhook.own_set_order(token bytea, at_once integer, endpoint uuid DEFAULT NULL) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own text := (webhook.authorized_merchant(token)).merchant;
BEGIN
    RETURN webhook.set_order(own, webhook.endpoint_number(own, endpoint), at_once);
END
$$;

CREATE FUNCTION webhook.own_rotate_secret(
    token bytea, secret bytea, key_id text, overlap interval, hold boolean, endpoint uuid DEFAULT NULL,
    OUT result text, OUT previous_until timestamptz, OUT waiting bigint
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own text := (webhook.authorized_merchant(token)).merchant;
BEGIN
    SELECT rotated.result, rotated.previous_until, rotated.waiting INTO result, previous_until, waiting
    FROM webhook.rotate_secret(
        own, webhook.endpoint_number(own, endpoint), secret, key_id, overlap, hold
    ) AS rotated;
END
$$;

-- Remove an endpoint of the token's merchant; false where there is none.
CREATE FUNCTION webhook.own_remove_endpoint(token bytea, endpoint uuid DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own text := (webhook.authorized_merchant(token)).merchant;
    its_lane text := webhook.lock_endpoint(own, webhook.endpoint_number(own, endpoint));
BEGIN
    DELETE FROM webhook.endpoint AS known WHERE known.merchant_id = its_lane;
    RETURN FOUND;
END
$$;

-- Whose delivery a command for this event would find: the one that is owed, else the latest. command_subject() finds the
-- same, and stops at what is owed; this reads as much whether the event is owed, finished or nobody's, so that the time
-- it takes does not tell a merchant which ids are others'. Null: there is none, or it cannot be read.
CREATE FUNCTION webhook.event_merchant(event_id uuid) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (
        SELECT found.merchant_id
        FROM (
            SELECT webhook.merchant_of(outbox.merchant_id) AS merchant_id, outbox.seq, true AS is_owed
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

-- As before, but for what is locked. While this is applied, commands that are being given at that moment are not seen.
CREATE FUNCTION webhook.own_command(
    token bytea, command text, event_id uuid, since timestamptz, until timestamptz, endpoint uuid DEFAULT NULL
)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET lock_timeout = '1s'
AS $$
#variable_conflict use_column
DECLARE
    asking record := webhook.authorized_merchant(token);
    given webhook.control;
    number smallint;
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
    IF endpoint IS NOT NULL OR own_command.command IN ('test_event', 'pause', 'resume') THEN
        number := webhook.endpoint_number(asking.merchant, endpoint);
        IF number = 0 THEN
            RETURN NULL;
        END IF;
        -- Where there is one, its merchant is all that dispatchers need: older ones know no numbers.
        IF webhook.lane_of(asking.merchant, number) <> asking.merchant THEN
            given.args := given.args || jsonb_build_object('endpoint', number);
        END IF;
    END IF;
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

-- 13. Partner API: requests that are repeated

-- What requests with an Idempotency-Key were answered, or which command they gave, or that the charge service was asked
-- and has not answered. The role webhook_api does not see the table: its functions find a row by the token's API key.
CREATE TABLE webhook.api_request (
    -- What request_hash() makes of the API key and of what was asked: no key meets another's.
    hash bytea PRIMARY KEY CONSTRAINT hash_is_sha_256 CHECK (octet_length(hash) = 32),
    body_hash bytea NOT NULL CONSTRAINT body_hash_is_sha_256 CHECK (octet_length(body_hash) = 32),
    -- Who may write what became of it: a process that was late finds another's claim here, and writes nothing.
    claim uuid NOT NULL DEFAULT gen_random_uuid(),
    -- Until then it is being asked upstream; afterwards nobody knows what became of it, and the same key asks again.
    asked_until timestamptz,
    command_id bigint,
    status smallint,
    language text COLLATE "C",
    answer text,
    expires_at timestamptz NOT NULL,
    CONSTRAINT it_is_asked_or_ordered_or_answered CHECK (num_nonnulls(asked_until, command_id, answer) = 1),
    CONSTRAINT an_answer_has_its_status CHECK ((answer IS NULL) = (status IS NULL))
);
CREATE INDEX api_request_expiry ON webhook.api_request (expires_at);

-- The bytes of the answers of an API key that expire within the hour before expires_at: a key has 25 rows that count at most,
-- however many answers it has. A row is never reduced; it ends as a whole.
CREATE TABLE webhook.api_kept_bytes (
    api_key_id bigint NOT NULL,
    expires_at timestamptz NOT NULL,
    bytes bigint NOT NULL,
    PRIMARY KEY (api_key_id, expires_at)
);
CREATE INDEX api_kept_bytes_expiry ON webhook.api_kept_bytes (expires_at);

-- By what a request is known again. Request: a hash of method, target and Idempotency-Key, as the client sent them.
CREATE FUNCTION webhook.request_hash(api_key_id bigint, request bytea) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF octet_length(request) IS DISTINCT FROM 32 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'this is no hash of a request';
    END IF;
    RETURN sha256(int8send(api_key_id) || request);
END
$$;

-- Keep requests that are equal to the token's out until this transaction ends (is_ours; what holds the lock is still
-- being carried out), and tell what became of it before. Body_hash is null where it is new. Seconds_left: of asking upstream.
CREATE FUNCTION webhook.own_begin_request(
    token bytea, request bytea,
    OUT is_ours boolean, OUT body_hash bytea, OUT seconds_left double precision, OUT command_id bigint,
    OUT status smallint, OUT language text, OUT answer text
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    own bytea := webhook.request_hash((webhook.authorized_merchant(token)).api_key_id, request);
BEGIN
    is_ours := pg_try_advisory_xact_lock(hashtextextended(encode(own, 'hex'), 6));
    -- A statement of its own, after the lock: it sees what was committed before that.
    SELECT
        api_request.body_hash, extract(EPOCH FROM api_request.asked_until - clock_timestamp()),
        api_request.command_id, api_request.status, api_request.language, api_request.answer
    INTO body_hash, seconds_left, command_id, status, language, answer
    FROM webhook.api_request
    WHERE api_request.hash = own AND api_request.expires_at > clock_timestamp();
END
$$;

-- Count an answer of an API key that is kept until then; null: there is none. The last statement of its transaction that
-- locks, since the key's other answers wait for it.
CREATE FUNCTION webhook.count_kept_bytes(api_key_id bigint, expires_at timestamptz, answer text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO webhook.api_kept_bytes AS kept (api_key_id, expires_at, bytes)
    SELECT
        count_kept_bytes.api_key_id,
        date_bin('1 hour', count_kept_bytes.expires_at, '2000-01-01 00:00:00+00') + interval '1 hour',
        octet_length(count_kept_bytes.answer)
    WHERE count_kept_bytes.answer IS NOT NULL
    ON CONFLICT (api_key_id, expires_at) DO UPDATE SET bytes = kept.bytes + excluded.bytes;
END
$$;

-- How long it takes until so much has expired of what is kept for the token's API key that it may keep more; null: it may now.
-- The bound is 1 GiB. Who uses a limit of 600 requests a minute all day long stays below it while answers have 1,242 bytes
-- on average: those of our own operations and of charges have less.
CREATE FUNCTION webhook.own_kept_full_for(token bytea) RETURNS interval
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own bigint := (webhook.authorized_merchant(token)).api_key_id;
BEGIN
    RETURN (
        -- By the key alone, apart: planned while there are few rows, it would read all keys' by the index of their expiry.
        WITH own_hours AS MATERIALIZED (
            SELECT api_kept_bytes.expires_at, api_kept_bytes.bytes
            FROM webhook.api_kept_bytes
            WHERE api_kept_bytes.api_key_id = own
        ),
        kept AS (
            SELECT own_hours.expires_at, sum(own_hours.bytes) OVER (ORDER BY own_hours.expires_at DESC) AS bytes
            FROM own_hours
            WHERE own_hours.expires_at > clock_timestamp()
        )
        -- The last to end of those hours that are too much together with all that end later.
        SELECT max(kept.expires_at) - clock_timestamp()
        FROM kept
        WHERE kept.bytes >= 1073741824
    );
END
$$;

-- Keep what became of the token's request: a command that it gave, or what it was answered, or that the charge service is
-- being asked for as long as patience lasts. Returns the claim, by which alone that is settled.
CREATE FUNCTION webhook.own_keep_request(
    token bytea, request bytea, body_hash bytea, command_id bigint, status smallint, language text, answer text,
    patience interval, lifetime interval
)
RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    own_key bigint := (webhook.authorized_merchant(token)).api_key_id;
    kept_until timestamptz := clock_timestamp() + lifetime;
    claimed uuid;
BEGIN
    INSERT INTO webhook.api_request (hash, body_hash, asked_until, command_id, status, language, answer, expires_at)
    VALUES (
        webhook.request_hash(own_key, request), own_keep_request.body_hash, clock_timestamp() + patience,
        own_keep_request.command_id, own_keep_request.status, own_keep_request.language, own_keep_request.answer,
        kept_until
    )
    ON CONFLICT (hash) DO UPDATE SET
        body_hash = excluded.body_hash,
        claim = excluded.claim,
        asked_until = excluded.asked_until,
        command_id = excluded.command_id,
        status = excluded.status,
        language = excluded.language,
        answer = excluded.answer,
        expires_at = excluded.expires_at
    RETURNING claim INTO claimed;
    PERFORM webhook.count_kept_bytes(own_key, kept_until, own_keep_request.answer);
    RETURN claimed;
END
$$;

-- Keep what the charge service answered, or, without a status, let it be asked again: what came of it is not known. Nothing
-- is written where another process has asked again meanwhile. The token may have ended while the charge service was asked:
-- the claim, which is random and was told to its process alone, stands for it.
CREATE FUNCTION webhook.settle_request(
    api_key_id bigint, request bytea, claimed uuid, status smallint, language text, answer text
)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    kept_until timestamptz;
BEGIN
    UPDATE webhook.api_request
    SET
        asked_until = CASE WHEN settle_request.status IS NULL THEN clock_timestamp() END,
        status = settle_request.status,
        language = settle_request.language,
        answer = settle_request.answer
    WHERE
        api_request.hash = webhook.request_hash(settle_request.api_key_id, request)
        AND api_request.claim = claimed
    RETURNING api_request.expires_at INTO kept_until;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM webhook.count_kept_bytes(settle_request.api_key_id, kept_until, settle_request.answer);
    RETURN true;
END
$$;

-- Forget a request that has had no effect, by its claim.
CREATE FUNCTION webhook.forget_request(api_key_id bigint, request bytea, claimed uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM webhook.api_request
    WHERE
        api_request.hash = webhook.request_hash(forget_request.api_key_id, request)
        AND api_request.claim = claimed;
    RETURN FOUND;
END
$$;

-- 14. Partner API: events in order

-- In an order that never skips what commits late: by the transaction that inserted them, then by number. What lies below a
-- snapshot's horizon is complete; a merchant reads that far, and goes on there. The index of it is made where
-- `migrate --feed-index` asks for it: it costs each event some 133 bytes of WAL at its INSERT and as much on its way into the
-- log, and who does not run the Partner API should not pay for it.

-- How far transactions were at an instant (upkeep notes it, several times an hour): those below `horizon` had ended, and
-- none from `next_xid` on had. Those before the oldest partition go before it: what was dropped lies below the first
-- one's next_xid.
CREATE TABLE webhook.milestone (
    at timestamptz PRIMARY KEY,
    horizon xid8 NOT NULL,
    next_xid xid8 NOT NULL
);
INSERT INTO webhook.milestone (at, horizon, next_xid)
SELECT statement_timestamp(), pg_snapshot_xmin(pg_current_snapshot()), pg_snapshot_xmax(pg_current_snapshot());

-- Which of the server's histories this is: a standby that was promoted begins another, in which transactions that it had
-- not received are lost and their numbers given again. Null where it may not be asked.
CREATE FUNCTION webhook.timeline() RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN left(pg_walfile_name(pg_current_wal_lsn()), 8);
EXCEPTION WHEN insufficient_privilege OR object_not_in_prerequisite_state OR feature_not_supported THEN
    RETURN NULL;
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

-- A merchant's events in the order of the feed: as own_owed and own_finished, and no more than is shown.
CREATE VIEW webhook.own_owed_events WITH (security_barrier) AS
SELECT merchant_id, xid, seq, id AS event_id, type, created_at, object
FROM webhook.outbox
WHERE CASE WHEN merchant_id = (SELECT webhook.current_merchant()) THEN true ELSE merchant_id <> merchant_id END
ORDER BY merchant_id, xid, seq;

CREATE VIEW webhook.own_finished_events WITH (security_barrier) AS
SELECT merchant_id, xid, seq, event_id, type, created_at, object
FROM webhook.delivery_log
WHERE CASE WHEN merchant_id = (SELECT webhook.current_merchant()) THEN true END
ORDER BY merchant_id, xid, seq;

-- What a dump brought from another server has that server's transactions, and what lies above ours would be hidden until
-- ours have come so far. So when an installation adopts the server that it is on: where there is such a row, all that are
-- there become the first, in the order of their numbers.
CREATE FUNCTION webhook.renumber_feed() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- What is visible here was committed here, below xmax, or elsewhere. Again, for what was moved meanwhile.
    WHILE EXISTS (SELECT FROM webhook.outbox WHERE outbox.xid >= pg_snapshot_xmax(pg_current_snapshot()))
        OR EXISTS (SELECT FROM webhook.delivery_log WHERE delivery_log.xid >= pg_snapshot_xmax(pg_current_snapshot()))
    LOOP
        WITH owed AS (UPDATE webhook.outbox SET xid = '0' WHERE outbox.xid > '0')
        UPDATE webhook.delivery_log SET xid = '0' WHERE delivery_log.xid > '0';
    END LOOP;
    DELETE FROM webhook.milestone;
    INSERT INTO webhook.milestone (at, horizon, next_xid)
    SELECT clock_timestamp(), pg_snapshot_xmin(pg_current_snapshot()), pg_snapshot_xmax(pg_current_snapshot());
    RETURN NULL;
END
$$;
CREATE TRIGGER moved_state_renumbers_the_feed AFTER UPDATE OF system_identifier ON webhook.state
FOR EACH ROW WHEN (new.system_identifier IS DISTINCT FROM old.system_identifier)
EXECUTE FUNCTION webhook.renumber_feed();

-- What the cursors of lists are encrypted with: one random row, for all processes of this database and no other.
CREATE TABLE webhook.cursor_key (
    is_only boolean PRIMARY KEY DEFAULT true CONSTRAINT cursor_key_has_one_row CHECK (is_only),
    key bytea NOT NULL CONSTRAINT key_has_32_bytes CHECK (octet_length(key) = 32)
);
-- Each uuid has 122 random bits.
INSERT INTO webhook.cursor_key (key)
SELECT sha256(string_agg(uuid_send(gen_random_uuid()), '')) FROM generate_series(1, 4);

-- 15. Console: accounts and sessions

-- The role webhook_console reads none of these tables: functions find the person by the session that the statement itself
-- brings, and refuse what that person may not do.

-- Who may use the console. An account is disabled, never removed: its name stands in the audit.
CREATE TABLE webhook.account (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE
    CONSTRAINT name_has_1_to_64_plain_characters CHECK (name ~ '^[a-z0-9][a-z0-9._@+-]{0,63}$'),
    role text COLLATE "C" NOT NULL CONSTRAINT role_is_known CHECK (role IN ('operator', 'viewer')),
    -- What argon2id makes of a password with these is the proof, which the program computes; kept is the proof's SHA-256.
    salt bytea CONSTRAINT salt_has_16_bytes CHECK (octet_length(salt) = 16),
    memory_kib integer CONSTRAINT memory_is_bounded CHECK (memory_kib BETWEEN 8192 AND 1048576),
    passes integer CONSTRAINT passes_are_bounded CHECK (passes BETWEEN 1 AND 16),
    parallelism integer CONSTRAINT parallelism_is_bounded CHECK (parallelism BETWEEN 1 AND 16),
    verifier bytea CONSTRAINT verifier_is_sha_256 CHECK (octet_length(verifier) = 32),
    -- A proxy signs this person in, and no password does; nobody else is signed in by a proxy's word alone.
    is_by_proxy boolean NOT NULL DEFAULT false,
    language text COLLATE "C" CONSTRAINT language_is_a_code CHECK (language ~ '^[a-z]{2,3}$'),
    time_zone text COLLATE "C" CONSTRAINT time_zone_is_a_name CHECK (time_zone ~ '^[A-Za-z0-9_+/-]{1,64}$'),
    theme text COLLATE "C" CONSTRAINT theme_is_known CHECK (theme IN ('light', 'dark')),
    is_disabled boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by text NOT NULL,
    last_sign_in_at timestamptz,
    CONSTRAINT a_password_has_all_its_parts CHECK (num_nulls(salt, memory_kib, passes, parallelism, verifier) IN (0, 5)),
    CONSTRAINT who_comes_by_a_proxy_has_no_password CHECK (NOT is_by_proxy OR verifier IS NULL)
);

-- Of a token of 256 random bits its hash. Acted_at: the last request that the person made, to the minute.
CREATE TABLE webhook.console_session (
    hash bytea PRIMARY KEY CONSTRAINT hash_is_sha_256 CHECK (octet_length(hash) = 32),
    account_id bigint NOT NULL REFERENCES webhook.account,
    began_at timestamptz NOT NULL,
    acted_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz,
    address inet,
    agent text
);
CREATE INDEX console_session_account ON webhook.console_session (account_id);
CREATE INDEX console_session_expiry ON webhook.console_session (expires_at);

-- Codes of one use, by which the command line signs somebody in.
CREATE TABLE webhook.sign_in_code (
    hash bytea PRIMARY KEY CONSTRAINT hash_is_sha_256 CHECK (octet_length(hash) = 32),
    account_id bigint NOT NULL REFERENCES webhook.account,
    expires_at timestamptz NOT NULL,
    used_at timestamptz
);
CREATE INDEX sign_in_code_expiry ON webhook.sign_in_code (expires_at);

-- Wrong passwords, by the name that was given (whether or not there is such an account) and by address. Not with the Partner
-- API's limits: its role, which the internet reaches, may release those.
CREATE TABLE webhook.sign_in_failure (
    subject text COLLATE "C" PRIMARY KEY,
    failed_at timestamptz[] NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX sign_in_failure_expiry ON webhook.sign_in_failure (expires_at);

-- From it follows the salt of a name that has no account: always the same one, which nobody else can compute.
CREATE TABLE webhook.sign_in_key (
    is_only boolean PRIMARY KEY DEFAULT true CONSTRAINT sign_in_key_has_one_row CHECK (is_only),
    key bytea NOT NULL CONSTRAINT key_has_32_bytes CHECK (octet_length(key) = 32)
);
INSERT INTO webhook.sign_in_key (key)
SELECT sha256(string_agg(uuid_send(gen_random_uuid()), '')) FROM generate_series(1, 4);

-- The rule of all sessions: which are not over, whose they are, and until when they may change something. Nobody may read it.
CREATE VIEW webhook.live_sessions AS
SELECT
    console_session.hash,
    console_session.account_id,
    console_session.expires_at,
    console_session.address,
    account.name,
    account.role,
    account.is_by_proxy,
    account.language,
    account.time_zone,
    account.theme,
    CASE WHEN account.role = 'operator' THEN
        least(console_session.acted_at + interval '15 minutes', console_session.expires_at)
    END AS changes_until
FROM webhook.console_session
-- The limit keeps the account from being looked for first: whatever statistics say, a hash finds its session.
CROSS JOIN LATERAL (
    SELECT
        account.name, account.role, account.is_by_proxy, account.language, account.time_zone, account.theme
    FROM webhook.account
    WHERE account.id = console_session.account_id AND NOT account.is_disabled
    LIMIT 1
) AS account
WHERE console_session.expires_at > clock_timestamp() AND console_session.revoked_at IS NULL;

-- The accounts without what could prove one.
CREATE VIEW webhook.accounts AS
SELECT
    account.name,
    account.role,
    account.verifier IS NOT NULL AS has_password,
    account.is_by_proxy,
    account.is_disabled,
    account.created_at,
    account.created_by,
    account.last_sign_in_at,
    (SELECT count(*) FROM webhook.live_sessions WHERE live_sessions.account_id = account.id) AS sessions
FROM webhook.account;

-- What was done with an account, as the audit tells it. Person: who did it, as far as that was proven.
CREATE FUNCTION webhook.audit_account(person text, action text, before jsonb, after jsonb) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
INSERT INTO webhook.audit (person, action, before, after)
VALUES (coalesce(nullif(left(btrim(person), 200), ''), session_user), action, before, after)
$$;

-- By what wrong passwords are counted, in the order in which rows are locked: an address (of IPv6 the network of 64 bits,
-- which one person has), and the name.
CREATE FUNCTION webhook.sign_in_subjects(named text, address inet) RETURNS text []
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT array_remove(ARRAY[
    'address ' || host(network(set_masklen(address, CASE family(address) WHEN 4 THEN 32 ELSE 64 END))),
    'name ' || left(named, 64)
], NULL)
$$;

-- How long one more try has to wait, in whole seconds; null: it need not. Ten wrong ones count for a name in any 15 minutes,
-- thirty for an address. Those that lie ahead by more than that are from before the clock was set back.
CREATE FUNCTION webhook.wait_after_failures(subject text, failed_at timestamptz []) RETURNS interval
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    span CONSTANT interval := '15 minutes';
    most CONSTANT integer := CASE WHEN starts_with(subject, 'address ') THEN 30 ELSE 10 END;
    now CONSTANT timestamptz := clock_timestamp();
    oldest timestamptz;
BEGIN
    SELECT failure INTO oldest
    FROM unnest(failed_at) AS failure
    WHERE failure > now - span AND failure < now + span
    ORDER BY failure DESC
    LIMIT 1 OFFSET most - 1;
    RETURN make_interval(secs => ceil(extract(EPOCH FROM oldest + span - now)));
END
$$;

-- How long a try with these subjects has to wait, in whole seconds; null: it need not, and keeps all others with these
-- subjects out until the transaction ends. Who has to wait leaves no row, and waits for nobody.
CREATE FUNCTION webhook.lock_failures(subjects text []) RETURNS interval
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    one text;
    failures timestamptz [];
    wait interval;
BEGIN
    SELECT max(webhook.wait_after_failures(sign_in_failure.subject, sign_in_failure.failed_at)) INTO wait
    FROM webhook.sign_in_failure
    WHERE sign_in_failure.subject = ANY(subjects);
    IF wait IS NOT NULL THEN
        RETURN wait;
    END IF;
    FOREACH one IN ARRAY subjects LOOP
        -- Upkeep may have removed the row between two looks.
        LOOP
            SELECT sign_in_failure.failed_at INTO failures
            FROM webhook.sign_in_failure
            WHERE sign_in_failure.subject = one
            FOR UPDATE;
            EXIT WHEN FOUND;
            INSERT INTO webhook.sign_in_failure (subject, failed_at, expires_at)
            VALUES (one, '{}', clock_timestamp() + interval '15 minutes')
            ON CONFLICT DO NOTHING;
        END LOOP;
        wait := greatest(wait, webhook.wait_after_failures(one, failures));
    END LOOP;
    RETURN wait;
END
$$;

-- Count a wrong try with these subjects, which lock_failures() has locked; returns how long the next one has to wait.
CREATE FUNCTION webhook.count_failure(subjects text []) RETURNS interval
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    wait interval;
BEGIN
    UPDATE webhook.sign_in_failure
    SET
        failed_at = ARRAY(
            SELECT failure
            FROM unnest(sign_in_failure.failed_at) AS failure
            WHERE abs(extract(EPOCH FROM clock_timestamp() - failure)) < 900
            ORDER BY failure
        ) || clock_timestamp(),
        expires_at = clock_timestamp() + interval '15 minutes'
    WHERE sign_in_failure.subject = ANY(subjects);
    SELECT max(webhook.wait_after_failures(sign_in_failure.subject, sign_in_failure.failed_at)) INTO wait
    FROM webhook.sign_in_failure
    WHERE sign_in_failure.subject = ANY(subjects);
    RETURN wait;
END
$$;

-- Begin a session of an account that is locked by this transaction.
CREATE FUNCTION webhook.begin_session(own webhook.account, session bytea, address inet, agent text, means text)
RETURNS timestamptz
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    now CONSTANT timestamptz := clock_timestamp();
BEGIN
    INSERT INTO webhook.console_session (hash, account_id, began_at, acted_at, expires_at, address, agent)
    VALUES (session, own.id, now, now, now + interval '12 hours', begin_session.address, left(begin_session.agent, 200));
    UPDATE webhook.account SET last_sign_in_at = now WHERE account.id = own.id;
    PERFORM webhook.audit_account(
        own.name, 'signed in', NULL,
        jsonb_build_object('by', means, 'address', host(begin_session.address), 'agent', left(begin_session.agent, 200))
    );
    RETURN now + interval '12 hours';
END
$$;

-- What a proof is to be computed with. A name without a password is answered as any other: with a salt of its own, and the
-- parameters of an account that is always the same for it, so that neither the answer nor the time that it costs tells.
CREATE FUNCTION webhook.console_sign_in_parameters(
    named text, OUT salt bytea, OUT memory_kib integer, OUT passes integer, OUT parallelism integer
)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own webhook.account;
    other webhook.account;
    mark bytea;
BEGIN
    SELECT sha256(sign_in_key.key || convert_to(named, 'UTF8')) INTO STRICT mark FROM webhook.sign_in_key;
    SELECT account.* INTO own FROM webhook.account WHERE account.name = named AND account.verifier IS NOT NULL;
    SELECT account.* INTO other
    FROM webhook.account
    WHERE account.verifier IS NOT NULL
    ORDER BY sha256(mark || int8send(account.id))
    LIMIT 1;
    salt := coalesce(own.salt, substr(mark, 1, 16));
    memory_kib := coalesce(own.memory_kib, other.memory_kib, 65536);
    passes := coalesce(own.passes, other.passes, 3);
    parallelism := coalesce(own.parallelism, other.parallelism, 4);
END
$$;

-- How long a try of this name from this address has to wait, in whole seconds; null: it need not. Nothing is counted, and
-- nobody kept out: console_sign_in looks again.
CREATE FUNCTION webhook.console_sign_in_wait(named text, address inet) RETURNS interval
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
SELECT max(webhook.wait_after_failures(sign_in_failure.subject, sign_in_failure.failed_at))
FROM webhook.sign_in_failure
WHERE sign_in_failure.subject = ANY(webhook.sign_in_subjects(named, address))
$$;

-- Sign somebody in by a proof of the password. Outcome: signed_in; refused (no such account, no password or a wrong one, all
-- alike); locked: it was not looked at, and is not for retry_after; disabled, which only the right password is told. Where
-- the next try would be locked, a refusal tells retry_after too. Who has not proven to be a person is not named as one, and
-- a name that is none is not written down: it may be a password.
CREATE FUNCTION webhook.console_sign_in(
    named text, proof bytea, session bytea, address inet, agent text,
    OUT outcome text, OUT retry_after interval, OUT person text, OUT expires_at timestamptz
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    subjects CONSTANT text [] := webhook.sign_in_subjects(named, console_sign_in.address);
    own webhook.account;
    is_right boolean;
BEGIN
    retry_after := webhook.lock_failures(subjects);
    IF retry_after IS NOT NULL THEN
        outcome := 'locked';
        RETURN;
    END IF;
    SELECT account.* INTO own FROM webhook.account WHERE account.name = named;
    is_right := coalesce(sha256(proof) = coalesce(own.verifier, ''), false);
    IF NOT is_right THEN
        outcome := 'refused';
        retry_after := webhook.count_failure(subjects);
        INSERT INTO webhook.audit (action, after)
        VALUES (
            'sign-in refused',
            jsonb_build_object(
                'account', own.name, 'address', host(console_sign_in.address),
                'locked_seconds', extract(EPOCH FROM retry_after)::integer
            )
        );
        RETURN;
    END IF;
    -- Once more, and kept from changing: the password may have been replaced just now.
    SELECT account.* INTO own
    FROM webhook.account
    WHERE account.name = named AND account.verifier = sha256(proof)
    FOR NO KEY UPDATE;
    outcome := CASE WHEN own.id IS NULL THEN 'refused' WHEN own.is_disabled THEN 'disabled' ELSE 'signed_in' END;
    IF outcome = 'signed_in' THEN
        person := own.name;
        expires_at := webhook.begin_session(own, session, console_sign_in.address, console_sign_in.agent, 'password');
    END IF;
END
$$;

-- Sign somebody in by a code, once. A wrong one counts for its address alone, and what locks a name does not lock out who
-- has a code. Outcome: as console_sign_in.
CREATE FUNCTION webhook.console_sign_in_by_code(
    code bytea, session bytea, address inet, agent text,
    OUT outcome text, OUT retry_after interval, OUT person text, OUT expires_at timestamptz
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    subjects CONSTANT text [] := webhook.sign_in_subjects(NULL, console_sign_in_by_code.address);
    own webhook.account;
    whose bigint;
BEGIN
    retry_after := webhook.lock_failures(subjects);
    IF retry_after IS NOT NULL THEN
        outcome := 'locked';
        RETURN;
    END IF;
    UPDATE webhook.sign_in_code SET used_at = clock_timestamp()
    WHERE
        sign_in_code.hash = code AND sign_in_code.used_at IS NULL
        AND sign_in_code.expires_at > clock_timestamp()
    RETURNING sign_in_code.account_id INTO whose;
    IF NOT FOUND THEN
        outcome := 'refused';
        retry_after := webhook.count_failure(subjects);
        INSERT INTO webhook.audit (action, after)
        VALUES ('sign-in refused', jsonb_build_object('by', 'code', 'address', host(console_sign_in_by_code.address)));
        RETURN;
    END IF;
    SELECT account.* INTO STRICT own FROM webhook.account WHERE account.id = whose FOR NO KEY UPDATE;
    outcome := CASE WHEN own.is_disabled THEN 'disabled' ELSE 'signed_in' END;
    IF outcome = 'signed_in' THEN
        person := own.name;
        expires_at := webhook.begin_session(
            own, session, console_sign_in_by_code.address, console_sign_in_by_code.agent, 'code'
        );
    END IF;
END
$$;

-- Sign somebody in whom a proxy has signed in: only who has no other way in. Outcome: signed_in, refused or disabled.
CREATE FUNCTION webhook.console_sign_in_by_proxy(
    named text, session bytea, address inet, agent text, OUT outcome text, OUT person text, OUT expires_at timestamptz
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    own webhook.account;
BEGIN
    SELECT account.* INTO own
    FROM webhook.account
    WHERE account.name = named AND account.is_by_proxy
    FOR NO KEY UPDATE;
    outcome := CASE WHEN own.id IS NULL THEN 'refused' WHEN own.is_disabled THEN 'disabled' ELSE 'signed_in' END;
    IF outcome = 'signed_in' THEN
        person := own.name;
        expires_at := webhook.begin_session(
            own, session, console_sign_in_by_proxy.address, console_sign_in_by_proxy.agent, 'proxy'
        );
    END IF;
END
$$;

-- Whose session this is and what it may do; no row: it is over. Is_active: the person asks, and no page by itself; that is
-- written down once a minute, never waiting, and revives no right that idleness has ended.
CREATE FUNCTION webhook.console_person(
    session bytea, is_active boolean,
    OUT name text, OUT role text, OUT is_by_proxy boolean, OUT language text, OUT time_zone text, OUT theme text,
    OUT may_change boolean, OUT changes_until timestamptz, OUT expires_at timestamptz
)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    IF is_active THEN
        PERFORM FROM webhook.console_session
        WHERE
            console_session.hash = session
            AND console_session.acted_at <= clock_timestamp() - interval '1 minute'
            AND console_session.acted_at > clock_timestamp() - interval '15 minutes'
            AND console_session.expires_at > clock_timestamp()
            AND console_session.revoked_at IS NULL
        FOR NO KEY UPDATE SKIP LOCKED;
        IF FOUND THEN
            UPDATE webhook.console_session SET acted_at = clock_timestamp() WHERE console_session.hash = session;
        END IF;
    END IF;
    RETURN QUERY
    SELECT
        live_sessions.name, live_sessions.role, live_sessions.is_by_proxy, live_sessions.language,
        live_sessions.time_zone, live_sessions.theme,
        coalesce(live_sessions.changes_until > clock_timestamp(), false),
        live_sessions.changes_until, live_sessions.expires_at
    FROM webhook.live_sessions
    WHERE live_sessions.hash = session;
END
$$;

-- Find who reads by the session, and let the rest of this transaction (a statement, where there is no other) see what the
-- console shows. No row: the session is over; nothing is seen then.
CREATE FUNCTION webhook.console_reader(session bytea, OUT name text, OUT role text) RETURNS SETOF record
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT live_sessions.name, live_sessions.role INTO name, role
    FROM webhook.live_sessions
    WHERE live_sessions.hash = session;
    IF FOUND THEN
        PERFORM set_config('webhook.console_session', encode(session, 'hex'), true);
        RETURN NEXT;
    ELSE
        PERFORM set_config('webhook.console_session', '', true);
    END IF;
END
$$;

-- What the person may whom console_reader() found in this transaction; null before it found anybody. Looked up by the session
-- once more: the setting alone, which anybody can write, opens nothing.
CREATE FUNCTION webhook.current_person_role() RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (
        SELECT live_sessions.role
        FROM webhook.live_sessions
        WHERE live_sessions.hash = decode(nullif(current_setting('webhook.console_session', true), ''), 'hex')
    );
END
$$;

-- Who that is.
CREATE FUNCTION webhook.current_person() RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (
        SELECT live_sessions.name
        FROM webhook.live_sessions
        WHERE live_sessions.hash = decode(nullif(current_setting('webhook.console_session', true), ''), 'hex')
    );
END
$$;

-- End a session; false where it was over before.
CREATE FUNCTION webhook.console_sign_out(session bytea) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    whose text;
BEGIN
    SELECT live_sessions.name INTO whose FROM webhook.live_sessions WHERE live_sessions.hash = session;
    UPDATE webhook.console_session SET revoked_at = clock_timestamp()
    WHERE console_session.hash = session AND console_session.revoked_at IS NULL AND whose IS NOT NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM webhook.audit_account(whose, 'signed out', NULL, NULL);
    RETURN true;
END
$$;

-- End an account's sessions but one; returns how many.
CREATE FUNCTION webhook.revoke_sessions(whose bigint, remaining bytea) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    revoked bigint;
BEGIN
    UPDATE webhook.console_session SET revoked_at = clock_timestamp()
    WHERE
        console_session.account_id = whose AND console_session.hash IS DISTINCT FROM remaining
        AND console_session.revoked_at IS NULL AND console_session.expires_at > clock_timestamp();
    GET DIAGNOSTICS revoked = ROW_COUNT;
    RETURN revoked;
END
$$;

-- Whose session this is, for what everybody may do with their own account; keeps the account as it is until the transaction
-- ends. WD001: the session is over.
CREATE FUNCTION webhook.own_account(session bytea) RETURNS webhook.account
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own webhook.account;
BEGIN
    SELECT account.* INTO own
    FROM webhook.account
    WHERE account.id = (SELECT console_session.account_id FROM webhook.console_session WHERE console_session.hash = session)
    FOR NO KEY UPDATE;
    -- A statement of its own: it sees what was changed while the one before waited.
    PERFORM FROM webhook.live_sessions WHERE live_sessions.hash = session;
    IF NOT FOUND THEN
        RAISE SQLSTATE 'WD001' USING MESSAGE = 'the session is over', HINT = 'sign in again';
    END IF;
    RETURN own;
END
$$;

-- The sessions of the person whose session this is, that one first, then by when they were used last. Mark: names a session,
-- and opens nothing. No row: this one is over.
CREATE FUNCTION webhook.console_own_sessions(
    session bytea, most bigint,
    OUT mark bytea, OUT began_at timestamptz, OUT acted_at timestamptz, OUT expires_at timestamptz, OUT address inet,
    OUT agent text, OUT is_this boolean
)
RETURNS SETOF record
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT
        sha256(own.hash), own.began_at, own.acted_at, own.expires_at, own.address, own.agent, own.hash = session
    FROM webhook.live_sessions AS its
    CROSS JOIN LATERAL (
        SELECT console_session.*
        FROM webhook.console_session
        WHERE
            console_session.account_id = its.account_id
            AND console_session.expires_at > clock_timestamp()
            AND console_session.revoked_at IS NULL
        ORDER BY console_session.hash = session DESC, console_session.acted_at DESC
        LIMIT most
    ) AS own
    WHERE its.hash = session;
END
$$;

-- End one session of the person whose session this is; false where there is none with that mark, or it is over. WD001.
CREATE FUNCTION webhook.console_revoke_session(session bytea, mark bytea) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own webhook.account := webhook.own_account(session);
    ended webhook.console_session;
BEGIN
    UPDATE webhook.console_session SET revoked_at = clock_timestamp()
    WHERE
        console_session.account_id = own.id
        AND sha256(console_session.hash) = mark
        AND console_session.revoked_at IS NULL
        AND console_session.expires_at > clock_timestamp()
    RETURNING console_session.* INTO ended;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM webhook.audit_account(
        own.name, 'session ended', NULL,
        jsonb_build_object('began_at', ended.began_at, 'address', host(ended.address), 'agent', ended.agent)
    );
    RETURN true;
END
$$;

-- End all other sessions of the person whose session this is; returns how many. WD001.
CREATE FUNCTION webhook.console_revoke_sessions(session bytea) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own webhook.account := webhook.own_account(session);
    revoked bigint := webhook.revoke_sessions(own.id, session);
BEGIN
    PERFORM webhook.audit_account(own.name, 'sessions ended', NULL, jsonb_build_object('sessions', revoked));
    RETURN revoked;
END
$$;

-- Keep how a person wants pages to look; null: as the browser says. WD001.
CREATE FUNCTION webhook.console_preferences(session bytea, language text, time_zone text, theme text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    own webhook.account := webhook.own_account(session);
BEGIN
    UPDATE webhook.account
    SET
        language = console_preferences.language,
        time_zone = console_preferences.time_zone,
        theme = console_preferences.theme
    WHERE account.id = own.id;
    RETURN true;
END
$$;

-- Replace a person's own password, by a proof of the one before, which is counted as at signing in; ends the person's other
-- sessions. Outcome: changed, refused, locked, or no_password (there is none to be replaced). WD001.
CREATE FUNCTION webhook.console_change_password(
    session bytea, proof bytea, salt bytea, memory_kib integer, passes integer, parallelism integer, verifier bytea,
    OUT outcome text, OUT retry_after interval
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    subjects text [];
    own webhook.account;
BEGIN
    -- Failures are locked before accounts, as at signing in.
    SELECT webhook.sign_in_subjects(live_sessions.name, live_sessions.address) INTO subjects
    FROM webhook.live_sessions
    WHERE live_sessions.hash = session;
    retry_after := webhook.lock_failures(coalesce(subjects, '{}'));
    own := webhook.own_account(session);
    IF own.verifier IS NULL THEN
        outcome := 'no_password';
    ELSIF retry_after IS NOT NULL THEN
        outcome := 'locked';
    ELSIF coalesce(sha256(proof) = own.verifier, false) THEN
        outcome := 'changed';
        UPDATE webhook.account
        SET
            salt = console_change_password.salt,
            memory_kib = console_change_password.memory_kib,
            passes = console_change_password.passes,
            parallelism = console_change_password.parallelism,
            verifier = console_change_password.verifier
        WHERE account.id = own.id;
        PERFORM webhook.audit_account(
            own.name, 'password changed', NULL,
            jsonb_build_object('sessions_ended', webhook.revoke_sessions(own.id, session))
        );
    ELSE
        outcome := 'refused';
        retry_after := webhook.count_failure(subjects);
        PERFORM webhook.audit_account(own.name, 'password change refused', NULL, NULL);
    END IF;
END
$$;

-- What the command line does with accounts. First, make one: false where there is one of that name. Without a password (all
-- of its parts null) the person signs in by codes or, is_by_proxy, by a proxy.
CREATE FUNCTION webhook.add_account(
    named text, given_role text, is_by_proxy boolean, salt bytea, memory_kib integer, passes integer,
    parallelism integer, verifier bytea, added_by text
)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    person text := coalesce(nullif(left(btrim(added_by), 200), ''), session_user);
BEGIN
    INSERT INTO webhook.account (
        name, role, is_by_proxy, salt, memory_kib, passes, parallelism, verifier, created_by
    )
    VALUES (
        named, given_role, add_account.is_by_proxy, add_account.salt, add_account.memory_kib, add_account.passes,
        add_account.parallelism, add_account.verifier, person
    )
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM webhook.audit_account(
        person, 'account added', NULL,
        jsonb_build_object('account', named, 'role', given_role, 'is_by_proxy', add_account.is_by_proxy)
    );
    RETURN true;
END
$$;

-- Give an account a password, end its sessions, and forget the wrong ones that were given for it. 'changed', 'by_proxy' (it
-- may have none), or null: there is no such account.
CREATE FUNCTION webhook.set_account_password(
    named text, salt bytea, memory_kib integer, passes integer, parallelism integer, verifier bytea, set_by text
)
RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own webhook.account;
BEGIN
    -- Before the account, as at signing in.
    DELETE FROM webhook.sign_in_failure WHERE sign_in_failure.subject = 'name ' || named;
    SELECT account.* INTO own FROM webhook.account WHERE account.name = named FOR NO KEY UPDATE;
    IF own.id IS NULL OR own.is_by_proxy THEN
        RETURN CASE WHEN own.id IS NOT NULL THEN 'by_proxy' END;
    END IF;
    UPDATE webhook.account
    SET
        salt = set_account_password.salt,
        memory_kib = set_account_password.memory_kib,
        passes = set_account_password.passes,
        parallelism = set_account_password.parallelism,
        verifier = set_account_password.verifier
    WHERE account.id = own.id;
    PERFORM webhook.audit_account(
        set_by, 'password set', NULL,
        jsonb_build_object('account', named, 'sessions_ended', webhook.revoke_sessions(own.id, NULL))
    );
    RETURN 'changed';
END
$$;

-- Change what an account may do, at once: false where that is so already, null where there is no such account.
CREATE FUNCTION webhook.set_account_role(named text, given_role text, set_by text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own webhook.account;
BEGIN
    SELECT account.* INTO own FROM webhook.account WHERE account.name = named FOR NO KEY UPDATE;
    IF own.id IS NULL OR own.role = given_role THEN
        RETURN CASE WHEN own.id IS NOT NULL THEN false END;
    END IF;
    UPDATE webhook.account SET role = given_role WHERE account.id = own.id;
    PERFORM webhook.audit_account(
        set_by, 'account role changed', jsonb_build_object('account', named, 'role', own.role),
        jsonb_build_object('account', named, 'role', given_role)
    );
    RETURN true;
END
$$;

-- Disable an account, which ends its sessions at once, or let it sign in again: false where that is so already, null where
-- there is no such account.
CREATE FUNCTION webhook.set_account_disabled(named text, disabled boolean, set_by text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own webhook.account;
BEGIN
    SELECT account.* INTO own FROM webhook.account WHERE account.name = named FOR NO KEY UPDATE;
    IF own.id IS NULL OR own.is_disabled = disabled THEN
        RETURN CASE WHEN own.id IS NOT NULL THEN false END;
    END IF;
    UPDATE webhook.account SET is_disabled = disabled WHERE account.id = own.id;
    PERFORM webhook.audit_account(
        set_by, CASE WHEN disabled THEN 'account disabled' ELSE 'account enabled' END, NULL,
        jsonb_build_object('account', named, 'sessions_ended', webhook.revoke_sessions(own.id, NULL))
    );
    RETURN true;
END
$$;

-- Keep a code by which an account signs in once, within sixty seconds. State: made, disabled or unknown.
CREATE FUNCTION webhook.create_sign_in_code(
    named text, code bytea, created_by text, OUT state text, OUT expires_at timestamptz
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own webhook.account;
BEGIN
    SELECT account.* INTO own FROM webhook.account WHERE account.name = named FOR NO KEY UPDATE;
    state := CASE WHEN own.id IS NULL THEN 'unknown' WHEN own.is_disabled THEN 'disabled' ELSE 'made' END;
    IF state <> 'made' THEN
        RETURN;
    END IF;
    INSERT INTO webhook.sign_in_code (hash, account_id, expires_at)
    VALUES (code, own.id, clock_timestamp() + interval '60 seconds')
    RETURNING sign_in_code.expires_at INTO create_sign_in_code.expires_at;
    PERFORM webhook.audit_account(created_by, 'sign-in code made', NULL, jsonb_build_object('account', named));
END
$$;

-- 16. Console: what operators change

-- Who changes something by this session, named to the audit until the transaction ends. What changes an account waits until
-- then: once somebody is disabled or has another role, nothing more comes of what they could do before. WD001: the session
-- is over; WD002: the account may look, and change nothing; WD003: the person made no request for fifteen minutes.
CREATE FUNCTION webhook.person_who_changes(session bytea) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    its webhook.live_sessions;
BEGIN
    PERFORM FROM webhook.account
    WHERE account.id = (SELECT console_session.account_id FROM webhook.console_session WHERE console_session.hash = session)
    FOR SHARE;
    PERFORM FROM webhook.console_session WHERE console_session.hash = session FOR SHARE;
    -- A statement of its own: it sees what was changed while those before waited.
    SELECT live_sessions.* INTO its FROM webhook.live_sessions WHERE live_sessions.hash = session;
    IF NOT FOUND THEN
        RAISE SQLSTATE 'WD001' USING MESSAGE = 'the session is over', HINT = 'sign in again';
    ELSIF its.role <> 'operator' THEN
        RAISE SQLSTATE 'WD002' USING
            MESSAGE = 'viewers change nothing', HINT = format('webhook-dispatcher account role %s operator', its.name);
    ELSIF its.changes_until <= clock_timestamp() THEN
        RAISE SQLSTATE 'WD003' USING
            MESSAGE = 'the session was idle for fifteen minutes and changes nothing any more', HINT = 'sign in again';
    END IF;
    PERFORM set_config('webhook.person', its.name, true);
    RETURN its.name;
END
$$;

-- All that follows changes something for an operator, as console_... says: WD001, WD002, WD003.

-- Endpoints are added to merchants that the outbox takes events of, and to the platform.
CREATE FUNCTION webhook.person_who_configures(session bytea, merchant text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM webhook.person_who_changes(session);
    IF merchant IS DISTINCT FROM '$platform' THEN
        PERFORM webhook.event_can_be_sent(coalesce(merchant, ''), 'charge.created', clock_timestamp(), '{}');
    END IF;
END
$$;

-- Here and below, number: of the merchant's endpoint; programs for an older schema give none.
CREATE FUNCTION webhook.console_put_endpoint(
    session bytea, merchant text, url text, secret bytea, key_id text, types text[], keeps_types boolean,
    number smallint DEFAULT 1
)
RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM webhook.person_who_configures(session, merchant);
    RETURN webhook.put_endpoint(merchant, number, url, secret, key_id, types, keeps_types, NULL);
END
$$;

-- As add_endpoint().
CREATE FUNCTION webhook.console_add_endpoint(
    session bytea, merchant text, url text, secret bytea, key_id text, name text, types text[]
)
RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM webhook.person_who_configures(session, merchant);
    RETURN (webhook.add_endpoint(merchant, url, secret, key_id, name, types, NULL)).result;
END
$$;

CREATE FUNCTION webhook.console_set_order(
    session bytea, merchant text, at_once integer, number smallint DEFAULT 1
)
RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM webhook.person_who_changes(session);
    RETURN webhook.set_order(merchant, number, at_once);
END
$$;

CREATE FUNCTION webhook.console_rotate_secret(
    session bytea, merchant text, secret bytea, key_id text, overlap interval, hold boolean, number smallint DEFAULT 1,
    OUT result text, OUT previous_until timestamptz, OUT waiting bigint
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM webhook.person_who_changes(session);
    SELECT rotated.result, rotated.previous_until, rotated.waiting INTO result, previous_until, waiting
    FROM webhook.rotate_secret(merchant, number, secret, key_id, overlap, hold) AS rotated;
END
$$;

-- False where there is no endpoint.
CREATE FUNCTION webhook.console_remove_endpoint(session bytea, merchant text, number smallint DEFAULT 1) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    its_lane text;
BEGIN
    PERFORM webhook.person_who_changes(session);
    its_lane := webhook.lock_endpoint(merchant, number);
    DELETE FROM webhook.endpoint WHERE endpoint.merchant_id = its_lane;
    RETURN FOUND;
END
$$;

-- Give a command of the control table; returns its id.
CREATE FUNCTION webhook.console_command(session bytea, command text, merchant_id text, event_id uuid, args jsonb)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    person text := webhook.person_who_changes(session);
    given bigint;
BEGIN
    INSERT INTO webhook.control (command, merchant_id, event_id, args, requested_by)
    VALUES (
        console_command.command, console_command.merchant_id, console_command.event_id,
        coalesce(console_command.args, '{}'), person
    )
    RETURNING control.id INTO given;
    RETURN given;
END
$$;

-- As withdraw_command(): true if it was still waiting.
CREATE FUNCTION webhook.console_withdraw_command(session bytea, command_id bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN webhook.withdraw_command(command_id, webhook.person_who_changes(session));
END
$$;

-- As stop_command(): true if it had not ended.
CREATE FUNCTION webhook.console_stop_command(session bytea, command_id bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN webhook.stop_command(command_id, webhook.person_who_changes(session));
END
$$;

-- As create_api_key().
CREATE FUNCTION webhook.console_create_api_key(
    session bytea, merchant text, client_id text, secret_hash bytea, name text
)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    person text := webhook.person_who_changes(session);
BEGIN
    RETURN webhook.create_api_key(merchant, client_id, secret_hash, name, person);
END
$$;

-- As revoke_api_key(): false where it was revoked before, null where there is none.
CREATE FUNCTION webhook.console_revoke_api_key(session bytea, client_id text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN webhook.revoke_api_key(client_id, webhook.person_who_changes(session));
END
$$;

-- 17. Console: what is shown

-- Views that show nothing before console_reader() has found who reads. The condition has no column: it is asked before a scan
-- begins, and changes nothing about the plan. Who is no operator sees no payload and nothing of what merchants answered.

-- Deliveries: what is owed and what is finished, as webhook.owed and webhook.finished.
CREATE VIEW webhook.console_owed AS
SELECT
    seq, id AS event_id, merchant_id, type, created_at, attempts, due_at, claim IS NOT NULL AS is_claimed, trigger, on_failure,
    last_status, last_outcome, webhook.charge_key(object) COLLATE "C" AS charge_id, attempts_by_hand, scheduled_at,
    copy_of
FROM webhook.outbox
WHERE (SELECT webhook.current_person_role()) IS NOT NULL;

CREATE VIEW webhook.console_logged AS
SELECT
    seq, event_id, merchant_id, type, created_at, state, failed_reason, attempts, last_status, last_outcome, finished_at,
    webhook.charge_key(object) COLLATE "C" AS charge_id, endpoint, copy_of
FROM webhook.delivery_log
WHERE (SELECT webhook.current_person_role()) IS NOT NULL;

CREATE VIEW webhook.console_finished AS
SELECT
    seq, event_id, merchant_id, type, created_at, state, failed_reason, attempts, last_status, last_outcome, finished_at,
    webhook.charge_key(object) COLLATE "C" AS charge_id, endpoint, copy_of
FROM webhook.delivery_log
WHERE (SELECT webhook.current_person_role()) IS NOT NULL AND state IS NOT NULL;

-- Payloads, for operators alone.
CREATE VIEW webhook.console_payloads AS
SELECT id AS event_id, seq, object
FROM webhook.outbox
WHERE (SELECT webhook.current_person_role()) = 'operator'
UNION ALL
SELECT event_id, seq, object
FROM webhook.delivery_log
WHERE (SELECT webhook.current_person_role()) = 'operator';

-- What a merchant answered may repeat the payload.
CREATE VIEW webhook.console_attempts AS
SELECT
    event_id, merchant_id, attempt, trigger, started_at, duration_ms, status, outcome, reason,
    CASE WHEN (SELECT webhook.current_person_role()) = 'operator' THEN response_excerpt END AS response_excerpt
FROM webhook.attempt_log
WHERE (SELECT webhook.current_person_role()) IS NOT NULL;

-- Not whether a lane is held: with the clock among its columns the view could not be read in the order of an index.
CREATE VIEW webhook.console_lanes AS
SELECT
    merchant_id, paused, lease_until, owner, leased_at, wait_until, retry_at, endpoint_removed_at, last_success_at,
    failing_since, failures_in_a_row, suspended_at, last_failure_at, routed_at
FROM webhook.lane
WHERE (SELECT webhook.current_person_role()) IS NOT NULL;

CREATE VIEW webhook.console_endpoints AS
SELECT merchant_id, url, created_at, updated_at, secret_created_at, previous_until, types, at_once, id, name
FROM webhook.endpoint
WHERE (SELECT webhook.current_person_role()) IS NOT NULL;

CREATE VIEW webhook.console_api_keys AS
SELECT id, client_id, merchant_id, name, created_at, created_by, last_used_at, revoked_at, revoked_by
FROM webhook.api_key
WHERE (SELECT webhook.current_person_role()) IS NOT NULL;

CREATE VIEW webhook.console_commands AS
SELECT
    id, created_at, requested_by, command, merchant_id, event_id, args, status, running_until, stopping AS is_stopping,
    handled_at, result, error_code, error_message
FROM webhook.control
WHERE (SELECT webhook.current_person_role()) IS NOT NULL;

CREATE VIEW webhook.console_command_chunks AS
SELECT command_id, place, seqs, at
FROM webhook.command_chunk
WHERE (SELECT webhook.current_person_role()) IS NOT NULL;

-- Who signed in from where, and who changed what, for operators alone.
CREATE VIEW webhook.console_audit AS
SELECT id, at, role, person, action, merchant_id, before, after
FROM webhook.audit
WHERE (SELECT webhook.current_person_role()) = 'operator';

CREATE VIEW webhook.console_state AS
SELECT schema_version, compatible_from, paused, has_charge_index, has_feed_index, installation, system_identifier
FROM webhook.state
WHERE is_only AND (SELECT webhook.current_person_role()) IS NOT NULL;

CREATE VIEW webhook.console_dispatchers AS
SELECT
    owner, host, version, started_at, beat_at, lanes, attempts_in_flight, is_ready, reasons, faults, settings
FROM webhook.dispatcher
WHERE (SELECT webhook.current_person_role()) IS NOT NULL;

CREATE VIEW webhook.console_attempts_by_minute AS
SELECT minute, outcome, attempts
FROM webhook.attempts_by_minute
WHERE (SELECT webhook.current_person_role()) IS NOT NULL;

CREATE VIEW webhook.console_seq_by_minute AS
SELECT minute, seq
FROM webhook.seq_by_minute
WHERE (SELECT webhook.current_person_role()) IS NOT NULL;

CREATE VIEW webhook.console_sealing_keys AS
SELECT key_id, confirmed_at
FROM webhook.sealing_key
WHERE
    key_id = (SELECT current_sealing_key.key_id FROM webhook.current_sealing_key)
    AND (SELECT webhook.current_person_role()) IS NOT NULL;

-- The columns that sequences number, the number that each gave last and the highest that is there, and how many numbers a
-- session takes at once. A row of the highest number there can be says nothing: no sequence goes on behind it.
CREATE FUNCTION webhook.read_sequences()
RETURNS TABLE (column_name text, sequence text, given bigint, highest bigint, cached bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
SELECT named.column_name, named.sequence, named.given, coalesce(named.highest, 0), pg_sequence.seqcache
FROM (
    VALUES
    (
        'outbox.seq', 'outbox_seq_seq',
        (SELECT outbox_seq_seq.last_value - (NOT outbox_seq_seq.is_called)::integer FROM webhook.outbox_seq_seq),
        greatest(
            (SELECT max(outbox.seq) FROM webhook.outbox WHERE outbox.seq < 9223372036854775807),
            (SELECT max(delivery_log.seq) FROM webhook.delivery_log WHERE delivery_log.seq < 9223372036854775807),
            (SELECT max(endpoint.since_seq) FROM webhook.endpoint)
        )
    ),
    (
        'control.id', 'control_id_seq',
        (SELECT control_id_seq.last_value - (NOT control_id_seq.is_called)::integer FROM webhook.control_id_seq),
        (SELECT max(control.id) FROM webhook.control WHERE control.id < 9223372036854775807)
    ),
    (
        'audit.id', 'audit_id_seq',
        (SELECT audit_id_seq.last_value - (NOT audit_id_seq.is_called)::integer FROM webhook.audit_id_seq),
        (SELECT max(audit.id) FROM webhook.audit WHERE audit.id < 9223372036854775807)
    ),
    (
        'api_key.id', 'api_key_id_seq',
        (SELECT api_key_id_seq.last_value - (NOT api_key_id_seq.is_called)::integer FROM webhook.api_key_id_seq),
        (SELECT max(api_key.id) FROM webhook.api_key WHERE api_key.id < 9223372036854775807)
    ),
    (
        'account.id', 'account_id_seq',
        (SELECT account_id_seq.last_value - (NOT account_id_seq.is_called)::integer FROM webhook.account_id_seq),
        (SELECT max(account.id) FROM webhook.account WHERE account.id < 9223372036854775807)
    )
) AS named (column_name, sequence, given, highest)
INNER JOIN pg_sequence ON pg_sequence.seqrelid = ('webhook.' || named.sequence)::regclass
$$;

-- These set an endpoint for programs that know no filters.
CREATE FUNCTION webhook.own_put_endpoint(token bytea, url text, secret bytea, key_id text) RETURNS text
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
SELECT webhook.own_put_endpoint(token, coalesce(url, ''), secret, key_id, NULL, true)
$$;

CREATE FUNCTION webhook.console_put_endpoint(session bytea, merchant text, url text, secret bytea, key_id text)
RETURNS text
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
SELECT webhook.console_put_endpoint(session, merchant, coalesce(url, ''), secret, key_id, NULL, true)
$$;

-- 18. Rights, role by role

GRANT USAGE ON SCHEMA webhook
TO webhook_producer, webhook_admin, webhook_observer, webhook_dispatcher, webhook_api, webhook_console;

-- Everybody: what rows are judged and indexed by, and what holds nothing that not everybody may know.
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA webhook FROM public;
GRANT EXECUTE ON FUNCTION
webhook.event_can_be_sent, webhook.charge_key, webhook.server_identifier, webhook.command_merchant,
webhook.endpoint_without_secrets, webhook.refuse_change, webhook.merchant_of, webhook.endpoint_of, webhook.lane_named,
webhook.lanes_of, webhook.delivery_id, webhook.logged_endpoint
TO public;
GRANT SELECT (name, charge_path, created_at, retired_at) ON webhook.event_type TO public;
-- By name as well, so that who takes them from everybody takes nothing from these.
GRANT SELECT (name, charge_path, created_at, retired_at) ON webhook.event_type
TO webhook_producer, webhook_observer, webhook_api, webhook_console;
GRANT SELECT ON webhook.event_type TO webhook_admin, webhook_dispatcher;
GRANT EXECUTE ON FUNCTION webhook.charge_key
TO webhook_producer, webhook_admin, webhook_observer, webhook_dispatcher, webhook_api, webhook_console;
GRANT EXECUTE ON FUNCTION webhook.server_identifier
TO webhook_admin, webhook_observer, webhook_dispatcher, webhook_api, webhook_console;

-- The charge service: inserts events, and learns their numbers.
GRANT INSERT (id, merchant_id, type, created_at, object), SELECT (id, seq) ON webhook.outbox TO webhook_producer;

-- Operators and the command line.
GRANT SELECT ON
webhook.state, webhook.endpoint, webhook.control, webhook.audit, webhook.key_check, webhook.sealing_key, webhook.milestone,
webhook.lost_event, webhook.dispatcher, webhook.attempts_by_minute, webhook.deliveries, webhook.attempts, webhook.endpoints,
webhook.charges, webhook.responses, webhook.lanes, webhook.owed, webhook.logged, webhook.finished, webhook.attempted,
webhook.api_keys, webhook.accounts
TO webhook_admin;
GRANT INSERT (command, merchant_id, event_id, args, requested_by) ON webhook.control TO webhook_admin;
GRANT INSERT, UPDATE, DELETE ON webhook.endpoint TO webhook_admin;
-- The command line adds a sealing key that is missing. It replaces none: whoever could would have secrets sealed for himself.
GRANT INSERT ON webhook.key_check, webhook.sealing_key TO webhook_admin;
GRANT EXECUTE ON FUNCTION
webhook.adopt_installation, webhook.set_names, webhook.add_event_type, webhook.event_types_hold,
webhook.retire_event_type, webhook.withdraw_command, webhook.stop_command, webhook.read_sequences,
webhook.only_reads, webhook.lock_held(text), webhook.lock_held(text, smallint), webhook.add_endpoint, webhook.lane_of,
webhook.delivery_ids, webhook.create_api_key, webhook.revoke_api_key, webhook.add_account,
webhook.set_account_password, webhook.set_account_role, webhook.set_account_disabled, webhook.create_sign_in_code
TO webhook_admin;

-- Monitoring: no payload, and nothing of what merchants answered.
GRANT SELECT ON
webhook.state, webhook.attempts, webhook.attempted, webhook.endpoints, webhook.charges, webhook.api_keys, webhook.lost_event,
webhook.dispatcher, webhook.attempts_by_minute
TO webhook_observer;
GRANT SELECT (
    event_id, seq, merchant_id, type, created_at, state, failed_reason, attempts, next_attempt_at,
    last_status, last_outcome, finished_at
) ON webhook.deliveries TO webhook_observer;
GRANT SELECT (endpoint, copy_of) ON webhook.deliveries TO webhook_observer;
GRANT EXECUTE ON FUNCTION webhook.delivery_ids TO webhook_observer;

-- The daemon, and `check` as its login.
GRANT EXECUTE ON FUNCTION webhook.event_types_hold TO webhook_dispatcher;
GRANT SELECT, INSERT, UPDATE, DELETE ON
webhook.outbox, webhook.lane, webhook.delivery_log, webhook.attempt_log, webhook.unreported_failure, webhook.dispatcher,
webhook.attempts_by_minute, webhook.seq_by_minute, webhook.command_chunk
TO webhook_dispatcher;
GRANT SELECT, UPDATE ON webhook.state, webhook.endpoint TO webhook_dispatcher;
GRANT SELECT, UPDATE, DELETE ON webhook.control TO webhook_dispatcher;
GRANT SELECT, INSERT ON webhook.key_check, webhook.sealing_key TO webhook_dispatcher;
GRANT UPDATE (public_half, created_at, confirmed_at) ON webhook.sealing_key TO webhook_dispatcher;
GRANT SELECT, INSERT, DELETE ON webhook.milestone, webhook.lost_event TO webhook_dispatcher;
GRANT SELECT ON
webhook.deliveries, webhook.attempts, webhook.endpoints, webhook.charges, webhook.lanes, webhook.owed, webhook.logged,
webhook.finished, webhook.attempted
TO webhook_dispatcher;
GRANT SELECT, USAGE ON SEQUENCE webhook.outbox_seq_seq TO webhook_dispatcher;
GRANT EXECUTE ON FUNCTION
webhook.withdraw_command, webhook.stop_command, webhook.read_sequences, webhook.only_reads, webhook.lane_of,
webhook.become_direct, webhook.serve_unrouted, webhook.delivery_ids
TO webhook_dispatcher;
-- Upkeep clears away what expired. UPDATE is what locks need.
GRANT SELECT (hash, expires_at), UPDATE (expires_at), DELETE
ON webhook.api_token, webhook.api_request, webhook.console_session, webhook.sign_in_code TO webhook_dispatcher;
GRANT SELECT (subject, expires_at), UPDATE (expires_at), DELETE
ON webhook.api_usage, webhook.card_attempts, webhook.sign_in_failure TO webhook_dispatcher;
GRANT SELECT, UPDATE (expires_at), DELETE ON webhook.api_kept_bytes TO webhook_dispatcher;

-- The Partner API: no table of deliveries, endpoints or commands.
GRANT SELECT ON
webhook.state, webhook.milestone, webhook.cursor_key, webhook.sealing_key, webhook.current_sealing_key, webhook.own_endpoint,
webhook.own_deliveries, webhook.own_attempts, webhook.own_commands, webhook.own_owed, webhook.own_logged, webhook.own_finished,
webhook.own_owed_events, webhook.own_finished_events, webhook.own_endpoints, webhook.own_lanes
TO webhook_api;
GRANT EXECUTE ON FUNCTION
webhook.bearer, webhook.current_merchant, webhook.take_limits, webhook.release_limit, webhook.admit_token, webhook.issue_token,
webhook.note_key_use, webhook.own_set_order, webhook.own_put_endpoint(bytea, text, bytea, text),
webhook.own_put_endpoint(bytea, text, bytea, text, text[], boolean, text, uuid), webhook.own_add_endpoint,
webhook.own_rotate_secret, webhook.own_remove_endpoint, webhook.own_command,
webhook.own_begin_request, webhook.own_keep_request, webhook.own_kept_full_for, webhook.settle_request, webhook.forget_request,
webhook.timeline, webhook.feed_horizon, webhook.only_reads
TO webhook_api;

-- The console: whether this is a schema that the program serves, and of which installation; what secrets are sealed with; and
-- what the person may see and change whom its functions find.
GRANT SELECT ON
webhook.state, webhook.current_sealing_key, webhook.console_owed, webhook.console_logged, webhook.console_finished,
webhook.console_payloads,
webhook.console_attempts, webhook.console_lanes, webhook.console_endpoints, webhook.console_api_keys, webhook.console_commands,
webhook.console_command_chunks, webhook.console_audit, webhook.console_state, webhook.console_dispatchers,
webhook.console_attempts_by_minute, webhook.console_seq_by_minute, webhook.console_sealing_keys
TO webhook_console;
GRANT EXECUTE ON FUNCTION
webhook.console_sign_in_parameters, webhook.console_sign_in_wait, webhook.console_sign_in, webhook.console_sign_in_by_code,
webhook.console_sign_in_by_proxy, webhook.console_person, webhook.console_reader, webhook.current_person_role,
webhook.current_person, webhook.console_sign_out, webhook.console_own_sessions, webhook.console_revoke_session,
webhook.console_revoke_sessions, webhook.console_preferences, webhook.console_change_password,
webhook.console_set_order, webhook.console_add_endpoint, webhook.delivery_ids,
webhook.console_put_endpoint(bytea, text, text, bytea, text),
webhook.console_put_endpoint(bytea, text, text, bytea, text, text[], boolean, smallint),
webhook.console_rotate_secret, webhook.console_remove_endpoint,
webhook.console_command, webhook.console_withdraw_command, webhook.console_stop_command, webhook.console_create_api_key,
webhook.console_revoke_api_key
TO webhook_console;
