-- Why:   the Partner API: who may ask (keys, tokens), how often (usage), what was answered before (requests), and what
--        each may see and change. The role webhook_api sees no table of deliveries, endpoints or commands: views and
--        functions that find the merchant by the token which the statement itself brings. An installation that does
--        not run the API has empty tables. Still serves daemons of version 1.
-- Locks: state for a moment; outbox and delivery_log with its partitions for a moment, together, at the very end: whoever
--        waits for the one while it holds the other is let go first, within 0.3 s, each fifth time within 1.5 s. No row
--        of theirs is read or rewritten. All else is made here. Where events are there already, `migrate` makes two
--        indexes afterwards, concurrently. Without `migrate`, by hand: CREATE INDEX CONCURRENTLY outbox_out_of_order ON
--        webhook.outbox (merchant_id, seq) WHERE due_at IS NOT NULL; and for the outbox and each partition p of
--        delivery_log: CREATE INDEX CONCURRENTLY p_feed ON webhook.p (merchant_id, xid, seq) WHERE xid >= '0';
--        ALTER INDEX webhook.delivery_log_feed ATTACH PARTITION webhook.p_feed.
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
REVOKE EXECUTE ON FUNCTION webhook.current_merchant FROM public;
GRANT EXECUTE ON FUNCTION webhook.bearer, webhook.current_merchant TO webhook_api;

-- What merchants see of themselves. A statement that forgets bearer() finds nothing here. No security barriers: they
-- would keep ORDER BY .. LIMIT from the partitions' indexes, and guard only against conditions that tell what they saw of
-- others' rows: those are in no statement of ours, and merchants write none.
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
-- it, and counting starts anew. Taken: milliseconds after `since`, ascending; since: milliseconds after 1970. Rows stay
-- where they are when they change. Functions alone write them, and is_limit() says what fits: constraints, which each
-- statement reads anew, would be a tenth of what a request costs.
CREATE UNLOGGED TABLE webhook.api_usage (
    subject text COLLATE "C" PRIMARY KEY,
    since bigint NOT NULL,
    taken integer[] NOT NULL,
    expires_at timestamptz NOT NULL
) WITH (fillfactor = 30);
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
    suspended_at timestamptz
);

-- Let a request in: whose access token it is, whether it still holds, and one taken of its key's limit, if it does. With
-- its merchant's endpoint, which the token alone finds. Clock: for tests, of the limit alone.
CREATE FUNCTION webhook.admit_token(
    token bytea, most integer, span interval, clock timestamptz DEFAULT NULL, with_endpoint boolean DEFAULT false
)
RETURNS webhook.admission
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
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
            NULL, NULL, NULL
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
        SELECT
            endpoints.url, endpoints.paused, endpoints.created_at, endpoints.updated_at, endpoints.secret_created_at,
            endpoints.last_success_at, endpoints.failing_since, endpoints.failures_in_a_row, endpoints.suspended_at
        INTO
            admitted.url, admitted.paused, admitted.created_at, admitted.updated_at, admitted.secret_created_at,
            admitted.last_success_at, admitted.failing_since, admitted.failures_in_a_row, admitted.suspended_at
        FROM webhook.endpoints
        WHERE endpoints.merchant_id = admitted.merchant_id;
    END IF;
    RETURN admitted;
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
webhook.microseconds, webhook.milliseconds, webhook.instant, webhook.read_clock, webhook.is_limit,
webhook.entries_since, webhook.counted_entries, webhook.wait_for_one_more, webhook.one_more, webhook.take_limit,
webhook.read_usage, webhook.write_usage, webhook.order_of_limits, webhook.take_limits,
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
-- ELSE, which is never true, makes it the dearer one of two: the statement's own is looked at first, and of what is
-- another's current_merchant() is not called, as it is not of what is not there.
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
WHERE
    CASE
        WHEN outbox.merchant_id = (SELECT webhook.current_merchant()) THEN true
        ELSE outbox.merchant_id <> outbox.merchant_id
    END;

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
WHERE
    CASE
        WHEN delivery_log.merchant_id = (SELECT webhook.current_merchant()) THEN true
        ELSE delivery_log.merchant_id <> delivery_log.merchant_id
    END;
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

-- Whose delivery a command for this event would find: the one that is owed, else the latest. command_subject() finds the
-- same, and stops at what is owed; this reads as much whether the event is owed, finished or nobody's, so that the time
-- it takes does not tell a merchant which ids are others'. Null: there is none, or it cannot be read.
CREATE FUNCTION webhook.event_merchant(event_id uuid) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (
        SELECT found.merchant_id
        FROM (
            SELECT outbox.merchant_id, outbox.seq, true AS is_owed
            FROM webhook.outbox
            WHERE outbox.id = event_merchant.event_id
            UNION ALL
            SELECT delivery_log.merchant_id, delivery_log.seq, false
            FROM webhook.delivery_log
            WHERE delivery_log.event_id = event_merchant.event_id
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
REVOKE EXECUTE ON FUNCTION webhook.event_merchant FROM public;

-- Give a command for the token's merchant; its id, or null where the event is not the merchant's (or nobody's). Ten of
-- a merchant's may be open that were given like this, and one of those that go through many deliveries: else WH409; so
-- too where others of the merchant's are being given for longer than a second.
CREATE FUNCTION webhook.own_command(token bytea, command text, event_id uuid, since timestamptz, until timestamptz)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET lock_timeout = '1s'
AS $$
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
    -- One at a time of a merchant, or two at once would each find room for one more.
    BEGIN
        PERFORM pg_advisory_xact_lock(hashtextextended(asking.merchant, 6006));
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
REVOKE EXECUTE ON FUNCTION webhook.own_command FROM public;
GRANT EXECUTE
ON FUNCTION webhook.own_put_endpoint, webhook.own_rotate_secret, webhook.own_remove_endpoint, webhook.own_command
TO webhook_api;

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
-- Upkeep clears away what expired. UPDATE is what locks need.
GRANT SELECT (hash, expires_at), UPDATE (expires_at), DELETE ON webhook.api_request TO webhook_dispatcher;

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
    own bytea := webhook.request_hash((webhook.authorized_merchant(token)).api_key_id, request);
    claimed uuid;
BEGIN
    INSERT INTO webhook.api_request (hash, body_hash, asked_until, command_id, status, language, answer, expires_at)
    VALUES (
        own, own_keep_request.body_hash, clock_timestamp() + patience, own_keep_request.command_id,
        own_keep_request.status, own_keep_request.language, own_keep_request.answer, clock_timestamp() + lifetime
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
BEGIN
    UPDATE webhook.api_request
    SET
        asked_until = CASE WHEN settle_request.status IS NULL THEN clock_timestamp() END,
        status = settle_request.status,
        language = settle_request.language,
        answer = settle_request.answer
    WHERE
        api_request.hash = webhook.request_hash(settle_request.api_key_id, request)
        AND api_request.claim = claimed;
    RETURN FOUND;
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
REVOKE EXECUTE ON FUNCTION
webhook.request_hash, webhook.own_begin_request, webhook.own_keep_request, webhook.settle_request,
webhook.forget_request
FROM public;
GRANT EXECUTE ON FUNCTION
webhook.own_begin_request, webhook.own_keep_request, webhook.settle_request, webhook.forget_request
TO webhook_api;

-- Events in an order that never skips what commits late: by the transaction that inserted them, then by number. What lies
-- below a snapshot's xmin is complete; a merchant reads that far, and goes on there. Rows that are there already are the
-- first, in the order of their numbers. The log has the outbox's default, too: a daemon of the version before does not
-- carry the transaction along, and what it moves is then read once more, which skipping it would not be.
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
            LOCK TABLE webhook.outbox, webhook.delivery_log IN ACCESS EXCLUSIVE MODE;
            PERFORM set_config('lock_timeout', '5s', true);
            RETURN;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            PERFORM pg_sleep(0.2 * random());
        END;
    END LOOP;
    RAISE lock_not_available USING MESSAGE = 'outbox and log are in use all the time: see pg_locks, and try again';
END
$$;
ALTER TABLE webhook.outbox ADD COLUMN xid xid8 NOT NULL DEFAULT '0';
ALTER TABLE webhook.outbox ALTER COLUMN xid SET DEFAULT pg_current_xact_id();
ALTER TABLE webhook.delivery_log ADD COLUMN xid xid8 NOT NULL DEFAULT '0';
ALTER TABLE webhook.delivery_log ALTER COLUMN xid SET DEFAULT pg_current_xact_id();
COMMENT ON COLUMN webhook.outbox.xid IS
'The transaction that inserted the event; by (xid, seq) merchants read on. It goes with the row into the log and back.';

-- Partitions that are made from now on have the index by themselves; on the log alone it has no rows. The predicate holds
-- for every row: only the statement that repeats it can use the index, and no plan of another, made on empty tables, does.
ALTER TABLE webhook.state ADD COLUMN has_feed_index boolean NOT NULL DEFAULT true;
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX delivery_log_feed ON ONLY webhook.delivery_log (merchant_id, xid, seq) WHERE xid >= '0';
DO $$
DECLARE
    partition name;
BEGIN
    IF pg_sequence_last_value('webhook.outbox_seq_seq') IS NOT NULL THEN
        RETURN;
    END IF;
    CREATE INDEX outbox_feed ON webhook.outbox (merchant_id, xid, seq) WHERE xid >= '0';
    FOR partition IN
        SELECT child.relname
        FROM pg_inherits
        JOIN pg_class AS child ON child.oid = pg_inherits.inhrelid
        WHERE pg_inherits.inhparent = 'webhook.delivery_log'::regclass AND NOT pg_inherits.inhdetachpending
        ORDER BY child.relname
    LOOP
        EXECUTE format(
            $statement$CREATE INDEX %I ON webhook.%I (merchant_id, xid, seq) WHERE xid >= '0'$statement$,
            partition || '_feed', partition
        );
        EXECUTE format('ALTER INDEX webhook.delivery_log_feed ATTACH PARTITION webhook.%I', partition || '_feed');
    END LOOP;
END
$$;

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
GRANT SELECT, INSERT, DELETE ON webhook.milestone TO webhook_dispatcher;
GRANT SELECT ON webhook.milestone TO webhook_api;

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
REVOKE EXECUTE ON FUNCTION webhook.timeline FROM public;
GRANT EXECUTE ON FUNCTION webhook.timeline TO webhook_api;

-- A merchant's events in the order of the feed: as own_owed and own_finished, and no more than is shown.
CREATE VIEW webhook.own_owed_events AS
SELECT
    outbox.merchant_id,
    outbox.xid,
    outbox.seq,
    outbox.id AS event_id,
    outbox.type,
    outbox.created_at,
    outbox.object
FROM webhook.outbox
WHERE
    CASE
        WHEN outbox.merchant_id = (SELECT webhook.current_merchant()) THEN true
        ELSE outbox.merchant_id <> outbox.merchant_id
    END;

CREATE VIEW webhook.own_finished_events AS
SELECT
    delivery_log.merchant_id,
    delivery_log.xid,
    delivery_log.seq,
    delivery_log.event_id,
    delivery_log.type,
    delivery_log.created_at,
    delivery_log.object
FROM webhook.delivery_log
WHERE CASE WHEN delivery_log.merchant_id = (SELECT webhook.current_merchant()) THEN true END;
GRANT SELECT ON webhook.own_owed_events, webhook.own_finished_events TO webhook_api;

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
REVOKE EXECUTE ON FUNCTION webhook.renumber_feed FROM public;
CREATE TRIGGER moved_state_renumbers_the_feed AFTER UPDATE OF system_identifier ON webhook.state
FOR EACH ROW WHEN (new.system_identifier IS DISTINCT FROM old.system_identifier)
EXECUTE FUNCTION webhook.renumber_feed();

UPDATE webhook.state SET schema_version = 6;
