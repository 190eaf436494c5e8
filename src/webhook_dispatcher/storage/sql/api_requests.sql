-- Requests with an Idempotency-Key: each has one effect, and one answer for as long as it is kept.

-- name: lock_request
-- Keep equal requests out until this transaction ends; what holds the lock is still being carried out.
-- $1 hash bytea
-- row: is_ours boolean
-- order: one row
SELECT pg_try_advisory_xact_lock(hashtextextended(encode($1, 'hex'), 6)) AS is_ours;

-- name: read_request
-- Read what became of a request. A statement of its own, after the lock: it sees what was committed before that.
-- $1 hash bytea
-- row: body_hash bytea, seconds_left double precision, command_id bigint, status smallint, language text, answer text;
--   seconds_left: of asking upstream
-- none: it is new
SELECT
    api_request.body_hash,
    extract(epoch FROM api_request.asked_until - clock_timestamp())::double precision AS seconds_left,
    api_request.command_id,
    api_request.status,
    api_request.language,
    api_request.answer
FROM webhook.api_request
WHERE api_request.hash = $1 AND api_request.expires_at > clock_timestamp();

-- name: keep_request
-- Keep what became of a request of ours, in the transaction that has its effect.
-- $1 hash bytea
-- $2 body_hash bytea
-- $3 command_id bigint; the command that it gave, or
-- $4 status smallint
-- $5 language text
-- $6 answer text; what it was answered
-- $7 lifetime interval
INSERT INTO webhook.api_request (hash, body_hash, command_id, status, language, answer, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp() + $7)
ON CONFLICT (hash) DO UPDATE SET
    body_hash = excluded.body_hash,
    claim = excluded.claim,
    asked_until = NULL,
    command_id = excluded.command_id,
    status = excluded.status,
    language = excluded.language,
    answer = excluded.answer,
    expires_at = excluded.expires_at;

-- name: claim_request
-- Say that the charge service is being asked, by us alone from now on.
-- $1 hash bytea
-- $2 body_hash bytea
-- $3 patience interval
-- $4 lifetime interval
-- row: claim uuid
-- none: cannot be
INSERT INTO webhook.api_request (hash, body_hash, asked_until, expires_at)
VALUES ($1, $2, clock_timestamp() + $3, clock_timestamp() + $4)
ON CONFLICT (hash) DO UPDATE SET
    body_hash = excluded.body_hash,
    claim = excluded.claim,
    asked_until = excluded.asked_until,
    command_id = NULL,
    status = NULL,
    language = NULL,
    answer = NULL,
    expires_at = excluded.expires_at
RETURNING api_request.claim;

-- name: answer_request
-- Keep what the charge service answered, unless another process has asked again meanwhile.
-- $1 hash bytea
-- $2 claim uuid
-- $3 status smallint
-- $4 language text
-- $5 answer text
UPDATE webhook.api_request
SET asked_until = NULL, status = $3, language = $4, answer = $5
WHERE api_request.hash = $1 AND api_request.claim = $2;

-- name: doubt_request
-- Let the charge service be asked again by the same key and body: what came of it is not known.
-- $1 hash bytea
-- $2 claim uuid
UPDATE webhook.api_request
SET asked_until = clock_timestamp()
WHERE api_request.hash = $1 AND api_request.claim = $2;

-- name: forget_request
-- Forget a request that has had no effect, unless another process has asked again meanwhile.
-- $1 hash bytea
-- $2 claim uuid
DELETE FROM webhook.api_request
WHERE api_request.hash = $1 AND api_request.claim = $2;
