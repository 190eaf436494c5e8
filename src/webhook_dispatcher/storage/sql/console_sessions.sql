-- Who uses the console: signing in and out, and what a session may do.

-- name: sign_in_parameters
-- Read what a proof of a password is computed with; of a name that does not exist, what it would be.
-- $1 name text
-- row: salt bytea, memory_kib integer, passes integer, parallelism integer
-- order: one row
SELECT parameters.salt, parameters.memory_kib, parameters.passes, parameters.parallelism
FROM webhook.console_sign_in_parameters($1) AS parameters;

-- name: sign_in_wait
-- Read how long a try has to wait, in whole seconds; null: it need not.
-- $1 name text
-- $2 address inet
-- row: retry_after interval
-- order: one row
SELECT webhook.console_sign_in_wait($1, $2) AS retry_after;

-- name: sign_in
-- Begin a session by a proof of a password; of session and password the hash is kept.
-- $1 name text
-- $2 proof bytea
-- $3 session bytea
-- $4 address inet
-- $5 agent text
-- row: outcome text, retry_after interval, name text, expires_at timestamptz
-- order: one row
SELECT signed.outcome, signed.retry_after, signed.person AS name, signed.expires_at
FROM webhook.console_sign_in($1, $2, $3, $4, $5) AS signed;

-- name: sign_in_by_code
-- Begin a session by the hash of a code of one use.
-- $1 code bytea
-- $2 session bytea
-- $3 address inet
-- $4 agent text
-- row: outcome text, retry_after interval, name text, expires_at timestamptz
-- order: one row
SELECT signed.outcome, signed.retry_after, signed.person AS name, signed.expires_at
FROM webhook.console_sign_in_by_code($1, $2, $3, $4) AS signed;

-- name: sign_in_by_proxy
-- Begin a session for whom a trusted proxy names.
-- $1 name text
-- $2 session bytea
-- $3 address inet
-- $4 agent text
-- row: outcome text, retry_after interval, name text, expires_at timestamptz
-- order: one row
SELECT signed.outcome, NULL::interval AS retry_after, signed.person AS name, signed.expires_at
FROM webhook.console_sign_in_by_proxy($1, $2, $3, $4) AS signed;

-- name: read_person
-- Find whose session this is and what it may do, and note that the person is active.
-- $1 session bytea
-- $2 is_active boolean
-- row: name text, role text, is_by_proxy boolean, language text, time_zone text, theme text, may_change boolean,
--   changes_until timestamptz, expires_at timestamptz
-- none: the session is over
SELECT
    person.name,
    person.role,
    person.is_by_proxy,
    person.language,
    person.time_zone,
    person.theme,
    person.may_change,
    person.changes_until,
    person.expires_at
FROM webhook.console_person($1, $2) AS person;

-- name: sign_out
-- End a session.
-- $1 session bytea
-- row: is_ended boolean
-- order: one row; false: it was over
SELECT webhook.console_sign_out($1) AS is_ended;

-- name: read_own_sessions
-- List the sessions of a session's person, that one first, then by when they were used last.
-- $1 session bytea
-- $2 most bigint
-- row: mark bytea, began_at timestamptz, acted_at timestamptz, expires_at timestamptz, address inet, agent text, is_this boolean
-- order: as the function returns them
-- none: the session is over
SELECT own.mark, own.began_at, own.acted_at, own.expires_at, own.address, own.agent, own.is_this
FROM webhook.console_own_sessions($1, $2) AS own;

-- name: revoke_session
-- End one session of a session's person. WD001 where that one is over.
-- $1 session bytea
-- $2 mark bytea
-- row: is_ended boolean
-- order: one row; false: there is none with that mark, or it was over
SELECT webhook.console_revoke_session($1, $2) AS is_ended;

-- name: revoke_sessions
-- End all other sessions of a session's person. WD001 where it is over.
-- $1 session bytea
-- row: revoked bigint
-- order: one row
SELECT webhook.console_revoke_sessions($1) AS revoked;

-- name: keep_preferences
-- Keep how a session's person wants pages. WD001 where it is over.
-- $1 session bytea
-- $2 language text
-- $3 time_zone text
-- $4 theme text
-- row: is_kept boolean
-- order: one row
SELECT webhook.console_preferences($1, $2, $3, $4) AS is_kept;

-- name: change_password
-- Replace the password of a session's person by a proof of the one before. WD001 where it is over.
-- $1 session bytea
-- $2 proof bytea
-- $3 salt bytea
-- $4 memory_kib integer
-- $5 passes integer
-- $6 parallelism integer
-- $7 verifier bytea
-- row: outcome text, retry_after interval
-- order: one row
SELECT changed.outcome, changed.retry_after
FROM webhook.console_change_password($1, $2, $3, $4, $5, $6, $7) AS changed;
