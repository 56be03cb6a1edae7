-- What users want remembered.

-- name: memory
SELECT m.id, m.text, m.created, m.metadata FROM memories AS m WHERE m.id = :id AND /*reached m*/;

-- name: add_memory
INSERT INTO memories (id, scope_key, tenant, user_id, text, created, metadata)
VALUES (:id, :scope_key, :tenant, :user, :text, :created, '{}');

-- name: add_memory_words
INSERT INTO memory_words (rowid, scope, words) VALUES (?, ?, ?);

-- name: newest_memories
SELECT m.id, m.text, m.created, m.metadata FROM memories AS m
WHERE /*reached m*/ ORDER BY m.number DESC LIMIT :limit;

-- name: find_memories
SELECT m.id, m.text, m.created, m.metadata
FROM memory_words AS w JOIN memories AS m ON m.number = w.rowid
WHERE memory_words MATCH :match AND /*reached m*/
ORDER BY bm25(memory_words, 0.0, 1.0), m.number DESC
LIMIT :limit;

-- name: words_new
CREATE VIRTUAL TABLE new_words USING fts5 (scope, words, tokenize = 'unicode61 remove_diacritics 0');

-- name: words_copy
INSERT INTO new_words (rowid, scope, words)
SELECT w.rowid, w.scope, w.words
FROM memory_words AS w JOIN memories AS m ON m.number = w.rowid
WHERE m.id IS NOT NULL
ORDER BY w.rowid;

-- name: words_drop
DROP TABLE memory_words;

-- name: words_rename
ALTER TABLE new_words RENAME TO memory_words;
