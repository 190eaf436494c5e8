-- Why:   an answer that is kept for an Idempotency-Key may have 4 MiB, so that one API key could fill the disk with 35 GiB an
--        hour. The bytes that are kept for each key are counted, and above a bound its new requests are to be refused. What
--        was kept before is not counted, and has expired a day after this.
--        Still serves programs for version 8, and daemons of version 1: their answers are counted, too.
-- Locks: state's one row.
SET lock_timeout = '5s';
SET statement_timeout = '1min';
SET ROLE webhook_owner;

-- The bytes of the answers of an API key that expire within the hour before expires_at: a key has 25 rows that count at most,
-- however many answers it has. A row is never reduced; it ends as a whole.
CREATE TABLE webhook.api_kept_bytes (
    api_key_id bigint NOT NULL,
    expires_at timestamptz NOT NULL,
    bytes bigint NOT NULL,
    PRIMARY KEY (api_key_id, expires_at)
);
CREATE INDEX api_kept_bytes_expiry ON webhook.api_kept_bytes (expires_at);
-- Upkeep clears away what expired. UPDATE is what locks need.
GRANT SELECT, UPDATE (expires_at), DELETE ON webhook.api_kept_bytes TO webhook_dispatcher;

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

CREATE OR REPLACE FUNCTION webhook.own_keep_request(
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

CREATE OR REPLACE FUNCTION webhook.settle_request(
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
REVOKE EXECUTE ON FUNCTION webhook.count_kept_bytes, webhook.own_kept_full_for FROM public;
GRANT EXECUTE ON FUNCTION webhook.own_kept_full_for TO webhook_api;

UPDATE webhook.state SET schema_version = 13;
