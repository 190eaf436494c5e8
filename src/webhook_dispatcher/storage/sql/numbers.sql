-- Sequences: what they number is in order, and never numbered twice.

-- name: read_sequences
-- Read what each sequence gave last, and what is there; highest above given: it is behind its table.
-- row: column_name text, sequence text, given bigint, highest bigint, cached bigint
-- order: none
SELECT numbered.column_name, numbered.sequence, numbered.given, numbered.highest, numbered.cached
FROM webhook.read_sequences() AS numbered;

-- name: advance_sequence
-- Let a sequence go on behind a number.
-- $1 sequence text
-- $2 number bigint
-- row: number bigint
-- order: one row
SELECT setval(('webhook.' || $1)::regclass, $2) AS number;
