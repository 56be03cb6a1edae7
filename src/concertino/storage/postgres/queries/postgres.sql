-- The statements that PostgreSQL has in a form of its own.

-- name: begin_run
INSERT INTO runs (
    number, run_id, root, scope_key, parent_id, parent_call, agent, agent_path, conversation_key, conversation_id,
    tenant, user_id, task, started, forked_from
)
SELECT next.number, :run_id, coalesce(:root, next.number), :scope_key, :parent_id, :parent_call, :agent, :agent_path,
    :conversation_key, :conversation_id, :tenant, :user, :task, :started, :forked_from
FROM (SELECT nextval(pg_get_serial_sequence('runs', 'number')) AS number) AS next
ON CONFLICT (run_id) DO NOTHING
RETURNING number, root;

-- name: turns
SELECT t.number, t.run_id, t.state AS stage, t.created, t.mode, c.id AS conversation_id, coalesce(p.run_id, '') AS parent_id,
    r.task, h.state, e.answer, e.error,
    (SELECT CAST(x.body AS bpchar) FROM conversation_texts AS x
        WHERE x.turn = t.number AND x.kind = 'input' AND x.body <> '') AS input,
    (SELECT x.body FROM conversation_texts AS x WHERE x.turn = t.number AND x.kind = 'feedback' AND x.body <> '')
        AS feedback,
    (SELECT coalesce(json_agg(s.run_id ORDER BY s.number), '[]')::text FROM turns AS s
        WHERE s.conversation = t.conversation AND s.parent IS NOT DISTINCT FROM t.parent
            AND s.state IN ('open', 'closed')) AS siblings
FROM turns AS t JOIN conversations AS c ON c.number = t.conversation
LEFT JOIN turns AS p ON p.number = t.parent
LEFT JOIN runs AS r ON r.number = t.run
LEFT JOIN heads AS h ON h.run = t.run
LEFT JOIN ends AS e ON e.number = h.ending
WHERE /*conditions*/
ORDER BY t.number;

-- name: turns_to_close
SELECT number, conversation, run FROM turns WHERE state = 'open' AND ended
ORDER BY number LIMIT 200 FOR UPDATE SKIP LOCKED;

-- name: words_of_turn
SELECT m.role, coalesce(m.kept, m.body) FROM messages AS m
WHERE m.run = ? AND m.keep_seconds IS NULL AND coalesce(m.kept, m.body) <> '' ORDER BY m.number;

-- name: claimed_turns
SELECT t.number, c.id, c.tenant, c.user_id, c.agent, t.run_id, t.mode, t.anchored,
    coalesce((SELECT p.run_id FROM turns AS p WHERE p.number = t.parent), '') AS parent,
    (SELECT CAST(x.body AS bpchar) FROM conversation_texts AS x
        WHERE x.turn = t.number AND x.kind = 'input' AND x.body <> '') AS input
FROM turns AS t JOIN conversations AS c ON c.number = t.conversation
WHERE t.state = 'queued' AND t.number IN (SELECT value::bigint FROM json_each(?));

-- name: forget_turn_words
UPDATE turn_words SET turn = NULL, words = '' WHERE turn IN (SELECT number FROM turns WHERE conversation = ?);

-- name: runs_of_conversation
SELECT r.number, r.run_id, r.root, h.ending IS NOT NULL AS ended, h.erase_after
FROM runs AS r JOIN heads AS h ON h.run = r.number
WHERE r.conversation_key = :conversation_key AND r.conversation_id = :id AND /*reached r*/;

-- name: due_to_sweep
SELECT run, erase_at FROM heads WHERE sweep_at IS NOT NULL AND sweep_at <= :now
ORDER BY run LIMIT 1000 FOR UPDATE SKIP LOCKED;

-- name: contents_of_events
SELECT digest, body FROM media WHERE number IN (
    SELECT m.number
    FROM events AS e JOIN media_of_runs AS l ON l.run = e.run JOIN media AS m ON m.number = l.media
    WHERE e.number IN (SELECT value::bigint FROM json_each(?)) AND instr(e.body, '"data_digest":"' || m.digest)
);

-- name: events_of_call
-- A sealed text is searched by the caller.
SELECT e.number, e.body FROM events AS e JOIN runs AS r ON r.number = e.run
WHERE e.root = ? AND r.run_id = ? AND (instr(e.body, ?) OR starts_with(e.body, U&'\FDD02'));

-- name: discard_keys
INSERT INTO discarded_keys (id) SELECT value FROM json_each(?) ON CONFLICT DO NOTHING;

-- name: discarded_keys
SELECT id FROM discarded_keys LIMIT 10000;

-- name: keys_are_gone
DELETE FROM discarded_keys WHERE id IN (SELECT value FROM json_each(?));

-- name: add_memory_words
WITH found (memory, scope, words) AS (VALUES (?, ?, ?))
INSERT INTO memory_words SELECT memory, ' ' || words || ' ' FROM found;

-- name: find_memories
-- BM25 over the memories of the scope.
WITH mine AS (
    SELECT m.number, m.id, m.text, m.created, m.metadata, w.words, count(*) OVER () AS many,
        length(w.words) - length(replace(w.words, ' ', '')) AS size,
        avg(length(w.words) - length(replace(w.words, ' ', ''))) OVER () AS usual
    FROM memories AS m JOIN memory_words AS w ON w.memory = m.number
    WHERE /*reached m*/
), hits AS (
    SELECT mine.*, count(*) OVER (PARTITION BY value) AS found,
        (length(words) - length(replace(words, ' ' || value || ' ', ''))) / (length(value) + 2.0) AS times
    FROM mine JOIN json_each(:wanted) ON strpos(words, ' ' || value || ' ') > 0
)
SELECT id, text, created, metadata FROM hits
GROUP BY number, id, text, created, metadata
ORDER BY sum(ln(1 + (many - found + 0.5) / (found + 0.5)) * 2.2 * times / (times + 0.3 + 0.9 * size / usual)) DESC,
    number DESC
LIMIT :limit;

-- name: rebuild_words
DELETE FROM memory_words AS w USING memories AS m WHERE m.number = w.memory AND m.id IS NULL;

-- name: open_approvals
-- By an index each: the own ones, and those of others that name the user.
SELECT
    w.key, r.run_id, top.run_id AS root_id, w.agent_path, w.call_id, w.tool, w.kind, w.arguments, w.arguments_hash,
    w.who, w.note, w.opened, w.expires, w.target,
    NULL AS token, NULL AS verdict, NULL AS content, NULL AS other_arguments, NULL AS by, NULL AS at
FROM (
    SELECT w.number
    FROM operations AS o
    JOIN waits AS w ON w.key = o.key AND w.kind = o.waits_for AND w.run = o.run
    JOIN runs AS r ON r.number = w.run AND r.scope_key = o.scope_key
    WHERE o.state = 'waiting' AND o.waits_for = 'approval' AND w.who = '[]' AND /*reached r*/
    UNION ALL
    SELECT w.number
    FROM waits AS w
    JOIN runs AS r ON r.number = w.run
    JOIN operations AS o ON o.scope_key = r.scope_key AND o.key = w.key AND o.run = w.run
    WHERE people(w.who) @> ARRAY[:by]::text[] AND w.who <> '[]'
        AND o.state = 'waiting' AND o.waits_for = 'approval' AND w.kind = 'approval'
        AND (/*reached r*/ OR r.tenant = :named_in)
) AS found
JOIN waits AS w ON w.number = found.number
JOIN runs AS r ON r.number = w.run
JOIN runs AS top ON top.number = r.root
WHERE /*conditions*/
ORDER BY w.opened, w.key
LIMIT :limit;

-- name: open_approvals_of_tenant
-- By an index each: those of the tenant's open trees, and those that name the reader.
SELECT
    w.key, r.run_id, top.run_id AS root_id, w.agent_path, w.call_id, w.tool, w.kind, w.arguments, w.arguments_hash,
    w.who, w.note, w.opened, w.expires, w.target,
    NULL AS token, NULL AS verdict, NULL AS content, NULL AS other_arguments, NULL AS by, NULL AS at
FROM (
    SELECT w.number
    FROM heads AS h
    JOIN operations AS o ON o.root = h.run
    JOIN waits AS w ON w.key = o.key AND w.kind = o.waits_for AND w.run = o.run
    WHERE h.ending IS NULL AND /*reached h*/ AND o.state = 'waiting' AND o.waits_for = 'approval' AND w.who = '[]'
    UNION ALL
    SELECT w.number
    FROM waits AS w
    JOIN runs AS r ON r.number = w.run
    JOIN operations AS o ON o.scope_key = r.scope_key AND o.key = w.key AND o.run = w.run
    WHERE people(w.who) @> ARRAY[:by]::text[] AND w.who <> '[]'
        AND o.state = 'waiting' AND o.waits_for = 'approval' AND w.kind = 'approval'
) AS found
JOIN waits AS w ON w.number = found.number
JOIN runs AS r ON r.number = w.run
JOIN runs AS top ON top.number = r.root
WHERE /*reached r*/ AND /*conditions*/
ORDER BY w.opened, w.key
LIMIT :limit;

-- name: lock_tree
-- The root's head is the lock of its tree: whoever writes anything of the tree waits for it first.
SELECT 1 FROM heads WHERE run = (SELECT root FROM runs WHERE run_id = :run_id) FOR UPDATE;

-- name: lock_tree_and_caller
-- As well as the tree whose call the tree works for.
SELECT 1 FROM heads
WHERE run = ANY (ARRAY(
    SELECT root FROM runs WHERE run_id = :run_id
    UNION ALL SELECT c.root FROM runs AS r JOIN runs AS c ON c.run_id = r.parent_id WHERE r.run_id = :run_id
))
ORDER BY run FOR UPDATE;

-- name: lock_trees
SELECT 1 FROM heads WHERE run IN (SELECT r.root FROM runs AS r WHERE /*reached r*/) ORDER BY run FOR UPDATE;

-- name: lock_wait
SELECT 1 FROM heads
WHERE run = ANY (ARRAY(
    SELECT root FROM operations WHERE state = 'waiting' AND expires BETWEEN 0 AND :now
    UNION ALL SELECT r.root FROM waits AS w JOIN runs AS r ON r.number = w.run WHERE w.key = :key
    UNION ALL SELECT root FROM runs WHERE run_id = :run_id
))
ORDER BY run FOR UPDATE;

-- name: lock_overdue
SELECT 1 FROM heads WHERE run = ANY (ARRAY(SELECT root FROM operations WHERE state = 'waiting' AND expires BETWEEN 0 AND :now))
ORDER BY run FOR UPDATE;

-- name: lock_conversation
SELECT 1 FROM conversation_heads WHERE conversation = :conversation FOR UPDATE;

-- name: lock_trees_of_conversation
SELECT 1 FROM heads
WHERE run IN (
    SELECT r.root FROM conversations AS c JOIN runs AS r ON r.conversation_key = c.conversation_key
    WHERE c.number = :conversation AND r.scope_key = c.scope_key
)
ORDER BY run FOR UPDATE;

-- name: limited_accounts
SELECT CASE a.account WHEN :run THEN 'run' WHEN :user THEN 'user' ELSE 'tenant' END AS kind,
    a.limit_tokens, a.limit_money,
    a.reserved_tokens - s.free_tokens - s.spent_tokens AS reserved_tokens,
    a.reserved_money - s.free_money - s.spent_money AS reserved_money,
    a.spent_tokens + s.spent_tokens AS spent_tokens, a.spent_money + s.spent_money AS spent_money
FROM accounts AS a, LATERAL (
    SELECT coalesce(sum(p.free_tokens), 0)::bigint AS free_tokens, coalesce(sum(p.free_money), 0)::bigint AS free_money,
        coalesce(sum(p.spent_tokens), 0)::bigint AS spent_tokens, coalesce(sum(p.spent_money), 0)::bigint AS spent_money
    FROM slices AS p WHERE p.account = a.account
) AS s
WHERE a.account IN (:run, :user, :tenant) AND a.limited
ORDER BY CASE a.account WHEN :run THEN 1 WHEN :user THEN 2 ELSE 3 END;

-- name: lock_accounts
SELECT lock_accounts(:keys::bytea[]);

-- name: lock_whole_accounts
-- Trees return their slices of them.
SELECT lock_accounts(:keys::bytea[]), return_slices(:keys::bytea[], NULL);

-- name: conversation_mark
-- Texts are added or blanked, a queued turn is added or starts or is deleted, and the ending of a run is set once.
SELECT h.leaf, h.current, r.state, r.ending, h.updated, h.modes, h.tools,
    (SELECT string_agg(q.number::text, ',' ORDER BY q.number) FROM turns AS q
        WHERE q.conversation = c.number AND q.state = 'queued') AS queue,
    (SELECT count(*) || ' ' || max(x.number) FROM conversation_texts AS x
        WHERE x.conversation = c.number AND x.kind IN ('title', 'feedback') AND x.body <> '') AS texts
FROM conversations AS c JOIN conversation_heads AS h ON h.conversation = c.number
LEFT JOIN turns AS t ON t.number = h.current
LEFT JOIN heads AS r ON r.run = t.run
WHERE c.conversation_key = :conversation_key AND c.id = :id AND /*reached c*/;

-- name: ready
-- By agent: the work of others is not read.
SELECT r.run_id, due.state, due.doubtful
FROM json_each(
    coalesce(:agents, (SELECT json_agg(DISTINCT h.agent)::text FROM heads AS h WHERE h.ready_at <= :now))
) AS a, LATERAL (
    SELECT h.run, h.ready_at, h.state, h.stop OR h.tries > 0 OR h.process = :process AND h.process <> '' AS doubtful
    FROM heads AS h WHERE h.agent = a.value AND h.ready_at <= :now
    ORDER BY h.ready_at, h.run LIMIT :limit
) AS due, LATERAL (SELECT run_id FROM runs WHERE number = due.run LIMIT 1) AS r
ORDER BY due.ready_at, due.run
LIMIT :limit;

-- name: due_roots
WITH wanted AS MATERIALIZED (
    SELECT a.value FROM json_each(
        coalesce(:agents, (SELECT json_agg(DISTINCT h.agent)::text FROM heads AS h WHERE h.ready_at <= :now))
    ) AS a WHERE /*free a.value*/
)
SELECT due.run AS number, r.run_id AS root_id, r.tenant, r.user_id, due.owner
FROM wanted AS a, LATERAL (
    SELECT h.run, h.ready_at, h.owner FROM heads AS h
    WHERE h.agent = a.value AND h.ready_at <= :now
        AND NOT h.stop AND h.tries = 0 AND (h.process <> :process OR h.process = '')
    ORDER BY h.ready_at, h.run LIMIT :limit FOR UPDATE SKIP LOCKED
) AS due, LATERAL (SELECT run_id, tenant, user_id FROM runs WHERE number = due.run LIMIT 1) AS r
ORDER BY due.ready_at, due.run
LIMIT :limit;

-- name: has_due_call
-- In the order of the index: the planner cannot know that few of the operations are due.
SELECT 1 FROM operations WHERE due_at <= :now AND state = 'waiting' ORDER BY target, due_at, key LIMIT 1;

-- name: due_calls
WITH wanted AS MATERIALIZED (
    SELECT t.value FROM json_each(
        coalesce(:targets, (SELECT json_agg(DISTINCT o.target)::text FROM operations AS o WHERE o.due_at <= :due))
    ) AS t WHERE t.value NOT IN (SELECT target FROM consumers WHERE lease > :now AND owner <> :consumer)
)
SELECT
    w.key, r.run_id, top.run_id AS root_id, w.agent_path, w.call_id, w.tool, w.kind, w.arguments, w.arguments_hash,
    w.who, w.note, w.opened, w.expires, w.target, w.task,
    NULL AS token, NULL AS verdict, NULL AS content, NULL AS other_arguments, NULL AS by, NULL AS at,
    due.scope_key, r.tenant, r.user_id
FROM wanted AS t, LATERAL (
    SELECT o.scope_key, o.key, o.run, o.waits_for, o.due_at FROM operations AS o
    WHERE o.target = t.value AND o.due_at <= :due AND o.state = 'waiting'
    ORDER BY o.due_at, o.key LIMIT :limit FOR UPDATE SKIP LOCKED
) AS due
JOIN waits AS w ON w.key = due.key AND w.kind = due.waits_for AND w.run = due.run
JOIN runs AS r ON r.number = w.run
JOIN runs AS top ON top.number = r.root
ORDER BY due.due_at, w.number
LIMIT :limit;

-- name: due_schedules
SELECT s.id, s.tenant, s.user_id, s.agent, s.body, due.due_at
FROM json_each(
    coalesce(:agents, (SELECT json_agg(DISTINCT h.agent)::text FROM schedule_heads AS h WHERE h.due_at <= :now))
) AS a, LATERAL (
    SELECT h.schedule, h.due_at FROM schedule_heads AS h WHERE h.agent = a.value AND h.due_at <= :now
    ORDER BY h.due_at, h.schedule LIMIT :limit
) AS due
JOIN schedules AS s ON s.number = due.schedule
ORDER BY due.due_at, due.schedule LIMIT :limit;
