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

-- name: turn_of_conversation
SELECT t.number FROM turns AS t JOIN conversations AS c ON c.number = t.conversation
WHERE t.run_id = :run_id AND t.state <> 'steered' AND c.conversation_key = :conversation_key AND c.id = :id
    AND /*reached c*/;

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
    SELECT CAST(:turn AS BIGINT), 0
    UNION ALL
    SELECT (SELECT max(t.number) FROM turns AS t
        WHERE t.conversation = :conversation AND t.parent = path.number AND t.state IN ('open', 'closed')), depth + 1
    FROM path WHERE path.number IS NOT NULL
)
SELECT number FROM path WHERE number IS NOT NULL ORDER BY depth DESC LIMIT 1;

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

-- name: close_turn
UPDATE turns SET state = 'closed' WHERE number = ? AND state = 'open' RETURNING number;

-- name: add_turn_words
INSERT INTO turn_words (turn, words) VALUES (?, ?);

-- name: postpone_turn
UPDATE turns SET not_before = :until WHERE number = :turn AND state = 'queued';

-- name: owners_of_due_turns
-- The tenants of agents with turns that are due, the longest due first: a look into the index for each, none for a turn
-- or for other agents.
WITH RECURSIVE every (agent) AS (
    SELECT (
        SELECT t.agent FROM turns AS t WHERE CAST(:agents AS text) IS NULL AND t.due AND t.state = 'queued' ORDER BY t.agent LIMIT 1
    )
    UNION ALL
    SELECT (SELECT t.agent FROM turns AS t WHERE t.due AND t.state = 'queued' AND t.agent > e.agent ORDER BY t.agent LIMIT 1)
    FROM every AS e WHERE e.agent IS NOT NULL
), wanted (agent) AS (
    SELECT e.agent FROM every AS e WHERE e.agent IS NOT NULL UNION ALL SELECT a.value FROM json_each(:agents) AS a
), found (agent, tenant) AS (
    SELECT w.agent, (
        SELECT t.tenant FROM turns AS t WHERE t.due AND t.state = 'queued' AND t.agent = w.agent
        ORDER BY t.tenant LIMIT 1
    )
    FROM wanted AS w WHERE /*free w.agent*/
    UNION ALL
    SELECT f.agent, (
        SELECT t.tenant FROM turns AS t
        WHERE t.due AND t.state = 'queued' AND t.agent = f.agent AND t.tenant > f.tenant
        ORDER BY t.tenant LIMIT 1
    )
    FROM found AS f WHERE f.tenant IS NOT NULL
), owners AS (
    SELECT f.agent, f.tenant, (
        SELECT min(t.not_before) FROM turns AS t
        WHERE t.due AND t.state = 'queued' AND t.agent = f.agent AND t.tenant = f.tenant
    ) AS since
    FROM found AS f WHERE f.tenant IS NOT NULL
)
SELECT agent, tenant FROM owners WHERE since <= :now ORDER BY since, agent, tenant;

-- name: take_due_turns
WITH chosen AS MATERIALIZED (
    SELECT t.number FROM turns AS t
    WHERE t.due AND t.state = 'queued' AND t.agent = :agent AND t.tenant = :tenant AND t.not_before <= :now
        AND /*free CAST(:agent AS text)*/
    ORDER BY t.not_before, t.number
    LIMIT :limit /*for update of t*/
)
UPDATE turns SET not_before = :until WHERE number IN (SELECT number FROM chosen) RETURNING number;

-- name: words_of_turns
SELECT w.turn, w.words FROM turn_words AS w
WHERE w.turn IN (
    SELECT t.number
    FROM conversations AS c JOIN turns AS t ON t.conversation = c.number
    WHERE c.conversation_key IS NOT NULL AND /*reached c*/
    ORDER BY t.number DESC
    LIMIT :most
);

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

-- name: delete_turns
DELETE FROM turns WHERE conversation = ?;

-- name: conversations_to_forget
SELECT c.number FROM conversations AS c WHERE c.conversation_key IS NOT NULL AND /*reached c*/;
