-- Why:   the roles and the schema must stand before Alembic can keep its version table inside it.
-- Locks: none that a running system could notice; every step is skipped where it is done already.
-- Names:  of the server itself, in every file: what others have put into public must not run as a superuser.
SET search_path = pg_catalog, pg_temp;
SET lock_timeout = '5s';
SET statement_timeout = '1min';

DO $$
BEGIN
    -- Citus would send all that follows to its workers, as webhook_owner, which may not log in.
    PERFORM set_config('citus.enable_ddl_propagation', 'off', false)
    FROM pg_extension WHERE extname = 'citus';
END
$$;
DO $$
DECLARE
    wanted record;
BEGIN
    FOR wanted IN
        SELECT * FROM (VALUES
            ('webhook_owner', 'NOLOGIN'),
            ('webhook_producer', 'LOGIN'),
            ('webhook_admin', 'LOGIN'),
            ('webhook_observer', 'LOGIN'),
            ('webhook_dispatcher', 'LOGIN NOINHERIT'),
            ('webhook_api', 'LOGIN'),
            ('webhook_console', 'LOGIN')
        ) AS role_list (name, options)
    LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted.name) THEN
            EXECUTE format('CREATE ROLE %I %s', wanted.name, wanted.options);
        END IF;
    END LOOP;
    -- Who made the role may grant it (from Postgres 16 on making it is not yet the right to act as it);
    -- who did not, and is a member already, needs no grant.
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        BEGIN
            GRANT webhook_owner TO CURRENT_USER;
        EXCEPTION WHEN insufficient_privilege THEN
            IF NOT pg_has_role(current_user, 'webhook_owner', 'MEMBER') THEN
                RAISE;
            END IF;
        END;
    END IF;
    IF NOT pg_has_role('webhook_dispatcher', 'webhook_owner', 'MEMBER') THEN
        GRANT webhook_owner TO webhook_dispatcher;
    END IF;
    IF to_regnamespace('webhook') IS NULL THEN
        CREATE SCHEMA webhook AUTHORIZATION webhook_owner;
    END IF;
END
$$;
SET ROLE webhook_owner;
