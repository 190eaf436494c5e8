-- What operators change by the console. All but the first: WD001 where the session is over, WD002 for a viewer, WD003 where
-- the session was idle.

-- name: read_key_to_seal_with
-- Read the public half to seal with.
-- row: key_id text, public_half bytea
-- none: no dispatcher has confirmed one within the last hour
SELECT current_sealing_key.key_id, current_sealing_key.public_half
FROM webhook.current_sealing_key;

-- name: put_endpoint
-- Configure a merchant, or change the URL and types of its endpoint of this number. 55000 where a dispatcher works that knows
-- no filters.
-- $1 session bytea
-- $2 merchant_id text
-- $3 url text; null: as it is
-- $4 secret bytea
-- $5 key_id text
-- $6 types text[]; null: all
-- $7 keeps_types boolean
-- $8 number smallint
-- row: result text
-- order: one row
SELECT webhook.console_put_endpoint($1, $2, $3, $4, $5, $6, $7, $8) AS result;

-- name: add_merchants_endpoint
-- Add an endpoint to a merchant's. 55000 where a dispatcher works that knows no several endpoints, or no filters.
-- $1 session bytea
-- $2 merchant_id text
-- $3 url text
-- $4 secret bytea
-- $5 key_id text
-- $6 name text; or null
-- $7 types text[]; null: all
-- row: result text
-- order: one row
SELECT webhook.console_add_endpoint($1, $2, $3, $4, $5, $6, $7) AS result;

-- name: set_order_of
-- Have so many of an endpoint's events attempted at once. 55000 where a dispatcher works that knows no order by charge.
-- $1 session bytea
-- $2 merchant_id text
-- $3 at_once integer; null: one, in the order of the merchant
-- $4 number smallint
-- row: result text
-- order: one row
SELECT webhook.console_set_order($1, $2, $3, $4) AS result;

-- name: rotate_secret_of
-- Replace an endpoint's secret.
-- $1 session bytea
-- $2 merchant_id text
-- $3 secret bytea
-- $4 key_id text
-- $5 overlap interval
-- $6 hold boolean
-- $7 number smallint
-- row: result text, previous_until timestamptz, waiting bigint
-- order: one row
SELECT rotated.result, rotated.previous_until, rotated.waiting
FROM webhook.console_rotate_secret($1, $2, $3, $4, $5, $6, $7) AS rotated;

-- name: remove_endpoint
-- Remove a merchant's endpoint.
-- $1 session bytea
-- $2 merchant_id text
-- $3 number smallint
-- row: result text
-- order: one row
SELECT CASE WHEN webhook.console_remove_endpoint($1, $2, $3) THEN 'removed' ELSE 'not_configured' END AS result;

-- name: give_command
-- Give a command of the control table.
-- $1 session bytea
-- $2 command text
-- $3 merchant_id text
-- $4 event_id uuid
-- $5 args jsonb
-- row: id bigint
-- order: one row
SELECT webhook.console_command($1, $2, $3, $4, $5) AS id;

-- name: withdraw_given_command
-- Take back a command that nobody has taken up.
-- $1 session bytea
-- $2 id bigint
-- row: is_withdrawn boolean
-- order: one row
SELECT webhook.console_withdraw_command($1, $2) AS is_withdrawn;

-- name: stop_given_command
-- Have a mass command end after its chunk.
-- $1 session bytea
-- $2 id bigint
-- row: is_stopped boolean
-- order: one row
SELECT webhook.console_stop_command($1, $2) AS is_stopped;

-- name: create_merchants_api_key
-- Make a key of the Partner API for a merchant.
-- $1 session bytea
-- $2 merchant_id text
-- $3 client_id text
-- $4 secret_hash bytea
-- $5 name text
-- row: id bigint
-- order: one row
SELECT webhook.console_create_api_key($1, $2, $3, $4, $5) AS id;

-- name: revoke_merchants_api_key
-- Revoke a key for good.
-- $1 session bytea
-- $2 client_id text
-- row: is_revoked boolean
-- order: one row; false: it was before; null: there is none
SELECT webhook.console_revoke_api_key($1, $2) AS is_revoked;
