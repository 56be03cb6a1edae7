-- Messages that are sent to agents at given times. A row of `schedules` has the content and never changes until it is
-- erased; its row in `schedule_heads` has what changes.

-- name: add_schedule
INSERT INTO schedules (id, scope_key, tenant, user_id, agent, body, created)
VALUES (:id, :scope_key, :tenant, :user, :agent, :body, :now);

-- name: add_schedule_head
INSERT INTO schedule_heads (schedule, due_at) VALUES (:schedule, :due_at);

-- name: schedule
SELECT s.id, s.tenant, s.user_id, s.agent, s.body, h.due_at
FROM schedules AS s JOIN schedule_heads AS h ON h.schedule = s.number
WHERE s.id = :id AND /*reached s*/;

-- name: schedules
SELECT s.id, s.tenant, s.user_id, s.agent, s.body, h.due_at
FROM schedules AS s JOIN schedule_heads AS h ON h.schedule = s.number
WHERE s.id IS NOT NULL AND /*reached s*/ ORDER BY s.number LIMIT :limit;

-- name: due_schedules
SELECT s.id, s.tenant, s.user_id, s.agent, s.body, h.due_at
FROM schedule_heads AS h JOIN schedules AS s ON s.number = h.schedule
WHERE h.due_at <= :now AND (CAST(:agents AS text) IS NULL OR s.agent IN (SELECT value FROM json_each(:agents)))
ORDER BY h.due_at, h.schedule LIMIT :limit;

-- name: move_schedule
UPDATE schedule_heads SET due_at = :due_at
WHERE (due_at = :since OR due_at IS NULL AND CAST(:since AS DOUBLE PRECISION) IS NULL)
    AND schedule IN (SELECT s.number FROM schedules AS s WHERE s.id = :id AND /*reached s*/);

-- name: delete_schedule_head
DELETE FROM schedule_heads
WHERE schedule IN (SELECT s.number FROM schedules AS s WHERE s.id = :id AND /*reached s*/);

-- name: forget_schedule
UPDATE schedules AS s SET id = NULL, scope_key = NULL, tenant = '', user_id = '', agent = '', body = ''
WHERE s.id = :id AND /*reached s*/;

-- name: delete_schedule_heads
DELETE FROM schedule_heads
WHERE schedule IN (SELECT s.number FROM schedules AS s WHERE s.id IS NOT NULL AND /*reached s*/);

-- name: forget_schedules
UPDATE schedules AS s SET id = NULL, scope_key = NULL, tenant = '', user_id = '', agent = '', body = ''
WHERE s.id IS NOT NULL AND /*reached s*/;
