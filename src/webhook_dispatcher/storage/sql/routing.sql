-- Routing: the lane of a merchant with several endpoints has no deliveries of its own. Its holder writes a copy of each event
-- into the lane of each endpoint that wants it, and the event into the log.
-- A range of names, from m to `m || ' '`, is merchant m's own lane and those of its endpoints: no id holds anything below a space.

-- name: route
-- Write the next events of a routed lane into the lanes of the endpoints that want them.
-- Fenced on the lane's locked version: by the epoch, and by nothing having recalled it, since endpoints are read by the
-- snapshot. What stands behind a locked row waits.
-- $1 lane text
-- $2 epoch bigint
-- $3 server_started_at timestamptz
-- $4 after_seq bigint
-- $5 stable bigint; nothing can appear at or below it
-- $6 max_rows bigint; the log's and the copies
-- $7 max_bytes bigint; the log's and the copies', but for the last event's
-- $8 lease interval
-- $9 at timestamptz
-- row: fate text, events bigint, unwanted bigint, failed text[], reached bigint, is_cut boolean, lanes text[],
--      heads bigint[]; failed: types of what nobody was there for
-- order: one row; fate is kept, released (nothing is left), alone (number 1 is, or
-- nobody is left, and the lane rests), recalled, lost or locked
WITH held AS MATERIALIZED (
    SELECT lane.merchant_id
    FROM webhook.lane
    WHERE
        lane.merchant_id = $1
        AND lane.epoch = $2
        AND lane.routed_at IS NOT NULL
        AND NOT lane.recalled
        AND lane.lease_until > '-infinity'
        AND $3 = pg_postmaster_start_time()
    FOR NO KEY UPDATE SKIP LOCKED
),
routes AS MATERIALIZED (
    SELECT
        endpoint.merchant_id AS lane, webhook.endpoint_of(endpoint.merchant_id) AS number, endpoint.types, endpoint.since_seq
    FROM held
    CROSS JOIN webhook.endpoint
    WHERE endpoint.merchant_id > $1::text COLLATE "C" AND endpoint.merchant_id < ($1::text || ' ') COLLATE "C"
),
-- No row where number 1 is alone, or nobody is left: the lane is to be the merchant's again.
open AS MATERIALIZED (
    SELECT count(*) + 1 AS copies FROM routes HAVING max(routes.number) > 1
),
head AS MATERIALIZED (
    SELECT next.seq, next.object_bytes, open.copies
    FROM open
    CROSS JOIN LATERAL (
        SELECT outbox.seq, outbox.object_bytes
        FROM webhook.outbox
        -- As read_runs has it.
        WHERE (outbox.merchant_id, outbox.seq) > ($1, $4) AND outbox.merchant_id <= $1 AND outbox.due_at IS NULL
        ORDER BY outbox.merchant_id, outbox.seq
        LIMIT greatest($6 / open.copies, 1)
    ) AS next
),
ahead AS MATERIALIZED (
    SELECT sized.seq, sized.place
    FROM (
        SELECT
            head.seq, head.copies,
            row_number() OVER (ORDER BY head.seq) AS place,
            sum(head.object_bytes) OVER (ORDER BY head.seq) - head.object_bytes AS bytes_before
        FROM head
    ) AS sized
    WHERE sized.bytes_before * sized.copies < $7
),
locked AS MATERIALIZED (
    SELECT ahead.seq, ahead.place
    FROM ahead
    CROSS JOIN LATERAL (
        SELECT
        FROM webhook.outbox
        WHERE outbox.seq = ahead.seq AND CASE WHEN outbox.merchant_id = $1 THEN outbox.due_at IS NULL END
        FOR UPDATE SKIP LOCKED
    ) AS one
),
run AS MATERIALIZED (
    SELECT numbered.seq
    FROM (SELECT locked.seq, locked.place, row_number() OVER (ORDER BY locked.seq) AS nth FROM locked) AS numbered
    WHERE numbered.place = numbered.nth
),
moved AS (
    DELETE FROM webhook.outbox
    USING run
    WHERE outbox.seq = ANY(ARRAY[run.seq])
    RETURNING
        outbox.seq, outbox.id, outbox.type, outbox.created_at, outbox.object, outbox.xid, outbox.trigger, outbox.on_failure,
        outbox.copy_of
),
-- Each event beside each endpoint. Nothing is joined or looked up by numbers here and below: that may compare each with each. What
-- is large of an object is not read.
offered AS MATERIALIZED (
    SELECT
        judged.*,
        bool_or(judged.is_wanted_here) OVER events AS is_wanted,
        min(judged.number) FILTER (WHERE judged.is_wanted_here) OVER events AS first_number,
        row_number() OVER events AS nth
    FROM (
        SELECT
            moved.seq, moved.id, moved.type, moved.created_at, moved.object, moved.xid, moved.trigger, moved.on_failure,
            moved.copy_of, routes.lane, routes.number,
            CASE
                -- A copy of number 1's that came back in order while the merchant was direct: it was judged already.
                WHEN num_nulls(moved.copy_of) = 0 THEN routes.number = 1
                ELSE
                    moved.seq > routes.since_seq
                    AND (
                        routes.types IS NULL
                        OR moved.type = ANY(routes.types)
                        OR moved.type = 'webhook.test'
                        OR moved.trigger <> 'schedule'
                    )
            END AS is_wanted_here
        FROM moved
        CROSS JOIN routes
    ) AS judged
    WINDOW events AS (PARTITION BY judged.seq)
),
-- What nobody was there for, since number 1 is removed, fails as without an endpoint; what nobody wanted has no state; and what
-- was asked for by hand is what it was.
ended AS MATERIALIZED (
    SELECT
        offered.seq, offered.id, offered.type, offered.created_at, offered.object, offered.xid, offered.copy_of, offered.is_wanted,
        CASE
            WHEN offered.is_wanted THEN NULL
            WHEN
                offered.seq <= (SELECT min(routes.since_seq) FROM routes)
                OR num_nulls(offered.copy_of) = 0
                THEN coalesce(offered.on_failure, 'failed')
            ELSE offered.on_failure
        END AS state
    FROM offered
    WHERE offered.nth = 1
),
copied AS (
    INSERT INTO webhook.outbox (id, merchant_id, type, created_at, object, trigger, on_failure, copy_of, xid)
    SELECT
        CASE
            WHEN wanted.number = wanted.first_number THEN wanted.id
            -- The event's id was used again while this endpoint still owes it.
            WHEN (SELECT true FROM webhook.outbox AS other WHERE other.id = webhook.delivery_id(wanted.id, wanted.number))
                THEN gen_random_uuid()
            ELSE webhook.delivery_id(wanted.id, wanted.number)
        END,
        wanted.lane, wanted.type, wanted.created_at, wanted.object, wanted.trigger, wanted.on_failure,
        wanted.id, NULL
    FROM offered AS wanted
    WHERE wanted.is_wanted_here
    -- Numbers are given in this order.
    ORDER BY wanted.seq, wanted.number
    RETURNING outbox.merchant_id, outbox.seq
),
logged AS (
    INSERT INTO webhook.delivery_log (
        seq, event_id, merchant_id, type, created_at, object, state, failed_reason, attempts, finished_at, xid, copy_of, endpoint
    )
    SELECT
        ended.seq, ended.id, $1, ended.type, ended.created_at, ended.object, ended.state,
        CASE WHEN ended.state = 'failed' THEN 'not_configured' END, 0, $9, ended.xid, ended.copy_of,
        CASE WHEN num_nulls(ended.copy_of) = 0 THEN 1 END
    FROM ended
    WHERE num_nulls(ended.copy_of) = 1 OR ended.state IS NOT NULL
),
unreported AS (
    -- As `record` has it.
    INSERT INTO webhook.unreported_failure (finished_at, seq, event_id, merchant_id, reason)
    SELECT $9, ended.seq, ended.id, $1, 'not_configured'
    FROM ended
    WHERE
        (
            SELECT true
            FROM webhook.endpoint
            WHERE endpoint.merchant_id >= '$platform' AND endpoint.merchant_id < '$platform '
            LIMIT 1
        )
        AND ended.state = 'failed'
        AND $1 <> '$platform'
        AND ended.type <> 'webhook.test'
    ON CONFLICT DO NOTHING
),
summed AS MATERIALIZED (
    SELECT
        (SELECT count(*) FROM run) AS events,
        (SELECT max(run.seq) FROM run) AS reached,
        (SELECT count(*) FROM open) > 0 AS is_open,
        (SELECT count(*) FROM run) < (SELECT count(*) FROM ahead)
        OR (SELECT count(*) FROM ahead) < (SELECT count(*) FROM head)
        OR coalesce((SELECT count(*) FROM head) >= (SELECT greatest($6 / open.copies, 1) FROM open), false) AS is_cut
),
updated AS (
    UPDATE webhook.lane
    SET
        -- Never past what was not routed; LEAST passes over nulls.
        from_seq = CASE
            WHEN NOT summed.is_open THEN lane.from_seq
            WHEN summed.is_cut THEN greatest(lane.from_seq, least($5, coalesce(summed.reached, 0)))
            ELSE greatest(lane.from_seq, $5)
        END,
        lease_until = CASE WHEN summed.is_open AND summed.is_cut THEN clock_timestamp() + $8::interval ELSE '-infinity' END,
        -- Alone: nobody's, until number 1 may have caught up.
        wait_until = CASE
            WHEN summed.is_open THEN lane.wait_until
            ELSE clock_timestamp() + CASE
                WHEN (
                    SELECT first.paused OR first.suspended_at IS NOT NULL
                    FROM webhook.lane AS first
                    WHERE first.merchant_id = webhook.lane_named($1, 1::smallint)
                )
                    THEN interval '5 seconds'
                ELSE interval '0.5 seconds'
            END
        END
    FROM held
    CROSS JOIN summed
    WHERE lane.merchant_id = ANY(ARRAY[held.merchant_id])
    RETURNING CASE WHEN NOT summed.is_open THEN 'alone' WHEN summed.is_cut THEN 'kept' ELSE 'released' END AS fate
)
SELECT
    coalesce(
        (SELECT updated.fate FROM updated),
        (
            SELECT
                CASE
                    WHEN
                        lane.epoch <> $2
                        OR lane.routed_at IS NULL
                        OR lane.lease_until = '-infinity'
                        OR $3 <> pg_postmaster_start_time()
                        THEN 'lost'
                    WHEN lane.recalled THEN 'recalled'
                    ELSE 'locked'
                END
            FROM webhook.lane
            WHERE lane.merchant_id = $1
        ),
        'lost'
    ) AS fate,
    summed.events,
    (SELECT count(*) FROM ended WHERE NOT ended.is_wanted AND ended.state IS NULL) AS unwanted,
    coalesce((SELECT array_agg(ended.type) FROM ended WHERE ended.state = 'failed'), '{}') AS failed,
    summed.reached,
    summed.is_cut,
    coalesce(reached_lane.lanes, '{}') AS lanes,
    coalesce(reached_lane.heads, '{}') AS heads
FROM summed
CROSS JOIN (
    SELECT array_agg(first.lane) AS lanes, array_agg(first.seq) AS heads
    FROM (
        SELECT copied.merchant_id AS lane, min(copied.seq) AS seq
        FROM copied
        GROUP BY copied.merchant_id
    ) AS first
) AS reached_lane;

-- name: find_strays
-- Name retries that nobody has claimed and that wait where their merchant's number 1 is not any more: in the merchant's lane
-- while that is routed, in number 1's while it is not. Lanes have turns by chance. A lane's are in no order: for any of these
-- a plan may sort all that the lane has. A lane whose retry_at is infinite has no retries, unless it is suspended.
-- $1 max_rows bigint
-- $2 max_bytes bigint; but for the last row's
-- $3 except_seqs bigint[]; rows that are left alone
-- row: merchant_id text, seq bigint, id uuid
-- order: none
-- none: there are no others
WITH left_lane AS MATERIALIZED (
    SELECT lane.merchant_id
    FROM webhook.lane
    WHERE lane.routed_at IS NOT NULL AND (lane.retry_at < 'infinity' OR lane.suspended_at IS NOT NULL)
    UNION ALL
    SELECT lane.merchant_id
    FROM webhook.lane
    WHERE
        lane.merchant_id LIKE E'%\x1f%'
        -- The index of lanes with a number begins with this.
        AND webhook.merchant_of(lane.merchant_id) >= ''
        AND webhook.endpoint_of(lane.merchant_id) = 1
        AND (lane.retry_at < 'infinity' OR lane.suspended_at IS NOT NULL)
        AND (
            SELECT own.routed_at FROM webhook.lane AS own WHERE own.merchant_id = webhook.merchant_of(lane.merchant_id)
        ) IS NULL
),
next AS MATERIALIZED (
    SELECT place.merchant_id, waiting.seq, waiting.id, waiting.object_bytes
    FROM (SELECT left_lane.merchant_id FROM left_lane ORDER BY random()) AS place
    CROSS JOIN LATERAL (
        SELECT outbox.seq, outbox.id, outbox.object_bytes
        FROM webhook.outbox
        WHERE
            outbox.merchant_id = place.merchant_id
            AND outbox.due_at IS NOT NULL
            AND outbox.claim IS NULL
            AND outbox.seq <> ALL($3::bigint[])
        LIMIT $1
    ) AS waiting
    LIMIT $1
)
SELECT sized.merchant_id, sized.seq, sized.id
FROM (
    SELECT
        next.merchant_id, next.seq, next.id,
        sum(next.object_bytes) OVER (ORDER BY next.seq) - next.object_bytes AS bytes_before
    FROM next
) AS sized
WHERE sized.bytes_before < $2;

-- name: hand_on
-- Move retries of lanes without an endpoint to where their merchant's number 1 is: what we claimed is due there, what nobody has
-- claimed stays due when it was. An event, as routing does: it goes into the log, and its copy has its attempts, schedule and
-- answers. In a numbered lane with copy_of null, readers of events would miss it.
-- Where number 1 is, its merchant's lane tells by its locked version; nobody is there only where no place of number 1 has an
-- endpoint by this snapshot.
-- $1 seqs bigint[]
-- $2 claims bigint[]; null: nobody's
-- $3 lanes text[]
-- $4 at timestamptz
-- row: seq bigint, fate text
-- order: none; a row for each: it was moved; it waits (locked, or moved just now); or nobody is there
WITH asked AS MATERIALIZED (
    SELECT entry.seq, entry.claim, entry.lane, webhook.merchant_of(entry.lane) AS merchant
    FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS entry (seq, claim, lane)
),
named AS MATERIALIZED (
    SELECT asked.merchant AS lane FROM asked
    UNION
    SELECT webhook.lane_named(asked.merchant, 1::smallint) FROM asked
),
locked_lane AS MATERIALIZED (
    SELECT lane.merchant_id, lane.routed_at IS NOT NULL AS is_routed
    FROM webhook.lane
    WHERE lane.merchant_id = ANY(ARRAY(SELECT named.lane FROM named))
    ORDER BY lane.merchant_id
    FOR NO KEY UPDATE SKIP LOCKED
),
-- What is in a list is asked within CASE, and so hashed: a join may compare each with each.
target AS MATERIALIZED (
    SELECT placed.seq, placed.claim, placed.merchant, placed.lane, placed.to_lane
    FROM (
        SELECT
            asked.seq, asked.claim, asked.merchant, asked.lane,
            CASE
                WHEN webhook.endpoint_of(asked.lane) > 1 THEN NULL
                WHEN asked.merchant IN (SELECT locked_lane.merchant_id FROM locked_lane WHERE locked_lane.is_routed)
                    THEN webhook.lane_named(asked.merchant, 1::smallint)
                WHEN asked.merchant IN (SELECT locked_lane.merchant_id FROM locked_lane) THEN asked.merchant
            END AS to_lane
        FROM asked
    ) AS placed
    WHERE placed.to_lane <> placed.lane
),
owed AS MATERIALIZED (
    SELECT target.seq, target.claim, target.merchant, target.lane, target.to_lane, mine.copy_of, mine.due_at
    FROM target
    CROSS JOIN LATERAL (
        SELECT
            outbox.copy_of,
            CASE WHEN outbox.claim IS NULL THEN outbox.due_at ELSE clock_timestamp() END AS due_at
        FROM webhook.outbox
        -- Within CASE, or an index of all that is in flight could be read.
        WHERE
            outbox.seq = target.seq
            AND CASE
                WHEN num_nulls(target.claim) = 0 THEN outbox.claim = target.claim
                -- Somebody may have moved it, and so may what made it wait in order.
                WHEN num_nulls(outbox.claim) = 1 AND num_nulls(outbox.due_at) = 0 THEN outbox.merchant_id = target.lane
            END
        FOR UPDATE SKIP LOCKED
    ) AS mine
    WHERE
        CASE
            WHEN target.to_lane IN (SELECT locked_lane.merchant_id FROM locked_lane)
                -- Where it comes from is changed too: who waited for that lane would have others wait.
                THEN target.lane IN (SELECT locked_lane.merchant_id FROM locked_lane)
        END
),
moved AS (
    UPDATE webhook.outbox
    SET merchant_id = owed.to_lane, claim = NULL, due_at = owed.due_at
    FROM owed
    WHERE outbox.seq = ANY(ARRAY[owed.seq]) AND num_nulls(owed.copy_of) = 0
),
taken AS (
    DELETE FROM webhook.outbox
    USING owed
    WHERE outbox.seq = ANY(ARRAY[owed.seq]) AND num_nulls(owed.copy_of) = 1
    RETURNING
        owed.merchant, owed.to_lane, owed.due_at, outbox.seq, outbox.id, outbox.type, outbox.created_at, outbox.object, outbox.attempts,
        outbox.trigger, outbox.on_failure, outbox.last_status, outbox.last_outcome, outbox.xid, outbox.attempts_by_hand,
        outbox.scheduled_at
),
copied AS (
    INSERT INTO webhook.outbox (
        id, merchant_id, type, created_at, object, attempts, due_at, trigger, on_failure, last_status, last_outcome,
        attempts_by_hand, scheduled_at, copy_of, xid
    )
    SELECT
        taken.id, taken.to_lane, taken.type, taken.created_at, taken.object, taken.attempts, taken.due_at, taken.trigger,
        taken.on_failure, taken.last_status, taken.last_outcome, taken.attempts_by_hand, taken.scheduled_at, taken.id, NULL
    FROM taken
),
logged AS (
    INSERT INTO webhook.delivery_log (
        seq, event_id, merchant_id, type, created_at, object, attempts, finished_at, xid
    )
    SELECT taken.seq, taken.id, taken.merchant, taken.type, taken.created_at, taken.object, 0, $4, taken.xid
    FROM taken
),
woken AS (
    UPDATE webhook.lane
    SET retry_at = least(lane.retry_at, reached.due_at)
    FROM (
        SELECT owed.to_lane AS lane, min(owed.due_at) AS due_at FROM owed GROUP BY owed.to_lane
        UNION ALL
        -- Where they were, the slots of those that we claimed are free.
        SELECT owed.lane, max(owed.due_at) FROM owed WHERE num_nulls(owed.claim) = 0 GROUP BY owed.lane
    ) AS reached
    WHERE lane.merchant_id = ANY(ARRAY[reached.lane]) AND lane.suspended_at IS NULL
)
SELECT
    asked.seq,
    CASE
        WHEN asked.seq IN (SELECT owed.seq FROM owed) THEN 'moved'
        WHEN coalesce(webhook.endpoint_of(asked.lane), 1) > 1 THEN 'nobody'
        WHEN
            asked.seq NOT IN (SELECT target.seq FROM target)
            AND (SELECT true FROM webhook.endpoint WHERE endpoint.merchant_id = asked.merchant) IS NULL
            AND (
                SELECT true
                FROM webhook.endpoint
                WHERE endpoint.merchant_id = webhook.lane_named(asked.merchant, 1::smallint)
            ) IS NULL
            THEN 'nobody'
        ELSE 'waits'
    END AS fate
FROM asked;

-- name: find_alone
-- Name merchants that are routed still, though number 1 alone is left, or nobody.
-- row: merchant_id text
-- none: nobody is
SELECT lane.merchant_id
FROM webhook.lane
WHERE
    lane.routed_at IS NOT NULL
    AND (
        SELECT true
        FROM webhook.endpoint
        WHERE
            endpoint.merchant_id > webhook.lane_named(lane.merchant_id, 1::smallint)
            AND endpoint.merchant_id < (lane.merchant_id || ' ') COLLATE "C"
        LIMIT 1
    ) IS NULL;

-- name: become_direct
-- Make a merchant's lane its endpoint's again, once number 1 alone, or nobody, is left and it owes no first attempt.
-- $1 merchant_id text
-- row: is_direct boolean
-- order: one row
SELECT webhook.become_direct($1) AS is_direct;

-- name: serve_unrouted
-- Serve programs again that know but one endpoint, once no merchant has several and nothing is owed to one of these.
-- none: always
SELECT FROM webhook.serve_unrouted();
