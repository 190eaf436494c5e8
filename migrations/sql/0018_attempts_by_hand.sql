-- Why:   an attempt by hand of a delivery that waits for its next one used up an attempt of the schedule: the last one, too. It
--        stands beside the schedule now, and the row says how many did, and when the schedule goes on.
--        Two columns more, null in nearly all rows. A daemon of the version before leaves both alone, and counts an attempt by
--        hand as the schedule's, as it did. Still serves programs for version 8, and daemons of version 1.
-- Locks: state's one row; the outbox and two views of it for a moment: whoever is at work there for longer is waited for, again
--        and again, for 45 seconds in all, and nobody waits behind for more than a second and a half.
SET lock_timeout = '5s';
SET statement_timeout = '1min';
SET ROLE webhook_owner;

DO $$
DECLARE
    began timestamptz := clock_timestamp();
    attempt integer := 0;
BEGIN
    WHILE clock_timestamp() < began + interval '45 s' LOOP
        attempt := attempt + 1;
        -- Now and then for longer than the server waits before it makes an autovacuum give way.
        PERFORM set_config('lock_timeout', CASE WHEN attempt % 5 = 0 THEN '1500ms' ELSE '300ms' END, true);
        BEGIN
            -- The views first, as whoever reads them does.
            LOCK TABLE webhook.owed, webhook.console_owed, webhook.outbox IN ACCESS EXCLUSIVE MODE;
            PERFORM set_config('lock_timeout', '5s', true);
            RETURN;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            PERFORM pg_sleep(0.2 * random());
        END;
    END LOOP;
    RAISE lock_not_available USING MESSAGE = 'the outbox is in use all the time: see pg_locks, and try again';
END
$$;
-- Attempts_by_hand: those of `attempts` that were beside the schedule. Scheduled_at: while one is asked for (trigger manual, no
-- on_failure), when the schedule's next one is due; it says nothing of other rows.
ALTER TABLE webhook.outbox ADD COLUMN attempts_by_hand smallint;
ALTER TABLE webhook.outbox ADD COLUMN scheduled_at timestamptz;

CREATE OR REPLACE VIEW webhook.owed AS
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
    webhook.charge_key(outbox.object) COLLATE "C" AS charge_id,
    outbox.attempts_by_hand,
    outbox.scheduled_at
FROM webhook.outbox;

CREATE OR REPLACE VIEW webhook.console_owed AS
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
    webhook.charge_key(outbox.object) COLLATE "C" AS charge_id,
    outbox.attempts_by_hand,
    outbox.scheduled_at
FROM webhook.outbox
WHERE (SELECT webhook.current_person_role()) IS NOT NULL;

UPDATE webhook.state SET schema_version = 18;
