-- squawk-ignore-file require-concurrent-index-creation
-- Why:   merchants may give ten commands each, and an operator's pause of everything waited behind a round of them. From now
--        on operators' commands are a queue of their own, which waits for no merchant's. Whose a command is goes by who is
--        connected when it is inserted. One that waits at this moment counts as a merchant's: it is taken up in its turn.
--        A stop ends what has not begun at once, whatever it waits for.
--        Still serves programs for version 8, and daemons of version 1, which take commands up in the order of before.
-- Locks: control, against everything for a moment and against commands while it is read once; state's one row.
SET lock_timeout = '5s';
SET statement_timeout = '1min';
SET ROLE webhook_owner;

ALTER TABLE webhook.control
ADD COLUMN is_operators boolean NOT NULL DEFAULT false;
-- The first command of each subject in either queue. A skip is waited for by whatever would send what it gives up.
CREATE INDEX control_queues ON webhook.control (subject, is_operators, id) WHERE status = 'pending';
CREATE INDEX control_skips ON webhook.control (id) WHERE command = 'skip' AND status IN ('pending', 'running');

CREATE OR REPLACE FUNCTION webhook.receive_command() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.subject := webhook.command_subject(NEW);
    -- The login that is connected, through however many functions. What a client says of itself, such as requested_by, is
    -- never asked.
    NEW.is_operators :=
        pg_has_role(session_user, 'webhook_admin', 'MEMBER') OR pg_has_role(session_user, 'webhook_console', 'MEMBER');
    INSERT INTO webhook.audit (person, action, merchant_id, after)
    VALUES (
        NEW.requested_by, 'command ' || left(NEW.command, 100),
        webhook.command_merchant(NEW),
        jsonb_build_object(
            'id', NEW.id, 'event_id', NEW.event_id,
            'args', CASE WHEN octet_length(NEW.args::text) <= 4096 THEN NEW.args END
        )
    );
    RETURN NEW;
END
$$;

-- Have a mass command end: one that runs, after its chunk; one that has not begun, at once. It is done then, and says that it
-- was stopped. True if it had not ended.
CREATE OR REPLACE FUNCTION webhook.stop_command(command_id bigint, stopped_by text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    stopped webhook.control;
BEGIN
    UPDATE webhook.control SET stopping = true
    WHERE
        control.id = command_id AND control.status = 'running'
        AND control.command IN ('retry_failed', 'recover', 'skip')
    RETURNING * INTO stopped;
    IF NOT FOUND THEN
        -- As in withdraw_command(): nobody is taking it up meanwhile. Who was before us has it running now.
        PERFORM FROM webhook.state WHERE state.is_only FOR NO KEY UPDATE;
        UPDATE webhook.control
        SET
            stopping = true,
            status = CASE control.status WHEN 'pending' THEN 'done' ELSE control.status END,
            handled_at = CASE control.status WHEN 'pending' THEN clock_timestamp() END,
            result = CASE control.status
                WHEN 'running' THEN control.result
                ELSE CASE control.command
                    WHEN 'retry_failed' THEN '{"matched": 0, "retried": 0, "stopped": true}'
                    WHEN 'recover' THEN '{"matched": {}, "recovered": 0, "stopped": true}'
                    ELSE '{"skipped": 0, "stopped": true}'
                END::jsonb
            END
        WHERE
            control.id = command_id AND control.status IN ('pending', 'running')
            AND control.command IN ('retry_failed', 'recover', 'skip')
        RETURNING * INTO stopped;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
    END IF;
    INSERT INTO webhook.audit (person, action, merchant_id, before)
    VALUES (stopped_by, 'command stopped', webhook.command_merchant(stopped), jsonb_build_object('id', command_id));
    RETURN true;
END
$$;

UPDATE webhook.state SET schema_version = 12;
