-- Who reads. All statements of the console that read begin like this one: webhook.console_reader() comes first, and the
-- views console_* show nothing before it has found somebody. What stands inside LATERAL names the reader, or it could be
-- asked before (docs/contract.md, section 3).

-- name: is_somebody
-- Tell whether a session holds.
-- $1 session bytea
-- row: name text
-- none: it is unknown, over or revoked
SELECT me.name FROM webhook.console_reader($1) AS me;
