-- Waits, their answers, and commands.

-- name: open_wait
INSERT INTO waits (
    run, key, agent_path, call_id, tool, kind, arguments, arguments_hash, who, note, opened, expires, target, task
)
VALUES (
    :run, :key, :agent_path, :call_id, :tool, :kind, :arguments, :arguments_hash, :who, :note, :opened, :expires,
    :target, :task
)
ON CONFLICT (key, kind) DO NOTHING
RETURNING number;

-- name: set_deadline
UPDATE operations SET expires = :expires, due_at = CASE WHEN :target <> '' THEN :opened END
WHERE scope_key = (SELECT scope_key FROM runs WHERE number = :run) AND key = :key AND state = 'waiting';

-- name: operation_state
SELECT state, scope_key FROM operations
WHERE scope_key = (SELECT scope_key FROM runs WHERE number = :run) AND key = :key AND run = :run;

-- name: verdict
SELECT verdict FROM answers WHERE key = ? AND kind = ?;

-- name: waits
SELECT
    w.key, r.run_id, top.run_id AS root_id, w.agent_path, w.call_id, w.tool, w.kind, w.arguments, w.arguments_hash,
    w.who, w.note, w.opened, w.expires, w.target,
    a.token, a.verdict, a.content, a.arguments AS other_arguments, a.by, a.at
FROM waits AS w
LEFT JOIN answers AS a ON a.key = w.key AND a.kind = w.kind
JOIN runs AS r ON r.number = w.run
JOIN runs AS top ON top.number = r.root
WHERE w.key IS NOT NULL AND /*reached r*/ AND /*conditions*/
ORDER BY w.opened, w.key
LIMIT :limit;

-- name: open_waits
SELECT
    w.key, r.run_id, top.run_id AS root_id, w.agent_path, w.call_id, w.tool, w.kind, w.arguments, w.arguments_hash,
    w.who, w.note, w.opened, w.expires, w.target,
    NULL AS token, NULL AS verdict, NULL AS content, NULL AS other_arguments, NULL AS by, NULL AS at
FROM operations AS o
JOIN waits AS w ON w.key = o.key AND w.kind = o.waits_for
JOIN runs AS r ON r.number = w.run AND r.scope_key = o.scope_key
JOIN runs AS top ON top.number = r.root
WHERE o.state = 'waiting' AND w.run = o.run AND /*reached r*/ AND /*conditions*/
ORDER BY w.opened, w.key
LIMIT :limit;

-- name: open_approvals
SELECT
    w.key, r.run_id, top.run_id AS root_id, w.agent_path, w.call_id, w.tool, w.kind, w.arguments, w.arguments_hash,
    w.who, w.note, w.opened, w.expires, w.target,
    NULL AS token, NULL AS verdict, NULL AS content, NULL AS other_arguments, NULL AS by, NULL AS at
FROM operations AS o
JOIN waits AS w ON w.key = o.key AND w.kind = 'approval'
JOIN runs AS r ON r.number = w.run
JOIN runs AS top ON top.number = r.root
WHERE o.state = 'waiting' AND o.waits_for = 'approval' AND w.run = o.run
    AND (
        (w.who = '[]' AND /*reached r*/)
        OR (EXISTS (SELECT 1 FROM json_each(w.who) WHERE value = :by) AND (/*reached r*/ OR r.tenant = :named_in))
    )
    AND /*conditions*/
ORDER BY w.opened, w.key
LIMIT :limit;

-- name: wait
-- An early answer is that of a wait which is not open yet.
SELECT
    a.key, r.run_id, top.run_id AS root_id, r.agent_path, '' AS call_id, '' AS tool, a.kind,
    '' AS arguments, '' AS arguments_hash, '[]' AS who, '' AS note, a.at AS opened, NULL AS expires,
    '' AS target,
    a.token, a.verdict, a.content, a.arguments AS other_arguments, a.by, a.at, NULL AS number
FROM answers AS a JOIN runs AS r ON r.number = a.run JOIN runs AS top ON top.number = r.root
WHERE a.key = :key AND /*reached r*/
    AND NOT EXISTS (SELECT 1 FROM waits AS w WHERE w.key = a.key AND w.kind = a.kind)
UNION ALL
SELECT
    w.key, r.run_id, top.run_id AS root_id, w.agent_path, w.call_id, w.tool, w.kind, w.arguments, w.arguments_hash,
    w.who, w.note, w.opened, w.expires, w.target,
    a.token, a.verdict, a.content, a.arguments AS other_arguments, a.by, a.at, w.number
FROM waits AS w
LEFT JOIN answers AS a ON a.key = w.key AND a.kind = w.kind
JOIN runs AS r ON r.number = w.run
JOIN runs AS top ON top.number = r.root
WHERE w.key = :key AND /*reached r*/
ORDER BY number DESC NULLS FIRST LIMIT 1;

-- name: answer
INSERT INTO answers (key, kind, run, token, verdict, at, by, content, arguments)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (key, kind) DO NOTHING;

-- name: cancel_wait
INSERT INTO answers (key, kind, run, token, verdict, at, by, content)
SELECT key, kind, run, '', 'cancelled', :now, '', '' FROM waits WHERE key = :key
ON CONFLICT (key, kind) DO NOTHING;

-- name: answer_overdue
INSERT INTO answers (key, kind, run, token, verdict, at, by, content)
SELECT key, waits_for, run, '', 'expired', :now, '', '' FROM operations WHERE state = 'waiting' AND expires BETWEEN 0 AND :now
ON CONFLICT (key, kind) DO NOTHING;

-- name: answer_ended
INSERT INTO answers (key, kind, run, token, verdict, at, by, content)
SELECT o.key, o.waits_for, o.run, '', 'cancelled', :now, '', '' FROM operations AS o
WHERE o.root = :root AND (o.run = :run OR :run = :root) AND o.state = 'waiting'
    AND o.waits_for IN ('approval', 'result')
ON CONFLICT (key, kind) DO NOTHING;

-- name: command
UPDATE heads SET commands = commands + 1, stop = stop OR :stop
WHERE run = (SELECT r.number FROM runs AS r WHERE r.run_id = :run_id AND /*reached r*/) AND ending IS NULL
RETURNING run, root, commands;

-- name: add_command
INSERT INTO commands (run, number, kind, text, by, at) VALUES (?, ?, ?, ?, ?, ?);

-- name: last_message_to
SELECT max(number) FROM commands WHERE run = ? AND kind = 'steer';

-- name: commands
SELECT number, kind, text, by, at FROM commands
WHERE run = (SELECT r.number FROM runs AS r WHERE r.run_id = :run_id AND /*reached r*/) AND number > :after
ORDER BY number;
