-- Erasing: rows are blanked where they lie (see migrations/0002_journal.sql).

-- name: erase_messages
UPDATE messages SET
    body = coalesce(kept, body),
    kept = CASE WHEN kept = '' THEN '' END,
    progress = CASE WHEN keeps_progress AND coalesce(kept, body) <> '' THEN progress END
WHERE run = :run AND (kept IS NOT NULL OR (progress IS NOT NULL AND NOT keeps_progress));

-- name: erase_held
UPDATE journal SET held = NULL, erased = 1 WHERE run = :run AND held IS NOT NULL;

-- name: erase_waits
UPDATE waits SET arguments = '', arguments_hash = '', note = '' WHERE run = :run;

-- name: erase_answers
UPDATE answers SET content = '', arguments = NULL WHERE run = :run;

-- name: erase_commands
UPDATE commands SET text = '' WHERE run = :run;

-- name: erase_texts_of_run
UPDATE texts SET id = NULL, run_id = NULL, user_key = NULL, user_id = '', body = ''
WHERE run_id = (SELECT run_id FROM runs WHERE number = :run);

-- name: expire_messages
UPDATE messages SET
    body = coalesce(later, ''), kept = CASE WHEN later IS NULL THEN '' END, later = NULL, lasts = NULL, progress = NULL
WHERE run = :run AND lasts <= :now - (SELECT ended FROM heads WHERE run = :run) AND body <> '';

-- name: next_expiry
SELECT min(lasts) + (SELECT ended FROM heads WHERE run = :run) FROM (
    SELECT lasts FROM messages WHERE run = :run AND body <> ''
    UNION ALL SELECT lasts FROM ends WHERE number = (SELECT ending FROM heads WHERE run = :run)
);

-- name: expire_end
UPDATE ends SET answer = '', error = NULL, lasts = NULL
WHERE number = (SELECT ending FROM heads WHERE run = :run)
    AND lasts <= :now - (SELECT ended FROM heads WHERE run = :run)
RETURNING number;

-- name: expire_task
UPDATE runs SET task = '' WHERE number = :run;

-- name: plan_sweep
UPDATE heads SET erase_at = :erase_at, sweep_at = :sweep_at WHERE run = :run;

-- name: due_to_sweep
SELECT run, erase_at FROM heads WHERE sweep_at IS NOT NULL AND sweep_at <= :now;

-- name: runs_of_user
SELECT r.number, r.run_id, r.organization_id, h.ending IS NOT NULL AS ended
FROM runs AS r JOIN heads AS h ON h.run = r.number
WHERE r.user_key = :user_key AND r.user_id = :user_id
    AND (:organization_id IS NULL OR r.organization_id = :organization_id);

-- name: forget_messages
UPDATE messages SET body = '', kept = '', later = NULL, progress = NULL WHERE run = :run;

-- name: forget_run
UPDATE runs SET conversation_key = NULL, conversation_id = '', user_key = NULL, user_id = '', task = ''
WHERE number = :run;

-- name: forget_end
UPDATE ends SET answer = '', error = NULL WHERE number = (SELECT ending FROM heads WHERE run = :run);

-- name: forget_waits
UPDATE waits SET key = NULL, arguments = '', note = '', who = '[]', call_id = '', tool = '', arguments_hash = ''
WHERE run = :run;

-- name: forget_answers
UPDATE answers SET key = NULL, content = '', arguments = NULL, by = '' WHERE run = :run;

-- name: forget_commands
UPDATE commands SET text = '', by = '' WHERE run = :run;

-- name: forget_texts
UPDATE texts SET id = NULL, user_key = NULL, user_id = '', run_id = NULL, body = ''
WHERE user_key = :user_key AND user_id = :user_id
    AND (:organization_id IS NULL OR organization_id = :organization_id);

-- name: forget_answerer
UPDATE answers SET by = '' WHERE by = :user_id;

-- name: forget_sender
UPDATE commands SET by = '' WHERE by = :user_id;

-- name: forget_memories
UPDATE memories SET id = NULL, owner_key = NULL, owner = '', text = '', metadata = '{}'
WHERE owner_key = :user_key AND owner = :user_id;

-- name: forget_account
DELETE FROM accounts WHERE name_key = ?;

-- name: forget_reservations
DELETE FROM reservations WHERE account = ?;

-- name: words_new
CREATE VIRTUAL TABLE new_words USING fts5 (owner_key, words, tokenize = 'unicode61 remove_diacritics 0');

-- name: words_copy
INSERT INTO new_words (rowid, owner_key, words)
SELECT w.rowid, w.owner_key, w.words
FROM memory_words AS w JOIN memories AS m ON m.number = w.rowid
WHERE m.id IS NOT NULL
ORDER BY w.rowid;

-- name: words_drop
DROP TABLE memory_words;

-- name: words_rename
ALTER TABLE new_words RENAME TO memory_words;
