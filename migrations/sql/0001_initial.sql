-- Why:   the first schema: outbox, endpoint, lane, log partitions, control, their views and grants.
-- Locks: only on objects made here.
SET lock_timeout = '5s';
SET statement_timeout = '1min';
SET ROLE webhook_owner;

-- One row: which schema this is, which daemons it serves, and the switch that pauses everything.
CREATE TABLE webhook.state (
    is_only boolean PRIMARY KEY DEFAULT true CONSTRAINT state_has_one_row CHECK (is_only),
    schema_version integer NOT NULL,
    compatible_from integer NOT NULL,
    paused boolean NOT NULL DEFAULT false
);
INSERT INTO webhook.state (schema_version, compatible_from) VALUES (1, 1);

-- The hot table: exactly the events still owed. Due_at is null while an event waits for its first
-- attempt in its lane's order; afterwards it says when the next attempt may start, and while one is
-- in flight (claim is not null) when that claim lapses.
CREATE TABLE webhook.outbox (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id uuid NOT NULL DEFAULT gen_random_uuid() CONSTRAINT id_is_not_owed_already UNIQUE,
    merchant_id text COLLATE "C" NOT NULL
    CONSTRAINT merchant_id_has_1_to_128_printable_characters CHECK (
        merchant_id ~ '^[^\u0001-\u001f\u007f-\u00a0\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff0-\uffff]{1,128}$'
    ),
    type text COLLATE "C" NOT NULL
    CONSTRAINT type_is_one_of_the_published_event_types CHECK (
        type IN (
            'charge.created', 'charge.succeeded', 'charge.failed', 'charge.reversed',
            'charge.split_completed', 'charge.split_failed',
            'charge.fiscal_registered', 'charge.fiscal_failed', 'webhook.test'
        )
    ),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
    CONSTRAINT created_at_is_between_the_years_2000_and_2100 CHECK (
        created_at >= '2000-01-01 00:00:00+00' AND created_at < '2100-01-01 00:00:00+00'
    ),
    object json NOT NULL
    CONSTRAINT object_is_a_json_object CHECK (json_typeof(object) = 'object')
    CONSTRAINT object_has_at_most_256_kib CHECK (octet_length(object::text) <= 262144),
    object_bytes integer NOT NULL GENERATED ALWAYS AS (octet_length(object::text)) STORED,
    attempts smallint NOT NULL DEFAULT 0,
    due_at timestamptz,
    claim bigint,
    trigger text COLLATE "C" NOT NULL DEFAULT 'schedule',
    on_failure text COLLATE "C",
    last_status smallint,
    last_outcome text COLLATE "C"
) WITH (
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_insert_scale_factor = 0.2,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX outbox_in_order ON webhook.outbox (merchant_id, seq) WHERE due_at IS NULL;
CREATE INDEX outbox_due ON webhook.outbox (merchant_id, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX outbox_in_flight ON webhook.outbox (merchant_id, due_at) WHERE claim IS NOT NULL;
-- A claim's token is never given twice, so a late record of an older claim can be told apart.
CREATE SEQUENCE webhook.claim_token;

CREATE TABLE webhook.endpoint (
    merchant_id text COLLATE "C" PRIMARY KEY,
    url text NOT NULL,
    secret bytea NOT NULL,
    key_id text NOT NULL,
    previous_secret bytea,
    previous_key_id text,
    previous_until timestamptz,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    secret_created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT a_previous_secret_has_its_key_and_its_end CHECK (
        num_nulls(previous_secret, previous_key_id, previous_until) IN (0, 3)
    )
);
CREATE INDEX endpoint_key_id ON webhook.endpoint (key_id);

-- One merchant's ordered way out. Epoch rises with every lease and fences what the holder records.
CREATE TABLE webhook.lane (
    merchant_id text COLLATE "C" PRIMARY KEY,
    epoch bigint NOT NULL DEFAULT 0,
    lease_until timestamptz NOT NULL DEFAULT '-infinity',
    owner text,
    -- Everything in order up to here has been recorded; only a hint that saves reading dead rows.
    from_seq bigint NOT NULL DEFAULT 0,
    -- Not worth claiming before (no endpoint yet, or a key that we do not hold).
    wait_until timestamptz NOT NULL DEFAULT '-infinity',
    -- No later than the earliest due_at that can be claimed.
    retry_at timestamptz NOT NULL DEFAULT 'infinity',
    paused boolean NOT NULL DEFAULT false,
    -- The holder must give the lane back before it starts anything else.
    recalled boolean NOT NULL DEFAULT false,
    endpoint_removed_at timestamptz
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX lane_retry_due ON webhook.lane (retry_at) WHERE retry_at < 'infinity' AND NOT paused;
CREATE INDEX lane_recalled ON webhook.lane (merchant_id) WHERE recalled;

-- Whoever changes an endpoint, by whatever way, the run that a daemon holds in memory is recalled.
CREATE FUNCTION webhook.recall_lane() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO webhook.lane AS lane (merchant_id, endpoint_removed_at)
    VALUES (
        coalesce(NEW.merchant_id, OLD.merchant_id),
        CASE TG_OP WHEN 'DELETE' THEN clock_timestamp() END
    )
    ON CONFLICT (merchant_id) DO UPDATE SET
        recalled = lane.lease_until > clock_timestamp(),
        wait_until = '-infinity',
        paused = lane.paused AND TG_OP <> 'DELETE',
        endpoint_removed_at = excluded.endpoint_removed_at;
    RETURN NULL;
END
$$;
REVOKE EXECUTE ON FUNCTION webhook.recall_lane() FROM public;
CREATE TRIGGER endpoint_recalls_its_lane AFTER INSERT OR UPDATE OR DELETE ON webhook.endpoint
FOR EACH ROW EXECUTE FUNCTION webhook.recall_lane();

-- The log: finished deliveries and every attempt, a partition for each day (UTC).
CREATE TABLE webhook.delivery_log (
    seq bigint NOT NULL,
    event_id uuid NOT NULL,
    merchant_id text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    object json NOT NULL,
    state text COLLATE "C" NOT NULL,
    failed_reason text COLLATE "C",
    attempts smallint NOT NULL,
    last_status smallint,
    last_outcome text COLLATE "C",
    finished_at timestamptz NOT NULL,
    PRIMARY KEY (seq, finished_at)
) PARTITION BY RANGE (finished_at);
CREATE INDEX delivery_log_event ON webhook.delivery_log (event_id);
CREATE INDEX delivery_log_merchant ON webhook.delivery_log (merchant_id, seq);
CREATE INDEX delivery_log_failed ON webhook.delivery_log (finished_at, seq) WHERE state = 'failed';
CREATE INDEX delivery_log_time ON webhook.delivery_log USING brin (created_at, finished_at)
WITH (pages_per_range = 32);

CREATE TABLE webhook.attempt_log (
    event_id uuid NOT NULL,
    merchant_id text COLLATE "C" NOT NULL,
    attempt smallint NOT NULL,
    trigger text COLLATE "C" NOT NULL,
    started_at timestamptz NOT NULL,
    duration_ms integer NOT NULL,
    status smallint,
    outcome text COLLATE "C" NOT NULL,
    PRIMARY KEY (event_id, attempt, started_at)
) PARTITION BY RANGE (started_at);
CREATE INDEX attempt_log_merchant ON webhook.attempt_log (merchant_id, started_at);

DO $$
DECLARE
    today date := (clock_timestamp() AT TIME ZONE 'UTC')::date;
    day date;
    log text;
BEGIN
    FOREACH log IN ARRAY ARRAY['delivery_log', 'attempt_log'] LOOP
        FOR day IN SELECT generate_series(today - 1, today + 8, interval '1 day')::date LOOP
            EXECUTE format(
                'CREATE TABLE webhook.%I PARTITION OF webhook.%I FOR VALUES FROM (%L) TO (%L)',
                log || to_char(day, '_YYYYMMDD'), log,
                day::text || ' 00:00:00+00', (day + 1)::text || ' 00:00:00+00'
            );
        END LOOP;
    END LOOP;
END
$$;

CREATE TABLE webhook.control (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    command text NOT NULL,
    merchant_id text COLLATE "C",
    event_id uuid,
    args jsonb NOT NULL DEFAULT '{}',
    requested_by text NOT NULL
    CONSTRAINT requested_by_says_who_asks CHECK (length(btrim(requested_by)) BETWEEN 1 AND 200),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    status text COLLATE "C" NOT NULL DEFAULT 'pending'
    CONSTRAINT status_is_known CHECK (status IN ('pending', 'running', 'done', 'rejected')),
    -- While running: whoever works on it has until then, afterwards another goes on with it.
    running_until timestamptz,
    handled_at timestamptz,
    result jsonb,
    error_code integer,
    error_message text
);
CREATE INDEX control_open ON webhook.control (id) WHERE status IN ('pending', 'running');

CREATE VIEW webhook.endpoints AS
SELECT
    endpoint.merchant_id,
    endpoint.url,
    coalesce(lane.paused, false) AS paused,
    endpoint.created_at,
    endpoint.updated_at,
    endpoint.secret_created_at
FROM webhook.endpoint
LEFT JOIN webhook.lane ON lane.merchant_id = endpoint.merchant_id;

CREATE VIEW webhook.deliveries AS
SELECT
    outbox.id AS event_id,
    outbox.seq,
    outbox.merchant_id,
    outbox.type,
    outbox.created_at,
    CASE
        WHEN outbox.due_at IS NULL THEN 'pending'
        WHEN outbox.on_failure = 'delivered' THEN 'delivered'
        ELSE 'pending_retry'
    END AS state,
    NULL::text AS failed_reason,
    outbox.attempts,
    CASE WHEN outbox.claim IS NULL THEN outbox.due_at END AS next_attempt_at,
    outbox.last_status,
    outbox.last_outcome,
    NULL::timestamptz AS finished_at,
    outbox.object
FROM webhook.outbox
UNION ALL
SELECT
    delivery_log.event_id,
    delivery_log.seq,
    delivery_log.merchant_id,
    delivery_log.type,
    delivery_log.created_at,
    delivery_log.state,
    delivery_log.failed_reason,
    delivery_log.attempts,
    NULL::timestamptz AS next_attempt_at,
    delivery_log.last_status,
    delivery_log.last_outcome,
    delivery_log.finished_at,
    delivery_log.object
FROM webhook.delivery_log;

CREATE VIEW webhook.attempts AS
SELECT event_id, merchant_id, attempt, trigger, started_at, duration_ms, status, outcome
FROM webhook.attempt_log;

GRANT USAGE ON SCHEMA webhook
TO webhook_producer, webhook_admin, webhook_observer, webhook_dispatcher;

GRANT INSERT (id, merchant_id, type, created_at, object) ON webhook.outbox TO webhook_producer;
GRANT SELECT (id, seq) ON webhook.outbox TO webhook_producer;

GRANT SELECT ON webhook.deliveries, webhook.attempts, webhook.endpoints TO webhook_admin;
GRANT SELECT ON webhook.control, webhook.state, webhook.endpoint TO webhook_admin;
GRANT INSERT (command, merchant_id, event_id, args, requested_by) ON webhook.control TO webhook_admin;
GRANT INSERT, UPDATE, DELETE ON webhook.endpoint TO webhook_admin;

GRANT SELECT ON webhook.attempts, webhook.endpoints, webhook.state TO webhook_observer;
GRANT SELECT (
    event_id, seq, merchant_id, type, created_at, state, failed_reason, attempts, next_attempt_at,
    last_status, last_outcome, finished_at
) ON webhook.deliveries TO webhook_observer;

GRANT SELECT, INSERT, UPDATE, DELETE
ON webhook.outbox, webhook.lane, webhook.delivery_log, webhook.attempt_log TO webhook_dispatcher;
GRANT SELECT, UPDATE ON webhook.state, webhook.endpoint TO webhook_dispatcher;
GRANT SELECT, UPDATE, DELETE ON webhook.control TO webhook_dispatcher;
GRANT SELECT ON webhook.deliveries, webhook.attempts, webhook.endpoints TO webhook_dispatcher;
GRANT SELECT, USAGE ON SEQUENCE webhook.outbox_seq_seq TO webhook_dispatcher;
GRANT USAGE ON SEQUENCE webhook.claim_token TO webhook_dispatcher;
