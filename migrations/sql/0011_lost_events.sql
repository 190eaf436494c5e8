-- Why:   a server that takes over from another may lack its last events. What daemons sent of them is noted, so that operators
--        learn of it. Still serves programs for version 8, and daemons of version 1.
-- Locks: state's one row.
SET lock_timeout = '5s';
SET statement_timeout = '1min';
SET ROLE webhook_owner;

-- An event that was sent and that this database does not have. Sent_at: the end of its latest attempt, by the clock of the
-- server before.
CREATE TABLE webhook.lost_event (
    event_id uuid PRIMARY KEY,
    merchant_id text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    sent_at timestamptz NOT NULL,
    is_delivered boolean NOT NULL,
    noted_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX lost_event_noted ON webhook.lost_event (noted_at);

GRANT SELECT, INSERT, DELETE ON webhook.lost_event TO webhook_dispatcher;
GRANT SELECT ON webhook.lost_event TO webhook_admin, webhook_observer;

UPDATE webhook.state SET schema_version = 11;
