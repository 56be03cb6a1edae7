-- Reading runs, their journals and the ledger.

-- name: runs
SELECT
    r.*, top.run_id AS root_id, h.state, h.entries, h.erase_at, e.answer, e.error, e.ended, t.epoch, t.owner, t.tries, t.stop,
    t.reason, t.ready_at
FROM runs AS r
JOIN heads AS h ON h.run = r.number
JOIN heads AS t ON t.run = r.root
JOIN runs AS top ON top.number = r.root
LEFT JOIN ends AS e ON e.number = h.ending
WHERE /*reached r*/ AND /*conditions*/
ORDER BY r.started DESC, r.number DESC
LIMIT :limit;

-- name: runs_in_state
SELECT run FROM heads WHERE state = :state AND state NOT IN ('running', 'completed');

-- name: running_runs
-- They are in open trees: the root is running, which makes it ready at some time, or it waits, or is a dead letter.
SELECT h.run FROM heads AS h
WHERE h.state = 'running' AND h.root IN (
    SELECT run FROM heads WHERE ready_at IS NOT NULL
    UNION ALL
    SELECT run FROM heads WHERE state IN ('suspended', 'dead_letter') AND state NOT IN ('running', 'completed')
);

-- name: messages
SELECT coalesce(m.kept, m.body), m.tokens, CASE WHEN m.keep_progress THEN m.progress END
FROM messages AS m
WHERE m.run = (SELECT r.number FROM runs AS r WHERE r.run_id = :run_id AND /*reached r*/) AND coalesce(m.kept, m.body) <> ''
ORDER BY m.entry, m.number;

-- name: usage
-- With the trees that work for calls of the tree.
WITH RECURSIVE trees (root) AS (
    SELECT number FROM runs WHERE run_id = :root_id
    UNION
    SELECT called.number FROM trees JOIN runs AS caller ON caller.root = trees.root
    JOIN runs AS called ON called.parent_id = caller.run_id AND called.root = called.number
        AND called.scope_key = caller.scope_key
)
SELECT u.*, r.run_id FROM runs AS r JOIN usage AS u ON u.run = r.number
WHERE r.run_id = :root_id AND r.root = r.number AND u.entry > :after AND /*reached r*/
UNION ALL  -- each part is a look into an index
SELECT u.*, r.run_id FROM runs AS r JOIN usage AS u ON u.run = r.number
WHERE r.run_id = :root_id AND r.root = r.number AND u.entry IS NULL AND /*reached r*/
UNION ALL
SELECT u.*, r.run_id FROM trees JOIN runs AS r ON r.root = trees.root JOIN usage AS u ON u.run = r.number
WHERE r.run_id <> :root_id AND /*reached r*/
ORDER BY booking;

-- name: unsettled_usage
SELECT u.*, r.run_id FROM usage AS u JOIN runs AS r ON r.number = u.run
WHERE u.source = 'unknown' AND /*reached r*/ AND u.booking > coalesce((
    SELECT u.booking FROM usage AS u JOIN runs AS r ON r.number = u.run WHERE u.id = :after AND /*reached r*/
), 0)
ORDER BY u.booking LIMIT :limit;

-- name: entries
SELECT seq, epoch, kind, step, at, version, body, erased, content FROM journal WHERE run = ? ORDER BY seq;

-- name: last_snapshot
-- Backwards, so that no more is read than what follows it.
SELECT seq, body FROM journal WHERE run = ? AND body LIKE '{"snapshot":%' ORDER BY seq DESC LIMIT 1;

-- name: entries_from_snapshot
SELECT j.seq, j.epoch, j.kind, j.step, j.at, j.version, j.body, j.erased, j.content
FROM json_each(:named) AS n CROSS JOIN journal AS j ON j.run = :run AND j.seq = CAST(n.value AS INTEGER)
UNION ALL
SELECT seq, epoch, kind, step, at, version, body, erased, content FROM journal WHERE run = :run AND seq >= :seq
ORDER BY seq;

-- name: messages_of_entries
SELECT entry, body, tokens, progress FROM messages WHERE run = ? AND body <> '' ORDER BY entry, number;

-- name: messages_from_snapshot
SELECT m.number, m.entry, m.body, m.tokens, m.progress
FROM json_each(:apart) AS n CROSS JOIN messages AS m ON m.run = :run AND m.entry = CAST(n.value AS INTEGER)
WHERE m.body <> ''
UNION ALL
SELECT number, entry, body, tokens, progress FROM messages WHERE run = :run AND entry >= :since AND body <> ''
ORDER BY entry, number;

-- name: usage_of_entries
SELECT u.*, r.run_id FROM usage AS u JOIN runs AS r ON r.number = u.run
WHERE u.run = ? AND u.entry IS NOT NULL ORDER BY u.booking;

-- name: texts
SELECT id, body, body = '' FROM texts WHERE id IN (SELECT value FROM json_each(?)) AND scope_key = ?;

-- name: usage_sums
SELECT /*columns*/
    coalesce(sum(u.prompt) FILTER (WHERE u.source <> 'unknown'), 0),
    coalesce(sum(u.completion) FILTER (WHERE u.source <> 'unknown'), 0),
    coalesce(sum(u.cached) FILTER (WHERE u.source <> 'unknown'), 0),
    coalesce(sum(u.cache_write) FILTER (WHERE u.source <> 'unknown'), 0),
    coalesce(sum(u.reasoning) FILTER (WHERE u.source <> 'unknown'), 0),
    coalesce(sum(u.cache_write_1h) FILTER (WHERE u.source <> 'unknown'), 0),
    coalesce(sum(u.prompt) FILTER (WHERE u.source = 'unknown'), 0),
    coalesce(sum(u.completion) FILTER (WHERE u.source = 'unknown'), 0),
    coalesce(sum(u.cached) FILTER (WHERE u.source = 'unknown'), 0),
    coalesce(sum(u.cache_write) FILTER (WHERE u.source = 'unknown'), 0),
    coalesce(sum(u.reasoning) FILTER (WHERE u.source = 'unknown'), 0),
    coalesce(sum(u.cache_write_1h) FILTER (WHERE u.source = 'unknown'), 0),
    exact_sum(u.cost), count(*) FILTER (WHERE u.cost IS NULL), count(*) FILTER (WHERE u.source = 'estimated'),
    count(*) FILTER (WHERE u.source = 'unknown'), count(*)
FROM usage AS u JOIN runs AS r ON r.number = u.run JOIN runs AS top ON top.number = r.root
WHERE u.booking >= :first AND u.booking < :end AND (CAST(:since AS float8) IS NULL OR u.booked >= :since)
    AND (CAST(:until AS float8) IS NULL OR u.booked < :until) AND /*reached r*/
/*grouping*/;

-- name: last_booking
SELECT coalesce(max(booking), 0) FROM usage;

-- name: booked_from
SELECT booking, booked FROM usage WHERE booking >= ? ORDER BY booking LIMIT 1;
