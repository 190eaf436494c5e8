-- Types of event of one's own: what producers may write beside ours.

-- name: list_event_types
-- List them, retired ones too.
-- row: name text, charge_path text, created_at timestamptz, retired_at timestamptz
-- order: by name
-- none: there are none
SELECT event_type.name, event_type.charge_path, event_type.created_at, event_type.retired_at
FROM webhook.event_type
ORDER BY event_type.name;

-- name: add_event_type
-- Let producers write a type; null leaves what is known of it.
-- $1 name text
-- $2 sample json
-- $3 charge_path text
-- $4 added_by text
-- row: older text[]; dispatchers that do not send such a type, and work: nothing was changed. Empty: it was
-- order: one row
SELECT webhook.add_event_type($1, $2, $3, $4) AS older;

-- name: retire_event_type
-- Let producers write a type no more; given again, serve older programs once nothing holds.
-- $1 name text
-- $2 retired_by text
-- row: is_retired boolean
-- order: one row; false: it was before; null: there is none
SELECT webhook.retire_event_type($1, $2) AS is_retired;

-- name: read_hold
-- Say what keeps older programs from being served.
-- row: hold text
-- order: one row; null: they are served
SELECT webhook.event_types_hold() AS hold;
