-- Why:   headers may begin otherwise than with Service-, and be signed as Standard Webhooks has it too; all programs must agree;
--        dispatchers note the schema that they are written for, so that older ones are seen before that.
-- Locks: state and dispatcher, whose few rows every daemon reads or writes within seconds, until this ends: milliseconds.
SET lock_timeout = '5s';
SET statement_timeout = '1min';
SET ROLE webhook_owner;

ALTER TABLE webhook.state
    ADD COLUMN header_prefix text NOT NULL DEFAULT 'Service-' CONSTRAINT header_prefix_is_of_letters_digits_and_hyphens
    CHECK (header_prefix ~ '^[A-Za-z][A-Za-z0-9-]{0,30}-$' AND header_prefix !~* '^webhook-'),
    ADD COLUMN user_agent text CONSTRAINT user_agent_is_a_line_of_ascii CHECK (user_agent ~ '^[!-~]([ -~]{0,254}[!-~])?$'),
    ADD COLUMN signatures text[] NOT NULL DEFAULT '{service}' CONSTRAINT signatures_are_service_and_standard
    CHECK (signatures IN ('{service}', '{service,standard}'));

ALTER TABLE webhook.dispatcher ADD COLUMN schema_version integer NOT NULL DEFAULT 20;

-- Set the names that requests have: null leaves one as it is, and an empty User-Agent is each program's own. Older programs
-- know the default names alone: they are refused while there are others, and nothing is changed while one of their dispatchers
-- works. Returns which do.
CREATE FUNCTION webhook.set_names(header_prefix text, user_agent text, signatures text[], set_by text) RETURNS text[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known webhook.state;
    named webhook.state;
    older text[];
BEGIN
    SELECT state.* INTO STRICT known FROM webhook.state WHERE state.is_only FOR NO KEY UPDATE;
    named := known;
    named.header_prefix := coalesce($1, known.header_prefix);
    named.user_agent := nullif(coalesce($2, known.user_agent), '');
    named.signatures := coalesce($3, known.signatures);
    IF named.header_prefix = 'Service-' AND named.user_agent IS NULL AND named.signatures = '{service}' THEN
        IF known.compatible_from = 21 THEN
            named.compatible_from := CASE WHEN EXISTS (SELECT FROM webhook.api_key) THEN 6 ELSE 1 END;
        END IF;
    ELSE
        SELECT array_agg(format('%s (%s)', dispatcher.host, dispatcher.version) ORDER BY dispatcher.owner) INTO older
        FROM webhook.dispatcher
        WHERE dispatcher.schema_version < 21 AND dispatcher.beat_at > clock_timestamp() - interval '30 seconds';
        IF older IS NOT NULL THEN
            RETURN older;
        END IF;
        named.compatible_from := greatest(known.compatible_from, 21);
    END IF;
    UPDATE webhook.state SET
        header_prefix = named.header_prefix,
        user_agent = named.user_agent,
        signatures = named.signatures,
        compatible_from = named.compatible_from
    WHERE state.is_only;
    INSERT INTO webhook.audit (person, action, before, after)
    VALUES (
        set_by, 'names set',
        jsonb_build_object(
            'header_prefix', known.header_prefix, 'user_agent', known.user_agent, 'signatures', known.signatures
        ),
        jsonb_build_object(
            'header_prefix', named.header_prefix, 'user_agent', named.user_agent, 'signatures', named.signatures
        )
    );
    RETURN '{}';
END
$$;

REVOKE EXECUTE ON FUNCTION webhook.set_names FROM public;
GRANT EXECUTE ON FUNCTION webhook.set_names TO webhook_admin;

UPDATE webhook.state SET schema_version = 21;
