-- Why:   the index by which merchants read their events in order costs each event some 133 bytes of WAL at its INSERT and as
--        much on its way into the log, and who does not run the Partner API should not pay for it: from now on it is made
--        where `migrate --feed-index` asks for it. Where events are there and it is, it stays: somebody may read by it.
--        Still serves programs for version 8, and daemons of version 1.
-- Locks: state's one row; where no event was ever inserted, outbox and log as well, for a moment. Without `migrate`, by
--        hand, where an older schema with events was brought here: DROP INDEX webhook.delivery_log_feed;
SET lock_timeout = '5s';
SET statement_timeout = '1min';
SET ROLE webhook_owner;

ALTER TABLE webhook.state ALTER COLUMN has_feed_index SET DEFAULT false;
DO $$
BEGIN
    IF pg_sequence_last_value('webhook.outbox_seq_seq') IS NULL THEN
        DROP INDEX IF EXISTS webhook.outbox_feed;
        DROP INDEX IF EXISTS webhook.delivery_log_feed;
    END IF;
END
$$;
-- Of a schema that came here with its events the log alone has it, and no partition does: `migrate` drops that.
UPDATE webhook.state SET has_feed_index = false WHERE to_regclass('webhook.outbox_feed') IS NULL;

UPDATE webhook.state SET schema_version = 10;
