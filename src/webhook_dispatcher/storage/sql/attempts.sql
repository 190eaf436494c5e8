-- Attempts at one delivery: the same for whoever may look at it (storage/statements.py, `Role`).

-- name: read_attempts
-- Read the attempts of one event, the first ones. They are found before they are ordered (OFFSET 0), never in that order.
-- $1 reader bytea
-- $2 event_id uuid
-- $3 most bigint; null: all
-- row: attempt smallint, trigger text, started_at timestamptz, duration_ms integer, status smallint, outcome text,
--   reason text; ordered by started_at
-- none: not attempted yet, dropped with their day's log, another merchant's, or nobody is found who asks
SELECT page.*
FROM role.reader AS me
CROSS JOIN LATERAL (
    SELECT
        made.attempt, made.trigger, made.started_at, made.duration_ms, made.status, made.outcome, made.reason
    FROM (SELECT attempts.* FROM role.attempts AS attempts WHERE role.may_read AND attempts.event_id = $2 OFFSET 0) AS made
    ORDER BY made.started_at, made.attempt
    LIMIT $3
) AS page
ORDER BY page.started_at, page.attempt;
