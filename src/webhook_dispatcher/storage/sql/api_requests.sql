-- Requests with an Idempotency-Key: each has one effect, and one answer for as long as it is kept.

-- name: begin_request
-- Keep equal requests of the token's API key out until this transaction ends, and read what became of it before; of a new
-- one, whether anything may be kept. WH401 where the token is not valid.
-- $1 token bytea
-- $2 request bytea
-- row: is_ours boolean, body_hash bytea, seconds_left double precision, command_id bigint, status smallint, language text,
--   answer text, full_for interval; seconds_left: of asking upstream; full_for: until the key may keep more, null: now
-- order: one row; not ours: what holds the lock is still being carried out; without a body_hash it is new
SELECT
    begun.is_ours, begun.body_hash, begun.seconds_left, begun.command_id, begun.status, begun.language, begun.answer,
    CASE WHEN begun.body_hash IS NULL THEN webhook.own_kept_full_for($1) END AS full_for
FROM webhook.own_begin_request($1, $2) AS begun;

-- name: keep_request
-- Keep what became of it: in the transaction that has its effect, or before the charge service is asked, which is by us
-- alone from now on. WH401 where the token is not valid.
-- $1 token bytea
-- $2 request bytea
-- $3 body_hash bytea
-- $4 command_id bigint; the command that it gave, or
-- $5 status smallint
-- $6 language text
-- $7 answer text; what it was answered, or
-- $8 patience interval; how long asking may take
-- $9 lifetime interval
-- row: claim uuid
-- order: one row
SELECT webhook.own_keep_request($1, $2, $3, $4, $5, $6, $7, $8, $9) AS claim;

-- name: settle_request
-- Keep what the charge service answered, unless another process has asked again meanwhile. Without a status, let the same
-- key and body ask again: what came of it is not known.
-- $1 api_key_id bigint
-- $2 request bytea
-- $3 claim uuid
-- $4 status smallint
-- $5 language text
-- $6 answer text
-- row: is_settled boolean
-- order: one row
SELECT webhook.settle_request($1, $2, $3, $4, $5, $6) AS is_settled;

-- name: forget_request
-- Forget a request that has had no effect, unless another process has asked again meanwhile.
-- $1 api_key_id bigint
-- $2 request bytea
-- $3 claim uuid
-- row: is_forgotten boolean
-- order: one row
SELECT webhook.forget_request($1, $2, $3) AS is_forgotten;
