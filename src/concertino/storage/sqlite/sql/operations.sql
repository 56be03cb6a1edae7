-- Open operations.

-- name: put_operation
INSERT INTO operations (
    scope_key, key, run, root, kind, state, answered, step, call_index, name, call_id, effect, remote, waits_for,
    tokens, money, prompt, outcome
)
SELECT scope_key, :key, number, root, :kind, :state, 0, :step, :call_index, :name, :call_id, :effect, :remote,
    :waits_for, :tokens, :money, :prompt, :outcome
FROM runs WHERE run_id = :run_id AND root = :root AND scope_key = :scope_key
ON CONFLICT (scope_key, key) DO UPDATE SET
    -- An ended operation keeps its state, and a wait that was answered meanwhile is not opened again.
    state = CASE
        WHEN state = 'unknown' AND :state = 'done' THEN :state
        WHEN state IN ('done', 'failed', 'unknown', 'cancelled') OR (answered AND :state = 'waiting') THEN state
        ELSE :state
    END,
    outcome = CASE WHEN outcome IS NULL OR (state = 'unknown' AND :state = 'done') THEN :outcome ELSE outcome END,
    answered = answered AND :state = 'waiting',
    waits_for = coalesce(:waits_for, waits_for),
    expires = CASE WHEN :state = 'waiting' THEN expires END,
    step = :step, call_index = :call_index, name = :name, call_id = :call_id, effect = :effect, remote = :remote,
    tokens = :tokens, money = :money, prompt = :prompt
WHERE run = excluded.run
RETURNING state, answered, waits_for, outcome;

-- name: outcome_of_unknown
SELECT outcome FROM operations
WHERE scope_key = ? AND key = ? AND state = 'unknown' AND outcome IS NOT NULL;

-- name: add_outcome
INSERT INTO outcomes (content) VALUES (?);

-- name: erase_outcome
UPDATE outcomes SET content = '' WHERE number = ?;

-- name: close_operation
DELETE FROM operations
WHERE scope_key = (SELECT scope_key FROM runs WHERE number = :run) AND key = :key AND root = :root
RETURNING state, waits_for, outcome;

-- name: close_run
DELETE FROM operations WHERE root = :root AND (run = :run OR :run = :root) RETURNING outcome;

-- name: operations
SELECT o.*, r.run_id, r.organization_id, r.user_id, c.content
FROM operations AS o
JOIN runs AS r ON r.number = o.run
LEFT JOIN outcomes AS c ON c.number = o.outcome
WHERE o.scope_key = :scope_key AND r.organization_id = :tenant AND r.user_id = :user AND /*conditions*/
ORDER BY o.step, o.call_index, o.key;

-- name: operation_of_run
SELECT o.scope_key, o.key, o.run, o.root, o.state, o.waits_for, o.remote
FROM runs AS r JOIN operations AS o ON o.scope_key = r.scope_key AND o.key = :key
WHERE r.run_id = :run_id AND o.run = r.number;

-- name: operation_of_wait
SELECT o.scope_key, o.key, o.run, o.root, o.state, o.waits_for, o.remote
FROM waits AS w
JOIN runs AS r ON r.number = w.run
JOIN operations AS o ON o.scope_key = r.scope_key AND o.key = w.key
WHERE w.key = :key AND o.run = r.number;

-- name: answer_operation
UPDATE operations SET state = :state, answered = 1, expires = NULL WHERE scope_key = :scope_key AND key = :key;

-- name: expire_operations
UPDATE operations SET state = :state, answered = 1, expires = NULL
WHERE state = 'waiting' AND expires <= :now
RETURNING root;
