-- What the command line asks of the database: endpoints, deliveries to read, control commands, checks.

-- name: name_person
-- Say, until the transaction ends, who changes an endpoint: a trigger writes it into the audit.
-- $1 person text
-- row: person text
-- none: cannot be
SELECT set_config('webhook.person', $1, true) AS person;

-- name: insert_endpoint
-- Configure a merchant; a trigger sees to its lane.
-- $1 merchant_id text
-- $2 url text
-- $3 secret bytea
-- $4 key_id text
-- row: merchant_id text
-- none: the merchant has an endpoint already
INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id)
VALUES ($1, $2, $3, $4)
ON CONFLICT (merchant_id) DO NOTHING
RETURNING merchant_id;

-- name: list_with_several
-- Name the merchants who have, or had, several endpoints: where one of them gets a first one, a trigger locks the state.
-- row: merchant_id text
-- order: none
-- none: nobody has
SELECT DISTINCT webhook.merchant_of(lanes.merchant_id) AS merchant_id
FROM webhook.lanes
WHERE lanes.merchant_id LIKE E'%\x1f%';

-- name: lock_endpoints
-- Lock a merchant's endpoints until this transaction ends: what is asked next sees where the first one was moved meanwhile.
-- $1 merchant_id text
-- row: merchant_id text; ordered by merchant_id
-- none: the merchant has no endpoint
SELECT endpoint.merchant_id
FROM webhook.endpoint
WHERE endpoint.merchant_id >= $1 AND endpoint.merchant_id < $1 || ' '
ORDER BY endpoint.merchant_id
FOR NO KEY UPDATE;

-- name: update_endpoint_url
-- Change the URL of a configured endpoint; its secret stays.
-- $1 merchant_id text
-- $2 number smallint
-- $3 url text
-- row: merchant_id text
-- none: there is no such endpoint
UPDATE webhook.endpoint
SET url = $3, updated_at = clock_timestamp()
WHERE merchant_id = webhook.lane_of($1, $2)
RETURNING merchant_id;

-- name: set_types
-- Have configured endpoints sent these types alone. 55000 while a dispatcher works that knows no filters.
-- $1 merchants text[]
-- $2 number smallint; of each
-- $3 types text[]; of each, between commas; null: all
-- row: merchant_id text
-- none: there is no such endpoint, or it has that filter already
UPDATE webhook.endpoint
SET types = string_to_array(wanted.types, ','), updated_at = clock_timestamp()
FROM unnest($1::text[], $3::text[]) AS wanted (merchant_id, types)
WHERE
    endpoint.merchant_id = webhook.lane_of(wanted.merchant_id, $2)
    AND endpoint.types IS DISTINCT FROM string_to_array(wanted.types, ',')
RETURNING endpoint.merchant_id;

-- name: set_order
-- Have so many of a configured endpoint's events attempted at once, in the order of each charge. 55000 while a dispatcher
-- works that knows no such order.
-- $1 merchant_id text
-- $2 number smallint
-- $3 at_once smallint; null: one, in the order of the merchant
-- row: merchant_id text
-- none: there is no such endpoint, or it has that order already
UPDATE webhook.endpoint
SET at_once = $3, updated_at = clock_timestamp()
WHERE merchant_id = webhook.lane_of($1, $2) AND at_once IS DISTINCT FROM $3
RETURNING merchant_id;

-- name: rotate_secret
-- Replace a secret; with an overlap the one before it goes on signing until the overlap ends.
-- $1 merchant_id text
-- $2 number smallint
-- $3 secret bytea
-- $4 key_id text
-- $5 overlap interval
-- row: previous_until timestamptz
-- none: there is no such endpoint
UPDATE webhook.endpoint
SET
    previous_secret = CASE WHEN $5::interval IS NOT NULL THEN secret END,
    previous_key_id = CASE WHEN $5::interval IS NOT NULL THEN key_id END,
    previous_until = clock_timestamp() + $5::interval,
    secret = $3,
    key_id = $4,
    secret_created_at = clock_timestamp(),
    updated_at = clock_timestamp()
WHERE merchant_id = webhook.lane_of($1, $2)
RETURNING previous_until;

-- name: lock_held
-- Tell whether nothing is sent to an endpoint, nor will be before it is resumed, which waits for this transaction.
-- $1 merchant_id text
-- $2 number smallint
-- row: state text
-- order: one row: held, sending, not_paused, not_configured
SELECT webhook.lock_held($1, $2) AS state;

-- name: delete_endpoint
-- Remove an endpoint; what is owed to it fails as not_configured.
-- $1 merchant_id text
-- $2 number smallint
-- row: merchant_id text
-- none: there is no such endpoint
DELETE FROM webhook.endpoint
WHERE merchant_id = webhook.lane_of($1, $2)
RETURNING merchant_id;

-- name: count_owed
-- Count what is owed to an endpoint, up to a limit.
-- $1 merchant_id text
-- $2 number smallint
-- $3 most bigint
-- row: owed bigint
-- order: one row
SELECT count(*) AS owed
FROM (
    SELECT
    FROM unnest(webhook.lanes_of($1, $2)) AS place (lane)
    CROSS JOIN LATERAL (
        (SELECT FROM webhook.owed WHERE owed.merchant_id = place.lane AND owed.due_at IS NULL LIMIT $3)
        UNION ALL
        (SELECT FROM webhook.owed WHERE owed.merchant_id = place.lane AND owed.due_at IS NOT NULL LIMIT $3)
    ) AS one
    LIMIT $3
) AS counted;

-- name: read_endpoint_history
-- Read who changed a merchant's endpoint, or asked for its URL, a pause or its end; the latest ones.
-- $1 merchant_id text
-- $2 most bigint
-- row: id bigint, at timestamptz, role text, person text, action text, command_id bigint, url_before text, url_after text,
--   endpoint text
-- order: by id, the latest last
-- none: nothing of it was changed since there is an audit
SELECT *
FROM (
    SELECT
        audit.id, audit.at, audit.role, audit.person, audit.action,
        coalesce(audit.after ->> 'id', audit.before ->> 'id')::bigint AS command_id,
        audit.before ->> 'url' AS url_before,
        coalesce(audit.after ->> 'url', audit.after #>> '{args,url}') AS url_after,
        coalesce(coalesce(audit.after, audit.before) ->> 'endpoint', audit.after #>> '{args,endpoint}') AS endpoint
    FROM webhook.audit
    WHERE
        audit.merchant_id = $1
        AND (
            audit.action NOT LIKE 'command %'
            OR audit.action IN ('command set_url', 'command pause', 'command resume', 'command withdrawn')
        )
    ORDER BY audit.merchant_id DESC, audit.id DESC
    LIMIT $2
) AS latest
ORDER BY latest.id;

-- name: list_endpoints
-- Show endpoints: all, or a merchant's.
-- $1 merchant_id text; null: all
-- row: merchant_id text, number smallint, id uuid, name text, url text, paused boolean, created_at timestamptz,
--   updated_at timestamptz, secret_created_at timestamptz, suspended_at timestamptz, next_try_at timestamptz,
--   types text[], at_once smallint; ordered by merchant_id, number
-- none: nobody is configured, or the merchant is not
SELECT
    webhook.merchant_of(endpoint.merchant_id) AS merchant_id,
    coalesce(webhook.endpoint_of(endpoint.merchant_id), 1::smallint) AS number,
    endpoint.id, endpoint.name, endpoint.url, coalesce(lanes.paused, false) AS paused, endpoint.created_at, endpoint.updated_at,
    endpoint.secret_created_at, lanes.suspended_at,
    CASE WHEN lanes.suspended_at IS NOT NULL THEN lanes.wait_until END AS next_try_at,
    endpoint.types, endpoint.at_once
FROM webhook.endpoint
LEFT JOIN webhook.lanes ON lanes.merchant_id = endpoint.merchant_id
WHERE
    $1::text IS NULL
    OR endpoint.merchant_id >= $1::text COLLATE "C" AND endpoint.merchant_id < ($1::text || ' ') COLLATE "C"
ORDER BY webhook.merchant_of(endpoint.merchant_id) COLLATE "C", number;

-- name: add_endpoint
-- Add an endpoint to a merchant's. 55000 while a dispatcher works that knows no further ones, or no filters or order.
-- $1 merchant_id text
-- $2 url text
-- $3 secret bytea
-- $4 key_id text
-- $5 name text
-- $6 types text[]; null: all
-- $7 at_once integer; null: one, in the order of the merchant
-- row: result text, number smallint, id uuid
-- order: one row: created, too_many, key_is_old, sending (ask again)
SELECT added.result, added.number, added.id
FROM webhook.add_endpoint($1, $2, $3, $4, $5, $6, $7) AS added;

-- name: list_routed
-- Name the merchants for whose sake programs are refused that know only one endpoint.
-- row: merchant_id text, numbers smallint[], owes_removed boolean
-- order: by merchant_id; numbers: of the endpoints there are, where the merchant is routed. owes_removed: something is owed in
--   the lane of one that is not there
-- none: nobody has, or had, several
SELECT of_merchant.merchant_id, routed.numbers, of_merchant.owes_removed
FROM (
    SELECT
        webhook.merchant_of(lanes.merchant_id) AS merchant_id,
        bool_or(EXISTS (
            SELECT FROM webhook.owed WHERE owed.merchant_id = lanes.merchant_id
        ) AND NOT EXISTS (
            SELECT FROM webhook.endpoint WHERE endpoint.merchant_id = lanes.merchant_id
        )) AS owes_removed
    FROM webhook.lanes
    WHERE lanes.merchant_id LIKE E'%\x1f%'
    GROUP BY webhook.merchant_of(lanes.merchant_id)
) AS of_merchant
LEFT JOIN LATERAL (
    SELECT array_agg(coalesce(webhook.endpoint_of(endpoint.merchant_id), 1::smallint) ORDER BY endpoint.merchant_id) AS numbers
    FROM webhook.endpoint
    WHERE
        endpoint.merchant_id > of_merchant.merchant_id COLLATE "C"
        AND endpoint.merchant_id < (of_merchant.merchant_id || ' ') COLLATE "C"
) AS routed ON true
WHERE num_nonnulls(routed.numbers) = 1 OR of_merchant.owes_removed
ORDER BY of_merchant.merchant_id COLLATE "C";

-- name: list_suspended
-- Name endpoints that are suspended, those first that are tried next.
-- $1 most bigint
-- row: merchant_id text, suspended_at timestamptz, next_try_at timestamptz, suspended bigint, endpoint smallint
-- order: by next_try_at; each with how many there are in all
-- none: nobody is suspended
SELECT
    webhook.merchant_of(lanes.merchant_id) AS merchant_id, lanes.suspended_at, lanes.wait_until AS next_try_at,
    (SELECT count(*) FROM webhook.lanes AS others WHERE others.suspended_at IS NOT NULL) AS suspended,
    webhook.endpoint_of(lanes.merchant_id) AS endpoint
FROM webhook.lanes
WHERE lanes.suspended_at IS NOT NULL
ORDER BY lanes.wait_until, lanes.merchant_id
LIMIT $1;

-- name: list_dispatchers
-- List the dispatchers as they noted themselves.
-- $1 most bigint
-- row: owner text, version text, started_at timestamptz, beat_at timestamptz, is_ready boolean, reasons text[],
--   faults text[], lanes integer
-- order: by beat_at, the latest first
-- none: none has noted itself within a day
SELECT noted.owner, noted.version, noted.started_at, noted.beat_at, noted.is_ready, noted.reasons, noted.faults, noted.lanes
FROM (
    SELECT dispatcher.*
    FROM webhook.dispatcher
    WHERE dispatcher.owner >= ''::text COLLATE "C"
    LIMIT (SELECT $1::bigint)
) AS noted
ORDER BY noted.beat_at DESC, noted.owner;

-- name: is_known_merchant
-- Tell whether anything is known of a merchant.
-- $1 merchant_id text
-- row: is_known boolean
-- order: one row
SELECT
    -- Who has several endpoints has a lane of his own too.
    EXISTS (SELECT FROM webhook.endpoint WHERE endpoint.merchant_id = $1)
    OR EXISTS (SELECT FROM webhook.lanes WHERE lanes.merchant_id = $1)
    OR EXISTS (SELECT FROM webhook.owed WHERE owed.merchant_id = $1)
    OR EXISTS (SELECT FROM webhook.finished WHERE finished.merchant_id = $1) AS is_known;

-- name: list_deliveries
-- Show deliveries, the newest first or the oldest; every filter that is null lets everything through.
-- Planned for its values, which filters there are and which order is meant is known, and indexes give both: what is
-- owed and what is finished are asked apart, since a sort of both together would read all of the log.
-- $1 merchant_id text
-- $2 state text
-- $3 since timestamptz
-- $4 until timestamptz
-- $5 event_id uuid
-- $6 most bigint
-- $7 type text
-- $8 charge_id text
-- $9 outcome text
-- $10 oldest_first boolean
-- $11 endpoint smallint; its number, of the merchant's. What lies in the merchant's own lane is number 1's
-- row: event_id uuid, seq bigint, merchant_id text, type text, created_at timestamptz, state text,
--   failed_reason text, attempts smallint, next_attempt_at timestamptz, last_status smallint, last_outcome text,
--   finished_at timestamptz, endpoint smallint, copy_of uuid; ordered by seq
-- none: no delivery matches
SELECT *
FROM (
    (
        SELECT
            event_id, seq, webhook.merchant_of(merchant_id) AS merchant_id, type, created_at,
            CASE
                WHEN due_at IS NULL THEN 'pending' WHEN on_failure = 'delivered' THEN 'delivered' ELSE 'pending_retry'
            END AS state,
            NULL::text AS failed_reason, attempts, CASE WHEN NOT is_claimed THEN due_at END AS next_attempt_at,
            last_status, last_outcome, NULL::timestamptz AS finished_at, webhook.endpoint_of(merchant_id) AS endpoint,
            copy_of
        FROM (
            -- Everybody's, or of each of a merchant's lanes the first: so the order of both is an index's.
            (
                SELECT owed.*
                FROM webhook.owed
                WHERE num_nulls($1::text) = 1
                    AND CASE $2::text
                        WHEN 'pending' THEN due_at IS NULL
                        WHEN 'pending_retry' THEN due_at IS NOT NULL AND on_failure IS DISTINCT FROM 'delivered'
                        WHEN 'delivered' THEN due_at IS NOT NULL AND on_failure = 'delivered'
                        WHEN 'failed' THEN false
                        ELSE true
                    END
                    AND ($3::timestamptz IS NULL OR created_at >= $3)
                    AND ($4::timestamptz IS NULL OR created_at < $4)
                    AND ($5::uuid IS NULL OR event_id = ANY(webhook.delivery_ids($5)))
                    AND ($7::text IS NULL OR type = $7)
                    AND ($8::text IS NULL OR charge_id = $8)
                    AND ($9::text IS NULL OR last_outcome = $9)
                ORDER BY CASE WHEN $10 THEN seq END, seq DESC
                LIMIT $6
            )
            UNION ALL
            SELECT of_lane.*
            FROM (
                SELECT $1::text COLLATE "C" AS name
                WHERE $11::smallint IS NULL OR $11 = 1
                UNION ALL
                SELECT lanes.merchant_id
                FROM webhook.lanes
                WHERE lanes.merchant_id > $1::text COLLATE "C" AND lanes.merchant_id < ($1::text || ' ') COLLATE "C"
                    AND ($11::smallint IS NULL OR webhook.endpoint_of(lanes.merchant_id) = $11)
            ) AS lane
            CROSS JOIN LATERAL (
                SELECT owed.*
                FROM webhook.owed
                WHERE owed.merchant_id = lane.name
                    AND CASE $2::text
                        WHEN 'pending' THEN due_at IS NULL
                        WHEN 'pending_retry' THEN due_at IS NOT NULL AND on_failure IS DISTINCT FROM 'delivered'
                        WHEN 'delivered' THEN due_at IS NOT NULL AND on_failure = 'delivered'
                        WHEN 'failed' THEN false
                        ELSE true
                    END
                    AND ($3::timestamptz IS NULL OR created_at >= $3)
                    AND ($4::timestamptz IS NULL OR created_at < $4)
                    AND ($5::uuid IS NULL OR event_id = ANY(webhook.delivery_ids($5)))
                    AND ($7::text IS NULL OR type = $7)
                    AND ($8::text IS NULL OR charge_id = $8)
                    AND ($9::text IS NULL OR last_outcome = $9)
                ORDER BY CASE WHEN $10 THEN seq END, seq DESC
                LIMIT $6
            ) AS of_lane
        ) AS owed
        ORDER BY CASE WHEN $10 THEN seq END, seq DESC
        LIMIT $6
    )
    UNION ALL
    (
        SELECT
            event_id, seq, merchant_id, type, created_at, state, failed_reason, attempts,
            NULL::timestamptz AS next_attempt_at, last_status, last_outcome, finished_at, endpoint, copy_of
        FROM webhook.finished
        WHERE ($1::text IS NULL OR merchant_id = $1)
            AND ($11::smallint IS NULL OR coalesce(endpoint, 1) = $11)
            AND CASE $2::text
                WHEN 'failed' THEN state = 'failed'
                WHEN 'delivered' THEN state = 'delivered'
                ELSE num_nulls($2::text) = 1
            END
            AND ($3::timestamptz IS NULL OR created_at >= $3)
            AND ($4::timestamptz IS NULL OR created_at < $4)
            AND ($5::uuid IS NULL OR event_id = ANY(webhook.delivery_ids($5)))
            AND ($7::text IS NULL OR type = $7)
            AND ($8::text IS NULL OR charge_id = $8)
            AND ($9::text IS NULL OR last_outcome = $9)
        ORDER BY CASE WHEN $10 THEN seq END, seq DESC
        LIMIT $6
    )
) AS found
ORDER BY CASE WHEN $10 THEN seq END, seq DESC
LIMIT $6;

-- name: may_read_excerpts
-- Tell whether we are somebody who may see what receivers answered.
-- row: may_read boolean
-- none: cannot be
SELECT has_table_privilege('webhook.responses', 'SELECT') AS may_read;

-- name: insert_command
-- Ask the dispatchers for something.
-- $1 command text
-- $2 merchant_id text
-- $3 event_id uuid
-- $4 args jsonb
-- $5 requested_by text
-- row: id bigint
-- none: cannot be
INSERT INTO webhook.control (command, merchant_id, event_id, args, requested_by)
VALUES ($1, $2, $3, $4, $5)
RETURNING id;

-- name: list_commands
-- Show commands, the newest first; a filter that is null lets everything through. A merchant's are also the retries
-- and cancels of its events, as long as it is known whose they were.
-- $1 merchant_id text
-- $2 status text
-- $3 most bigint
-- row: id bigint, created_at timestamptz, requested_by text, command text, merchant_id text, event_id uuid,
--   status text, handled_at timestamptz, result jsonb, error_code integer, error_message text; ordered by id,
--   the newest first
-- none: no command matches
SELECT
    id, created_at, requested_by, command, merchant_id, event_id, status, handled_at, result, error_code, error_message
FROM webhook.control
WHERE ($1::text IS NULL OR merchant_id = $1 OR subject = $1)
    AND ($2::text IS NULL OR status::text = $2)
ORDER BY id DESC
LIMIT $3;

-- name: withdraw_command
-- Take back a command that nobody has taken up.
-- $1 id bigint
-- $2 withdrawn_by text
-- row: is_withdrawn boolean
-- none: cannot be
SELECT webhook.withdraw_command($1, $2) AS is_withdrawn;

-- name: read_pause_of_everything
-- Tell who has paused everything, and when, as far as the commands still say.
-- row: requested_by text, handled_at timestamptz
-- none: everything is not paused
SELECT latest.requested_by, latest.handled_at
FROM webhook.state
LEFT JOIN LATERAL (
    SELECT control.requested_by, control.handled_at
    FROM webhook.control
    WHERE
        left(coalesce(control.merchant_id, ''), 128) = ''
        AND control.merchant_id IS NULL
        AND control.command = 'pause'
        AND control.status = 'done'
    ORDER BY left(coalesce(control.merchant_id, ''), 128) DESC, control.id DESC
    LIMIT 1
) AS latest ON true
WHERE state.is_only AND state.paused;

-- name: database_time
-- Read the database's clock, less an interval.
-- $1 ago interval
-- row: instant timestamptz
-- none: cannot be
SELECT clock_timestamp() - $1::interval AS instant;

-- name: read_sealed_secrets
-- Read the sealed secrets that sign, of endpoints behind a merchant, to see whether we can open them.
-- $1 after_merchant text
-- $2 most bigint
-- row: merchant_id text, key_id text, secret bytea, previous_key_id text, previous_secret bytea; ordered by
--   merchant_id
-- none: there are no more
SELECT
    merchant_id,
    key_id,
    secret,
    CASE WHEN previous_until > clock_timestamp() THEN previous_key_id END AS previous_key_id,
    CASE WHEN previous_until > clock_timestamp() THEN previous_secret END AS previous_secret
FROM webhook.endpoint
WHERE merchant_id > $1::text COLLATE "C"
ORDER BY merchant_id
LIMIT $2;

-- name: count_secrets
-- Count the stored secrets, and those of them that the given key seals.
-- $1 key_id text
-- row: stored bigint, sealed bigint
-- none: cannot be
SELECT
    count(key_id) + count(previous_key_id) AS stored,
    count(*) FILTER (WHERE key_id = $1) + count(*) FILTER (WHERE previous_key_id = $1) AS sealed
FROM webhook.endpoint;

-- name: read_secrets_of_other_keys
-- Read sealed secrets of endpoints behind a merchant that another key than the given one seals.
-- $1 key_id text
-- $2 after_merchant text
-- $3 most bigint
-- row: merchant_id text, key_id text, secret bytea, previous_key_id text, previous_secret bytea,
--   previous_is_over boolean; ordered by merchant_id
-- none: there are no more
SELECT
    merchant_id,
    key_id,
    secret,
    previous_key_id,
    previous_secret,
    coalesce(previous_until <= clock_timestamp(), false) AS previous_is_over
FROM webhook.endpoint
WHERE merchant_id > $2::text COLLATE "C" AND (key_id <> $1 OR previous_key_id <> $1)
ORDER BY merchant_id
LIMIT $3;

-- name: replace_sealed_secrets
-- Store secrets sealed anew, where nobody has changed what was read; all else of the endpoint stays.
-- The arrays hold one entry for each merchant; a previous secret that there is none of is null.
-- A trigger recalls the lanes: their holders read the endpoints again before the next event.
-- $1 merchants text[]
-- $2 read_key_ids text[]
-- $3 read_secrets bytea[]
-- $4 read_previous_key_ids text[]
-- $5 read_previous_secrets bytea[]
-- $6 key_ids text[]
-- $7 secrets bytea[]
-- $8 previous_key_ids text[]
-- $9 previous_secrets bytea[]
-- row: merchant_id text
-- order: none
-- none: all were changed meanwhile
WITH anew AS MATERIALIZED (
    SELECT
        entry.merchant_id, entry.read_key_id, entry.read_secret,
        entry.read_previous_key_id, entry.read_previous_secret,
        entry.key_id, entry.secret, entry.previous_key_id, entry.previous_secret
    FROM unnest(
        $1::text[], $2::text[], $3::bytea[], $4::text[], $5::bytea[],
        $6::text[], $7::bytea[], $8::text[], $9::bytea[]
    ) AS entry (
        merchant_id, read_key_id, read_secret, read_previous_key_id, read_previous_secret,
        key_id, secret, previous_key_id, previous_secret
    )
),
-- Locked in order, so that two of these statements do not deadlock; who had to wait compares again.
unchanged AS MATERIALIZED (
    SELECT anew.*
    FROM (SELECT * FROM anew ORDER BY anew.merchant_id) AS anew
    CROSS JOIN LATERAL (
        SELECT
        FROM webhook.endpoint
        WHERE
            endpoint.merchant_id = anew.merchant_id
            AND endpoint.key_id IS NOT DISTINCT FROM anew.read_key_id
            AND endpoint.secret = anew.read_secret
            AND endpoint.previous_key_id IS NOT DISTINCT FROM anew.read_previous_key_id
            AND endpoint.previous_secret IS NOT DISTINCT FROM anew.read_previous_secret
        FOR NO KEY UPDATE
    ) AS locked
)
UPDATE webhook.endpoint
SET
    key_id = unchanged.key_id,
    secret = unchanged.secret,
    previous_key_id = unchanged.previous_key_id,
    previous_secret = unchanged.previous_secret
FROM unchanged
WHERE endpoint.merchant_id = ANY(ARRAY[unchanged.merchant_id])
RETURNING endpoint.merchant_id;

-- name: set_names
-- Set the names that requests have: null leaves a name as it is, and an empty User-Agent is each program's own.
-- $1 header_prefix text
-- $2 user_agent text
-- $3 signatures text[]
-- $4 set_by text
-- row: older text[]; dispatchers that do not know these names, and work: nothing was changed. Empty: it was
-- order: one row
SELECT webhook.set_names($1, $2, $3, $4) AS older;

-- name: missing_partitions
-- Name the days, from today, that a partitioned table has no partition for.
-- $1 parents text[]
-- $2 days integer
-- row: parent text, day date; ordered by parent, day
-- none: all are there
SELECT parent, (today + ahead)::date AS day
FROM unnest($1::text[]) AS parent
CROSS JOIN generate_series(0, $2::integer - 1) AS ahead
CROSS JOIN (SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date AS today) AS clock
WHERE NOT EXISTS (
    SELECT
    FROM pg_catalog.pg_inherits AS inherits
    JOIN pg_catalog.pg_class AS partition ON partition.oid = inherits.inhrelid
    CROSS JOIN LATERAL regexp_match(
        pg_catalog.pg_get_expr(partition.relpartbound, partition.oid), $$FROM \('([^']+)'\) TO \('([^']+)'\)$$
    ) AS bound
    WHERE inherits.inhparent = parent::regclass
        AND NOT inherits.inhdetachpending
        AND bound[1]::timestamptz <= (today + ahead)::timestamp AT TIME ZONE 'UTC'
        AND bound[2]::timestamptz >= (today + ahead + 1)::timestamp AT TIME ZONE 'UTC'
)
ORDER BY parent, day;

-- name: read_lock_capacity
-- Read how many locks a look at all days of the log takes for each day, and how many the server has.
-- row: locks_a_day bigint, of_a_transaction bigint, transactions bigint
-- order: one row; the server has as many as the product of the last two
SELECT
    (SELECT 1 + count(*) FROM pg_index WHERE pg_index.indrelid = 'webhook.delivery_log'::regclass) AS locks_a_day,
    current_setting('max_locks_per_transaction')::bigint AS of_a_transaction,
    current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint AS transactions;

-- name: name_waiting_rows
-- Name the rows that lanes may wait for: the next one of each lane that waits, or waited a minute ago, and due
-- rows that nobody has claimed for ten seconds. Reads no objects.
-- $1 most bigint
-- row: merchant_id text, seq bigint, id uuid
-- none: no lane waits
SELECT head.merchant_id, head.seq, head.id
FROM webhook.lane
CROSS JOIN LATERAL (
    SELECT outbox.merchant_id, outbox.seq, outbox.id
    FROM webhook.outbox
    WHERE outbox.merchant_id = lane.merchant_id AND outbox.due_at IS NULL
    ORDER BY outbox.merchant_id, outbox.seq
    LIMIT 1
) AS head
WHERE NOT lane.paused AND lane.suspended_at IS NULL AND lane.wait_until > clock_timestamp() - interval '1 minute'
UNION ALL
SELECT due.merchant_id, due.seq, due.id
FROM webhook.lane
CROSS JOIN LATERAL (
    SELECT outbox.merchant_id, outbox.seq, outbox.id
    FROM webhook.outbox
    WHERE
        outbox.merchant_id = lane.merchant_id
        AND outbox.due_at <= (SELECT clock_timestamp() - interval '10 seconds')
    ORDER BY outbox.due_at
    LIMIT 10
) AS due
WHERE NOT lane.paused AND lane.suspended_at IS NULL AND lane.retry_at < 'infinity'
LIMIT $1;

-- name: list_long_transactions
-- Name who holds xmin back: transactions that were open a while ago already. What was deleted since is not cleared away, and
-- events that were inserted since are not read in order while one that may write them is open. Since when: the instant itself
-- where this user may read it, else the first milestone at which it was open. A snapshot that is as old as another's
-- transaction id is that one's doing.
-- $1 older_than interval
-- $2 most bigint
-- row: pid integer, database name, role name, program text, state text, since timestamptz, delays_feed boolean
-- order: the longest first
-- none: nobody has been open for so long; or no milestone was noted, and the instants may not be read
SELECT
    held.pid, held.database, held.role, held.program, held.state, held.since,
    held.may_write AND held.database = current_database() AS delays_feed
FROM (
    SELECT
        session.pid, session.datname AS database, session.usename AS role, session.application_name AS program,
        session.state,
        coalesce(
            session.xact_start,
            (
                SELECT milestone.at
                FROM webhook.milestone
                WHERE
                    age(milestone.next_xid::xid) < greatest(age(session.backend_xid), age(session.backend_xmin))
                ORDER BY milestone.at
                LIMIT 1
            )
        ) AS since,
        session.backend_xid IS NOT NULL AND NOT webhook.only_reads(session.usesysid) AS may_write
    FROM pg_stat_activity AS session
    WHERE
        session.backend_xid IS NOT NULL
        OR session.backend_xmin IS NOT NULL
        AND NOT EXISTS (
            SELECT FROM pg_stat_activity AS other WHERE other.backend_xid = session.backend_xmin
        )
    UNION ALL
    SELECT NULL, prepared.database, prepared.owner, prepared.gid, 'prepared', prepared.prepared, true
    FROM pg_prepared_xacts AS prepared
) AS held
WHERE held.since < (SELECT clock_timestamp() - $1::interval)
ORDER BY held.since
LIMIT $2;

-- name: may_all_make_temporary
-- Tell whether everybody who connects may make temporary tables, and functions with them.
-- row: database name, may_all boolean
-- order: one row
SELECT
    pg_database.datname AS database,
    EXISTS (
        SELECT
        FROM aclexplode(coalesce(pg_database.datacl, acldefault('d', pg_database.datdba))) AS granted
        WHERE granted.grantee = 0 AND granted.privilege_type = 'TEMPORARY'
    ) AS may_all
FROM pg_database
WHERE pg_database.datname = current_database();
