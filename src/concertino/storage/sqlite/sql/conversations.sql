-- Conversations and their turns.

-- name: conversation_number
SELECT c.number FROM conversations AS c
WHERE c.conversation_key = :conversation_key AND c.id = :id AND /*reached c*/;

-- name: add_conversation
INSERT INTO conversations (scope_key, conversation_key, id, tenant, user_id, agent, created)
VALUES (:scope_key, :conversation_key, :id, :tenant, :user, :agent, :now);

-- name: add_conversation_head
INSERT INTO conversation_heads (conversation, modes, tools, updated) VALUES (?, '[]', '[]', ?);

-- name: conversations
SELECT c.*, h.modes, h.tools, h.updated, coalesce(t.run_id, '') AS leaf,
    coalesce(
        (SELECT t.run_id FROM turns AS t JOIN heads AS r ON r.run = t.run WHERE t.number = h.current AND r.ending IS NULL),
        (SELECT t.run_id FROM turns AS t WHERE t.conversation = c.number AND t.state = 'queued'
            ORDER BY t.first DESC, t.number LIMIT 1),
        ''
    ) AS busy,
    coalesce((SELECT x.body FROM conversation_texts AS x
        WHERE x.conversation = c.number AND x.kind = 'title' AND x.body <> ''), '') AS title
FROM conversation_heads AS h JOIN conversations AS c ON c.number = h.conversation
LEFT JOIN turns AS t ON t.number = h.leaf
WHERE c.conversation_key IS NOT NULL AND /*reached c*/ AND /*conditions*/
ORDER BY h.updated DESC, c.number DESC
LIMIT :limit;

-- name: conversation_mark
-- Texts are added or blanked, a queued turn is added or starts or is deleted, and the ending of a run is set once.
SELECT h.leaf, h.current, r.state, r.ending, h.updated, h.modes, h.tools,
    (SELECT group_concat(q.number) FROM turns AS q
        WHERE q.conversation = c.number AND q.state IN ('queued', 'open') AND q.state = 'queued') AS queue,
    (SELECT count(*) || ' ' || max(x.number) FROM conversation_texts AS x
        WHERE x.conversation = c.number AND x.kind IN ('title', 'feedback') AND x.body <> '') AS texts
FROM conversations AS c JOIN conversation_heads AS h ON h.conversation = c.number
LEFT JOIN turns AS t ON t.number = h.current
LEFT JOIN heads AS r ON r.run = t.run
WHERE c.conversation_key = :conversation_key AND c.id = :id AND /*reached c*/;

-- name: started_turns
SELECT run_id FROM turns WHERE conversation = :conversation AND run > :run ORDER BY run LIMIT :limit;

-- name: head_of_conversation
SELECT h.leaf, h.current, leaf.run_id AS leaf_id, t.run_id AS current_id, run.ending IS NULL AS busy, h.modes, h.tools
FROM conversation_heads AS h
LEFT JOIN turns AS leaf ON leaf.number = h.leaf
LEFT JOIN turns AS t ON t.number = h.current
LEFT JOIN heads AS run ON run.run = t.run
WHERE h.conversation = ?;

-- name: set_head_of_conversation
UPDATE conversation_heads SET leaf = :turn, current = :turn, modes = :modes, updated = :now
WHERE conversation = :conversation;

-- name: set_leaf
UPDATE conversation_heads SET leaf = ? WHERE conversation = ?;

-- name: set_tools
UPDATE conversation_heads SET tools = ? WHERE conversation = ?;

-- name: turn_of_key
SELECT run_id, state FROM turns WHERE conversation = ? AND submit_key = ?;

-- name: next_queued
SELECT number, run_id FROM turns WHERE conversation = ? AND state = 'queued' ORDER BY first DESC, number LIMIT 1;

-- name: add_turn
INSERT INTO turns (conversation, run_id, run, state, parent, anchored, first, submit_key, mode, created, not_before)
VALUES (:conversation, :run_id, :run, :state, :parent, :anchored, :first, :submit_key, :mode, :now, 0);

-- name: start_queued
UPDATE turns SET state = 'open', run = :run, parent = :parent
WHERE conversation = :conversation AND run_id = :run_id AND state = 'queued'
RETURNING number;

-- name: withdraw_turn
DELETE FROM turns WHERE number = ? AND state = 'queued';

-- name: add_conversation_text
INSERT INTO conversation_texts (conversation, turn, kind, body, erase_at) VALUES (?, ?, ?, ?, ?);

-- name: blank_texts_of_turn
UPDATE conversation_texts SET body = '', erase_at = NULL WHERE turn = ? AND kind = ? AND body <> '';

-- name: blank_title
UPDATE conversation_texts SET body = '', erase_at = NULL WHERE conversation = ? AND kind = 'title' AND body <> '';

-- name: title
SELECT body FROM conversation_texts WHERE conversation = ? AND kind = 'title' AND body <> '';

-- name: turn_number
SELECT number, parent, run, state FROM turns WHERE conversation = ? AND run_id = ?;

-- name: branch
-- The turns of a branch, from a turn to the first one.
WITH RECURSIVE path (number, parent, depth) AS (
    SELECT number, parent, 0 FROM turns WHERE number = :turn
    UNION ALL
    SELECT t.number, t.parent, path.depth + 1 FROM path JOIN turns AS t ON t.number = path.parent
    WHERE path.depth + 1 < :limit
)
SELECT number FROM path ORDER BY depth LIMIT :limit;

-- name: newest_leaf
-- The newest turn below a turn: at each fork, the branch that was begun last.
WITH RECURSIVE path (number, depth) AS (
    SELECT :turn, 0
    UNION ALL
    SELECT (SELECT max(t.number) FROM turns AS t
        WHERE t.conversation = :conversation AND t.parent = path.number AND t.state IN ('open', 'closed')), depth + 1
    FROM path WHERE path.number IS NOT NULL
)
SELECT number FROM path WHERE number IS NOT NULL ORDER BY depth DESC LIMIT 1;

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

-- name: history
WITH RECURSIVE path (number, parent, run, depth) AS (
    SELECT number, parent, run, 0 FROM turns WHERE run_id = :run_id
    UNION ALL
    SELECT t.number, t.parent, t.run, path.depth + 1 FROM path JOIN turns AS t ON t.number = path.parent
    WHERE t.run_id <> :after
)
SELECT coalesce(m.kept, m.body), m.keep_seconds
FROM path JOIN messages AS m ON m.run = path.run
WHERE coalesce(m.kept, m.body) <> ''
ORDER BY m.number; -- a turn begins when its parent has ended

-- name: contents_of_branch
WITH RECURSIVE path (parent, run) AS (
    SELECT parent, run FROM turns WHERE run_id = :run_id
    UNION ALL
    SELECT t.parent, t.run FROM path JOIN turns AS t ON t.number = path.parent WHERE t.run_id <> :after
)
SELECT DISTINCT m.digest, m.body FROM path JOIN media_of_runs AS l ON l.run = path.run JOIN media AS m ON m.number = l.media;

-- name: is_after
WITH RECURSIVE path (number, parent) AS (
    SELECT number, parent FROM turns WHERE run_id = :run_id
    UNION ALL
    SELECT t.number, t.parent FROM path JOIN turns AS t ON t.number = path.parent WHERE t.run_id <> :after
)
SELECT 1 FROM path JOIN turns AS t ON t.number = path.parent WHERE t.run_id = :after;

-- name: last_end
SELECT content FROM journal
WHERE run = (SELECT number FROM runs WHERE run_id = ?) AND kind = 'ended' ORDER BY seq DESC LIMIT 1;

-- name: turns_to_close
SELECT t.number, t.conversation, t.run FROM turns AS t JOIN heads AS h ON h.run = t.run
WHERE t.state IN ('queued', 'open') AND t.state = 'open' AND h.ending IS NOT NULL;

-- name: close_turn
UPDATE turns SET state = 'closed' WHERE number = ? AND state = 'open' RETURNING number;

-- name: words_of_turn
SELECT m.role, CAST(coalesce(m.kept, m.body) AS BLOB) FROM messages AS m
WHERE m.run = ? AND m.keep_seconds IS NULL AND coalesce(m.kept, m.body) <> '' ORDER BY m.number;

-- name: add_turn_words
INSERT INTO turn_words (turn, words) VALUES (?, ?);

-- name: due_turns
SELECT c.id, c.tenant, c.user_id, c.agent, t.run_id, t.mode, t.anchored,
    coalesce((SELECT p.run_id FROM turns AS p WHERE p.number = t.parent), '') AS parent,
    (SELECT CAST(x.body AS BLOB) FROM conversation_texts AS x  -- text that is not UTF-8 would fail for all turns
        WHERE x.turn = t.number AND x.kind = 'input' AND x.body <> '') AS input
FROM turns AS t
JOIN conversations AS c ON c.number = t.conversation
JOIN conversation_heads AS h ON h.conversation = c.number
LEFT JOIN turns AS current ON current.number = h.current
LEFT JOIN heads AS run ON run.run = current.run
WHERE t.state IN ('queued', 'open') AND t.state = 'queued' AND (h.current IS NULL OR run.ending IS NOT NULL)
    AND t.not_before <= :now AND (:agents IS NULL OR c.agent IN (SELECT value FROM json_each(:agents)))
    AND t.number = (
        SELECT q.number FROM turns AS q WHERE q.conversation = t.conversation AND q.state = 'queued'
        ORDER BY q.first DESC, q.number LIMIT 1
    )
ORDER BY row_number() OVER (PARTITION BY c.tenant ORDER BY t.number), t.number  -- the oldest of each tenant first
LIMIT :limit;

-- name: postpone_turn
UPDATE turns SET not_before = :until WHERE number = :turn AND state = 'queued';

-- name: search_turns
WITH found AS MATERIALIZED (  -- else each text is read twice
    SELECT w.turn AS number, relevance(w.words, :wanted) AS score
    FROM turn_words AS w
    WHERE w.turn IN (
        SELECT t.number
        FROM conversations AS c JOIN turns AS t ON t.conversation = c.number
        WHERE c.conversation_key IS NOT NULL AND /*reached c*/
        ORDER BY t.number DESC
        LIMIT :most
    )
)
SELECT number FROM found
WHERE score IS NOT NULL
ORDER BY score DESC, number DESC
LIMIT :limit;

-- name: forget_rules_of_conversation
DELETE FROM approval_rules WHERE scope_key = :scope_key AND conversation_key = :conversation_key;

-- name: runs_of_conversation
SELECT r.number, r.run_id, r.root, h.ending IS NOT NULL AS ended, h.erase_after
FROM runs AS r INDEXED BY runs_by_conversation JOIN heads AS h ON h.run = r.number
WHERE r.conversation_key = :conversation_key AND r.conversation_id = :id AND /*reached r*/;

-- name: forget_run_of_conversation
UPDATE runs SET conversation_key = NULL, conversation_id = '', task = '' WHERE number = :run;

-- name: forget_texts_of_conversation
UPDATE texts AS t SET
    id = NULL, scope_key = NULL, tenant = '', user_id = '', run_id = NULL, conversation_key = NULL, body = ''
WHERE t.conversation_key = :conversation_key AND /*reached t*/;

-- name: blank_conversation
UPDATE conversation_texts SET body = '', erase_at = NULL WHERE conversation = ? AND body <> '';

-- name: forget_conversation
UPDATE conversations SET conversation_key = NULL, id = '', user_id = '', agent = '' WHERE number = ?;

-- name: delete_conversation_head
DELETE FROM conversation_heads WHERE conversation = ?;

-- name: forget_turn_words
UPDATE turn_words SET turn = NULL, words = x'' WHERE turn IN (SELECT number FROM turns WHERE conversation = ?);

-- name: delete_turns
DELETE FROM turns WHERE conversation = ?;

-- name: conversations_to_forget
SELECT c.number FROM conversations AS c WHERE c.conversation_key IS NOT NULL AND /*reached c*/;
