-- Why:   sequences do not come over by logical replication, and one with a CACHE gives numbers out of order: then new rows
--        have the numbers of old ones, or events are sent in another order than they were written in.
--        One function more; nothing else changes. Still serves programs for version 8, and daemons of version 1.
-- Locks: state's one row.
SET lock_timeout = '5s';
SET statement_timeout = '1min';
SET ROLE webhook_owner;

-- The columns that sequences number, the number that each gave last and the highest that is there, and how many numbers a
-- session takes at once. A row of the highest number there can be says nothing: no sequence goes on behind it.
CREATE FUNCTION webhook.read_sequences()
RETURNS TABLE (column_name text, sequence text, given bigint, highest bigint, cached bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
SELECT named.column_name, named.sequence, named.given, coalesce(named.highest, 0), pg_sequence.seqcache
FROM (
    VALUES
    (
        'outbox.seq', 'outbox_seq_seq',
        (SELECT outbox_seq_seq.last_value - (NOT outbox_seq_seq.is_called)::integer FROM webhook.outbox_seq_seq),
        greatest(
            (SELECT max(outbox.seq) FROM webhook.outbox WHERE outbox.seq < 9223372036854775807),
            (SELECT max(delivery_log.seq) FROM webhook.delivery_log WHERE delivery_log.seq < 9223372036854775807)
        )
    ),
    (
        'control.id', 'control_id_seq',
        (SELECT control_id_seq.last_value - (NOT control_id_seq.is_called)::integer FROM webhook.control_id_seq),
        (SELECT max(control.id) FROM webhook.control WHERE control.id < 9223372036854775807)
    ),
    (
        'audit.id', 'audit_id_seq',
        (SELECT audit_id_seq.last_value - (NOT audit_id_seq.is_called)::integer FROM webhook.audit_id_seq),
        (SELECT max(audit.id) FROM webhook.audit WHERE audit.id < 9223372036854775807)
    ),
    (
        'api_key.id', 'api_key_id_seq',
        (SELECT api_key_id_seq.last_value - (NOT api_key_id_seq.is_called)::integer FROM webhook.api_key_id_seq),
        (SELECT max(api_key.id) FROM webhook.api_key WHERE api_key.id < 9223372036854775807)
    ),
    (
        'account.id', 'account_id_seq',
        (SELECT account_id_seq.last_value - (NOT account_id_seq.is_called)::integer FROM webhook.account_id_seq),
        (SELECT max(account.id) FROM webhook.account WHERE account.id < 9223372036854775807)
    )
) AS named (column_name, sequence, given, highest)
INNER JOIN pg_sequence ON pg_sequence.seqrelid = ('webhook.' || named.sequence)::regclass
$$;

REVOKE EXECUTE ON FUNCTION webhook.read_sequences FROM public;
GRANT EXECUTE ON FUNCTION webhook.read_sequences TO webhook_dispatcher, webhook_admin;

UPDATE webhook.state SET schema_version = 15;
