-- Why:   the console: who may use it (accounts, sessions, codes), and what they may change. The role webhook_console reads
--        none of these tables: functions find the person by the session that the statement itself brings, and refuse
--        what that person may not do. An installation without a console has empty tables. Still serves programs for
--        version 6, and daemons of version 1 where no API key was made.
-- Locks: state for a moment; all else is made here. Two functions of the Partner API are replaced by the same ones.
SET lock_timeout = '5s';
SET statement_timeout = '1min';
SET ROLE webhook_owner;

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
    failed_at timestamptz [] NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX sign_in_failure_expiry ON webhook.sign_in_failure (expires_at);

-- From it follows the salt of a name that has no account: always the same one, which nobody else can compute.
CREATE TABLE webhook.sign_in_key (
    is_only boolean PRIMARY KEY DEFAULT true CONSTRAINT sign_in_key_has_one_row CHECK (is_only),
    key bytea NOT NULL CONSTRAINT key_has_32_bytes CHECK (octet_length(key) = 32)
);
-- Each uuid has 122 random bits.
INSERT INTO webhook.sign_in_key (key)
SELECT sha256(string_agg(uuid_send(gen_random_uuid()), '')) FROM generate_series(1, 4);

-- Upkeep clears away what expired. UPDATE is what locks need.
GRANT SELECT (hash, expires_at), UPDATE (expires_at), DELETE
ON webhook.console_session, webhook.sign_in_code TO webhook_dispatcher;
GRANT SELECT (subject, expires_at), UPDATE (expires_at), DELETE ON webhook.sign_in_failure TO webhook_dispatcher;

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
GRANT SELECT ON webhook.accounts TO webhook_admin;

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

-- Configure a merchant, or change its URL; its secret stays. 'created', 'changed', 'unchanged' (nothing is written), or
-- 'key_is_old' (seal again), 'not_configured' (there is no endpoint, and no secret was given). Who asks was found before.
CREATE FUNCTION webhook.put_endpoint(merchant text, url text, secret bytea, key_id text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    url_before text;
BEGIN
    IF put_endpoint.url IS NULL OR length(put_endpoint.url) NOT BETWEEN 1 AND 4096 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'this is no URL';
    END IF;
    LOOP
        SELECT endpoint.url INTO url_before
        FROM webhook.endpoint
        WHERE endpoint.merchant_id = merchant
        FOR NO KEY UPDATE;
        IF url_before = put_endpoint.url THEN
            RETURN 'unchanged';
        END IF;
        IF FOUND THEN
            UPDATE webhook.endpoint SET url = put_endpoint.url, updated_at = clock_timestamp()
            WHERE endpoint.merchant_id = merchant;
            RETURN 'changed';
        END IF;
        IF secret IS NULL THEN
            RETURN 'not_configured';
        END IF;
        IF NOT webhook.is_sealed_currently(secret, put_endpoint.key_id) THEN
            RETURN 'key_is_old';
        END IF;
        INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id)
        VALUES (merchant, put_endpoint.url, put_endpoint.secret, put_endpoint.key_id)
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN 'created';
        END IF;
    END LOOP;
END
$$;

-- Replace a merchant's secret; with an overlap the one before it goes on signing until that ends. 'rotated', 'key_is_old',
-- 'not_configured'. Who asks was found before.
CREATE FUNCTION webhook.rotate_secret(
    merchant text, secret bytea, key_id text, overlap interval, OUT result text, OUT previous_until timestamptz
)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    IF overlap <= interval '0' OR overlap > interval '30 days' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'the overlap is not within 30 days';
    END IF;
    IF NOT webhook.is_sealed_currently(secret, rotate_secret.key_id) THEN
        result := 'key_is_old';
        RETURN;
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
    WHERE endpoint.merchant_id = merchant
    RETURNING endpoint.previous_until INTO rotate_secret.previous_until;
    result := CASE WHEN FOUND THEN 'rotated' ELSE 'not_configured' END;
END
$$;

-- What a merchant's token does with its own endpoint is these two from now on.
CREATE OR REPLACE FUNCTION webhook.own_put_endpoint(token bytea, url text, secret bytea, key_id text) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own text := (webhook.authorized_merchant(token)).merchant;
BEGIN
    RETURN webhook.put_endpoint(own, url, secret, key_id);
END
$$;

CREATE OR REPLACE FUNCTION webhook.own_rotate_secret(
    token bytea, secret bytea, key_id text, overlap interval, OUT result text, OUT previous_until timestamptz
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own text := (webhook.authorized_merchant(token)).merchant;
BEGIN
    SELECT rotated.result, rotated.previous_until INTO result, previous_until
    FROM webhook.rotate_secret(own, secret, key_id, overlap) AS rotated;
END
$$;

-- All that follows changes something for an operator, as console_... says: WD001, WD002, WD003.
CREATE FUNCTION webhook.console_put_endpoint(session bytea, merchant text, url text, secret bytea, key_id text)
RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM webhook.person_who_changes(session);
    -- Of merchants that the outbox takes events of, and the platform.
    IF merchant IS DISTINCT FROM '$platform' THEN
        PERFORM webhook.event_can_be_sent(coalesce(merchant, ''), 'charge.created', clock_timestamp(), '{}');
    END IF;
    RETURN webhook.put_endpoint(merchant, url, secret, key_id);
END
$$;

CREATE FUNCTION webhook.console_rotate_secret(
    session bytea, merchant text, secret bytea, key_id text, overlap interval,
    OUT result text, OUT previous_until timestamptz
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM webhook.person_who_changes(session);
    SELECT rotated.result, rotated.previous_until INTO result, previous_until
    FROM webhook.rotate_secret(merchant, secret, key_id, overlap) AS rotated;
END
$$;

-- False where there is no endpoint.
CREATE FUNCTION webhook.console_remove_endpoint(session bytea, merchant text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM webhook.person_who_changes(session);
    DELETE FROM webhook.endpoint WHERE endpoint.merchant_id = merchant;
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

REVOKE EXECUTE ON FUNCTION
webhook.audit_account, webhook.sign_in_subjects, webhook.wait_after_failures, webhook.lock_failures,
webhook.count_failure, webhook.begin_session, webhook.console_sign_in_parameters, webhook.console_sign_in,
webhook.console_sign_in_by_code, webhook.console_sign_in_by_proxy, webhook.console_person, webhook.console_reader,
webhook.current_person_role, webhook.current_person, webhook.console_sign_out, webhook.revoke_sessions,
webhook.own_account, webhook.console_revoke_sessions, webhook.console_preferences, webhook.console_change_password,
webhook.person_who_changes, webhook.put_endpoint, webhook.rotate_secret, webhook.console_put_endpoint,
webhook.console_rotate_secret, webhook.console_remove_endpoint, webhook.console_command,
webhook.console_withdraw_command, webhook.console_stop_command, webhook.console_create_api_key,
webhook.console_revoke_api_key, webhook.add_account, webhook.set_account_password, webhook.set_account_role,
webhook.set_account_disabled, webhook.create_sign_in_code
FROM public;
GRANT USAGE ON SCHEMA webhook TO webhook_console;
GRANT EXECUTE ON FUNCTION
webhook.console_sign_in_parameters, webhook.console_sign_in, webhook.console_sign_in_by_code,
webhook.console_sign_in_by_proxy, webhook.console_person, webhook.console_reader, webhook.current_person_role,
webhook.current_person, webhook.console_sign_out, webhook.console_revoke_sessions, webhook.console_preferences,
webhook.console_change_password, webhook.console_put_endpoint, webhook.console_rotate_secret,
webhook.console_remove_endpoint, webhook.console_command, webhook.console_withdraw_command,
webhook.console_stop_command, webhook.console_create_api_key, webhook.console_revoke_api_key,
-- Whether this is a schema that the program serves, and of which installation; and what secrets are sealed with.
webhook.server_identifier
TO webhook_console;
GRANT SELECT ON webhook.state, webhook.current_sealing_key TO webhook_console;
GRANT EXECUTE ON FUNCTION
webhook.add_account, webhook.set_account_password, webhook.set_account_role, webhook.set_account_disabled,
webhook.create_sign_in_code
TO webhook_admin;

UPDATE webhook.state SET schema_version = 7;
