-- Why:   a merchant may have several endpoints: each is a lane of its own, into which what comes for the merchant is copied.
-- Locks: outbox, delivery_log, endpoint and lane, against everybody until this ends: milliseconds, and as long as it takes to
--        write endpoints and lanes once and to index them.
SET lock_timeout = '5s';
SET statement_timeout = '1min';
SET ROLE webhook_owner;

DO $$
DECLARE
    odd text;
BEGIN
    SELECT string_agg(quote_literal(named.merchant_id), ', ') INTO odd
    FROM (
        SELECT lane.merchant_id FROM webhook.lane WHERE lane.merchant_id LIKE E'%\x1f%'
        UNION
        SELECT endpoint.merchant_id FROM webhook.endpoint WHERE endpoint.merchant_id LIKE E'%\x1f%'
        LIMIT 5
    ) AS named;
    IF odd IS NOT NULL THEN
        RAISE check_violation USING
            MESSAGE = format('ids of merchants hold U+001F, which names lanes from now on: %s', odd),
            HINT = 'take away what these own; no event could be written for them';
    END IF;
END
$$;

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

-- What an event must be. PostgreSQL reads and compiles every CHECK of a table anew for each INSERT of a producer; a function is
-- compiled once in a session. What breaks a rule is told without the row, which would end up in logs. Names are given in full,
-- or a producer could put types, operators and functions of its own before the server's; SET search_path would cost more at
-- each call. Only dispatchers write to the platform: events of a merchant of its own, for which nobody else writes. The type
-- is asked for last: only then, and only of a type that is none of ours, a table is read.
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

-- Columns that no row has yet take no room in those there are.
ALTER TABLE webhook.outbox ADD COLUMN copy_of uuid;
-- squawk-ignore ban-drop-not-null
ALTER TABLE webhook.outbox ALTER COLUMN xid DROP NOT NULL;
COMMENT ON COLUMN webhook.outbox.xid IS
'The transaction that inserted the event; by (xid, seq) merchants read on. It goes with the row into the log and back. A copy has none.';
ALTER TABLE webhook.delivery_log ADD COLUMN copy_of uuid;
ALTER TABLE webhook.delivery_log ADD COLUMN endpoint smallint;
-- squawk-ignore ban-drop-not-null
ALTER TABLE webhook.delivery_log ALTER COLUMN xid DROP NOT NULL;
ALTER TABLE webhook.lane ADD COLUMN routed_at timestamptz;
-- Small, and written once.
-- squawk-ignore adding-field-with-default
ALTER TABLE webhook.endpoint ADD COLUMN id uuid NOT NULL DEFAULT gen_random_uuid();
ALTER TABLE webhook.endpoint
ADD COLUMN name text CONSTRAINT name_has_1_to_100_characters CHECK (length(btrim(name)) BETWEEN 1 AND 100);
ALTER TABLE webhook.endpoint ADD COLUMN since_seq bigint NOT NULL DEFAULT 0;
-- squawk-ignore constraint-missing-not-valid
ALTER TABLE webhook.endpoint ADD CONSTRAINT merchant_id_is_a_lane
CHECK (merchant_id ~ E'^[^\\u001f]*(\\u001f[1-9][0-9]{0,2})?$');
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX endpoint_merchant ON webhook.endpoint (webhook.merchant_of(merchant_id));
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX lane_routed ON webhook.lane (merchant_id) WHERE routed_at IS NOT NULL;
-- squawk-ignore require-concurrent-index-creation
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
CREATE OR REPLACE FUNCTION webhook.recall_lane() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    is_other boolean := TG_OP <> 'UPDATE' OR NEW.url <> OLD.url;
    has_several boolean;
BEGIN
    -- Who routes goes by who there is and what they want; the lane is locked until this is so.
    IF TG_OP <> 'UPDATE' OR NEW.types IS DISTINCT FROM OLD.types THEN
        UPDATE webhook.lane SET recalled = lane.recalled OR lane.lease_until > '-infinity'
        WHERE
            lane.merchant_id = webhook.merchant_of(coalesce(NEW.merchant_id, OLD.merchant_id)) AND lane.routed_at IS NOT NULL;
    END IF;
    INSERT INTO webhook.lane AS lane (merchant_id, endpoint_removed_at)
    VALUES (
        coalesce(NEW.merchant_id, OLD.merchant_id),
        CASE TG_OP WHEN 'DELETE' THEN clock_timestamp() END
    )
    ON CONFLICT (merchant_id) DO UPDATE SET
        recalled = lane.recalled OR lane.lease_until > '-infinity',
        -- A suspended merchant rests on unless its URL or secret is another: a rekey, which is of all at once, changes neither.
        wait_until = CASE
            WHEN lane.suspended_at IS NULL OR is_other OR NEW.secret_created_at <> OLD.secret_created_at THEN '-infinity'
            ELSE lane.wait_until
        END,
        paused = lane.paused AND TG_OP <> 'DELETE',
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

CREATE OR REPLACE VIEW webhook.endpoints AS
SELECT
    webhook.merchant_of(endpoint.merchant_id) AS merchant_id, endpoint.url, coalesce(lane.paused, false) AS paused, endpoint.created_at, endpoint.updated_at,
    endpoint.secret_created_at, lane.last_success_at, lane.failing_since,
    coalesce(lane.failures_in_a_row, 0) AS failures_in_a_row, lane.suspended_at, endpoint.types, endpoint.at_once,
    coalesce(webhook.endpoint_of(endpoint.merchant_id), 1::smallint) AS number, endpoint.id, endpoint.name
FROM webhook.endpoint
LEFT JOIN webhook.lane ON lane.merchant_id = endpoint.merchant_id;

-- The condition stands behind UNION ALL: within it, it would keep the planner from reading both in the order of their indexes.
CREATE OR REPLACE VIEW webhook.deliveries AS
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
CREATE OR REPLACE VIEW webhook.charges AS
SELECT webhook.charge_key(object) COLLATE "C" AS charge_id, id AS event_id, seq, merchant_id
FROM webhook.outbox
WHERE copy_of IS NULL
UNION ALL
SELECT webhook.charge_key(object) COLLATE "C" AS charge_id, event_id, seq, merchant_id
FROM webhook.delivery_log
WHERE copy_of IS NULL;

-- By merchant and by number each half is found by its index. The condition is one that the planner takes for true of nearly all.
CREATE OR REPLACE VIEW webhook.attempts AS
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
CREATE OR REPLACE VIEW webhook.responses AS
SELECT event_id, webhook.merchant_of(merchant_id) AS merchant_id, attempt, started_at, response_excerpt,
    webhook.endpoint_of(merchant_id) AS endpoint
FROM webhook.attempt_log
WHERE response_excerpt IS NOT NULL;

-- What the command line reads: lanes, what is owed and what is finished, apart from each other and by columns that
-- indexes can find and sort by. No payload. is_held: somebody's lease of it runs.
CREATE OR REPLACE VIEW webhook.lanes AS
SELECT
    merchant_id, paused, lease_until > clock_timestamp() AS is_held, owner, leased_at, wait_until, retry_at,
    endpoint_removed_at, last_success_at, failing_since, failures_in_a_row, suspended_at, last_failure_at, routed_at
FROM webhook.lane;

CREATE OR REPLACE VIEW webhook.owed AS
SELECT
    seq, id AS event_id, merchant_id, type, created_at, attempts, due_at, claim IS NOT NULL AS is_claimed, trigger, on_failure,
    last_status, last_outcome, webhook.charge_key(object) COLLATE "C" AS charge_id, attempts_by_hand, scheduled_at,
    copy_of
FROM webhook.outbox;

-- With what nobody wanted, for what looks at a bounded number of rows, or says what became of an event.
CREATE OR REPLACE VIEW webhook.logged AS
SELECT
    seq, event_id, merchant_id, type, created_at, state, failed_reason, attempts, last_status, last_outcome, finished_at,
    webhook.charge_key(object) COLLATE "C" AS charge_id, endpoint, copy_of
FROM webhook.delivery_log;

CREATE OR REPLACE VIEW webhook.finished AS
SELECT
    seq, event_id, merchant_id, type, created_at, state, failed_reason, attempts, last_status, last_outcome, finished_at,
    charge_id, endpoint, copy_of
FROM webhook.logged
WHERE state IS NOT NULL;

-- An endpoint as the audit tells it: all but the secrets.
CREATE OR REPLACE FUNCTION webhook.endpoint_without_secrets(endpoint webhook.endpoint) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT jsonb_build_object(
    'merchant_id', webhook.merchant_of(endpoint.merchant_id), 'url', endpoint.url, 'key_id', endpoint.key_id, 'secret_created_at', endpoint.secret_created_at,
    'previous_key_id', endpoint.previous_key_id, 'previous_until', endpoint.previous_until, 'types', endpoint.types,
    'at_once', endpoint.at_once, 'endpoint', coalesce(webhook.endpoint_of(endpoint.merchant_id), 1), 'name', endpoint.name
)
$$;

CREATE OR REPLACE FUNCTION webhook.audit_endpoint() RETURNS trigger
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

CREATE OR REPLACE FUNCTION webhook.command_subject(given webhook.control) RETURNS text
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

-- Whose delivery a command for this event would find: the one that is owed, else the latest. command_subject() finds the
-- same, and stops at what is owed; this reads as much whether the event is owed, finished or nobody's, so that the time
-- it takes does not tell a merchant which ids are others'. Null: there is none, or it cannot be read.
CREATE OR REPLACE FUNCTION webhook.event_merchant(event_id uuid) RETURNS text
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

-- squawk-ignore ban-drop-function
DROP FUNCTION webhook.put_endpoint(text, text, bytea, text, text[], boolean);
-- squawk-ignore ban-drop-function
DROP FUNCTION webhook.set_order(text, integer);
-- squawk-ignore ban-drop-function
DROP FUNCTION webhook.rotate_secret(text, bytea, text, interval, boolean);

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
CREATE OR REPLACE FUNCTION webhook.lock_held(merchant text) RETURNS text
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
    IF own.paused THEN
        UPDATE webhook.lane SET paused = true WHERE lane.merchant_id = webhook.lane_named(merchant, add_endpoint.number);
    END IF;
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
        endpoint_removed_at = CASE WHEN NOT is_configured THEN clock_timestamp() END
    WHERE lane.merchant_id = merchant;
    -- What it owes is handed on when it is due.
    UPDATE webhook.lane
    SET
        epoch = floor(random() * 9007199254740992), lease_until = '-infinity', recalled = false, paused = false,
        suspended_at = NULL, wait_until = '-infinity', retry_at = clock_timestamp()
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

-- The oldest schema whose programs may work beside what is in use: whoever takes some of that away lowers it to this.
CREATE OR REPLACE FUNCTION webhook.oldest_served() RETURNS integer
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

ALTER TYPE webhook.admission
ADD ATTRIBUTE number smallint, ADD ATTRIBUTE id uuid, ADD ATTRIBUTE name text;

-- Let a request in: whose access token it is, whether it still holds, and one taken of its key's limit, if it does. With
-- its merchant's endpoint, which the token alone finds. Clock: for tests, of the limit alone.
CREATE OR REPLACE FUNCTION webhook.admit_token(
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

-- What merchants see of themselves. A statement that forgets bearer() finds nothing here. Nothing but the view's own condition,
-- and what cannot tell anything, is asked of another's row: whoever connects may make functions in pg_temp, and one that costs
-- nothing would be called before. Behind such a barrier no order reaches an index, so that those of which lists are read bring
-- the lists' own.
CREATE OR REPLACE VIEW webhook.own_deliveries WITH (security_barrier) AS
SELECT
    event_id, seq, merchant_id, type, created_at, state, failed_reason, attempts, next_attempt_at, last_status, last_outcome,
    finished_at, object, endpoint, copy_of
FROM webhook.deliveries
WHERE merchant_id = (SELECT webhook.current_merchant());

CREATE OR REPLACE VIEW webhook.own_attempts WITH (security_barrier) AS
SELECT
    event_id, webhook.merchant_of(merchant_id) AS merchant_id, attempt, trigger, started_at, duration_ms, status, outcome, reason,
    webhook.endpoint_of(merchant_id) AS endpoint
FROM webhook.attempt_log
WHERE webhook.merchant_of(merchant_id) = (SELECT webhook.current_merchant());

-- What merchants read of their deliveries. What is owed and what is finished apart, by columns that indexes find and
-- sort by; charge_id as in webhook.charges. The merchant is compared inside CASE: a statement says itself by which
-- index its rows are found, and this condition, which is the second wall, changes nothing about the plan.
-- ELSE, which is never true, makes it the dearer one of two: the statement's own is looked at first, and of what is
-- another's current_merchant() is not called, as it is not of what is not there.
CREATE OR REPLACE VIEW webhook.own_owed WITH (security_barrier) AS
SELECT
    seq, id AS event_id, merchant_id, type, created_at, attempts, due_at, claim IS NOT NULL AS is_claimed, on_failure,
    last_status, last_outcome, webhook.charge_key(object) COLLATE "C" AS charge_id, object, copy_of
FROM webhook.outbox
WHERE CASE
    WHEN webhook.merchant_of(merchant_id) = (SELECT webhook.current_merchant()) THEN true
    ELSE merchant_id <> merchant_id OR seq <> seq
END
ORDER BY merchant_id DESC, seq DESC;

CREATE OR REPLACE VIEW webhook.own_logged WITH (security_barrier) AS
SELECT
    seq, event_id, merchant_id, type, created_at, state, failed_reason, attempts, last_status, last_outcome, finished_at,
    webhook.charge_key(object) COLLATE "C" AS charge_id, object, endpoint, copy_of
FROM webhook.delivery_log
WHERE CASE WHEN merchant_id = (SELECT webhook.current_merchant()) THEN true ELSE merchant_id <> merchant_id END
ORDER BY merchant_id DESC, seq DESC;

CREATE OR REPLACE VIEW webhook.own_finished WITH (security_barrier) AS
SELECT
    seq, event_id, merchant_id, type, created_at, state, failed_reason, attempts, last_status, last_outcome, finished_at,
    webhook.charge_key(object) COLLATE "C" AS charge_id, object, endpoint, copy_of
FROM webhook.delivery_log
WHERE CASE WHEN merchant_id = (SELECT webhook.current_merchant()) THEN true ELSE merchant_id <> merchant_id END
    AND state IS NOT NULL
ORDER BY merchant_id DESC, seq DESC;

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

CREATE OR REPLACE VIEW webhook.own_endpoint WITH (security_barrier) AS
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

-- squawk-ignore ban-drop-function
DROP FUNCTION webhook.console_put_endpoint(bytea, text, text, bytea, text, text[], boolean);
-- squawk-ignore ban-drop-function
DROP FUNCTION webhook.console_set_order(bytea, text, integer);
-- squawk-ignore ban-drop-function
DROP FUNCTION webhook.console_rotate_secret(bytea, text, bytea, text, interval, boolean);
-- squawk-ignore ban-drop-function
DROP FUNCTION webhook.console_remove_endpoint(bytea, text);

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

-- Deliveries: what is owed and what is finished, as webhook.owed and webhook.finished.
CREATE OR REPLACE VIEW webhook.console_owed AS
SELECT
    seq, id AS event_id, merchant_id, type, created_at, attempts, due_at, claim IS NOT NULL AS is_claimed, trigger, on_failure,
    last_status, last_outcome, webhook.charge_key(object) COLLATE "C" AS charge_id, attempts_by_hand, scheduled_at,
    copy_of
FROM webhook.outbox
WHERE (SELECT webhook.current_person_role()) IS NOT NULL;

CREATE OR REPLACE VIEW webhook.console_logged AS
SELECT
    seq, event_id, merchant_id, type, created_at, state, failed_reason, attempts, last_status, last_outcome, finished_at,
    webhook.charge_key(object) COLLATE "C" AS charge_id, endpoint, copy_of
FROM webhook.delivery_log
WHERE (SELECT webhook.current_person_role()) IS NOT NULL;

CREATE OR REPLACE VIEW webhook.console_finished AS
SELECT
    seq, event_id, merchant_id, type, created_at, state, failed_reason, attempts, last_status, last_outcome, finished_at,
    webhook.charge_key(object) COLLATE "C" AS charge_id, endpoint, copy_of
FROM webhook.delivery_log
WHERE (SELECT webhook.current_person_role()) IS NOT NULL AND state IS NOT NULL;

-- Not whether a lane is held: with the clock among its columns the view could not be read in the order of an index.
CREATE OR REPLACE VIEW webhook.console_lanes AS
SELECT
    merchant_id, paused, lease_until, owner, leased_at, wait_until, retry_at, endpoint_removed_at, last_success_at,
    failing_since, failures_in_a_row, suspended_at, last_failure_at, routed_at
FROM webhook.lane
WHERE (SELECT webhook.current_person_role()) IS NOT NULL;

CREATE OR REPLACE VIEW webhook.console_endpoints AS
SELECT merchant_id, url, created_at, updated_at, secret_created_at, previous_until, types, at_once, id, name
FROM webhook.endpoint
WHERE (SELECT webhook.current_person_role()) IS NOT NULL;

-- The columns that sequences number, the number that each gave last and the highest that is there, and how many numbers a
-- session takes at once. A row of the highest number there can be says nothing: no sequence goes on behind it.
CREATE OR REPLACE FUNCTION webhook.read_sequences()
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

REVOKE EXECUTE ON FUNCTION
webhook.merchant_of, webhook.endpoint_of, webhook.lane_named, webhook.delivery_id, webhook.lane_of, webhook.place_endpoint,
webhook.lanes_of, webhook.lock_endpoint, webhook.serve_unrouted,
webhook.put_endpoint, webhook.set_order, webhook.lock_held(text, smallint), webhook.rotate_secret, webhook.add_endpoint,
webhook.become_direct, webhook.move_fares, webhook.delivery_ids
FROM public;
GRANT EXECUTE ON FUNCTION webhook.merchant_of, webhook.endpoint_of, webhook.lane_named, webhook.lanes_of, webhook.delivery_id TO public;
GRANT SELECT ON webhook.attempted TO webhook_admin, webhook_observer, webhook_dispatcher;
GRANT SELECT (endpoint, copy_of) ON webhook.deliveries TO webhook_observer;
GRANT EXECUTE ON FUNCTION webhook.delivery_ids TO webhook_admin, webhook_observer, webhook_dispatcher;
GRANT EXECUTE ON FUNCTION webhook.lane_of TO webhook_admin, webhook_dispatcher;
GRANT EXECUTE ON FUNCTION webhook.lock_held(text, smallint), webhook.add_endpoint TO webhook_admin;
GRANT EXECUTE ON FUNCTION webhook.become_direct, webhook.serve_unrouted TO webhook_dispatcher;
GRANT SELECT ON webhook.own_endpoints, webhook.own_lanes TO webhook_api;

-- What the Partner API calls, with the endpoint's id: programs that give none go on with these.
-- squawk-ignore ban-drop-function
DROP FUNCTION webhook.own_put_endpoint(bytea, text, bytea, text, text[], boolean);
-- squawk-ignore ban-drop-function
DROP FUNCTION webhook.own_set_order, webhook.own_rotate_secret, webhook.own_remove_endpoint, webhook.own_command;

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

REVOKE EXECUTE ON FUNCTION
webhook.endpoint_number, webhook.own_add_endpoint,
webhook.own_put_endpoint(bytea, text, bytea, text, text[], boolean, text, uuid), webhook.own_set_order,
webhook.own_rotate_secret, webhook.own_remove_endpoint, webhook.own_command
FROM public;
GRANT EXECUTE ON FUNCTION
webhook.own_add_endpoint, webhook.own_put_endpoint(bytea, text, bytea, text, text[], boolean, text, uuid),
webhook.own_set_order, webhook.own_rotate_secret, webhook.own_remove_endpoint, webhook.own_command
TO webhook_api;
REVOKE EXECUTE ON FUNCTION
webhook.person_who_configures, webhook.console_add_endpoint, webhook.console_set_order, webhook.console_rotate_secret,
webhook.console_remove_endpoint, webhook.console_put_endpoint(bytea, text, text, bytea, text, text[], boolean, smallint)
FROM public;
GRANT EXECUTE ON FUNCTION
webhook.console_add_endpoint, webhook.console_set_order, webhook.console_rotate_secret, webhook.console_remove_endpoint,
webhook.console_put_endpoint(bytea, text, text, bytea, text, text[], boolean, smallint), webhook.delivery_ids
TO webhook_console;

UPDATE webhook.state SET schema_version = 26;
