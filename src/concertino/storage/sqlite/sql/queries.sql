-- name: begin
INSERT INTO runs (
    run_id, root_id, parent_id, parent_call, agent, agent_path,
    conversation_id, user_id, organization_id, task, started
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run_id) DO NOTHING;

-- name: run_state
SELECT root_id, status IS NOT NULL FROM runs WHERE run_id = ?;

-- name: next_position
SELECT coalesce(max(position) + 1, 0) FROM messages WHERE run_id = ?;

-- name: add_message
INSERT INTO messages (run_id, position, role, tokens, progress, body) VALUES (?, ?, ?, ?, ?, ?);

-- name: add_usage
INSERT INTO usage (
    id, run_id, root_id, agent_path, provider, model, prompt, completion, cached, cache_write, reasoning,
    source, how, cost, price_version, tools, booked
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING;

-- name: end
UPDATE runs SET status = ?, answer = ?, error = ?, ended = ? WHERE run_id = ?;

-- name: run
SELECT * FROM runs WHERE run_id = :run_id;

-- name: runs
SELECT * FROM runs ORDER BY started DESC, number DESC LIMIT :limit;

-- name: runs_of_conversation
SELECT * FROM runs WHERE conversation_id = :conversation_id ORDER BY started DESC, number DESC LIMIT :limit;

-- name: runs_of_root
SELECT * FROM runs
WHERE root_id = :root_id AND (:conversation_id IS NULL OR conversation_id = :conversation_id)
ORDER BY started DESC, number DESC LIMIT :limit;

-- name: messages
SELECT body, tokens, progress FROM messages WHERE run_id = ? ORDER BY position;

-- name: usage
SELECT * FROM usage WHERE root_id = ? ORDER BY booking;

-- name: memory
SELECT id, text, created, metadata FROM memories WHERE id = ? AND owner = ?;

-- name: add_memory
INSERT INTO memories (id, owner, text, created, metadata) VALUES (?, ?, ?, ?, ?);

-- name: add_memory_words
INSERT INTO memory_words (rowid, owner_key, words) VALUES (?, ?, ?);

-- name: newest_memories
SELECT id, text, created, metadata FROM memories
WHERE owner = :owner ORDER BY number DESC LIMIT :limit;

-- name: find_memories
SELECT m.id, m.text, m.created, m.metadata
FROM memory_words AS w JOIN memories AS m ON m.number = w.rowid
WHERE memory_words MATCH :match AND m.owner = :owner
ORDER BY bm25(memory_words, 0.0, 1.0), m.number DESC
LIMIT :limit;
