-- What dispatchers note of themselves, for the console.

-- name: note_dispatcher
-- Note that a dispatcher is there, add what it recorded, and once a minute how far the outbox's numbers are.
-- $1 owner text
-- $2 host text
-- $3 version text
-- $4 lanes integer
-- $5 attempts_in_flight integer
-- $6 reasons text[]; why it is not ready
-- $7 faults text[]
-- $8 outcomes text[]
-- $9 attempts bigint[]
-- $10 settings jsonb
-- $11 schema_version integer; what it is written for
-- none: always
WITH noted AS (
    INSERT INTO webhook.dispatcher AS known (
        owner, host, version, started_at, beat_at, lanes, attempts_in_flight, is_ready, reasons, faults,
        settings, schema_version
    )
    VALUES (
        $1, $2, $3, statement_timestamp(), statement_timestamp(), $4, $5, cardinality($6::text[]) = 0, $6, $7, $10,
        $11
    )
    ON CONFLICT (owner) DO UPDATE SET
        beat_at = excluded.beat_at,
        lanes = excluded.lanes,
        attempts_in_flight = excluded.attempts_in_flight,
        is_ready = excluded.is_ready,
        reasons = excluded.reasons,
        faults = excluded.faults
),
counted AS (
    INSERT INTO webhook.attempts_by_minute AS known (minute, outcome, attempts)
    -- In one order: dispatchers lock these rows side by side.
    SELECT date_trunc('minute', statement_timestamp()), entry.outcome, entry.attempts
    FROM unnest($8::text[], $9::bigint[]) AS entry (outcome, attempts)
    ORDER BY entry.outcome COLLATE "C"
    ON CONFLICT (minute, outcome) DO UPDATE SET attempts = known.attempts + excluded.attempts
)
INSERT INTO webhook.seq_by_minute (minute, seq)
SELECT date_trunc('minute', statement_timestamp()), coalesce(pg_sequence_last_value('webhook.outbox_seq_seq'), 0)
ON CONFLICT (minute) DO NOTHING;

-- name: remove_dispatcher
-- Forget a dispatcher that ends, and add what it recorded last.
-- $1 owner text
-- $2 outcomes text[]
-- $3 attempts bigint[]
-- none: always
WITH removed AS (DELETE FROM webhook.dispatcher WHERE dispatcher.owner = $1)
INSERT INTO webhook.attempts_by_minute AS known (minute, outcome, attempts)
SELECT date_trunc('minute', statement_timestamp()), entry.outcome, entry.attempts
FROM unnest($2::text[], $3::bigint[]) AS entry (outcome, attempts)
ORDER BY entry.outcome COLLATE "C"
ON CONFLICT (minute, outcome) DO UPDATE SET attempts = known.attempts + excluded.attempts;

-- name: forget_noted
-- Forget dispatchers that have not noted themselves for a day, attempts of more than eight days ago, and what is older
-- than the log: numbers by the minute, which events commands sent again, and which were lost.
-- $1 keep interval; how long the log is kept
-- none: always
WITH dispatchers AS (
    DELETE FROM webhook.dispatcher
    WHERE dispatcher.owner >= '' AND dispatcher.beat_at < clock_timestamp() - interval '1 day'
),
attempts AS (
    DELETE FROM webhook.attempts_by_minute WHERE attempts_by_minute.minute < clock_timestamp() - interval '8 days'
),
numbers AS (
    DELETE FROM webhook.seq_by_minute WHERE seq_by_minute.minute < clock_timestamp() - $1::interval - interval '1 day'
),
lost AS (
    DELETE FROM webhook.lost_event WHERE lost_event.noted_at < clock_timestamp() - $1::interval - interval '1 day'
)
DELETE FROM webhook.command_chunk WHERE command_chunk.at < clock_timestamp() - $1 - interval '1 day';
