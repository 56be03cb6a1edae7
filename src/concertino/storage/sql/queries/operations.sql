-- Open operations.

-- name: put_operation
INSERT INTO operations (
    scope_key, key, run, root, kind, state, answered, step, call_index, name, call_id, effect, remote, waits_for,
    tokens, money, prompt, outcome
)
SELECT scope_key, ?, number, root, ?, ?, false, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
FROM runs WHERE run_id = ? AND root = ? AND scope_key = ?
ON CONFLICT (scope_key, key) DO UPDATE SET
    -- An ended operation keeps its state, and a wait that was answered meanwhile is not opened again.
    state = CASE
        WHEN operations.state = 'unknown' AND excluded.state = 'done' THEN excluded.state
        WHEN operations.state IN ('done', 'failed', 'unknown', 'cancelled')
            OR (operations.answered AND excluded.state = 'waiting') THEN operations.state
        ELSE excluded.state
    END,
    outcome = CASE
        WHEN operations.outcome IS NULL OR (operations.state = 'unknown' AND excluded.state = 'done')
            THEN excluded.outcome
        ELSE operations.outcome
    END,
    answered = operations.answered AND excluded.state = 'waiting',
    waits_for = coalesce(excluded.waits_for, operations.waits_for),
    expires = CASE WHEN excluded.state = 'waiting' THEN operations.expires END,
    step = excluded.step, call_index = excluded.call_index, name = excluded.name, call_id = excluded.call_id,
    effect = excluded.effect, remote = excluded.remote, tokens = excluded.tokens, money = excluded.money,
    prompt = excluded.prompt
WHERE operations.run = excluded.run
RETURNING run, state, answered, waits_for, outcome;

-- name: replaced_outcome
-- Only a settlement replaces an outcome.
SELECT run, outcome FROM operations
WHERE scope_key = ? AND key = ? AND state = 'unknown' AND ? = 'done' AND outcome IS NOT NULL;

-- name: add_outcome
INSERT INTO outcomes (content) VALUES (?);

-- name: outcome
SELECT content FROM outcomes WHERE number = ?;

-- name: erase_outcome
UPDATE outcomes SET content = '' WHERE number = ?;

-- name: close_operation
DELETE FROM operations
WHERE scope_key = (SELECT scope_key FROM runs WHERE number = ?) AND key = ? AND root = ?
RETURNING run, waits_for, outcome;

-- name: close_run
DELETE FROM operations WHERE root = :root AND (run = :run OR :run = :root) RETURNING run, outcome;

-- name: operations
SELECT o.*, r.run_id, r.tenant, r.user_id, c.content
FROM operations AS o
JOIN runs AS r ON r.number = o.run AND r.root = o.root AND r.scope_key = o.scope_key
LEFT JOIN outcomes AS c ON c.number = o.outcome
WHERE /*reached r*/ AND /*conditions*/
ORDER BY o.step, o.call_index, o.key;

-- name: operation_of_run
SELECT o.scope_key, o.key, o.run, o.root, o.state, o.waits_for, o.remote
FROM runs AS r JOIN operations AS o ON o.scope_key = r.scope_key AND o.key = :key
WHERE r.run_id = :run_id AND o.run = r.number AND /*reached r*/;

-- name: operation_of_wait
SELECT o.scope_key, o.key, o.run, o.root, o.state, o.waits_for, o.remote
FROM waits AS w
JOIN runs AS r ON r.number = w.run
JOIN operations AS o ON o.scope_key = r.scope_key AND o.key = w.key
WHERE w.key = :key AND o.run = r.number AND /*reached r*/;

-- name: answer_operation
UPDATE operations SET state = :state, answered = true, expires = NULL WHERE scope_key = :scope_key AND key = :key;

-- name: expire_operations
UPDATE operations SET state = :state, answered = true, expires = NULL
WHERE state = 'waiting' AND expires BETWEEN 0 AND :now
RETURNING root;
