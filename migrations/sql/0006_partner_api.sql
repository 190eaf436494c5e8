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

-- Sealing without the keys that open: the public half of the encryption key that seals, published by who holds it and
-- confirmed once a minute by each dispatcher. What is sealed with it is stored under the key id 'hpke1:' and this one.
CREATE TABLE webhook.sealing_key (
    key_id text COLLATE "C" PRIMARY KEY
    CONSTRAINT key_id_has_1_to_64_plain_characters CHECK (key_id ~ '^[A-Za-z0-9._-]{1,64}$'),
    public_half bytea NOT NULL CONSTRAINT public_half_has_32_bytes CHECK (octet_length(public_half) = 32),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    confirmed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
GRANT SELECT, INSERT, UPDATE (public_half, created_at, confirmed_at) ON webhook.sealing_key TO webhook_dispatcher;
-- The command line adds one that is missing. It replaces none: whoever could would have secrets sealed for himself.
GRANT SELECT, INSERT ON webhook.sealing_key TO webhook_admin;

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
GRANT SELECT ON webhook.sealing_key, webhook.current_sealing_key TO webhook_api;

-- Whose token this is, and let the audit name its key until the transaction ends. Without anybody all functions that
-- change something end here: none of them ever works for no merchant.
CREATE FUNCTION webhook.authorized_merchant(token bytea, OUT merchant text, OUT person text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT bearer.merchant_id, 'api:' || bearer.client_id INTO merchant, person FROM webhook.bearer(token) AS bearer;
    IF merchant IS NULL THEN
        RAISE SQLSTATE 'WH401' USING MESSAGE = 'the token is unknown, expired or revoked';
    END IF;
    PERFORM set_config('webhook.person', person, true);
END
$$;
REVOKE EXECUTE ON FUNCTION webhook.authorized_merchant FROM public;

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
REVOKE EXECUTE ON FUNCTION webhook.is_sealed_currently FROM public;

-- Configure the token's merchant, or change its URL; its secret stays. 'created', 'changed', 'unchanged' (nothing is
-- written), or 'key_is_old' (seal again), 'not_configured' (there is no endpoint, and no secret was given).
CREATE FUNCTION webhook.own_put_endpoint(token bytea, url text, secret bytea, key_id text) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    own text := (webhook.authorized_merchant(token)).merchant;
    url_before text;
BEGIN
    IF own_put_endpoint.url IS NULL OR length(own_put_endpoint.url) NOT BETWEEN 1 AND 4096 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'this is no URL';
    END IF;
    LOOP
        SELECT endpoint.url INTO url_before FROM webhook.endpoint WHERE endpoint.merchant_id = own FOR NO KEY UPDATE;
        IF url_before = own_put_endpoint.url THEN
            RETURN 'unchanged';
        END IF;
        IF FOUND THEN
            UPDATE webhook.endpoint SET url = own_put_endpoint.url, updated_at = clock_timestamp()
            WHERE endpoint.merchant_id = own;
            RETURN 'changed';
        END IF;
        IF secret IS NULL THEN
            RETURN 'not_configured';
        END IF;
        IF NOT webhook.is_sealed_currently(secret, own_put_endpoint.key_id) THEN
            RETURN 'key_is_old';
        END IF;
        INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id)
        VALUES (own, own_put_endpoint.url, own_put_endpoint.secret, own_put_endpoint.key_id)
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN 'created';
        END IF;
    END LOOP;
END
$$;
REVOKE EXECUTE ON FUNCTION webhook.own_put_endpoint FROM public;

-- Replace the secret of the token's merchant; with an overlap the one before it goes on signing until that ends.
-- 'rotated', 'key_is_old', 'not_configured'.
CREATE FUNCTION webhook.own_rotate_secret(
    token bytea, secret bytea, key_id text, overlap interval, OUT result text, OUT previous_until timestamptz
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    own text := (webhook.authorized_merchant(token)).merchant;
BEGIN
    IF overlap <= interval '0' OR overlap > interval '30 days' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'the overlap is not within 30 days';
    END IF;
    IF NOT webhook.is_sealed_currently(secret, own_rotate_secret.key_id) THEN
        result := 'key_is_old';
        RETURN;
    END IF;
    UPDATE webhook.endpoint
    SET
        previous_secret = CASE WHEN overlap IS NOT NULL THEN endpoint.secret END,
        previous_key_id = CASE WHEN overlap IS NOT NULL THEN endpoint.key_id END,
        previous_until = clock_timestamp() + overlap,
        secret = own_rotate_secret.secret,
        key_id = own_rotate_secret.key_id,
        secret_created_at = clock_timestamp(),
        updated_at = clock_timestamp()
    WHERE endpoint.merchant_id = own
    RETURNING endpoint.previous_until INTO own_rotate_secret.previous_until;
    result := CASE WHEN FOUND THEN 'rotated' ELSE 'not_configured' END;
END
$$;
REVOKE EXECUTE ON FUNCTION webhook.own_rotate_secret FROM public;

-- Remove the endpoint of the token's merchant; false where there is none.
CREATE FUNCTION webhook.own_remove_endpoint(token bytea) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own text := (webhook.authorized_merchant(token)).merchant;
BEGIN
    DELETE FROM webhook.endpoint WHERE endpoint.merchant_id = own;
    RETURN FOUND;
END
$$;
REVOKE EXECUTE ON FUNCTION webhook.own_remove_endpoint FROM public;

-- Give a command for the token's merchant; its id, or null where the event is not the merchant's (or nobody's). Ten of
-- a merchant's may be open that were given like this, and one of those that go through many deliveries: else WH409.
CREATE FUNCTION webhook.own_command(token bytea, command text, event_id uuid, since timestamptz, until timestamptz)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
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
            -- The delivery that the command would find, as the trigger that receives it looks for it.
            IF given.event_id IS NULL OR webhook.command_subject(given) IS DISTINCT FROM asking.merchant THEN
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
    -- One at a time of a merchant, or two at once would each find room for one more.
    PERFORM pg_advisory_xact_lock(hashtextextended(asking.merchant, 6006));
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
REVOKE EXECUTE ON FUNCTION webhook.own_command FROM public;
GRANT EXECUTE
ON FUNCTION webhook.own_put_endpoint, webhook.own_rotate_secret, webhook.own_remove_endpoint, webhook.own_command
TO webhook_api;

UPDATE webhook.state SET schema_version = 6;
