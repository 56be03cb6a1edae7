-- When a tree is due.

-- name: reschedule
-- The rule of ready_at: a running tree is due when its lease ends; a suspended one when a run of it has had all the
-- answers that it waits for, or is to be stopped; neither before the end of a postponement.
UPDATE heads SET ready_at = CASE
    WHEN ending IS NOT NULL OR state = 'dead_letter' THEN NULL
    WHEN state = 'running'
        OR EXISTS (SELECT 1 FROM heads AS h WHERE h.root = :root AND h.stop AND h.ending IS NULL)
        OR EXISTS (
            SELECT 1 FROM operations AS a
            WHERE a.root = :root AND a.answered AND NOT EXISTS (
                SELECT 1 FROM operations AS o
                WHERE o.root = :root AND o.run = a.run AND o.state = 'waiting'
                    AND o.waits_for IN ('approval', 'result')
            )
        )
        THEN max(CASE WHEN owner = '' OR lease = 0 THEN :now ELSE lease END, not_before)
END
WHERE run = :root;

-- name: ready
SELECT r.run_id, h.state, h.stop OR h.tries > 0 OR h.process = :process AND h.process <> '' AS doubtful
FROM heads AS h JOIN runs AS r ON r.number = h.run
WHERE h.ready_at <= :now AND (CAST(:agents AS text) IS NULL OR r.agent IN (SELECT value FROM json_each(:agents)))
ORDER BY h.ready_at, h.run
LIMIT :limit;

-- name: free_roots
SELECT r.run_id FROM runs AS r WHERE r.run_id IN (SELECT value FROM json_each(:roots)) AND /*free r.agent*/;

-- name: stopping
SELECT r.run_id FROM heads AS h JOIN runs AS r ON r.number = h.run
WHERE h.stop AND h.ending IS NULL AND h.root = h.run AND h.state = 'running';

-- name: stop_now
UPDATE heads SET not_before = 0, ready_at = max(:now, CASE WHEN owner = '' THEN 0 ELSE lease END)
WHERE run = :root AND ending IS NULL;

-- name: root
SELECT r.number, h.state, h.ending, h.owner, h.lease
FROM runs AS r JOIN heads AS h ON h.run = r.number
WHERE r.run_id = :run_id AND r.root = r.number AND /*reached r*/;

-- name: postpone
UPDATE heads SET not_before = :until, reason = :reason, state = coalesce(:state, state) WHERE run = :root;

-- name: retry
UPDATE heads SET not_before = 0, reason = '', state = 'running', tries = 0 WHERE run = :root;

-- name: has_overdue
SELECT 1 WHERE (SELECT min(expires) FROM operations WHERE state = 'waiting') <= :now;

-- name: due_roots
SELECT h.run AS number, r.run_id AS root_id, r.tenant, r.user_id, h.owner
FROM heads AS h JOIN runs AS r ON r.number = h.run
WHERE h.ready_at <= :now AND (CAST(:agents AS text) IS NULL OR r.agent IN (SELECT value FROM json_each(:agents)))
    AND NOT h.stop AND h.tries = 0 AND (h.process <> :process OR h.process = '') AND /*free r.agent*/
ORDER BY h.ready_at, h.run
LIMIT :limit /*for update of h*/;
