-- name: add_approval_rule
INSERT INTO approval_rules (scope_key, agent, tool, conversation_key)
SELECT r.scope_key, r.agent, w.tool, CASE WHEN :always THEN :everywhere ELSE r.conversation_key END
FROM waits AS w JOIN runs AS r ON r.number = w.run
WHERE w.key = :key AND w.kind = 'approval'
ON CONFLICT DO NOTHING;

-- name: may_remember
SELECT r.user_id <> '' AND (:always OR r.conversation_id <> '')
FROM waits AS w JOIN runs AS r ON r.number = w.run
WHERE w.key = :key AND w.kind = 'approval';

-- name: has_approval_rule
SELECT EXISTS (
    SELECT 1 FROM approval_rules
    WHERE scope_key = :scope_key AND agent = :agent AND tool = :tool AND conversation_key IN (:everywhere, :conversation_key)
);

-- name: approval_rules
SELECT agent, tool, conversation_key FROM approval_rules
WHERE scope_key = :scope_key ORDER BY agent, tool, conversation_key;

-- name: revoke_approval_rules
DELETE FROM approval_rules WHERE scope_key = :scope_key AND tool = :tool;

-- name: forget_approval_rules
DELETE FROM approval_rules WHERE scope_key = (SELECT scope_key FROM runs WHERE number = :run);
