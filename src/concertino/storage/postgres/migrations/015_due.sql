-- What is due is found by agent or by target: the pass of a worker reads nothing of the work of others, however much of
-- it no process takes. Triggers name the agent and the target, whichever version of the program writes.
LOCK TABLE heads, operations IN SHARE ROW EXCLUSIVE MODE;    -- processes of the version before write neither meanwhile
ALTER TABLE heads ADD COLUMN agent TEXT COLLATE "C";                -- of a root
ALTER TABLE operations ADD COLUMN target TEXT COLLATE "C";          -- of a call that was due once

CREATE FUNCTION name_agent() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    SELECT r.agent INTO NEW.agent FROM runs AS r WHERE r.number = NEW.run;
    RETURN NEW;
END $$;
CREATE TRIGGER tree_begins BEFORE INSERT ON heads FOR EACH ROW WHEN (NEW.run = NEW.root AND NEW.agent IS NULL)
    EXECUTE FUNCTION name_agent();

CREATE FUNCTION name_target() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    SELECT w.target INTO NEW.target FROM waits AS w WHERE w.key = NEW.key AND w.kind = 'result' AND w.run = NEW.run;
    RETURN NEW;
END $$;
CREATE TRIGGER call_is_due BEFORE UPDATE OF due_at ON operations FOR EACH ROW
    WHEN (NEW.due_at IS NOT NULL AND NEW.target IS NULL) EXECUTE FUNCTION name_target();

UPDATE heads AS h SET agent = r.agent FROM runs AS r WHERE r.number = h.run AND h.run = h.root AND h.ending IS NULL;
UPDATE operations AS o SET target = w.target FROM waits AS w
WHERE o.due_at IS NOT NULL AND w.key = o.key AND w.kind = 'result' AND w.run = o.run;

-- With indexes by time alone, a plan that does not know the agent would read the work of all others.
DROP INDEX heads_ready;
DROP INDEX operations_due;
CREATE INDEX heads_due ON heads (agent, ready_at, run) WHERE ready_at IS NOT NULL;
CREATE INDEX operations_due ON operations (target, due_at, key) WHERE due_at IS NOT NULL;

CREATE OR REPLACE FUNCTION claim_due(claimer TEXT, claimer_process TEXT, seconds DOUBLE PRECISION, most BIGINT, agents TEXT)
RETURNS JSONB LANGUAGE plpgsql AS $$
DECLARE
    moment DOUBLE PRECISION := extract(epoch FROM clock_timestamp());
    found JSONB;
BEGIN
    IF (SELECT min(expires) FROM operations WHERE state = 'waiting') <= moment THEN
        RETURN NULL;
    END IF;
    agents := coalesce(agents, (SELECT json_agg(DISTINCT h.agent)::text FROM heads AS h WHERE h.ready_at <= moment));
    WITH chosen AS (
        SELECT due.* FROM json_each(agents) AS a CROSS JOIN LATERAL (
            SELECT h.run, h.owner, h.ready_at FROM heads AS h
            WHERE h.agent = a.value AND h.ready_at <= moment
                AND NOT h.stop AND h.tries = 0 AND (h.process <> claimer_process OR h.process = '')
            ORDER BY h.ready_at, h.run LIMIT most FOR UPDATE SKIP LOCKED
        ) AS due
        ORDER BY due.ready_at, due.run LIMIT most
    ), claimed AS (
        UPDATE heads AS h SET
            epoch = h.epoch + 1, owner = claimer, process = claimer_process, lease = moment + seconds,
            tries = h.tries + CASE WHEN h.owner IN ('', '?') THEN 0 ELSE 1 END, not_before = 0, reason = '',
            ready_at = moment + seconds
        FROM chosen WHERE h.run = chosen.run
        RETURNING h.run, h.epoch, h.tries
    )
    SELECT coalesce(jsonb_agg(
        jsonb_build_array(r.run_id, r.tenant, r.user_id, h.epoch, h.tries, c.owner = '') ORDER BY c.ready_at, c.run
    ), '[]') INTO found
    FROM chosen AS c JOIN claimed AS h USING (run) JOIN runs AS r ON r.number = c.run;
    RETURN found;
END $$;
