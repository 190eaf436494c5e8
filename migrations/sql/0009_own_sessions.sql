-- Why:   people see their own sessions at the console and end one of them, such as that of a browser they left signed in.
--        Two functions more; nothing else changes. Still serves programs for version 8, and daemons of version 1.
-- Locks: state's one row.
SET lock_timeout = '5s';
SET statement_timeout = '1min';
SET ROLE webhook_owner;

-- The sessions of the person whose session this is, that one first, then by when they were used last. Mark: names a session,
-- and opens nothing. No row: this one is over.
CREATE FUNCTION webhook.console_own_sessions(
    session bytea, most bigint,
    OUT mark bytea, OUT began_at timestamptz, OUT acted_at timestamptz, OUT expires_at timestamptz, OUT address inet,
    OUT agent text, OUT is_this boolean
)
RETURNS SETOF record
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT
        sha256(own.hash), own.began_at, own.acted_at, own.expires_at, own.address, own.agent, own.hash = session
    FROM webhook.live_sessions AS its
    CROSS JOIN LATERAL (
        SELECT console_session.*
        FROM webhook.console_session
        WHERE
            console_session.account_id = its.account_id
            AND console_session.expires_at > clock_timestamp()
            AND console_session.revoked_at IS NULL
        ORDER BY console_session.hash = session DESC, console_session.acted_at DESC
        LIMIT most
    ) AS own
    WHERE its.hash = session;
END
$$;

-- End one session of the person whose session this is; false where there is none with that mark, or it is over. WD001.
CREATE FUNCTION webhook.console_revoke_session(session bytea, mark bytea) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own webhook.account := webhook.own_account(session);
    ended webhook.console_session;
BEGIN
    UPDATE webhook.console_session SET revoked_at = clock_timestamp()
    WHERE
        console_session.account_id = own.id
        AND sha256(console_session.hash) = mark
        AND console_session.revoked_at IS NULL
        AND console_session.expires_at > clock_timestamp()
    RETURNING console_session.* INTO ended;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM webhook.audit_account(
        own.name, 'session ended', NULL,
        jsonb_build_object('began_at', ended.began_at, 'address', host(ended.address), 'agent', ended.agent)
    );
    RETURN true;
END
$$;

REVOKE EXECUTE ON FUNCTION webhook.console_own_sessions, webhook.console_revoke_session FROM public;
GRANT EXECUTE ON FUNCTION webhook.console_own_sessions, webhook.console_revoke_session TO webhook_console;

UPDATE webhook.state SET schema_version = 9;
