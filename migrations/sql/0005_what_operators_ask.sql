-- squawk-ignore-file ban-drop-constraint, require-concurrent-index-creation, require-concurrent-index-deletion
-- Why:   what an operator needs when a merchant calls: deliveries found by their charge, how each merchant fares, what an
--        attempt saw, who changed what, whether a key is the right one, which installation this is, and commands that
--        wait for those of their own merchant alone. Still serves programs for version 1.
-- Locks: lane, state, attempt_log, endpoint and control for a moment, together: whoever waits for the one while it
--        holds the other is let go first, within 0.3 s, each fifth time within 1.5 s. Of the log the parent alone, for
--        the rest of that moment and against writing only: the index that it gets has no rows. Outbox and the log's
--        partitions are not locked unless the schema is new: `migrate` makes their index afterwards, concurrently.
--        Without `migrate`, by hand, for the outbox and each partition p of delivery_log: CREATE INDEX CONCURRENTLY
--        p_charge ON webhook.p ((webhook.charge_key(object) COLLATE "C")); ALTER INDEX webhook.delivery_log_charge
--        ATTACH PARTITION webhook.p_charge. And where the log is not new, when it is quiet, for questions by state:
--        ALTER TABLE webhook.delivery_log ADD CONSTRAINT state_is_delivered_or_failed CHECK (state IN ('delivered',
--        'failed')) NOT VALID; ALTER TABLE webhook.delivery_log VALIDATE CONSTRAINT state_is_delivered_or_failed.
SET lock_timeout = '5s';
SET statement_timeout = '1min';
SET ROLE webhook_owner;

DO $$
DECLARE
    began timestamptz := clock_timestamp();
    attempt integer := 0;
BEGIN
    WHILE clock_timestamp() < began + interval '45 s' LOOP
        attempt := attempt + 1;
        -- Now and then for longer than the server waits before it makes an autovacuum give way.
        PERFORM set_config('lock_timeout', CASE WHEN attempt % 5 = 0 THEN '1500ms' ELSE '300ms' END, true);
        BEGIN
            -- Views first, as those who read them do.
            LOCK TABLE webhook.endpoints, webhook.attempts, webhook.lane, webhook.state, webhook.attempt_log,
            webhook.endpoint, webhook.control IN ACCESS EXCLUSIVE MODE;
            PERFORM set_config('lock_timeout', '5s', true);
            RETURN;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            PERFORM pg_sleep(0.2 * random());
        END;
    END LOOP;
    RAISE lock_not_available USING MESSAGE = 'tables of schema webhook are in use all the time: see pg_locks, and try again';
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
GRANT EXECUTE ON FUNCTION webhook.charge_key
TO webhook_producer, webhook_admin, webhook_observer, webhook_dispatcher;

ALTER TABLE webhook.state
ADD COLUMN has_charge_index boolean NOT NULL DEFAULT true,
ADD COLUMN installation text
CONSTRAINT installation_has_1_to_63_plain_characters CHECK (installation ~ '^[a-z0-9._-]{1,63}$'),
ADD COLUMN system_identifier bigint;

-- Partitions that are made from now on have it by themselves. Text is compared by bytes, whatever the locale becomes.
CREATE INDEX delivery_log_charge ON ONLY webhook.delivery_log ((webhook.charge_key(object) COLLATE "C"));
DO $$
DECLARE
    partition name;
BEGIN
    IF pg_sequence_last_value('webhook.outbox_seq_seq') IS NOT NULL THEN
        RETURN;
    END IF;
    -- A question for what is owed leaves out the log, without reading its partitions, because of this rule.
    ALTER TABLE webhook.delivery_log
    ADD CONSTRAINT state_is_delivered_or_failed CHECK (state IN ('delivered', 'failed'));
    CREATE INDEX outbox_charge ON webhook.outbox ((webhook.charge_key(object) COLLATE "C"));
    FOR partition IN
        SELECT child.relname
        FROM pg_inherits
        JOIN pg_class AS child ON child.oid = pg_inherits.inhrelid
        WHERE pg_inherits.inhparent = 'webhook.delivery_log'::regclass AND NOT pg_inherits.inhdetachpending
        ORDER BY child.relname
    LOOP
        EXECUTE format(
            'CREATE INDEX %I ON webhook.%I ((webhook.charge_key(object) COLLATE "C"))', partition || '_charge', partition
        );
        EXECUTE format(
            'ALTER INDEX webhook.delivery_log_charge ATTACH PARTITION webhook.%I', partition || '_charge'
        );
    END LOOP;
END
$$;

-- How a merchant fares, by the outcomes of its attempts as they are recorded.
ALTER TABLE webhook.lane
ADD COLUMN last_success_at timestamptz,
ADD COLUMN last_failure_at timestamptz,
ADD COLUMN failing_since timestamptz,
ADD COLUMN failures_in_a_row integer NOT NULL DEFAULT 0;
-- Since when a merchant fails that the platform was told of; and since when its deliveries are held because nothing
-- was accepted for too long.
ALTER TABLE webhook.lane
ADD COLUMN reported_failing_since timestamptz,
ADD COLUMN suspended_at timestamptz;
CREATE INDEX lane_failing ON webhook.lane (failing_since)
WHERE failing_since IS NOT NULL AND reported_failing_since IS NULL;
CREATE INDEX lane_reported ON webhook.lane (merchant_id) WHERE reported_failing_since IS NOT NULL;
CREATE INDEX lane_to_suspend ON webhook.lane (failing_since) WHERE failing_since IS NOT NULL AND suspended_at IS NULL;
CREATE INDEX lane_suspended ON webhook.lane (wait_until) WHERE suspended_at IS NOT NULL;
-- Not last_success_at: each success changes it, and an update of a column that an index knows writes to all of them. It
-- need not be asked for, since a success ends failing_since, or lets it begin anew.
CREATE INDEX lane_to_lift ON webhook.lane (merchant_id)
WHERE suspended_at IS NOT NULL AND (failing_since IS NULL OR failing_since > suspended_at);
COMMENT ON COLUMN webhook.lane.from_seq IS
'Everything in order up to here has been recorded. Sessions read from here on: too high, and it hides events.';

-- Another URL is another receiver: what is known of the one before says nothing of it.
CREATE OR REPLACE FUNCTION webhook.recall_lane() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    is_other boolean := TG_OP <> 'UPDATE' OR NEW.url <> OLD.url;
BEGIN
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
        reported_failing_since = CASE WHEN TG_OP <> 'DELETE' THEN lane.reported_failing_since END;
    RETURN NULL;
END
$$;

-- What an attempt saw: why it failed, in words, and the beginning of the answer's body, which anybody may have written.
ALTER TABLE webhook.attempt_log
ADD COLUMN reason text,
ADD COLUMN response_excerpt text;

CREATE OR REPLACE VIEW webhook.endpoints AS
SELECT
    endpoint.merchant_id,
    endpoint.url,
    coalesce(lane.paused, false) AS paused,
    endpoint.created_at,
    endpoint.updated_at,
    endpoint.secret_created_at,
    lane.last_success_at,
    lane.failing_since,
    coalesce(lane.failures_in_a_row, 0) AS failures_in_a_row,
    lane.suspended_at
FROM webhook.endpoint
LEFT JOIN webhook.lane ON lane.merchant_id = endpoint.merchant_id;

-- A view of its own: the function keeps a query from being planned in parallel wherever it is named.
CREATE VIEW webhook.charges AS
SELECT webhook.charge_key(outbox.object) COLLATE "C" AS charge_id, outbox.id AS event_id, outbox.seq, outbox.merchant_id
FROM webhook.outbox
UNION ALL
SELECT
    webhook.charge_key(delivery_log.object) COLLATE "C" AS charge_id,
    delivery_log.event_id,
    delivery_log.seq,
    delivery_log.merchant_id
FROM webhook.delivery_log;
GRANT SELECT ON webhook.charges TO webhook_admin, webhook_observer, webhook_dispatcher;

CREATE OR REPLACE VIEW webhook.attempts AS
SELECT event_id, merchant_id, attempt, trigger, started_at, duration_ms, status, outcome, reason
FROM webhook.attempt_log;
-- What a merchant answered may repeat the payload: not for those who read the attempts alone.
CREATE VIEW webhook.responses AS
SELECT event_id, merchant_id, attempt, started_at, response_excerpt
FROM webhook.attempt_log
WHERE response_excerpt IS NOT NULL;
GRANT SELECT ON webhook.responses TO webhook_admin;

-- For each encryption key, a few bytes that only its holder can compute: a wrong key under a right id is noticed.
CREATE TABLE webhook.key_check (
    key_id text COLLATE "C" PRIMARY KEY,
    value bytea NOT NULL CONSTRAINT value_has_16_bytes CHECK (octet_length(value) = 16),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
GRANT SELECT, INSERT ON webhook.key_check TO webhook_admin, webhook_dispatcher;

-- What operators changed. Rows are added by triggers and never changed.
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
GRANT SELECT ON webhook.audit TO webhook_admin;

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
    'merchant_id', endpoint.merchant_id, 'url', endpoint.url, 'key_id', endpoint.key_id, 'secret_created_at', endpoint.secret_created_at,
    'previous_key_id', endpoint.previous_key_id, 'previous_until', endpoint.previous_until
)
$$;

CREATE FUNCTION webhook.audit_endpoint() RETURNS trigger
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
            ELSE 'endpoint changed'
        END,
        coalesce(NEW.merchant_id, OLD.merchant_id),
        CASE WHEN TG_OP <> 'INSERT' THEN webhook.endpoint_without_secrets(OLD) END,
        CASE WHEN TG_OP <> 'DELETE' THEN webhook.endpoint_without_secrets(NEW) END
    );
    RETURN NULL;
END
$$;
REVOKE EXECUTE ON FUNCTION webhook.audit_endpoint() FROM public;
CREATE TRIGGER endpoint_is_audited AFTER INSERT OR UPDATE OR DELETE ON webhook.endpoint
FOR EACH ROW EXECUTE FUNCTION webhook.audit_endpoint();

-- Whose commands a command waits for: a merchant's. That of a pause or resume of everything is the empty text; all else
-- that is of no single merchant waits for those alone. Cut to what a merchant's id may have, or an overlong one would
-- not fit into the index.
ALTER TABLE webhook.control
ADD COLUMN subject text COLLATE "C",
DROP CONSTRAINT status_is_known,
ADD CONSTRAINT status_is_known
CHECK (status IN ('pending', 'running', 'done', 'rejected', 'withdrawn')) NOT VALID;

CREATE FUNCTION webhook.command_subject(given webhook.control) RETURNS text
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
                WHERE delivery_log.event_id = given.event_id
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
REVOKE EXECUTE ON FUNCTION webhook.command_subject FROM public;

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
REVOKE EXECUTE ON FUNCTION webhook.receive_command() FROM public;
CREATE TRIGGER command_is_received BEFORE INSERT ON webhook.control
FOR EACH ROW EXECUTE FUNCTION webhook.receive_command();
UPDATE webhook.control SET subject = webhook.command_subject(control) WHERE status IN ('pending', 'running');
CREATE INDEX control_waiting ON webhook.control (subject, id) WHERE status = 'pending';
CREATE INDEX control_running ON webhook.control (running_until) WHERE status = 'running';
-- Of no use beside these two; daemons of the version before read the commands that are kept without it.
DROP INDEX webhook.control_open;

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
REVOKE EXECUTE ON FUNCTION webhook.withdraw_command FROM public;
GRANT EXECUTE ON FUNCTION webhook.withdraw_command TO webhook_admin, webhook_dispatcher;

-- What the command line reads: lanes, what is owed and what is finished, apart from each other and by columns that
-- indexes can find and sort by. No payload.
ALTER TABLE webhook.lane
ADD COLUMN leased_at timestamptz;

CREATE VIEW webhook.lanes AS
SELECT
    lane.merchant_id,
    lane.paused,
    lane.lease_until > clock_timestamp() AS is_held,
    lane.owner,
    lane.leased_at,
    lane.wait_until,
    lane.retry_at,
    lane.endpoint_removed_at,
    lane.last_success_at,
    lane.failing_since,
    lane.failures_in_a_row,
    lane.suspended_at
FROM webhook.lane;

CREATE VIEW webhook.owed AS
SELECT
    outbox.seq,
    outbox.id AS event_id,
    outbox.merchant_id,
    outbox.type,
    outbox.created_at,
    outbox.attempts,
    outbox.due_at,
    outbox.claim IS NOT NULL AS is_claimed,
    outbox.trigger,
    outbox.on_failure,
    outbox.last_status,
    outbox.last_outcome,
    webhook.charge_key(outbox.object) COLLATE "C" AS charge_id
FROM webhook.outbox;

CREATE VIEW webhook.finished AS
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
    webhook.charge_key(delivery_log.object) COLLATE "C" AS charge_id
FROM webhook.delivery_log;
GRANT SELECT ON webhook.lanes, webhook.owed, webhook.finished TO webhook_admin, webhook_dispatcher;

-- Who paused whom, or everything (an empty text), and what was asked for about an event.
CREATE INDEX control_pauses ON webhook.control (left(coalesce(merchant_id, ''), 128), id) WHERE command IN ('pause', 'resume');
CREATE INDEX control_event ON webhook.control (event_id) WHERE event_id IS NOT NULL;

-- The attempts of the last minutes, in a log of days. Only where there are none yet: what has rows is a day old soon.
CREATE INDEX attempt_log_time ON ONLY webhook.attempt_log USING brin (started_at)
WITH (pages_per_range = 32, autosummarize = on);
DO $$
DECLARE
    partition name;
    has_rows boolean;
BEGIN
    FOR partition IN
        SELECT child.relname
        FROM pg_inherits
        JOIN pg_class AS child ON child.oid = pg_inherits.inhrelid
        WHERE pg_inherits.inhparent = 'webhook.attempt_log'::regclass AND NOT pg_inherits.inhdetachpending
        ORDER BY child.relname
    LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM webhook.%I)', partition) INTO has_rows;
        IF NOT has_rows THEN
            EXECUTE format(
                'CREATE INDEX %I ON webhook.%I USING brin (started_at) WITH (pages_per_range = 32, autosummarize = on)',
                partition || '_time', partition
            );
            EXECUTE format(
                'ALTER INDEX webhook.attempt_log_time ATTACH PARTITION webhook.%I', partition || '_time'
            );
        END IF;
    END LOOP;
END
$$;

-- What the dispatcher tells the platform by itself: events of a merchant of its own, for which nobody else writes.
CREATE OR REPLACE FUNCTION webhook.event_can_be_sent(
    merchant_id pg_catalog.text,
    type pg_catalog.text,
    created_at pg_catalog.timestamptz,
    object pg_catalog.json
) RETURNS pg_catalog.bool
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
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
        broken := 'type_is_one_of_the_published_event_types';
    ELSIF
        created_at OPERATOR(pg_catalog.<) '2000-01-01 00:00:00+00'
        OR created_at OPERATOR(pg_catalog.>=) '2100-01-01 00:00:00+00'
    THEN
        broken := 'created_at_is_between_the_years_2000_and_2100';
    ELSIF pg_catalog.json_typeof(object) OPERATOR(pg_catalog.<>) 'object' THEN
        broken := 'object_is_a_json_object';
    ELSIF pg_catalog.octet_length(object::pg_catalog.text) OPERATOR(pg_catalog.>) 262144 THEN
        broken := 'object_has_at_most_256_kib';
    ELSE
        RETURN true;
    END IF;
    RAISE check_violation USING
        MESSAGE = pg_catalog.format('an event for webhook.outbox breaks the rule "%s"', broken),
        SCHEMA = 'webhook', TABLE = 'outbox', CONSTRAINT = broken;
END
$$;

-- Deliveries that failed for good and are not told yet. Finished_at stands first: they are told minute by minute.
CREATE TABLE webhook.unreported_failure (
    finished_at timestamptz NOT NULL,
    seq bigint NOT NULL,
    event_id uuid NOT NULL,
    merchant_id text COLLATE "C" NOT NULL,
    reason text COLLATE "C" NOT NULL,
    PRIMARY KEY (finished_at, seq)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON webhook.unreported_failure TO webhook_dispatcher;

-- Which server this is; null where the function that tells it was taken from us.
CREATE FUNCTION webhook.server_identifier() RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT system_identifier FROM pg_control_system());
EXCEPTION WHEN insufficient_privilege THEN
    RETURN NULL;
END
$$;

GRANT EXECUTE ON FUNCTION webhook.server_identifier TO webhook_admin, webhook_observer, webhook_dispatcher;

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
REVOKE EXECUTE ON FUNCTION webhook.adopt_installation FROM public;
GRANT EXECUTE ON FUNCTION webhook.adopt_installation TO webhook_admin;

-- Have a mass command end after its chunk; it is done then, and says that it was stopped. True if it had not ended.
ALTER TABLE webhook.control
ADD COLUMN stopping boolean NOT NULL DEFAULT false;
CREATE FUNCTION webhook.stop_command(command_id bigint, stopped_by text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    stopped webhook.control;
BEGIN
    UPDATE webhook.control SET stopping = true
    WHERE
        control.id = command_id AND control.status IN ('pending', 'running')
        AND control.command IN ('retry_failed', 'recover', 'skip')
    RETURNING * INTO stopped;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO webhook.audit (person, action, merchant_id, before)
    VALUES (stopped_by, 'command stopped', webhook.command_merchant(stopped), jsonb_build_object('id', command_id));
    RETURN true;
END
$$;
REVOKE EXECUTE ON FUNCTION webhook.stop_command FROM public;
GRANT EXECUTE ON FUNCTION webhook.stop_command TO webhook_admin, webhook_dispatcher;

UPDATE webhook.state SET schema_version = 5;
