-- What users want remembered.

-- name: memory
SELECT id, text, created, metadata FROM memories WHERE id = ? AND owner = ?;

-- name: add_memory
INSERT INTO memories (id, owner_key, owner, text, created, metadata) VALUES (?, ?, ?, ?, ?, ?);

-- name: add_memory_words
INSERT INTO memory_words (rowid, owner_key, words) VALUES (?, ?, ?);

-- name: newest_memories
SELECT id, text, created, metadata FROM memories
WHERE owner_key = :owner_key AND owner = :owner ORDER BY number DESC LIMIT :limit;

-- name: find_memories
SELECT m.id, m.text, m.created, m.metadata
FROM memory_words AS w JOIN memories AS m ON m.number = w.rowid
WHERE memory_words MATCH :match AND m.owner = :owner
ORDER BY bm25(memory_words, 0.0, 1.0), m.number DESC
LIMIT :limit;

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
