-- Why:   whose a delivery in the log is stood in seven statements.
-- Locks: none.
SET lock_timeout = '5s';
SET statement_timeout = '1min';
SET ROLE webhook_owner;

-- Which endpoint's a delivery in the log is; null: what was given up before it was sent or routed is no endpoint's, since it
-- would be routed. routed_at: its merchant's.
CREATE FUNCTION webhook.logged_endpoint(number smallint, copy_of uuid, attempts smallint, routed_at timestamptz) RETURNS smallint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN num_nulls(copy_of, number) < 2 OR attempts > 0 OR routed_at IS NULL THEN coalesce(number, 1::smallint) END;

REVOKE EXECUTE ON FUNCTION webhook.logged_endpoint FROM public;
GRANT EXECUTE ON FUNCTION webhook.logged_endpoint TO public;

UPDATE webhook.state SET schema_version = 29;
