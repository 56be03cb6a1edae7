-- The logs of events.

-- name: begin_log
INSERT INTO event_logs (root, last, closed) SELECT number, 0, false FROM runs WHERE run_id = ? ON CONFLICT (root) DO NOTHING;

-- name: advance_log
-- No RETURNING, which costs as much as the rest: this runs for each batch.
UPDATE event_logs SET last = :last
WHERE root = (
    SELECT r.number FROM runs AS r JOIN heads AS h ON h.run = r.number
    WHERE r.run_id = :root_id AND h.epoch = :epoch AND /*reached r*/
)
    AND last = :first - 1
    AND NOT closed;

-- name: end_log
UPDATE event_logs SET closed = true
WHERE root = ? AND (SELECT h.ending IS NOT NULL FROM heads AS h WHERE h.run = event_logs.root);

-- name: root_of_log
SELECT number FROM runs WHERE run_id = ?;

-- name: log
SELECT r.number AS root, coalesce(l.last, 0) AS last, coalesce(l.closed, false) AS closed, h.epoch,
    h.ending IS NOT NULL AS ended
FROM runs AS r JOIN heads AS h ON h.run = r.number LEFT JOIN event_logs AS l ON l.root = r.number
WHERE r.run_id = :run_id AND r.root = r.number AND /*reached r*/;

-- name: add_event_row
-- A sub-agent that could not start has no row in runs.
INSERT INTO events (root, run, entry, source, first, last, body)
SELECT
    r.number,
    coalesce((SELECT s.number FROM runs AS s WHERE s.run_id = :run_id AND :run_id <> :root_id), r.number),
    :entry, :source, :first, :last, :body
FROM runs AS r WHERE r.run_id = :root_id;

-- name: run_of_events
SELECT run FROM events WHERE number = ?;

-- name: complete_source
UPDATE events SET source = -source WHERE root = ? AND source = ?;

-- name: drop_source
UPDATE events SET body = '', source = NULL WHERE root = ? AND source = ?;

-- name: replace_events
UPDATE events SET body = ?, source = NULL WHERE number = ? AND root = ?;

-- name: events_of_call
SELECT e.number, e.body FROM events AS e JOIN runs AS r ON r.number = e.run
WHERE e.root = ? AND r.run_id = ? AND instr(e.body, ?);

-- name: undone_events
SELECT e.number, r.run_id, e.first, e.body
FROM events AS e JOIN runs AS r ON r.number = e.run JOIN heads AS h ON h.run = e.run
WHERE e.root = (SELECT number FROM runs WHERE run_id = ?) AND e.body <> '' AND h.ending IS NULL AND (
    e.source > 0
    OR e.entry > coalesce((
        SELECT max(j.seq) FROM journal AS j
        WHERE j.run = e.run
            AND j.kind IN ('started', 'model_requested', 'model_answered', 'calls_changed', 'suspended')
    ), 0)
)
ORDER BY e.number;

-- name: event_page
-- The state of a log, with each row of the page or alone.
WITH log AS (
    SELECT r.number AS root, coalesce(l.last, 0) AS last, coalesce(l.closed, false) AS closed, h.ending IS NOT NULL AS ended
    FROM runs AS r JOIN heads AS h ON h.run = r.number LEFT JOIN event_logs AS l ON l.root = r.number
    WHERE r.run_id = :root_id AND r.root = r.number AND /*reached r*/
)
SELECT log.last AS end_of_log, log.closed, log.ended, e.number, r.run_id, e.first, e.last, e.body
FROM log
LEFT JOIN events AS e ON e.root = log.root AND e.body <> '' AND e.last > :after AND e.last <= coalesce((
    SELECT p.last FROM events AS p
    WHERE p.root = (SELECT root FROM log) AND p.body <> '' AND p.last > :after
    ORDER BY p.last LIMIT 1 OFFSET :limit
), 9223372036854775807)
LEFT JOIN runs AS r ON r.number = e.run
ORDER BY e.last, e.number;

-- name: close_log
INSERT INTO event_logs (root, last, closed)
SELECT r.number, 1, true FROM runs AS r JOIN heads AS h ON h.run = r.number
WHERE r.run_id = :run_id AND r.root = r.number AND h.ending IS NOT NULL
ON CONFLICT (root) DO UPDATE SET last = event_logs.last + 1, closed = true WHERE NOT event_logs.closed
RETURNING last;

-- name: event_positions
SELECT r.run_id, l.last, l.closed, h.ending IS NOT NULL AS ended
FROM runs AS r JOIN heads AS h ON h.run = r.number LEFT JOIN event_logs AS l ON l.root = r.number
WHERE r.run_id IN (SELECT value FROM json_each(:root_ids)) AND /*reached r*/
UNION ALL
SELECT t.run_id, -1, false, false
FROM turns AS t JOIN conversations AS c ON c.number = t.conversation
WHERE t.run_id IN (SELECT value FROM json_each(:root_ids)) AND t.state = 'queued' AND /*reached c*/;

-- name: erase_events
UPDATE events SET body = '', source = NULL WHERE run = :run AND body <> '';

-- name: forget_log
UPDATE event_logs SET closed = true WHERE root = :run;
