-- What users want remembered.

-- name: memory
SELECT m.id, m.text, m.created, m.metadata FROM memories AS m WHERE m.id = :id AND /*reached m*/;

-- name: add_memory
INSERT INTO memories (id, scope_key, tenant, user_id, text, created, metadata)
VALUES (:id, :scope_key, :tenant, :user, :text, :created, '{}');

-- name: newest_memories
SELECT m.id, m.text, m.created, m.metadata FROM memories AS m
WHERE /*reached m*/ ORDER BY m.number DESC LIMIT :limit;
