-- Waits, their outcomes, commands and accounts.

-- name: open_wait
INSERT INTO waits (
    run, key, open, agent_path, call_id, tool, kind, arguments, arguments_hash, who, note, opened, expires
)
SELECT :run, :key, NOT EXISTS (SELECT 1 FROM answers WHERE key = :key), :agent_path, :call_id, :tool, :kind,
    :arguments, :arguments_hash, :who, :note, :opened, :expires
WHERE true
ON CONFLICT (key) DO NOTHING;

-- name: take_in
UPDATE answers SET taken = 1 WHERE key = ? AND run = ?;

-- name: waits
SELECT
    coalesce(w.key, a.key) AS key, r.run_id, top.run_id AS root_id, w.agent_path, w.call_id, w.tool, w.kind,
    w.arguments, w.arguments_hash, w.who, w.note, w.opened, w.expires,
    a.token, a.verdict, a.content, a.arguments AS other_arguments, a.by, a.at
FROM waits AS w
LEFT JOIN answers AS a ON a.key = w.key
JOIN runs AS r ON r.number = w.run
JOIN runs AS top ON top.number = r.root
WHERE w.key IS NOT NULL AND /*conditions*/
ORDER BY w.opened, w.number
LIMIT :limit;

-- name: early_answer
SELECT
    a.key, r.run_id, top.run_id AS root_id, r.agent_path, '' AS call_id, '' AS tool, 'result' AS kind,
    '' AS arguments, '' AS arguments_hash, '[]' AS who, '' AS note, a.at AS opened, NULL AS expires,
    a.token, a.verdict, a.content, a.arguments AS other_arguments, a.by, a.at
FROM answers AS a JOIN runs AS r ON r.number = a.run JOIN runs AS top ON top.number = r.root
WHERE a.key = ?;

-- name: wait_run
SELECT run FROM waits WHERE key = ?;

-- name: answer
INSERT INTO answers (key, run, taken, token, verdict, at, by, content, arguments) VALUES (?, ?, 0, ?, ?, ?, ?, ?, ?)
ON CONFLICT (key) DO NOTHING;

-- name: close_wait
UPDATE waits SET open = 0 WHERE key = ? AND open;

-- name: answer_overdue
INSERT INTO answers (key, run, taken, token, verdict, at, by, content)
SELECT key, run, 0, '', 'expired', :now, '', '' FROM waits WHERE open AND expires IS NOT NULL AND expires <= :now
ON CONFLICT (key) DO NOTHING;

-- name: close_overdue
UPDATE waits SET open = 0 WHERE open AND expires IS NOT NULL AND expires <= :now;

-- name: answer_ended
INSERT INTO answers (key, run, taken, token, verdict, at, by, content)
SELECT key, run, 0, '', 'cancelled', :now, '', '' FROM waits WHERE run = :run AND open
ON CONFLICT (key) DO NOTHING;

-- name: close_ended
UPDATE waits SET open = 0 WHERE run = :run AND open;

-- name: trees
SELECT
    r.run_id, r.agent, top.owner, top.lease,
    EXISTS (
        SELECT 1 FROM heads AS h
        WHERE h.root = top.run AND h.ending IS NULL AND (
            h.stop OR (
                EXISTS (
                    SELECT 1 FROM waits AS w JOIN answers AS a ON a.key = w.key WHERE w.run = h.run AND NOT a.taken
                )
                AND NOT EXISTS (SELECT 1 FROM waits AS w WHERE w.run = h.run AND w.open)
            )
        )
    ) AS ready
FROM heads AS top JOIN runs AS r ON r.number = top.run
WHERE top.ending IS NULL AND top.state = :state AND top.root = top.run
ORDER BY top.run;

-- name: stopping
SELECT r.run_id FROM heads AS top JOIN runs AS r ON r.number = top.run
WHERE top.ending IS NULL AND top.state = 'running' AND top.stop AND top.root = top.run;

-- name: command
UPDATE heads SET commands = commands + 1, stop = stop OR :stop
WHERE run = (SELECT number FROM runs WHERE run_id = :run_id) AND ending IS NULL
RETURNING run, commands;

-- name: add_command
INSERT INTO commands (run, number, kind, text, by, at) VALUES (?, ?, ?, ?, ?, ?);

-- name: commands
SELECT number, kind, text, by, at FROM commands
WHERE run = (SELECT number FROM runs WHERE run_id = ?) AND number > ? ORDER BY number;

-- name: account
SELECT limited, limit_tokens, limit_money, reserved_tokens, reserved_money, spent_tokens, spent_money
FROM accounts WHERE name_key = ?;

-- name: set_budget
INSERT INTO accounts VALUES (:name_key, :limited, :tokens, :money, 0, 0, 0, 0)
ON CONFLICT (name_key) DO UPDATE SET limited = :limited, limit_tokens = :tokens, limit_money = :money;

-- name: reserved
SELECT settled, tokens, money FROM reservations WHERE id = ? AND account = ?;

-- name: reserve
INSERT INTO reservations (id, account, settled, tokens, money) VALUES (?, ?, 0, ?, ?)
ON CONFLICT (id, account) DO UPDATE SET tokens = excluded.tokens, money = excluded.money;

-- name: settle
INSERT INTO reservations (id, account, settled, tokens, money) VALUES (?, ?, 1, 0, 0)
ON CONFLICT (id, account) DO UPDATE SET settled = 1, tokens = 0, money = 0;

-- name: reserved_for
SELECT account FROM reservations WHERE id = ? AND NOT settled;

-- name: charge
UPDATE accounts SET
    reserved_tokens = reserved_tokens + ?, reserved_money = reserved_money + ?,
    spent_tokens = spent_tokens + ?, spent_money = spent_money + ?
WHERE name_key = ?;
