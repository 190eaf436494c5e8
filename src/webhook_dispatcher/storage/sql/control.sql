-- Carrying out the control table's commands. One dispatcher at a time carries them out, in order of id, each in
-- a transaction of its own: what a command does and that it is done are committed together.

-- name: lock_control
-- Keep other dispatchers from carrying out commands until this transaction ends.
-- row: is_only boolean
-- none: another dispatcher carries out commands just now
SELECT state.is_only FROM webhook.state WHERE state.is_only FOR NO KEY UPDATE SKIP LOCKED;

-- name: next_command
-- Find the oldest command that is pending, or running while its worker's lease has ended. Left out are the named
-- ones, and those for the same merchant or event.
-- $1 except_ids bigint[]
-- row: id bigint
-- none: there is no such command
SELECT control.id
FROM webhook.control
WHERE
    (
        control.status = 'pending'
        OR (control.status = 'running' AND control.running_until < clock_timestamp())
    )
    AND NOT EXISTS (
        SELECT FROM webhook.control AS postponed
        WHERE
            postponed.id = ANY($1::bigint[])
            AND (
                postponed.id = control.id
                OR postponed.merchant_id = control.merchant_id
                OR postponed.event_id = control.event_id
            )
    )
ORDER BY control.id
LIMIT 1;

-- name: read_command
-- Read one command.
-- $1 id bigint
-- row: id bigint, command text, merchant_id text, event_id uuid, args jsonb, result jsonb,
--      created_at timestamptz
SELECT
    control.id, control.command, control.merchant_id, control.event_id, control.args,
    control.result, control.created_at
FROM webhook.control
WHERE control.id = $1;

-- name: finish_command
-- Write down what became of a command.
-- $1 id bigint
-- $2 status text
-- $3 result jsonb
-- $4 error_code integer
-- $5 error_message text
-- $6 running_until timestamptz
-- row: id bigint
-- none: running_until was given and is not the lease it has: another worker has it
UPDATE webhook.control
SET
    status = $2, handled_at = clock_timestamp(), running_until = NULL,
    result = coalesce($3, control.result), error_code = $4, error_message = $5
WHERE control.id = $1 AND ($6::timestamptz IS NULL OR control.running_until = $6)
RETURNING control.id;

-- name: mark_running
-- Mark a command as running until the lease ends, and write down its progress.
-- $1 id bigint
-- $2 lease interval
-- $3 result jsonb
-- $4 running_until timestamptz
-- row: running_until timestamptz
-- none: running_until was given and is not the lease it has: another worker has it
UPDATE webhook.control
SET status = 'running', running_until = clock_timestamp() + $2::interval, result = $3
WHERE control.id = $1 AND ($4::timestamptz IS NULL OR control.running_until = $4)
RETURNING control.running_until;

-- name: purge_control
-- Forget commands handled longer ago than the audit trail is kept.
-- $1 keep interval
-- none: always
DELETE FROM webhook.control WHERE control.handled_at < clock_timestamp() - $1::interval;

-- name: lock_lane
-- Lock one lane, so that nobody claims from it or records into it until this transaction ends.
-- $1 merchant_id text
-- row: is_leased boolean, paused boolean
-- none: there is no such lane
SELECT lane.lease_until > clock_timestamp() AS is_leased, lane.paused
FROM webhook.lane
WHERE lane.merchant_id = $1
FOR NO KEY UPDATE;

-- name: recall_lane
-- Recall a lane: its holder releases it before it starts another attempt, even if the lease has ended.
-- $1 merchant_id text
-- none: always
UPDATE webhook.lane
SET recalled = lane.recalled OR lane.lease_until > '-infinity'
WHERE lane.merchant_id = $1;

-- name: pause_lane
-- Pause or resume one merchant.
-- $1 merchant_id text
-- $2 paused boolean
-- none: always
UPDATE webhook.lane
SET paused = $2, recalled = lane.recalled OR ($2 AND lane.lease_until > '-infinity')
WHERE lane.merchant_id = $1;

-- name: pause_everything
-- Pause or resume all sending.
-- $1 paused boolean
-- none: always
UPDATE webhook.state SET paused = $1 WHERE state.is_only;

-- name: read_pause
-- Tell whether a merchant has an endpoint, and whether it is paused.
-- $1 merchant_id text
-- row: is_paused boolean
-- none: not configured
SELECT coalesce(lane.paused, false) OR (SELECT state.paused FROM webhook.state WHERE state.is_only) AS is_paused
FROM webhook.endpoint
LEFT JOIN webhook.lane ON lane.merchant_id = endpoint.merchant_id
WHERE endpoint.merchant_id = $1;

-- name: set_url
-- Change the URL of a configured endpoint; its trigger recalls the lane.
-- $1 merchant_id text
-- $2 url text
-- row: merchant_id text
-- none: not configured
UPDATE webhook.endpoint
SET url = $2, updated_at = clock_timestamp()
WHERE endpoint.merchant_id = $1
RETURNING endpoint.merchant_id;

-- name: log_test_event
-- Write down a test event and its one attempt.
-- $1 event_id uuid
-- $2 merchant_id text
-- $3 created_at timestamptz
-- $4 object json
-- $5 state text
-- $6 failed_reason text
-- $7 started_at timestamptz
-- $8 duration_ms integer
-- $9 status smallint
-- $10 outcome text
-- $11 finished_at timestamptz
-- $12 reason text
-- $13 response_excerpt text
-- none: always
WITH attempted AS (
    INSERT INTO webhook.attempt_log (
        event_id, merchant_id, attempt, trigger, started_at, duration_ms, status, outcome,
        reason, response_excerpt
    )
    VALUES ($1, $2, 1, 'manual', $7, $8, $9, $10, $12, $13)
    ON CONFLICT DO NOTHING
    RETURNING attempt_log.event_id
)
INSERT INTO webhook.delivery_log (
    seq, event_id, merchant_id, type, created_at, object,
    state, failed_reason, attempts, last_status, last_outcome, finished_at
)
SELECT nextval('webhook.outbox_seq_seq'), $1, $2, 'webhook.test', $3, $4, $5, $6, 1, $9, $10, $11
FROM attempted;
