-- Writing runs, and the claims on them.

-- name: begin_head
INSERT INTO heads (
    run, root, state, entries, commands, stop, epoch, owner, process, lease, tries, not_before, reason, ready_at,
    erase_after
)
VALUES (?, ?, 'running', 1, 0, false, ?, ?, ?, ?, 0, 0, '', ?, ?);

-- name: advance
UPDATE heads SET
    entries = entries + 1,
    state = coalesce(:state, state),
    tries = CASE WHEN :progress AND run = root THEN 0 ELSE tries END
WHERE run = (SELECT r.number FROM runs AS r WHERE r.run_id = :run_id AND /*reached r*/)
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
    CASE WHEN root <> run THEN (SELECT top.tries FROM heads AS top WHERE top.run = heads.root) ELSE 0 END;

-- name: reset_tries
UPDATE heads SET tries = 0 WHERE run = ?;

-- name: position
SELECT r.number, r.root, h.state, h.entries, h.ending, h.commands, h.stop, r.tenant, r.user_id, top.run_id AS root_id, t.epoch, t.owner,
    t.lease, t.tries, t.state AS root_state, t.ending AS root_ending
FROM runs AS r
JOIN heads AS h ON h.run = r.number
JOIN heads AS t ON t.run = r.root
JOIN runs AS top ON top.number = r.root
WHERE r.run_id = :run_id AND /*reached r*/;

-- name: add_entry
INSERT INTO journal (seq, epoch, kind, step, version, body, content, run, at, erased)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, false);

-- name: add_message
INSERT INTO messages (entry, role, tokens, keep_seconds, keep_progress, progress, body, kept, later, run)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: add_text
INSERT INTO texts (id, scope_key, run_id, tenant, user_id, conversation_key, body)
SELECT ?, scope_key, ?, tenant, user_id, CASE WHEN ? THEN conversation_key END, ? FROM runs WHERE number = ?
ON CONFLICT (id) DO NOTHING;

-- name: add_usage
INSERT INTO usage (
    run, entry, id, agent_path, provider, model, prompt, completion, cached, cache_write, reasoning,
    cache_write_1h, source, how, cost, price_version, receipt, tools, booked
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING;

-- name: run_number
SELECT r.number, r.scope_key FROM runs AS r WHERE r.run_id = :run_id AND /*reached r*/;

-- name: run_of_tree
SELECT number FROM runs WHERE run_id = ? AND root = ?;

-- name: add_end
INSERT INTO ends (answer, error, ended, keep_seconds) VALUES (?, ?, ?, ?);

-- name: end_head
UPDATE heads SET
    state = :status, ending = :ending, ended = :now, erase_after = :erase_after, owner = '', process = '', lease = 0,
    reason = '', ready_at = NULL
WHERE run = :run;

-- name: has_open_runs_below
SELECT EXISTS (
    SELECT 1 FROM heads WHERE root = (SELECT number FROM runs WHERE run_id = ?) AND run <> root AND ending IS NULL
);

-- name: open_below
SELECT run, erase_after FROM heads WHERE root = :root AND run <> :root AND ending IS NULL;

-- name: ended_tree
SELECT h.run, h.erase_after FROM heads AS h
WHERE h.root = :root AND h.ending IS NOT NULL
    AND (:run = :root OR h.run = :run) AND EXISTS (SELECT 1 FROM heads AS top WHERE top.run = :root AND top.ending IS NOT NULL);

-- name: claim
UPDATE heads SET
    epoch = epoch + 1, owner = :owner, process = :process, lease = :lease, tries = tries + :tries, not_before = 0,
    reason = CASE WHEN state = 'dead_letter' THEN reason ELSE '' END
WHERE run = :run
RETURNING epoch, tries;

-- name: renew
UPDATE heads SET lease = :lease, process = :process, ready_at = CASE WHEN ready_at IS NOT NULL THEN :lease END
WHERE run = (SELECT r.number FROM runs AS r WHERE r.run_id = :root_id AND /*reached r*/)
    AND epoch = :epoch AND owner = :owner
RETURNING entries, commands, stop;

-- name: release
UPDATE heads SET owner = :left, process = '', lease = 0
WHERE run = (SELECT r.number FROM runs AS r WHERE r.run_id = :root_id AND /*reached r*/)
    AND epoch = :epoch AND owner = :owner
RETURNING run;
