-- squawk-ignore-file require-concurrent-index-creation
-- Why:   a merchant that asked for what failed had all its deliveries walked, a thousand to a request. An index of what failed
--        alone is read instead; what is delivered is not in it, and pays nothing. Still serves programs for version 8, and
--        daemons of version 1.
-- Locks: state's one row; the log for a moment where no event was ever inserted. Else `migrate` makes the index afterwards,
--        concurrently. Without `migrate`, by hand, when the log is quiet: CREATE INDEX delivery_log_given_up ON ONLY
--        webhook.delivery_log (merchant_id, seq) WHERE state = 'failed' AND attempts >= -32768; then for each partition p:
--        CREATE INDEX CONCURRENTLY p_given_up ON webhook.p (merchant_id, seq) WHERE state = 'failed' AND attempts >= -32768;
--        ALTER INDEX webhook.delivery_log_given_up ATTACH PARTITION webhook.p_given_up.
SET lock_timeout = '5s';
SET statement_timeout = '1min';
SET ROLE webhook_owner;

-- The second half of the predicate holds for every row: only the statement that repeats it can use the index, and no plan of
-- another does, such as of what is to be sent again, which goes by time.
DO $$
BEGIN
    IF pg_sequence_last_value('webhook.outbox_seq_seq') IS NULL THEN
        CREATE INDEX delivery_log_given_up ON webhook.delivery_log (merchant_id, seq) WHERE state = 'failed' AND attempts >= -32768;
    END IF;
END
$$;

UPDATE webhook.state SET schema_version = 19;
