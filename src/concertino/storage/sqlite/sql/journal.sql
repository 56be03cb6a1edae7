-- Writing runs, and the claims on them.

-- name: begin_run
INSERT INTO runs (
    number, run_id, root, parent_id, parent_call, agent, agent_path, conversation_key, conversation_id,
    user_key, user_id, organization_id, task, started, forked_from
)
SELECT next.number, :run_id, coalesce(:root, next.number), :parent_id, :parent_call, :agent, :agent_path,
    :conversation_key, :conversation_id, :user_key, :user_id, :organization_id, :task, :started, :forked_from
FROM (SELECT coalesce(max(number), 0) + 1 AS number FROM runs) AS next
WHERE true
ON CONFLICT (run_id) DO NOTHING
RETURNING number, root;

-- name: begin_head
INSERT INTO heads (run, root, state, entries, commands, stop, epoch, owner, lease, tries, holds_for)
VALUES (?, ?, 'running', 1, 0, 0, ?, ?, ?, 0, ?);

-- name: advance
UPDATE heads SET
    entries = entries + 1,
    state = coalesce(:state, state),
    tries = CASE WHEN :goes_on AND run = root THEN 0 ELSE tries END
WHERE run = (SELECT number FROM runs WHERE run_id = :run_id)
    AND entries = :seq
    AND (ending IS NULL OR :late)
    AND EXISTS (
        SELECT 1 FROM heads AS top
        WHERE top.run = heads.root AND top.epoch = :epoch
            AND (top.owner = :owner OR heads.ending IS NOT NULL AND top.owner = '')
    )
RETURNING
    run,
    root,
    commands,
    stop OR (SELECT top.stop FROM heads AS top WHERE top.run = heads.root),
    root <> run AND (SELECT top.tries FROM heads AS top WHERE top.run = heads.root);

-- name: went_on
UPDATE heads SET tries = 0 WHERE run = ?;

-- name: standing
SELECT r.number, r.root, h.state, h.entries, h.ending, h.commands, h.stop, top.run_id AS root_id, t.epoch, t.owner,
    t.lease, t.tries, t.ending AS root_ending
FROM runs AS r
JOIN heads AS h ON h.run = r.number
JOIN heads AS t ON t.run = r.root
JOIN runs AS top ON top.number = r.root
WHERE r.run_id = ?;

-- name: add_entry
INSERT INTO journal (run, seq, epoch, kind, step, at, version, body, erased, held)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, ?);

-- name: add_message
INSERT INTO messages (run, entry, role, tokens, lasts, keeps_progress, progress, body, kept, later)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: add_text
INSERT INTO texts (id, user_key, run_id, organization_id, user_id, body)
SELECT ?, ?, ?, organization_id, ?, ? FROM runs WHERE number = ?
ON CONFLICT (id) DO NOTHING;

-- name: add_usage
INSERT INTO usage (
    run, entry, id, agent_path, provider, model, prompt, completion, cached, cache_write, reasoning,
    cache_write_1h, source, how, cost, price_version, tools, booked
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING;

-- name: run_number
SELECT number FROM runs WHERE run_id = ?;

-- name: add_end
INSERT INTO ends (answer, error, ended, lasts) VALUES (?, ?, ?, ?);

-- name: end_head
UPDATE heads SET ending = :ending, ended = :now, holds_for = :holds_for WHERE run = :run;

-- name: open_below
SELECT run, holds_for FROM heads WHERE root = :root AND run <> :root AND ending IS NULL;

-- name: cancel_head
UPDATE heads SET state = 'cancelled' WHERE run = :run;

-- name: ended_tree
SELECT h.run, h.holds_for FROM heads AS h
WHERE h.root = :root AND h.ending IS NOT NULL
    AND (:run = :root OR h.run = :run) AND EXISTS (SELECT 1 FROM heads AS top WHERE top.run = :root AND top.ending IS NOT NULL);

-- name: take
UPDATE heads SET epoch = epoch + 1, owner = :owner, lease = :lease, tries = tries + :tries WHERE run = :run
RETURNING epoch, tries;

-- name: renew
UPDATE heads SET lease = :lease
WHERE run = (SELECT number FROM runs WHERE run_id = :root_id) AND epoch = :epoch AND owner = :owner
RETURNING entries, commands, stop;

-- name: release
UPDATE heads SET owner = '', lease = 0
WHERE run = (SELECT number FROM runs WHERE run_id = :root_id) AND epoch = :epoch AND owner = :owner;
