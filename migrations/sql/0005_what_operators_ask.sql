-- squawk-ignore-file ban-drop-constraint, require-concurrent-index-creation
-- Why:   what an operator needs when a merchant calls: deliveries found by their charge, how each merchant fares, what an
--        attempt saw, who changed what, whether a key is the right one, which installation this is, and commands that
--        wait for those of their own merchant alone. Still serves programs for version 1.
-- Locks: lane, attempt_log, control, endpoint and state for a moment each; outbox and each partition of the log while
--        their index is made, but only where they are empty: `migrate` makes the others afterwards, concurrently.
SET lock_timeout = '5s';
SET statement_timeout = '1min';
SET ROLE webhook_owner;

-- The charge's id, by which merchants ask. It never fails, or an INSERT would: null where the object cannot be read
-- as a whole (an escaped zero byte or lone surrogate anywhere in it), or the id is no text of at most 255 characters.
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
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END
$$;

ALTER TABLE webhook.state
ADD COLUMN has_charge_index boolean NOT NULL DEFAULT true,
ADD COLUMN installation text,
ADD COLUMN system_identifier bigint;

-- Partitions that are made from now on have it by themselves.
CREATE INDEX delivery_log_charge ON ONLY webhook.delivery_log (webhook.charge_key(object));
DO $$
DECLARE
    partition name;
    has_rows boolean;
BEGIN
    FOR partition IN
        SELECT child.relname
        FROM pg_inherits
        JOIN pg_class AS child ON child.oid = pg_inherits.inhrelid
        WHERE pg_inherits.inhparent = 'webhook.delivery_log'::regclass AND NOT pg_inherits.inhdetachpending
        ORDER BY child.relname
    LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM webhook.%I)', partition) INTO has_rows;
        IF NOT has_rows THEN
            EXECUTE format(
                'CREATE INDEX %I ON webhook.%I (webhook.charge_key(object))', partition || '_charge', partition
            );
            EXECUTE format(
                'ALTER INDEX webhook.delivery_log_charge ATTACH PARTITION webhook.%I', partition || '_charge'
            );
        END IF;
    END LOOP;
    IF NOT EXISTS (SELECT FROM webhook.outbox) THEN
        CREATE INDEX outbox_charge ON webhook.outbox (webhook.charge_key(object));
    END IF;
END
$$;

-- How a merchant fares, by the outcomes of its attempts as they are recorded.
ALTER TABLE webhook.lane
ADD COLUMN last_success_at timestamptz,
ADD COLUMN failing_since timestamptz,
ADD COLUMN failures_in_a_row integer NOT NULL DEFAULT 0;
COMMENT ON COLUMN webhook.lane.from_seq IS
'Everything in order up to here has been recorded. Sessions read from here on: too high, and it hides events.';

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
    coalesce(lane.failures_in_a_row, 0) AS failures_in_a_row
FROM webhook.endpoint
LEFT JOIN webhook.lane ON lane.merchant_id = endpoint.merchant_id;

CREATE OR REPLACE VIEW webhook.deliveries AS
SELECT
    outbox.id AS event_id,
    outbox.seq,
    outbox.merchant_id,
    outbox.type,
    outbox.created_at,
    CASE
        WHEN outbox.due_at IS NULL THEN 'pending'
        WHEN outbox.on_failure = 'delivered' THEN 'delivered'
        ELSE 'pending_retry'
    END AS state,
    NULL::text AS failed_reason,
    outbox.attempts,
    CASE WHEN outbox.claim IS NULL THEN outbox.due_at END AS next_attempt_at,
    outbox.last_status,
    outbox.last_outcome,
    NULL::timestamptz AS finished_at,
    outbox.object,
    webhook.charge_key(outbox.object) AS charge_id
FROM webhook.outbox
UNION ALL
SELECT
    delivery_log.event_id,
    delivery_log.seq,
    delivery_log.merchant_id,
    delivery_log.type,
    delivery_log.created_at,
    delivery_log.state,
    delivery_log.failed_reason,
    delivery_log.attempts,
    NULL::timestamptz AS next_attempt_at,
    delivery_log.last_status,
    delivery_log.last_outcome,
    delivery_log.finished_at,
    delivery_log.object,
    webhook.charge_key(delivery_log.object) AS charge_id
FROM webhook.delivery_log
-- True of every row: a question for what is owed then leaves out the log, without reading its partitions.
WHERE delivery_log.state IN ('delivered', 'failed');
GRANT SELECT (charge_id) ON webhook.deliveries TO webhook_observer;

CREATE OR REPLACE VIEW webhook.attempts AS
SELECT
    event_id, merchant_id, attempt, trigger, started_at, duration_ms, status, outcome,
    reason, response_excerpt
FROM webhook.attempt_log;
-- What a merchant answered may repeat the payload.
REVOKE SELECT ON webhook.attempts FROM webhook_observer;
GRANT SELECT (event_id, merchant_id, attempt, trigger, started_at, duration_ms, status, outcome, reason)
ON webhook.attempts TO webhook_observer;

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
CREATE FUNCTION webhook.told(endpoint webhook.endpoint) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT jsonb_build_object(
    'url', endpoint.url, 'key_id', endpoint.key_id, 'secret_created_at', endpoint.secret_created_at,
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
            WHEN NEW.secret_created_at <> OLD.secret_created_at THEN 'secret rotated'
            WHEN NEW.url <> OLD.url THEN 'url changed'
            WHEN NEW.key_id <> OLD.key_id THEN 'secret rekeyed'
            ELSE 'endpoint changed'
        END,
        coalesce(NEW.merchant_id, OLD.merchant_id),
        CASE WHEN TG_OP <> 'INSERT' THEN webhook.told(OLD) END,
        CASE WHEN TG_OP <> 'DELETE' THEN webhook.told(NEW) END
    );
    RETURN NULL;
END
$$;
REVOKE EXECUTE ON FUNCTION webhook.audit_endpoint() FROM public;
CREATE TRIGGER endpoint_is_audited AFTER INSERT OR UPDATE OR DELETE ON webhook.endpoint
FOR EACH ROW EXECUTE FUNCTION webhook.audit_endpoint();

-- Whose commands a command waits for: its merchant's, an event's merchant's; of everything: those of everything.
ALTER TABLE webhook.control
ADD COLUMN subject text COLLATE "C",
DROP CONSTRAINT status_is_known,
ADD CONSTRAINT status_is_known
CHECK (status IN ('pending', 'running', 'done', 'rejected', 'withdrawn')) NOT VALID;

CREATE FUNCTION webhook.command_subject(merchant_id text, event_id uuid) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT coalesce(
    merchant_id,
    (SELECT outbox.merchant_id FROM webhook.outbox WHERE outbox.id = event_id),
    (SELECT delivery_log.merchant_id FROM webhook.delivery_log WHERE delivery_log.event_id = $2 LIMIT 1),
    'event ' || event_id,
    ''
)
$$;
REVOKE EXECUTE ON FUNCTION webhook.command_subject FROM public;

CREATE FUNCTION webhook.receive_command() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.subject := webhook.command_subject(NEW.merchant_id, NEW.event_id);
    INSERT INTO webhook.audit (person, action, merchant_id, after)
    VALUES (
        NEW.requested_by, 'command ' || left(NEW.command, 100), NEW.merchant_id,
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
UPDATE webhook.control SET subject = webhook.command_subject(merchant_id, event_id)
WHERE status IN ('pending', 'running');
CREATE INDEX control_waiting ON webhook.control (subject, id) WHERE status = 'pending';

-- Take back a command that nobody has taken up: true if it was still waiting.
CREATE FUNCTION webhook.withdraw_command(command_id bigint, withdrawn_by text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    taken webhook.control;
BEGIN
    UPDATE webhook.control SET status = 'withdrawn', handled_at = clock_timestamp()
    WHERE control.id = command_id AND control.status = 'pending'
    RETURNING * INTO taken;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO webhook.audit (person, action, merchant_id, before)
    VALUES (withdrawn_by, 'command withdrawn', taken.merchant_id, jsonb_build_object('id', command_id));
    RETURN true;
END
$$;
REVOKE EXECUTE ON FUNCTION webhook.withdraw_command FROM public;
GRANT EXECUTE ON FUNCTION webhook.withdraw_command TO webhook_admin, webhook_dispatcher;

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
    VALUES (stopped_by, 'command stopped', stopped.merchant_id, jsonb_build_object('id', command_id));
    RETURN true;
END
$$;
REVOKE EXECUTE ON FUNCTION webhook.stop_command FROM public;
GRANT EXECUTE ON FUNCTION webhook.stop_command TO webhook_admin, webhook_dispatcher;

UPDATE webhook.state SET schema_version = 5;
