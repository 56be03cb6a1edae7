-- Erasure: rows are blanked in their pages (see schema.sql).

-- name: erase_messages
UPDATE messages SET
    body = coalesce(kept, body),
    kept = CASE WHEN kept = '' THEN '' END,
    progress = CASE WHEN keep_progress AND coalesce(kept, body) <> '' THEN progress END
WHERE run = :run AND (kept IS NOT NULL OR (progress IS NOT NULL AND NOT keep_progress));

-- name: erase_content
UPDATE journal SET content = NULL, erased = true WHERE run = :run AND content IS NOT NULL;

-- name: erase_waits
UPDATE waits SET arguments = '', arguments_hash = '', note = '', task = '' WHERE run = :run;

-- name: erase_answers
UPDATE answers SET content = '', arguments = NULL WHERE run = :run;

-- name: erase_commands
UPDATE commands SET text = '' WHERE run = :run;

-- name: erase_texts_of_run
UPDATE texts SET
    id = NULL, run_id = NULL, scope_key = NULL, tenant = '', user_id = '', conversation_key = NULL, body = ''
WHERE run_id = (SELECT run_id FROM runs WHERE number = :run);

-- name: expire_messages
UPDATE messages SET
    body = coalesce(later, ''), kept = CASE WHEN later IS NULL THEN '' END, later = NULL, keep_seconds = NULL,
    progress = NULL
WHERE run = :run AND keep_seconds <= :now - (SELECT ended FROM heads WHERE run = :run) AND body <> '';

-- name: expire_end
UPDATE ends SET answer = '', error = NULL, keep_seconds = NULL
WHERE number = (SELECT ending FROM heads WHERE run = :run)
    AND keep_seconds <= :now - (SELECT ended FROM heads WHERE run = :run)
RETURNING number;

-- name: expire_task
UPDATE runs SET task = '' WHERE number = :run;

-- name: run_id
SELECT run_id FROM runs WHERE number = ?;

-- name: expired
-- What a run has kept for a time that is over, or without :now for any time: messages, and the end with the task.
SELECT DISTINCT m.keep_seconds, false AS ends FROM messages AS m JOIN heads AS h ON h.run = m.run
WHERE m.run = :run AND m.keep_seconds IS NOT NULL AND (CAST(:now AS float8) IS NULL OR m.keep_seconds <= :now - h.ended)
UNION ALL
SELECT e.keep_seconds, true FROM heads AS h JOIN ends AS e ON e.number = h.ending
WHERE h.run = :run AND e.keep_seconds IS NOT NULL AND (CAST(:now AS float8) IS NULL OR e.keep_seconds <= :now - h.ended);

-- name: plan_sweep
-- The next erasure is the run's own, or that of the first message, or of the answer, error and task.
UPDATE heads SET erase_at = :erase_at, sweep_at = (
    SELECT min(moment) FROM (
        SELECT :erase_at AS moment
        UNION ALL SELECT min(keep_seconds) + heads.ended FROM messages WHERE run = :run AND body <> ''
        UNION ALL SELECT keep_seconds + heads.ended FROM ends WHERE number = ending
    ) AS moments
)
WHERE run = :run
RETURNING sweep_at;

-- name: has_expired_text
SELECT 1 FROM conversation_texts WHERE erase_at IS NOT NULL AND erase_at <= :now ORDER BY erase_at LIMIT 1;

-- name: runs_to_forget
SELECT r.number, r.run_id, r.tenant, r.user_id, h.ending IS NOT NULL AS ended
FROM runs AS r JOIN heads AS h ON h.run = r.number
WHERE (r.conversation_key IS NOT NULL OR r.user_id <> '') AND /*reached r*/;  -- both are gone: erased before

-- name: open_roots
SELECT DISTINCT r.root, top.erase_after
FROM runs AS r JOIN heads AS h ON h.run = r.number JOIN heads AS top ON top.run = r.root
WHERE h.ending IS NULL AND /*reached r*/;

-- name: attempts_of_tree
SELECT o.*, r.run_id, r.tenant, r.user_id, r.agent_path, NULL AS content
FROM operations AS o JOIN runs AS r ON r.number = o.run
WHERE o.root = :root AND o.kind = 'model_call' AND o.state = 'running';

-- name: revoke
UPDATE heads SET epoch = epoch + 1, owner = '', process = '', lease = 0 WHERE run = ?;

-- name: forget_messages
UPDATE messages SET body = '', kept = '', later = NULL, progress = NULL WHERE run = :run;

-- name: forget_run
UPDATE runs SET
    conversation_key = NULL, conversation_id = '', user_id = '', task = '', scope_key = :scope_key
WHERE number = :run;

-- name: forget_end
UPDATE ends SET answer = '', error = NULL, keep_seconds = NULL
WHERE number = (SELECT ending FROM heads WHERE run = :run);

-- name: forget_waits
UPDATE waits SET
    key = NULL, arguments = '', note = '', who = '[]', call_id = '', tool = '', arguments_hash = '', target = '', task = ''
WHERE run = :run;

-- name: forget_answers
UPDATE answers SET key = NULL, content = '', arguments = NULL, by = '' WHERE run = :run;

-- name: forget_commands
UPDATE commands SET text = '', by = '' WHERE run = :run;

-- name: forget_texts
UPDATE texts AS t SET
    id = NULL, scope_key = NULL, tenant = '', user_id = '', run_id = NULL, conversation_key = NULL, body = ''
WHERE t.id IS NOT NULL AND /*reached t*/;

-- name: forget_answerer
-- A user may have answered for other users of the tenant. Another tenant's user may have the same id.
UPDATE answers SET by = ''
WHERE by = :user AND by <> '' AND (SELECT tenant FROM runs WHERE number = run) = :tenant;

-- name: forget_sender
UPDATE commands SET by = ''
WHERE by = :user AND by <> '' AND (SELECT tenant FROM runs WHERE number = run) = :tenant;

-- name: forget_memories
UPDATE memories AS m SET id = NULL, scope_key = NULL, tenant = '', user_id = '', text = '', metadata = '{}'
WHERE m.id IS NOT NULL AND /*reached m*/;

-- name: forget_account
DELETE FROM accounts WHERE account = ?;

-- name: forget_reservations
DELETE FROM reservations WHERE account = ?;

-- name: expired_texts
SELECT number, conversation, kind, body FROM conversation_texts WHERE erase_at BETWEEN 0 AND :now;

-- name: replace_text
UPDATE conversation_texts SET body = ?, erase_at = NULL WHERE number = ?;

-- name: scopes_of_texts
-- Owners of what is not in a run.
SELECT DISTINCT t.tenant, t.user_id FROM texts AS t WHERE t.id IS NOT NULL AND /*reached t*/
UNION SELECT m.tenant, m.user_id FROM memories AS m WHERE m.id IS NOT NULL AND /*reached m*/
UNION SELECT s.tenant, s.user_id FROM schedules AS s WHERE s.id IS NOT NULL AND /*reached s*/;
