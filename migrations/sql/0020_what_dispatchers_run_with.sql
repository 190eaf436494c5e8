-- Why:   the console showed its own settings and nobody's else, and called failing whose latest attempt had failed, since it
--        does not see when the others' last failure was. Still serves programs for version 8, and daemons of version 1.
-- Locks: state's one row; the table of dispatchers and three views for a moment.
SET lock_timeout = '5s';
SET statement_timeout = '1min';
SET ROLE webhook_owner;

-- Settings that are not as they are by default, as text by name; without secrets. Null: a dispatcher of the version before.
ALTER TABLE webhook.dispatcher ADD COLUMN settings jsonb;

CREATE OR REPLACE VIEW webhook.console_dispatchers AS
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
    dispatcher.faults,
    dispatcher.settings
FROM webhook.dispatcher
WHERE (SELECT webhook.current_person_role()) IS NOT NULL;

CREATE OR REPLACE VIEW webhook.console_lanes AS
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
    lane.suspended_at,
    lane.last_failure_at
FROM webhook.lane
WHERE (SELECT webhook.current_person_role()) IS NOT NULL;

CREATE OR REPLACE VIEW webhook.lanes AS
SELECT
    lane.merchant_id,
    lane.paused,
    lane.lease_until > clock_timestamp() AS is_held,
    lane.owner,
    lane.leased_at,
    lane.wait_until,
    lane.retry_at,
    lane.endpoint_removed_at,
    lane.last_success_at,
    lane.failing_since,
    lane.failures_in_a_row,
    lane.suspended_at,
    lane.last_failure_at
FROM webhook.lane;

UPDATE webhook.state SET schema_version = 20;
