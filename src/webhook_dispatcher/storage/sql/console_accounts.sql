-- Accounts of the console, as administrators make and change them; and upkeep of what expired.

-- name: add_account
-- Make an account, and write it into the audit.
-- $1 name text
-- $2 role text
-- $3 is_by_proxy boolean
-- $4 salt bytea
-- $5 memory_kib integer
-- $6 passes integer
-- $7 parallelism integer
-- $8 verifier bytea
-- $9 added_by text
-- row: is_added boolean
-- order: one row; false: there is one of that name
SELECT webhook.add_account($1, $2, $3, $4, $5, $6, $7, $8, $9) AS is_added;

-- name: list_accounts
-- List all accounts, disabled ones too, without what could prove one.
-- row: name text, role text, has_password boolean, is_by_proxy boolean, is_disabled boolean, created_at timestamptz,
--   created_by text, last_sign_in_at timestamptz, sessions bigint
-- order: by name
-- none: there are none
SELECT
    accounts.name,
    accounts.role,
    accounts.has_password,
    accounts.is_by_proxy,
    accounts.is_disabled,
    accounts.created_at,
    accounts.created_by,
    accounts.last_sign_in_at,
    accounts.sessions
FROM webhook.accounts
ORDER BY accounts.name;

-- name: set_account_password
-- Replace an account's password, end its sessions, and forget the wrong ones that were given for it.
-- $1 name text
-- $2 salt bytea
-- $3 memory_kib integer
-- $4 passes integer
-- $5 parallelism integer
-- $6 verifier bytea
-- $7 set_by text
-- row: result text
-- order: one row; null: there is no such account
SELECT webhook.set_account_password($1, $2, $3, $4, $5, $6, $7) AS result;

-- name: set_account_role
-- Change what an account may do.
-- $1 name text
-- $2 role text
-- $3 set_by text
-- row: is_changed boolean
-- order: one row; false: that was so before; null: there is no such account
SELECT webhook.set_account_role($1, $2, $3) AS is_changed;

-- name: set_account_disabled
-- Disable an account, or let it sign in again.
-- $1 name text
-- $2 is_disabled boolean
-- $3 set_by text
-- row: is_changed boolean
-- order: one row; false: that was so before; null: there is no such account
SELECT webhook.set_account_disabled($1, $2, $3) AS is_changed;

-- name: create_sign_in_code
-- Keep a code, by its hash, by which an account signs in once.
-- $1 name text
-- $2 code bytea
-- $3 created_by text
-- row: state text, expires_at timestamptz
-- order: one row
SELECT made.state, made.expires_at FROM webhook.create_sign_in_code($1, $2, $3) AS made;

-- name: has_console_rows
-- Tell whether there is anything that could expire: not where no console runs.
-- row: has_rows boolean
-- order: one row
SELECT
    EXISTS (SELECT FROM webhook.console_session WHERE console_session.expires_at > '-infinity')
    OR EXISTS (SELECT FROM webhook.sign_in_code WHERE sign_in_code.expires_at > '-infinity')
    OR EXISTS (SELECT FROM webhook.sign_in_failure WHERE sign_in_failure.expires_at > '-infinity') AS has_rows;

-- name: clear_sessions
-- Clear away sessions that expired more than a while ago, as many as are asked for.
-- $1 margin interval
-- $2 chunk bigint
-- row: hash bytea
-- order: none
-- none: there are no more
DELETE FROM webhook.console_session
WHERE console_session.hash = ANY(ARRAY(
    SELECT expired.hash
    FROM webhook.console_session AS expired
    WHERE expired.expires_at < (SELECT clock_timestamp() - $1::interval)
    ORDER BY expired.expires_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
))
RETURNING console_session.hash;

-- name: clear_codes
-- Clear away codes that expired more than a while ago, as many as are asked for.
-- $1 margin interval
-- $2 chunk bigint
-- row: hash bytea
-- order: none
-- none: there are no more
DELETE FROM webhook.sign_in_code
WHERE sign_in_code.hash = ANY(ARRAY(
    SELECT expired.hash
    FROM webhook.sign_in_code AS expired
    WHERE expired.expires_at < (SELECT clock_timestamp() - $1::interval)
    ORDER BY expired.expires_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
))
RETURNING sign_in_code.hash;

-- name: clear_failures
-- Clear away what wrong passwords were counted for, where none of them counts any more, as many as are asked for.
-- $1 margin interval
-- $2 chunk bigint
-- row: subject text
-- order: none
-- none: there are no more
DELETE FROM webhook.sign_in_failure
WHERE sign_in_failure.subject = ANY(ARRAY(
    SELECT expired.subject
    FROM webhook.sign_in_failure AS expired
    WHERE expired.expires_at < (SELECT clock_timestamp() - $1::interval)
    ORDER BY expired.expires_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
))
RETURNING sign_in_failure.subject;
