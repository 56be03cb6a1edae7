-- The statements that only SQLite has in this form.

-- name: turns
SELECT t.number, t.run_id, t.state AS stage, t.created, t.mode, c.id AS conversation_id, coalesce(p.run_id, '') AS parent_id,
    r.task, h.state, e.answer, e.error,
    (SELECT CAST(x.body AS BLOB) FROM conversation_texts AS x
        WHERE x.turn = t.number AND x.kind = 'input' AND x.body <> '') AS input,
    (SELECT x.body FROM conversation_texts AS x WHERE x.turn = t.number AND x.kind = 'feedback' AND x.body <> '')
        AS feedback,
    (SELECT json_group_array(s.run_id) FROM (
        SELECT run_id FROM turns WHERE conversation = t.conversation AND parent IS t.parent
            AND state IN ('open', 'closed') ORDER BY number
    ) AS s) AS siblings
FROM turns AS t JOIN conversations AS c ON c.number = t.conversation
LEFT JOIN turns AS p ON p.number = t.parent
LEFT JOIN runs AS r ON r.number = t.run
LEFT JOIN heads AS h ON h.run = t.run
LEFT JOIN ends AS e ON e.number = h.ending
WHERE /*conditions*/
ORDER BY t.number;

-- name: turns_to_close
SELECT number, conversation, run FROM turns WHERE state = 'open' AND ended;

-- name: words_of_turn
SELECT m.role, CAST(coalesce(m.kept, m.body) AS BLOB) FROM messages AS m
WHERE m.run = ? AND m.keep_seconds IS NULL AND coalesce(m.kept, m.body) <> '' ORDER BY m.number;

-- name: claimed_turns
SELECT t.number, c.id, c.tenant, c.user_id, c.agent, t.run_id, t.mode, t.anchored,
    coalesce((SELECT p.run_id FROM turns AS p WHERE p.number = t.parent), '') AS parent,
    (SELECT CAST(x.body AS BLOB) FROM conversation_texts AS x  -- text that is not UTF-8 would fail for all turns
        WHERE x.turn = t.number AND x.kind = 'input' AND x.body <> '') AS input
FROM turns AS t JOIN conversations AS c ON c.number = t.conversation
WHERE t.state = 'queued' AND t.number IN (SELECT value FROM json_each(?));

-- name: runs_of_conversation
SELECT r.number, r.run_id, r.root, h.ending IS NOT NULL AS ended, h.erase_after
FROM runs AS r INDEXED BY runs_by_conversation JOIN heads AS h ON h.run = r.number
WHERE r.conversation_key = :conversation_key AND r.conversation_id = :id AND /*reached r*/;

-- name: forget_turn_words
UPDATE turn_words SET turn = NULL, words = x'' WHERE turn IN (SELECT number FROM turns WHERE conversation = ?);

-- name: due_to_sweep
SELECT run, erase_at FROM heads WHERE sweep_at IS NOT NULL AND sweep_at <= :now;

-- name: begin_run
INSERT INTO runs (
    number, run_id, root, scope_key, parent_id, parent_call, agent, agent_path, conversation_key, conversation_id,
    tenant, user_id, task, started, forked_from
)
SELECT next.number, :run_id, coalesce(:root, next.number), :scope_key, :parent_id, :parent_call, :agent, :agent_path,
    :conversation_key, :conversation_id, :tenant, :user, :task, :started, :forked_from
FROM (SELECT coalesce((SELECT max(number) FROM runs), 0) + 1 AS number) AS next  -- one look into the index, not a scan
WHERE true
ON CONFLICT (run_id) DO NOTHING
RETURNING number, root;

-- name: contents_of_events
SELECT digest, body FROM media WHERE number IN (
    SELECT m.number
    FROM events AS e JOIN media_of_runs AS l ON l.run = e.run JOIN media AS m ON m.number = l.media
    WHERE e.number IN (SELECT value FROM json_each(?)) AND instr(e.body, '"data_digest":"' || m.digest)
);

-- name: add_memory_words
INSERT INTO memory_words (rowid, scope, words) VALUES (?, ?, ?);

-- name: find_memories
SELECT m.id, m.text, m.created, m.metadata
FROM memory_words AS w JOIN memories AS m ON m.number = w.rowid
WHERE memory_words MATCH :match AND /*reached m*/
ORDER BY bm25(memory_words, 0.0, 1.0), m.number DESC
LIMIT :limit;

-- name: words_new
CREATE VIRTUAL TABLE new_words USING fts5 (scope, words, tokenize = 'unicode61 remove_diacritics 0');

-- name: words_copy
INSERT INTO new_words (rowid, scope, words)
SELECT w.rowid, w.scope, w.words
FROM memory_words AS w JOIN memories AS m ON m.number = w.rowid
WHERE m.id IS NOT NULL
ORDER BY w.rowid;

-- name: words_drop
DROP TABLE memory_words;

-- name: words_rename
ALTER TABLE new_words RENAME TO memory_words;

-- name: identity
SELECT id FROM identity;

-- name: last_entry
SELECT coalesce(max(number), 0) FROM journal;

-- name: processes
WITH RECURSIVE found (process) AS (
    SELECT min(process) FROM heads WHERE process <> ''
    UNION ALL
    SELECT (SELECT min(h.process) FROM heads AS h WHERE h.process <> '' AND h.process > found.process) FROM found
    WHERE found.process IS NOT NULL
)
SELECT process FROM found WHERE process IS NOT NULL;

-- name: end_leases
UPDATE heads SET lease = min(lease, :now), process = '' WHERE process = :process RETURNING run;

-- name: conversation_mark
-- Texts are added or blanked, a queued turn is added or starts or is deleted, and the ending of a run is set once.
SELECT h.leaf, h.current, r.state, r.ending, h.updated, h.modes, h.tools,
    (SELECT group_concat(q.number) FROM turns AS q
        WHERE q.conversation = c.number AND q.state = 'queued') AS queue,
    (SELECT count(*) || ' ' || max(x.number) FROM conversation_texts AS x
        WHERE x.conversation = c.number AND x.kind IN ('title', 'feedback') AND x.body <> '') AS texts
FROM conversations AS c JOIN conversation_heads AS h ON h.conversation = c.number
LEFT JOIN turns AS t ON t.number = h.current
LEFT JOIN heads AS r ON r.run = t.run
WHERE c.conversation_key = :conversation_key AND c.id = :id AND /*reached c*/;
