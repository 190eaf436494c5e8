-- Why:   the Partner API: who may ask (keys, tokens), how often (usage), what was answered before (requests), and what
--        each may see and change. The role webhook_api sees no table of deliveries, endpoints or commands: views and
--        functions that find the merchant by the token which the statement itself brings. An installation that does
--        not run the API has empty tables. Still serves daemons of version 1.
-- Locks: state for a moment; all else is made here.
SET lock_timeout = '5s';
SET statement_timeout = '1min';
SET ROLE webhook_owner;

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

-- A revoked key's tokens stay until they expire, or their holder would be told that they are unknown.
CREATE TABLE webhook.api_token (
    hash bytea PRIMARY KEY CONSTRAINT hash_is_sha_256 CHECK (octet_length(hash) = 32),
    api_key_id bigint NOT NULL REFERENCES webhook.api_key,
    expires_at timestamptz NOT NULL
);
CREATE INDEX api_token_expiry ON webhook.api_token (expires_at);

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
REVOKE EXECUTE ON FUNCTION webhook.bearer FROM public;

-- Whose rows this transaction may see; null before bearer() found anybody. Looked up by the token once more: the
-- setting alone, which anybody can write, opens nothing.
CREATE FUNCTION webhook.current_merchant() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
SELECT api_key.merchant_id
FROM webhook.api_token
JOIN webhook.api_key ON api_key.id = api_token.api_key_id
WHERE
    api_token.hash = decode(nullif(current_setting('webhook.bearer', true), ''), 'hex')
    AND api_token.expires_at > clock_timestamp()
    AND api_key.revoked_at IS NULL
$$;
REVOKE EXECUTE ON FUNCTION webhook.current_merchant FROM public;
GRANT EXECUTE ON FUNCTION webhook.bearer, webhook.current_merchant TO webhook_api;

-- What merchants see of themselves. A statement that forgets bearer() finds nothing here. No security barriers: they
-- would keep ORDER BY .. LIMIT from the partitions' indexes, and guard only against functions that this role cannot make.
CREATE VIEW webhook.own_endpoint AS
SELECT
    endpoints.merchant_id,
    endpoints.url,
    endpoints.paused,
    endpoints.created_at,
    endpoints.updated_at,
    endpoints.secret_created_at,
    endpoints.last_success_at,
    endpoints.failing_since,
    endpoints.failures_in_a_row,
    endpoints.suspended_at
FROM webhook.endpoints
WHERE endpoints.merchant_id = (SELECT webhook.current_merchant());

CREATE VIEW webhook.own_deliveries AS
SELECT
    deliveries.event_id,
    deliveries.seq,
    deliveries.merchant_id,
    deliveries.type,
    deliveries.created_at,
    deliveries.state,
    deliveries.failed_reason,
    deliveries.attempts,
    deliveries.next_attempt_at,
    deliveries.last_status,
    deliveries.last_outcome,
    deliveries.finished_at,
    deliveries.object
FROM webhook.deliveries
WHERE deliveries.merchant_id = (SELECT webhook.current_merchant());

CREATE VIEW webhook.own_attempts AS
SELECT
    attempts.event_id,
    attempts.merchant_id,
    attempts.attempt,
    attempts.trigger,
    attempts.started_at,
    attempts.duration_ms,
    attempts.status,
    attempts.outcome,
    attempts.reason
FROM webhook.attempts
WHERE attempts.merchant_id = (SELECT webhook.current_merchant());

CREATE VIEW webhook.own_charges AS
SELECT charges.charge_id, charges.event_id, charges.seq, charges.merchant_id
FROM webhook.charges
WHERE charges.merchant_id = (SELECT webhook.current_merchant());

CREATE VIEW webhook.own_commands AS
SELECT
    control.id,
    webhook.command_merchant(control) AS merchant_id,
    control.command,
    control.event_id,
    control.created_at,
    control.status,
    control.handled_at,
    control.result,
    control.error_code,
    control.error_message
FROM webhook.control
WHERE webhook.command_merchant(control) = (SELECT webhook.current_merchant());

GRANT USAGE ON SCHEMA webhook TO webhook_api;
GRANT SELECT
ON webhook.own_endpoint, webhook.own_deliveries, webhook.own_attempts, webhook.own_charges, webhook.own_commands
TO webhook_api;

-- What merchants read of their deliveries. What is owed and what is finished apart, by columns that indexes find and
-- sort by; charge_id as in webhook.charges. The merchant is compared inside CASE: a statement says itself by which
-- index its rows are found, and this condition, which is the second wall, changes nothing about the plan.
CREATE VIEW webhook.own_owed AS
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
WHERE CASE WHEN outbox.merchant_id = (SELECT webhook.current_merchant()) THEN true END;

CREATE VIEW webhook.own_finished AS
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
WHERE CASE WHEN delivery_log.merchant_id = (SELECT webhook.current_merchant()) THEN true END;
GRANT SELECT ON webhook.own_owed, webhook.own_finished TO webhook_api;
GRANT SELECT (has_charge_index) ON webhook.state TO webhook_api;
GRANT EXECUTE ON FUNCTION webhook.charge_key TO webhook_api;

-- A merchant's events outside the order, the newest first: no list reads all that waits for a retry. An event that is
-- delivered at its first attempt never has a row here, and costs nothing. Where events are there already, `migrate`
-- makes it afterwards, concurrently.
DO $$
BEGIN
    IF pg_sequence_last_value('webhook.outbox_seq_seq') IS NULL THEN
        CREATE INDEX outbox_out_of_order ON webhook.outbox (merchant_id, seq) WHERE due_at IS NOT NULL;
    END IF;
END
$$;

-- What the cursors of lists are encrypted with: one random row, for all processes of this database and no other.
CREATE TABLE webhook.cursor_key (
    is_only boolean PRIMARY KEY DEFAULT true CONSTRAINT cursor_key_has_one_row CHECK (is_only),
    key bytea NOT NULL CONSTRAINT key_has_32_bytes CHECK (octet_length(key) = 32)
);
-- Each uuid has 122 random bits.
INSERT INTO webhook.cursor_key (key)
SELECT sha256(string_agg(uuid_send(gen_random_uuid()), '')) FROM generate_series(1, 4);
GRANT SELECT ON webhook.cursor_key TO webhook_api;

UPDATE webhook.state SET schema_version = 6;
