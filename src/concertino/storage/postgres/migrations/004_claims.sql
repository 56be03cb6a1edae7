-- Doubtful trees are left to `due`: those to stop, those tried without progress, those of the claimer's own process.

CREATE OR REPLACE FUNCTION claim_due(claimer TEXT, claimer_process TEXT, seconds DOUBLE PRECISION, most BIGINT, agents TEXT)
RETURNS JSONB LANGUAGE plpgsql AS $$
DECLARE
    moment DOUBLE PRECISION := extract(epoch FROM clock_timestamp());
    found JSONB;
BEGIN
    IF EXISTS (SELECT 1 FROM operations WHERE state = 'waiting' AND expires <= moment) THEN
        RETURN NULL;
    END IF;
    WITH chosen AS (
        SELECT h.run, h.owner, h.ready_at, r.run_id, r.tenant, r.user_id
        FROM heads AS h JOIN runs AS r ON r.number = h.run
        WHERE h.ready_at <= moment AND (agents IS NULL OR r.agent IN (SELECT value FROM json_each(agents)))
            AND NOT h.stop AND h.tries = 0 AND (h.process <> claimer_process OR h.process = '')
        ORDER BY h.ready_at, h.run LIMIT most FOR UPDATE OF h SKIP LOCKED
    ), claimed AS (
        UPDATE heads AS h SET
            epoch = h.epoch + 1, owner = claimer, process = claimer_process, lease = moment + seconds,
            tries = h.tries + CASE WHEN h.owner IN ('', '?') THEN 0 ELSE 1 END, not_before = 0, reason = '',
            ready_at = moment + seconds
        FROM chosen WHERE h.run = chosen.run
        RETURNING h.run, h.epoch, h.tries
    )
    SELECT coalesce(jsonb_agg(
        jsonb_build_array(c.run_id, c.tenant, c.user_id, h.epoch, h.tries, c.owner = '') ORDER BY c.ready_at, c.run
    ), '[]') INTO found
    FROM chosen AS c JOIN claimed AS h USING (run);
    RETURN found;
END $$;
