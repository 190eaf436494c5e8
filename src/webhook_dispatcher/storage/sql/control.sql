-- Carrying out the control table's commands. One dispatcher at a time carries one out, in order of id within a
-- subject, each in a transaction of its own, but for cancels, which go together: what a command does and that it is
-- done are committed together. Operators' commands and merchants' are queues of their own: an operator's waits for no
-- merchant's.
-- A subject is looked for as one of an array: a plan may otherwise go through all numbers for the order's sake.

-- name: lock_control
-- Keep other dispatchers from carrying out commands until this transaction ends.
-- row: is_only boolean
-- none: another dispatcher carries out commands just now
SELECT state.is_only FROM webhook.state WHERE state.is_only FOR NO KEY UPDATE SKIP LOCKED;

-- name: await_control
-- The same, after whoever carries out commands just now.
-- row: is_only boolean
-- none: never
SELECT state.is_only FROM webhook.state WHERE state.is_only FOR NO KEY UPDATE;

-- name: next_commands
-- Look for commands of one queue that may be taken up: the first pending one of each subject (of those without a subject,
-- which only a superuser can put in: of all of them), and running ones whose worker's lease has ended. Left out are the
-- named ones, and their subjects.
-- A resume goes after a skip of the same that came before it; that of everything after all that operators asked for before
-- it. Brakes (pause, resume and cancel, of operators) wait for nothing else. All others go after a pending pause or resume
-- of everything that came before them, merchants' after those of operators of the same subject, too.
-- A large value may be damaged: only its size is looked at here.
-- $1 except_ids bigint[]
-- $2 most bigint; of cancels, and of others: however many cancels there are, others do not wait for them
-- $3 are_operators boolean
-- $4 are_brakes boolean; of merchants' none is
-- row: id bigint, subject text, is_plain_cancel boolean
-- order: brakes of everything first, then by id
-- none: there is no such command
WITH RECURSIVE barrier AS MATERIALIZED (
    SELECT coalesce((
        SELECT control.id
        FROM webhook.control
        WHERE
            control.status = 'pending'
            AND control.subject = ANY(ARRAY[''])
            AND control.merchant_id IS NULL
            AND control.command IN ('pause', 'resume')
            AND control.id <> ALL($1::bigint[])
        ORDER BY control.subject, control.id
        LIMIT 1
    ), 9223372036854775807) AS id
),
pending AS (
    (
        SELECT control.subject, control.id, control.command
        FROM webhook.control
        WHERE control.status = 'pending' AND control.is_operators = $3 AND control.subject IS NOT NULL
        ORDER BY control.subject, control.id
        LIMIT 1
    )
    UNION ALL
    SELECT following.subject, following.id, following.command
    FROM pending
    CROSS JOIN LATERAL (
        SELECT control.subject, control.id, control.command
        FROM webhook.control
        WHERE control.status = 'pending' AND control.is_operators = $3 AND control.subject > pending.subject
        ORDER BY control.subject, control.id
        LIMIT 1
    ) AS following
),
waiting AS MATERIALIZED (
    (
        SELECT pending.subject, pending.id, pending.command
        FROM pending
        WHERE
            ($3 AND pending.command IN ('pause', 'resume', 'cancel')) = $4
            AND ($4 OR pending.id <= (SELECT barrier.id FROM barrier))
            AND ($3 OR NOT EXISTS (
                SELECT
                FROM webhook.control AS earlier
                WHERE
                    earlier.status = 'pending' AND earlier.is_operators
                    AND earlier.subject = ANY(ARRAY[pending.subject])
                    AND earlier.id < pending.id
            ))
            -- What was asked for before anything is sent again is done first.
            AND NOT (
                pending.command = 'resume'
                AND (
                    (
                        pending.subject = ''
                        AND pending.id > (SELECT min(pending.id) FROM pending WHERE pending.id <> ALL($1::bigint[]))
                    )
                    OR EXISTS (
                        SELECT
                        FROM webhook.control AS skipping
                        WHERE
                            skipping.status IN ('pending', 'running')
                            AND skipping.command = 'skip'
                            AND skipping.id < pending.id
                            AND (pending.subject = '' OR coalesce(skipping.merchant_id, pending.subject) = pending.subject)
                    )
                )
            )
        LIMIT 10000
    )
    UNION ALL
    (
        SELECT control.subject, control.id, control.command
        FROM webhook.control
        WHERE control.status = 'pending' AND control.subject IS NULL AND control.is_operators = $3 AND NOT $4
        ORDER BY control.subject, control.id
        LIMIT 1
    )
    UNION ALL
    (
        SELECT control.subject, control.id, control.command
        FROM webhook.control
        WHERE
            control.status = 'running' AND control.running_until < clock_timestamp()
            AND control.is_operators = $3 AND NOT $4
        ORDER BY control.running_until
        LIMIT $2
    )
),
postponed AS MATERIALIZED (
    SELECT named.id, named.subject
    FROM unnest($1::bigint[]) AS excepted (id)
    CROSS JOIN LATERAL (
        SELECT control.id, control.subject FROM webhook.control WHERE control.id = excepted.id LIMIT 1
    ) AS named
),
ranked AS MATERIALIZED (
    SELECT
        waiting.id,
        row_number() OVER (
            PARTITION BY waiting.command = 'cancel' ORDER BY waiting.subject IS DISTINCT FROM '', waiting.id
        ) AS rank
    FROM waiting
    WHERE
        waiting.id NOT IN (SELECT postponed.id FROM postponed)
        AND coalesce(
            waiting.subject NOT IN (SELECT postponed.subject FROM postponed WHERE postponed.subject IS NOT NULL), true
        )
),
next AS MATERIALIZED (SELECT ranked.id FROM ranked WHERE ranked.rank <= $2)
SELECT
    command.id,
    command.subject,
    command.is_plain_cancel
FROM next
CROSS JOIN LATERAL (
    SELECT
        control.id, control.subject,
        coalesce(CASE
            WHEN
                control.status = 'pending' AND control.is_operators AND control.command = 'cancel' AND control.result IS NULL
                AND pg_column_size(control.args) <= 8
                THEN control.args = '{}' AND num_nulls(control.event_id, control.subject) = 0
        END, false) AS is_plain_cancel
    FROM webhook.control
    WHERE control.id = next.id
    LIMIT 1
) AS command
ORDER BY command.subject IS DISTINCT FROM '', command.id;

-- name: take_command
-- Lock a command that may be taken up, so that nobody else takes it up or withdraws it.
-- $1 id bigint
-- row: id bigint
-- none: it is withdrawn or handled, runs, or is locked by somebody
SELECT control.id
FROM webhook.control
WHERE
    control.id = $1
    AND (
        control.status = 'pending'
        OR (control.status = 'running' AND control.running_until < clock_timestamp())
    )
FOR UPDATE SKIP LOCKED;

-- name: take_cancels
-- Lock operators' next cancels of each of these subjects that wait for no command of another kind of theirs, and for none
-- of those named. One that is being withdrawn is left out.
-- $1 subjects text[]
-- $2 most_of_each bigint
-- $3 except_ids bigint[]
-- row: id bigint, event_id uuid, subject text, requested_by text
-- order: none
-- none: they were handled or withdrawn meanwhile
WITH next AS MATERIALIZED (
    SELECT run.id
    FROM unnest($1::text[]) AS concerned (subject)
    CROSS JOIN LATERAL (
        SELECT
            pending.id,
            bool_and(pending.is_plain_cancel AND pending.id <> ALL($3::bigint[])) OVER (ORDER BY pending.id)
                AS is_free
        FROM (
            SELECT
                control.id,
                coalesce(CASE
                    WHEN
                        control.command = 'cancel' AND control.result IS NULL
                        AND pg_column_size(control.args) <= 8
                        THEN control.args = '{}' AND num_nulls(control.event_id) = 0
                END, false) AS is_plain_cancel
            FROM webhook.control
            WHERE
                control.status = 'pending' AND control.is_operators AND control.subject = ANY(ARRAY[concerned.subject])
            ORDER BY control.subject, control.id
            LIMIT $2
        ) AS pending
    ) AS run
    WHERE run.is_free
    ORDER BY run.id
)
SELECT taken.id, taken.event_id, taken.subject, taken.requested_by
FROM next
CROSS JOIN LATERAL (
    SELECT control.id, control.event_id, control.subject, control.requested_by
    FROM webhook.control
    WHERE control.id = next.id AND control.status = 'pending'
    FOR UPDATE SKIP LOCKED
) AS taken;

-- name: reject_overtaken
-- Reject merchants' commands that came before these of operators, wait still, and would undo what these have done: not
-- where each is about another endpoint.
-- $1 ids bigint[]
-- $2 error_code integer
-- $3 error_message text
-- none: always
UPDATE webhook.control
SET status = 'rejected', handled_at = clock_timestamp(), error_code = $2, error_message = $3
FROM unnest($1::bigint[]) AS done (id)
CROSS JOIN LATERAL (
    SELECT control.id, control.subject, control.command, control.event_id, control.args ->> 'endpoint' AS endpoint
    FROM webhook.control
    WHERE control.id = done.id AND control.is_operators
    LIMIT 1
) AS later
WHERE
    control.status = 'pending'
    AND NOT control.is_operators
    AND control.subject = ANY(ARRAY[later.subject])
    AND control.id < later.id
    AND CASE later.command
        WHEN 'cancel' THEN control.command = 'retry' AND control.event_id = later.event_id
        ELSE control.command IN ('pause', 'resume')
    END
    AND coalesce(control.args ->> 'endpoint' = later.endpoint, true);

-- name: read_command
-- Read one command.
-- $1 id bigint
-- row: id bigint, command text, merchant_id text, event_id uuid, args jsonb, result jsonb,
--      created_at timestamptz, requested_by text
SELECT
    control.id, control.command, control.merchant_id, control.event_id, control.args,
    control.result, control.created_at, control.requested_by
FROM webhook.control
WHERE control.id = $1;

-- name: finish_command
-- Write down what became of a command.
-- $1 id bigint
-- $2 status text
-- $3 result jsonb
-- $4 error_code integer
-- $5 error_message text
-- $6 running_until timestamptz
-- row: id bigint
-- none: running_until was given and is not the lease it has: another worker has it
UPDATE webhook.control
SET
    status = $2, handled_at = clock_timestamp(), running_until = NULL,
    result = coalesce($3, control.result), error_code = $4, error_message = $5
WHERE control.id = $1 AND ($6::timestamptz IS NULL OR control.running_until = $6)
RETURNING control.id;

-- name: finish_commands
-- Write down what became of commands that were carried out together.
-- $1 ids bigint[]
-- $2 statuses text[]
-- $3 results jsonb[]
-- $4 error_codes integer[]
-- $5 error_messages text[]
-- none: always
UPDATE webhook.control
SET
    status = handled.status, handled_at = clock_timestamp(),
    result = handled.result, error_code = handled.error_code, error_message = handled.error_message
FROM unnest($1::bigint[], $2::text[], $3::jsonb[], $4::integer[], $5::text[])
    AS handled (id, status, result, error_code, error_message)
WHERE control.id = ANY(ARRAY[handled.id]);

-- name: mark_running
-- Mark a command as running until the lease ends, and write down its progress.
-- $1 id bigint
-- $2 lease interval
-- $3 result jsonb
-- $4 running_until timestamptz
-- row: running_until timestamptz
-- none: running_until was given and is not the lease it has: another worker has it
UPDATE webhook.control
SET status = 'running', running_until = clock_timestamp() + $2::interval, result = $3
WHERE control.id = $1 AND ($4::timestamptz IS NULL OR control.running_until = $4)
RETURNING control.running_until;

-- name: purge_control
-- Forget commands handled longer ago than the audit trail is kept.
-- $1 keep interval
-- none: always
DELETE FROM webhook.control WHERE control.handled_at < clock_timestamp() - $1::interval;

-- name: lock_lanes_of
-- Lock the lanes in which these deliveries are owed.
-- $1 delivery_ids uuid[]
-- row: lane text, has_lane boolean
-- order: none
-- none: none of them is owed
WITH owing AS MATERIALIZED (
    SELECT DISTINCT owed.merchant_id
    FROM unnest($1::uuid[]) AS asked (delivery_id)
    CROSS JOIN LATERAL (
        SELECT outbox.merchant_id FROM webhook.outbox WHERE outbox.id = asked.delivery_id LIMIT 1
    ) AS owed
),
locked AS MATERIALIZED (
    SELECT owing.merchant_id
    FROM (SELECT owing.merchant_id FROM owing ORDER BY owing.merchant_id) AS owing
    CROSS JOIN LATERAL (
        SELECT FROM webhook.lane WHERE lane.merchant_id = owing.merchant_id FOR NO KEY UPDATE
    ) AS lane
)
-- IN is hashed; a join may compare each with each.
SELECT owing.merchant_id AS lane, owing.merchant_id IN (SELECT locked.merchant_id FROM locked) AS has_lane
FROM owing;

-- name: recall_lanes
-- Recall lanes that are locked already: their holders release them before they start another attempt, even if the
-- lease has ended.
-- $1 merchants text[]
-- none: always
UPDATE webhook.lane
SET recalled = lane.recalled OR lane.lease_until > '-infinity'
WHERE lane.merchant_id = ANY($1::text[]);

-- name: pause_lane
-- Pause or resume a merchant: all its lanes, or that of one endpoint. Resuming lifts a suspension, and what failed before it
-- does not count any more; whoever tries the merchant just now does not make the lane wait.
-- $1 merchant_id text
-- $2 paused boolean
-- $3 endpoint smallint; null: all
-- none: always
WITH locked AS MATERIALIZED (
    SELECT lane.merchant_id
    FROM webhook.lane
    WHERE
        lane.merchant_id >= $1::text COLLATE "C"
        AND lane.merchant_id < ($1::text || ' ') COLLATE "C"
        AND ($3::smallint IS NULL OR lane.merchant_id = webhook.lane_of($1, $3))
        AND CASE
            WHEN NOT $2 THEN true
            -- Who routes sends nothing: what it copies waits in the endpoints' lanes. And what a removed endpoint is owed fails.
            WHEN lane.merchant_id = $1 THEN lane.routed_at IS NULL
            ELSE EXISTS (SELECT FROM webhook.endpoint WHERE endpoint.merchant_id = lane.merchant_id)
        END
    ORDER BY lane.merchant_id
    FOR NO KEY UPDATE
)
UPDATE webhook.lane
SET
    paused = $2,
    recalled = lane.recalled OR (($2 OR lane.suspended_at IS NOT NULL) AND lane.lease_until > '-infinity'),
    suspended_at = CASE WHEN $2 THEN lane.suspended_at END,
    wait_until = CASE WHEN $2 OR lane.suspended_at IS NULL THEN lane.wait_until ELSE '-infinity' END,
    retry_at = CASE WHEN $2 OR lane.suspended_at IS NULL THEN lane.retry_at ELSE clock_timestamp() END,
    failing_since = CASE WHEN $2 OR lane.suspended_at IS NULL THEN lane.failing_since END,
    failures_in_a_row = CASE WHEN $2 OR lane.suspended_at IS NULL THEN lane.failures_in_a_row ELSE 0 END
FROM locked
WHERE lane.merchant_id = ANY(ARRAY[locked.merchant_id]);

-- name: pause_everything
-- Pause or resume all sending.
-- $1 paused boolean
-- none: always
UPDATE webhook.state SET paused = $1 WHERE state.is_only;

-- name: find_configured
-- Find the lane of one of a merchant's endpoints.
-- $1 merchant_id text
-- $2 endpoint smallint; null: that with the lowest number
-- row: lane text
-- none: not configured
SELECT endpoint.merchant_id AS lane
FROM webhook.endpoint
WHERE
    endpoint.merchant_id >= $1::text COLLATE "C"
    AND endpoint.merchant_id < ($1::text || ' ') COLLATE "C"
    AND ($2::smallint IS NULL OR coalesce(webhook.endpoint_of(endpoint.merchant_id), 1) = $2)
ORDER BY webhook.endpoint_of(endpoint.merchant_id) NULLS FIRST
LIMIT 1;

-- name: is_everything_paused
-- Tell whether everything is paused.
-- row: paused boolean
-- none: cannot be
SELECT state.paused FROM webhook.state WHERE state.is_only;

-- name: read_sample
-- Read what a test of a type is.
-- $1 name text
-- row: sample text
-- none: there is no such type
SELECT event_type.sample::text AS sample FROM webhook.event_type WHERE event_type.name = $1;

-- name: set_url
-- Change the URL of a configured endpoint; its triggers recall the lane, and name in the audit who asked for it.
-- $1 lane text
-- $2 url text
-- $3 command_id bigint
-- row: lane text
-- none: not configured
WITH asked AS MATERIALIZED (
    SELECT set_config('webhook.person', control.requested_by, true) AS person
    FROM webhook.control
    WHERE control.id = $3
)
UPDATE webhook.endpoint
SET url = $2, updated_at = clock_timestamp()
FROM asked
WHERE endpoint.merchant_id = $1
RETURNING endpoint.merchant_id AS lane;

-- name: log_test_event
-- Write down a test event and its one attempt. That of a numbered endpoint is written as a delivery alone: no feed has it.
-- $1 event_id uuid
-- $2 lane text
-- $3 created_at timestamptz
-- $4 object json
-- $5 state text
-- $6 failed_reason text
-- $7 started_at timestamptz
-- $8 duration_ms integer
-- $9 status smallint
-- $10 outcome text
-- $11 finished_at timestamptz
-- $12 reason text
-- $13 response_excerpt text
-- none: always
WITH attempted AS (
    INSERT INTO webhook.attempt_log (
        event_id, merchant_id, attempt, trigger, started_at, duration_ms, status, outcome,
        reason, response_excerpt
    )
    VALUES ($1, $2, 1, 'manual', $7, $8, $9, $10, $12, $13)
    ON CONFLICT DO NOTHING
    RETURNING attempt_log.event_id
)
INSERT INTO webhook.delivery_log (
    seq, event_id, merchant_id, type, created_at, object,
    state, failed_reason, attempts, last_status, last_outcome, finished_at, xid, endpoint, copy_of
)
SELECT
    nextval('webhook.outbox_seq_seq'), $1, webhook.merchant_of($2), 'webhook.test', $3, $4, $5, $6, 1, $9, $10, $11,
    CASE WHEN webhook.endpoint_of($2) IS NULL THEN pg_current_xact_id() END,
    webhook.endpoint_of($2),
    CASE WHEN webhook.endpoint_of($2) IS NOT NULL THEN $1 END
FROM attempted;
