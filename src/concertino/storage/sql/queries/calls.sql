-- Calls whose work the processes of a target do.

-- name: has_due_call
SELECT 1 FROM operations WHERE due_at <= :now AND state = 'waiting' LIMIT 1;

-- name: due_calls
SELECT
    w.key, r.run_id, top.run_id AS root_id, w.agent_path, w.call_id, w.tool, w.kind, w.arguments, w.arguments_hash,
    w.who, w.note, w.opened, w.expires, w.target, w.task,
    NULL AS token, NULL AS verdict, NULL AS content, NULL AS other_arguments, NULL AS by, NULL AS at,
    o.scope_key, r.tenant, r.user_id
FROM operations AS o
JOIN waits AS w ON w.key = o.key AND w.kind = o.waits_for AND w.run = o.run
JOIN runs AS r ON r.number = w.run
JOIN runs AS top ON top.number = r.root
WHERE o.due_at <= :due AND o.state = 'waiting'
    AND w.target NOT IN (SELECT target FROM consumers WHERE lease > :now AND owner <> :consumer)
    AND (CAST(:targets AS text) IS NULL OR w.target IN (SELECT value FROM json_each(:targets)))
ORDER BY o.due_at, w.number
LIMIT :limit /*for update of o*/;

-- name: take_call
UPDATE operations SET due_at = :until WHERE scope_key = :scope_key AND key = :key;

-- name: postpone_call
UPDATE operations SET due_at = :until WHERE scope_key = :scope_key AND key = :key AND due_at IS NOT NULL;

-- name: call_to_answer
-- Not after its deadline, also if it has not been expired yet.
SELECT key, scope_key, state, waits_for, remote, run, root FROM operations
WHERE scope_key = :scope_key AND key = :key AND state = 'waiting' AND waits_for = 'result'
    AND (expires IS NULL OR expires > :now);

-- name: call_of_run
SELECT parent_call, scope_key FROM runs WHERE number = ? AND root = number AND parent_id IS NOT NULL;

-- name: claim_target
INSERT INTO consumers (target, owner, lease, agents) VALUES (:target, :owner, :lease, :agents)
ON CONFLICT (target) DO UPDATE SET
    owner = CASE WHEN CAST(:now AS float8) IS NULL OR consumers.lease <= :now THEN excluded.owner ELSE consumers.owner END,
    agents = CASE WHEN CAST(:now AS float8) IS NULL OR consumers.lease <= :now OR consumers.owner = excluded.owner
        THEN excluded.agents ELSE consumers.agents END,
    lease = CASE WHEN CAST(:now AS float8) IS NULL OR consumers.lease <= :now OR consumers.owner = excluded.owner THEN excluded.lease
        ELSE consumers.lease END
RETURNING owner;

-- name: held_targets
SELECT target FROM consumers
WHERE target IN (SELECT value FROM json_each(:targets)) AND owner = :owner AND lease > :now /*for share*/;

-- name: leave_target
DELETE FROM consumers WHERE target = :target AND owner = :owner;
