-- Why:   what the console shows: which dispatchers are there and what they attempted, which events a command sent again, and
--        views that show nothing before webhook.console_reader has found who reads. Who is no operator sees no payload
--        and nothing of what merchants answered. Still serves daemons of version 1.
-- Locks: lane for a moment, against writing, for an index of what is paused; state's one row. All else is made here.
SET lock_timeout = '5s';
SET statement_timeout = '1min';
SET ROLE webhook_owner;

-- A dispatcher as it noted itself last, every ten seconds; one that ends removes its row. Reasons: why it is not ready;
-- faults: of its own, in words.
CREATE TABLE webhook.dispatcher (
    owner text COLLATE "C" PRIMARY KEY,
    host text NOT NULL,
    version text NOT NULL,
    started_at timestamptz NOT NULL,
    beat_at timestamptz NOT NULL,
    lanes integer NOT NULL,
    attempts_in_flight integer NOT NULL,
    is_ready boolean NOT NULL,
    reasons text[] NOT NULL,
    faults text[] NOT NULL
) WITH (fillfactor = 50);

-- Attempts that were recorded, by all dispatchers together: what one had not noted yet when it was killed is missing.
CREATE TABLE webhook.attempts_by_minute (
    minute timestamptz NOT NULL,
    outcome text COLLATE "C" NOT NULL,
    attempts bigint NOT NULL,
    PRIMARY KEY (minute, outcome)
) WITH (fillfactor = 50);

-- How far the outbox's numbers were at some instant of a minute: between which a range of time is.
CREATE TABLE webhook.seq_by_minute (
    minute timestamptz PRIMARY KEY,
    seq bigint NOT NULL
);

-- Which events a mass command sent again, chunk by chunk. Place: how many it had sent before.
CREATE TABLE webhook.command_chunk (
    command_id bigint NOT NULL,
    place bigint NOT NULL,
    seqs bigint[] NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (command_id, place)
);
CREATE INDEX command_chunk_at ON webhook.command_chunk (at);

GRANT SELECT, INSERT, UPDATE, DELETE
ON webhook.dispatcher, webhook.attempts_by_minute, webhook.seq_by_minute, webhook.command_chunk
TO webhook_dispatcher;
GRANT SELECT ON webhook.dispatcher, webhook.attempts_by_minute TO webhook_admin, webhook_observer;

-- squawk-ignore require-concurrent-index-creation
CREATE INDEX lane_paused ON webhook.lane (merchant_id) WHERE paused;

GRANT EXECUTE ON FUNCTION webhook.charge_key TO webhook_console;

-- Deliveries: what is owed and what is finished, as webhook.owed and webhook.finished. The condition has no column: it is
-- asked before a scan begins, and changes nothing about the plan.
CREATE VIEW webhook.console_owed AS
SELECT
    outbox.seq,
    outbox.id AS event_id,
    outbox.merchant_id,
    outbox.type,
    outbox.created_at,
    outbox.attempts,
    outbox.due_at,
    outbox.claim IS NOT NULL AS is_claimed,
    outbox.trigger,
    outbox.on_failure,
    outbox.last_status,
    outbox.last_outcome,
    webhook.charge_key(outbox.object) COLLATE "C" AS charge_id
FROM webhook.outbox
WHERE (SELECT webhook.current_person_role()) IS NOT NULL;

CREATE VIEW webhook.console_finished AS
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
    webhook.charge_key(delivery_log.object) COLLATE "C" AS charge_id
FROM webhook.delivery_log
WHERE (SELECT webhook.current_person_role()) IS NOT NULL;

-- Payloads, for operators alone.
CREATE VIEW webhook.console_payloads AS
SELECT outbox.id AS event_id, outbox.seq, outbox.object
FROM webhook.outbox
WHERE (SELECT webhook.current_person_role()) = 'operator'
UNION ALL
SELECT delivery_log.event_id, delivery_log.seq, delivery_log.object
FROM webhook.delivery_log
WHERE (SELECT webhook.current_person_role()) = 'operator';

-- What a merchant answered may repeat the payload.
CREATE VIEW webhook.console_attempts AS
SELECT
    attempt_log.event_id,
    attempt_log.merchant_id,
    attempt_log.attempt,
    attempt_log.trigger,
    attempt_log.started_at,
    attempt_log.duration_ms,
    attempt_log.status,
    attempt_log.outcome,
    attempt_log.reason,
    CASE WHEN (SELECT webhook.current_person_role()) = 'operator' THEN attempt_log.response_excerpt END AS response_excerpt
FROM webhook.attempt_log
WHERE (SELECT webhook.current_person_role()) IS NOT NULL;

-- Not whether a lane is held: with the clock among its columns the view could not be read in the order of an index.
CREATE VIEW webhook.console_lanes AS
SELECT
    lane.merchant_id,
    lane.paused,
    lane.lease_until,
    lane.owner,
    lane.leased_at,
    lane.wait_until,
    lane.retry_at,
    lane.endpoint_removed_at,
    lane.last_success_at,
    lane.failing_since,
    lane.failures_in_a_row,
    lane.suspended_at
FROM webhook.lane
WHERE (SELECT webhook.current_person_role()) IS NOT NULL;

CREATE VIEW webhook.console_endpoints AS
SELECT
    endpoint.merchant_id,
    endpoint.url,
    endpoint.created_at,
    endpoint.updated_at,
    endpoint.secret_created_at,
    endpoint.previous_until
FROM webhook.endpoint
WHERE (SELECT webhook.current_person_role()) IS NOT NULL;

CREATE VIEW webhook.console_api_keys AS
SELECT
    api_key.id,
    api_key.client_id,
    api_key.merchant_id,
    api_key.name,
    api_key.created_at,
    api_key.created_by,
    api_key.last_used_at,
    api_key.revoked_at,
    api_key.revoked_by
FROM webhook.api_key
WHERE (SELECT webhook.current_person_role()) IS NOT NULL;

CREATE VIEW webhook.console_commands AS
SELECT
    control.id,
    control.created_at,
    control.requested_by,
    control.command,
    control.merchant_id,
    control.event_id,
    control.args,
    control.status,
    control.running_until,
    control.stopping AS is_stopping,
    control.handled_at,
    control.result,
    control.error_code,
    control.error_message
FROM webhook.control
WHERE (SELECT webhook.current_person_role()) IS NOT NULL;

CREATE VIEW webhook.console_command_chunks AS
SELECT command_chunk.command_id, command_chunk.place, command_chunk.seqs, command_chunk.at
FROM webhook.command_chunk
WHERE (SELECT webhook.current_person_role()) IS NOT NULL;

-- Who signed in from where, and who changed what, for operators alone.
CREATE VIEW webhook.console_audit AS
SELECT audit.id, audit.at, audit.role, audit.person, audit.action, audit.merchant_id, audit.before, audit.after
FROM webhook.audit
WHERE (SELECT webhook.current_person_role()) = 'operator';

CREATE VIEW webhook.console_state AS
SELECT
    state.schema_version,
    state.compatible_from,
    state.paused,
    state.has_charge_index,
    state.has_feed_index,
    state.installation,
    state.system_identifier
FROM webhook.state
WHERE state.is_only AND (SELECT webhook.current_person_role()) IS NOT NULL;

CREATE VIEW webhook.console_dispatchers AS
SELECT
    dispatcher.owner,
    dispatcher.host,
    dispatcher.version,
    dispatcher.started_at,
    dispatcher.beat_at,
    dispatcher.lanes,
    dispatcher.attempts_in_flight,
    dispatcher.is_ready,
    dispatcher.reasons,
    dispatcher.faults
FROM webhook.dispatcher
WHERE (SELECT webhook.current_person_role()) IS NOT NULL;

CREATE VIEW webhook.console_attempts_by_minute AS
SELECT attempts_by_minute.minute, attempts_by_minute.outcome, attempts_by_minute.attempts
FROM webhook.attempts_by_minute
WHERE (SELECT webhook.current_person_role()) IS NOT NULL;

CREATE VIEW webhook.console_seq_by_minute AS
SELECT seq_by_minute.minute, seq_by_minute.seq
FROM webhook.seq_by_minute
WHERE (SELECT webhook.current_person_role()) IS NOT NULL;

CREATE VIEW webhook.console_sealing_keys AS
SELECT sealing_key.key_id, sealing_key.confirmed_at
FROM webhook.sealing_key
WHERE
    sealing_key.key_id = (SELECT current_sealing_key.key_id FROM webhook.current_sealing_key)
    AND (SELECT webhook.current_person_role()) IS NOT NULL;

GRANT SELECT
ON webhook.console_owed, webhook.console_finished, webhook.console_payloads, webhook.console_attempts,
webhook.console_lanes, webhook.console_endpoints, webhook.console_api_keys, webhook.console_commands,
webhook.console_command_chunks, webhook.console_audit, webhook.console_state, webhook.console_dispatchers,
webhook.console_attempts_by_minute, webhook.console_seq_by_minute, webhook.console_sealing_keys
TO webhook_console;

UPDATE webhook.state SET schema_version = 8;
