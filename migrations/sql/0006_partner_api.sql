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
ON webhook.own_endpoint, webhook.own_deliveries, webhook.own_attempts, webhook.own_commands
TO webhook_api;

-- The front: whether this is a schema that the program serves, and of which installation.
GRANT SELECT ON webhook.state TO webhook_api;
GRANT EXECUTE ON FUNCTION webhook.server_identifier TO webhook_api;

-- What was taken of limits, a row for each subject (an API key, an address). Unlogged: a crash of the database empties
-- it, and counting starts anew. Taken: milliseconds after `since`, ascending. Rows stay where they are when they change.
CREATE UNLOGGED TABLE webhook.api_usage (
    subject text COLLATE "C" PRIMARY KEY
    CONSTRAINT subject_has_1_to_200_bytes CHECK (octet_length(subject) BETWEEN 1 AND 200),
    since timestamptz NOT NULL,
    taken integer[] NOT NULL CONSTRAINT taken_has_at_most_1500_entries CHECK (cardinality(taken) <= 1500),
    expires_at timestamptz NOT NULL
) WITH (fillfactor = 30);
ALTER TABLE webhook.api_usage ALTER COLUMN subject SET STORAGE PLAIN, ALTER COLUMN taken SET STORAGE PLAIN;

-- The same of what guards a code that can be guessed. Logged: a crash frees no attempt.
CREATE TABLE webhook.card_attempts (LIKE webhook.api_usage INCLUDING ALL);

-- The next seven are called by take_limits() and admit_token() alone, with the names that those see.
-- Read what a subject has used, and lock it, if asked to; its row is made then where it is missing.
CREATE FUNCTION webhook.read_usage(named text, is_durable boolean, is_locking boolean) RETURNS webhook.api_usage
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    used webhook.api_usage;
BEGIN
    -- Upkeep may have removed the row between two looks.
    LOOP
        CASE
            WHEN is_durable AND is_locking THEN
                SELECT card_attempts.* INTO used FROM webhook.card_attempts WHERE card_attempts.subject = named FOR UPDATE;
            WHEN is_durable THEN
                SELECT card_attempts.* INTO used FROM webhook.card_attempts WHERE card_attempts.subject = named;
            WHEN is_locking THEN
                SELECT api_usage.* INTO used FROM webhook.api_usage WHERE api_usage.subject = named FOR UPDATE;
            ELSE
                SELECT api_usage.* INTO used FROM webhook.api_usage WHERE api_usage.subject = named;
        END CASE;
        IF used.subject IS NOT NULL THEN
            RETURN used;
        END IF;
        used := ROW(named, date_trunc('milliseconds', clock_timestamp()), '{}', clock_timestamp())::webhook.api_usage;
        CASE
            WHEN NOT is_locking THEN
                RETURN used;
            WHEN is_durable THEN
                INSERT INTO webhook.card_attempts SELECT used.* ON CONFLICT DO NOTHING;
            ELSE
                INSERT INTO webhook.api_usage SELECT used.* ON CONFLICT DO NOTHING;
        END CASE;
        IF FOUND THEN
            RETURN used;
        END IF;
    END LOOP;
END
$$;

-- The entries of a row that still count in a window that ends then. After the clock was set back by more than a window
-- counting starts anew.
CREATE FUNCTION webhook.counted_entries(used webhook.api_usage, span interval, at timestamptz) RETURNS integer[]
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF used.since + used.taken[cardinality(used.taken)] * interval '1 millisecond' > at + span THEN
        RETURN '{}';
    END IF;
    -- Those at or before its beginning are over; how many these are is searched by halves.
    RETURN used.taken[1 + width_bucket(
        least(greatest(floor(extract(EPOCH FROM at - span - used.since) * 1000), -1), 2147483647)::integer, used.taken
    ):];
END
$$;

-- What a row says to one more: its entries are those that count. Taken_at: ascending, whatever the clock does. Instants
-- are rounded up to milliseconds before they are compared with a clock that is not.
CREATE FUNCTION webhook.judge_usage(
    counted webhook.api_usage, most integer, span interval, instant timestamptz,
    OUT retry_after interval, OUT remaining integer, OUT taken_at timestamptz
)
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    entries CONSTANT integer := cardinality(counted.taken);
    millisecond CONSTANT interval := interval '1 millisecond';
BEGIN
    remaining := greatest(most - entries, 0);
    IF remaining = 0 THEN
        -- Until the oldest is over that has to be before one more fits.
        retry_after := make_interval(secs => ceil(extract(
            EPOCH FROM counted.since + counted.taken[entries - most + 1] * millisecond + span - instant
        )));
    END IF;
    taken_at := greatest(
        date_trunc('milliseconds', instant + interval '999 microseconds'),
        counted.since + counted.taken[entries] * millisecond
    );
END
$$;

-- Write one more entry into a row that is locked; the instant that it counts as.
CREATE FUNCTION webhook.write_usage(counted webhook.api_usage, span interval, at timestamptz, is_durable boolean)
RETURNS timestamptz
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    entry integer;
BEGIN
    IF cardinality(counted.taken) = 0 THEN
        counted.since := at;
    ELSIF at > counted.since + interval '10 days' THEN
        -- Before milliseconds become more than an integer holds.
        entry := counted.taken[1];
        counted.since := counted.since + entry * interval '1 millisecond';
        counted.taken := ARRAY(SELECT earlier - entry FROM unnest(counted.taken) AS earlier ORDER BY earlier);
    END IF;
    counted.taken := counted.taken || (extract(EPOCH FROM at - counted.since) * 1000)::integer;
    IF is_durable THEN
        UPDATE webhook.card_attempts
        SET since = counted.since, taken = counted.taken, expires_at = at + span
        WHERE card_attempts.subject = counted.subject;
    ELSE
        UPDATE webhook.api_usage
        SET since = counted.since, taken = counted.taken, expires_at = at + span
        WHERE api_usage.subject = counted.subject;
    END IF;
    RETURN at;
END
$$;

-- Refuse what is no limit. One of 0 is none.
CREATE FUNCTION webhook.check_limit(named text, most integer, span interval, is_durable boolean) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF (
        most BETWEEN 1 AND 1500 AND span BETWEEN interval '1 second' AND interval '1 day'
        AND named IS NOT NULL AND is_durable IS NOT NULL
    ) IS NOT TRUE THEN
        RAISE invalid_parameter_value USING MESSAGE = 'a limit is 0 to 1500 in 1 second to 1 day, of a subject';
    END IF;
END
$$;

-- Take one of one limit, or nothing, as take_limits() does: most requests take one alone, and this costs half as much.
CREATE FUNCTION webhook.take_limit(
    named text, most integer, span interval, is_durable boolean, clock timestamptz,
    OUT retry_after interval, OUT remaining integer, OUT taken_at timestamptz
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    used webhook.api_usage;
    judged record;
    instant timestamptz;
BEGIN
    IF most = 0 THEN
        RETURN;
    END IF;
    PERFORM webhook.check_limit(named, most, span, is_durable);
    used := webhook.read_usage(named, is_durable, true);
    instant := coalesce(clock, clock_timestamp());
    used.taken := webhook.counted_entries(used, span, instant);
    judged := webhook.judge_usage(used, most, span, instant);
    retry_after := judged.retry_after;
    remaining := judged.remaining;
    IF retry_after IS NULL THEN
        taken_at := webhook.write_usage(used, span, judged.taken_at, is_durable);
        remaining := remaining - 1;
    END IF;
END
$$;

-- The places of several limits in the order in which their rows are locked.
CREATE FUNCTION webhook.order_of_limits(subjects text[], limits integer[], is_durable boolean[]) RETURNS integer[]
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF (SELECT count(*) > count(DISTINCT subject) FROM unnest(subjects) AS subject) THEN
        RAISE invalid_parameter_value USING MESSAGE = 'a subject has one limit at a time';
    END IF;
    RETURN ARRAY(
        SELECT place
        FROM generate_subscripts(subjects, 1) AS place
        WHERE limits[place] IS DISTINCT FROM 0
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
    places integer[];
    place integer;
    is_locking boolean;
    used webhook.api_usage[];
    one webhook.api_usage;
    judged record;
    instant timestamptz;
BEGIN
    IF cardinality(subjects) = 1 THEN
        judged := webhook.take_limit(subjects[1], limits[1], windows[1], take_limits.is_durable[1], clock);
        retry_after := judged.retry_after;
        remaining := ARRAY[judged.remaining];
        taken_at := judged.taken_at;
        RETURN;
    END IF;
    remaining := array_fill(NULL::integer, ARRAY[cardinality(subjects)]);
    places := webhook.order_of_limits(subjects, limits, take_limits.is_durable);
    FOREACH place IN ARRAY places LOOP
        PERFORM webhook.check_limit(
            subjects[place], limits[place], windows[place], take_limits.is_durable[place]
        );
    END LOOP;
    -- They are looked at without locks first: who is refused anyway leaves no row, and keeps nobody waiting.
    FOREACH is_locking IN ARRAY ARRAY[false, true] LOOP
        FOREACH place IN ARRAY places LOOP
            used[place] := webhook.read_usage(subjects[place], take_limits.is_durable[place], is_locking);
        END LOOP;
        instant := coalesce(clock, clock_timestamp());
        taken_at := NULL;
        FOREACH place IN ARRAY places LOOP
            one := used[place];
            one.taken := webhook.counted_entries(one, windows[place], instant);
            used[place] := one;
            judged := webhook.judge_usage(one, limits[place], windows[place], instant);
            remaining[place] := judged.remaining;
            retry_after := greatest(retry_after, judged.retry_after);
            taken_at := greatest(taken_at, judged.taken_at);
        END LOOP;
        IF retry_after IS NOT NULL THEN
            taken_at := NULL;
            RETURN;
        END IF;
    END LOOP;
    FOREACH place IN ARRAY places LOOP
        PERFORM webhook.write_usage(used[place], windows[place], taken_at, take_limits.is_durable[place]);
        remaining[place] := remaining[place] - 1;
    END LOOP;
END
$$;

-- A row's entries without one of that instant; null where there is none.
CREATE FUNCTION webhook.without_taken(since timestamptz, taken integer[], at timestamptz) RETURNS integer[]
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place integer;
BEGIN
    IF at BETWEEN since AND since + interval '20 days' THEN
        place := array_position(taken, (extract(EPOCH FROM at - since) * 1000)::integer);
    END IF;
    RETURN CASE WHEN place IS NOT NULL THEN taken[:place - 1] || taken[place + 1:] END;
END
$$;

-- Release what take_limits() took of one subject's limit, named by the instant that it told: true where it was still
-- there. For an attempt that was none.
CREATE FUNCTION webhook.release_limit(named text, is_durable boolean, at timestamptz) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF is_durable THEN
        UPDATE webhook.card_attempts SET taken = webhook.without_taken(since, taken, at)
        WHERE card_attempts.subject = named AND webhook.without_taken(since, taken, at) IS NOT NULL;
    ELSE
        UPDATE webhook.api_usage SET taken = webhook.without_taken(since, taken, at)
        WHERE api_usage.subject = named AND webhook.without_taken(since, taken, at) IS NOT NULL;
    END IF;
    RETURN FOUND;
END
$$;

-- Let a request in: whose access token it is, whether it still holds, and one taken of its key's limit, if it does. State:
-- live, unknown, expired or revoked; all else is null but for live, and the rest of the statement sees what is theirs,
-- as after bearer(). Clock: for tests, of the limit alone.
CREATE FUNCTION webhook.admit_token(
    token bytea, most integer, span interval, clock timestamptz DEFAULT NULL,
    OUT state text, OUT api_key_id bigint, OUT client_id text, OUT merchant_id text, OUT is_use_due boolean,
    OUT retry_after interval, OUT remaining integer, OUT taken_at timestamptz
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found_token webhook.api_token;
    owner webhook.api_key;
    taken record;
BEGIN
    -- One after the other, by their primary keys: no plan could read more.
    SELECT api_token.* INTO found_token FROM webhook.api_token WHERE api_token.hash = token;
    SELECT api_key.* INTO owner FROM webhook.api_key WHERE api_key.id = found_token.api_key_id;
    state := CASE
        WHEN owner.id IS NULL THEN 'unknown'
        WHEN found_token.expires_at <= clock_timestamp() THEN 'expired'
        WHEN owner.revoked_at IS NOT NULL THEN 'revoked'
        ELSE 'live'
    END;
    IF state = 'live' THEN
        api_key_id := owner.id;
        client_id := owner.client_id;
        merchant_id := owner.merchant_id;
        PERFORM set_config('webhook.bearer', encode(token, 'hex'), true);
        is_use_due := coalesce(owner.last_used_at <= clock_timestamp() - interval '1 minute', true);
        taken := webhook.take_limit('key:' || owner.id, most, span, false, clock);
        retry_after := taken.retry_after;
        remaining := taken.remaining;
        taken_at := taken.taken_at;
    END IF;
END
$$;

-- Exchange a client's id and secret, by its hash, for an access token, by its hash. State: issued, wrong (an unknown client
-- too, compared all the same) or revoked, which only the right secret is told. An hour at most.
CREATE FUNCTION webhook.issue_token(
    named text, given_hash bytea, token bytea, lifetime interval, OUT state text, OUT expires_at timestamptz
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    owner webhook.api_key;
    is_right boolean;
BEGIN
    SELECT api_key.* INTO owner FROM webhook.api_key WHERE api_key.client_id = named;
    is_right := coalesce(owner.secret_hash, sha256('nobody')) = given_hash AND owner.id IS NOT NULL;
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

-- Make a key for a merchant that the outbox would take events of. From then on daemons before version 6 end: they could not
-- sign for a merchant that the API configures.
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
    UPDATE webhook.state SET compatible_from = 6 WHERE state.is_only AND state.compatible_from < 6;
    INSERT INTO webhook.audit (person, action, merchant_id, after)
    VALUES (
        person, 'api key created', merchant,
        jsonb_build_object('client_id', new_client_id, 'name', btrim(new_name))
    );
    RETURN created;
END
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

-- The keys without what could prove one.
CREATE VIEW webhook.api_keys AS
SELECT client_id, merchant_id, name, created_at, created_by, last_used_at, revoked_at, revoked_by
FROM webhook.api_key;

REVOKE EXECUTE ON FUNCTION
webhook.read_usage, webhook.counted_entries, webhook.judge_usage, webhook.write_usage, webhook.check_limit,
webhook.take_limit, webhook.order_of_limits, webhook.take_limits,
webhook.without_taken, webhook.release_limit, webhook.admit_token, webhook.issue_token, webhook.note_key_use,
webhook.create_api_key, webhook.revoke_api_key
FROM public;
GRANT EXECUTE ON FUNCTION
webhook.take_limits, webhook.release_limit, webhook.admit_token, webhook.issue_token, webhook.note_key_use
TO webhook_api;
GRANT EXECUTE ON FUNCTION webhook.create_api_key, webhook.revoke_api_key TO webhook_admin;
GRANT SELECT ON webhook.api_keys TO webhook_admin, webhook_observer;
-- Upkeep clears away what expired. UPDATE is what locks need.
GRANT SELECT (hash, expires_at), UPDATE (expires_at), DELETE ON webhook.api_token TO webhook_dispatcher;
GRANT SELECT (subject, expires_at), UPDATE (expires_at), DELETE
ON webhook.api_usage, webhook.card_attempts TO webhook_dispatcher;

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

-- What requests with an Idempotency-Key were answered, or which command they gave, or that the charge service was asked
-- and has not answered. Hash: of client id, method, target and key, so that no key meets another's.
CREATE TABLE webhook.api_request (
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
GRANT SELECT, INSERT, UPDATE, DELETE ON webhook.api_request TO webhook_api;
-- Upkeep clears away what expired. UPDATE is what locks need.
GRANT SELECT (hash, expires_at), UPDATE (expires_at), DELETE ON webhook.api_request TO webhook_dispatcher;

UPDATE webhook.state SET schema_version = 6;
