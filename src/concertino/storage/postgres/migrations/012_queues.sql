-- The queued turn that is next in an idle conversation is due. Triggers keep track of it, whichever version of the
-- program writes, so that processes claim due turns over an index and none reads the queues.
LOCK TABLE heads, turns IN SHARE ROW EXCLUSIVE MODE;    -- processes of the version before write neither meanwhile
ALTER TABLE turns ADD COLUMN due BOOLEAN NOT NULL DEFAULT false;    -- from not_before on, while it is queued
ALTER TABLE turns ADD COLUMN agent TEXT COLLATE "C";                -- of a queued turn's conversation
ALTER TABLE turns ADD COLUMN tenant TEXT COLLATE "C";

-- The row of the run in progress is locked first: its end sees no turn that is queued at the same moment.
CREATE FUNCTION schedule_queue(of_conversation BIGINT) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    is_busy BOOLEAN;
    next BIGINT;
BEGIN
    SELECT r.ending IS NULL INTO is_busy
    FROM conversation_heads AS c JOIN turns AS t ON t.number = c.current JOIN heads AS r ON r.run = t.run
    WHERE c.conversation = of_conversation FOR SHARE OF r;
    IF NOT coalesce(is_busy, false) THEN
        SELECT number INTO next FROM turns WHERE conversation = of_conversation AND state = 'queued'
        ORDER BY first DESC, number LIMIT 1;
    END IF;
    UPDATE turns SET due = number IS NOT DISTINCT FROM next, not_before = greatest(not_before, created)
    WHERE due <> (number IS NOT DISTINCT FROM next) AND number IN (  -- another one may have been put before the next
        SELECT q.number FROM turns AS q WHERE q.conversation = of_conversation AND q.state = 'queued'
        ORDER BY q.first DESC, q.number LIMIT 2
    );
END $$;

CREATE FUNCTION queue_changes() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        UPDATE turns AS t SET agent = c.agent, tenant = c.tenant FROM conversations AS c
        WHERE t.number = NEW.number AND c.number = t.conversation;
    END IF;
    PERFORM schedule_queue(coalesce(NEW.conversation, OLD.conversation));
    RETURN NULL;
END $$;
CREATE TRIGGER turn_is_queued AFTER INSERT ON turns FOR EACH ROW WHEN (NEW.state = 'queued')
    EXECUTE FUNCTION queue_changes();
CREATE TRIGGER turn_leaves_queue AFTER DELETE ON turns FOR EACH ROW WHEN (OLD.state = 'queued')
    EXECUTE FUNCTION queue_changes();
-- While a queued turn is being postponed, the end of a run skips it.
CREATE TRIGGER turn_is_postponed AFTER UPDATE OF not_before ON turns FOR EACH ROW
    WHEN (NEW.state = 'queued' AND NOT NEW.due AND NOT OLD.due) EXECUTE FUNCTION queue_changes();

-- It waits for no lock of a queued turn, since whoever has one may wait for this run.
CREATE OR REPLACE FUNCTION end_turn() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE
    of_conversation BIGINT;
    next BIGINT;
BEGIN
    UPDATE turns SET ended = true WHERE run = NEW.run AND state = 'open' RETURNING conversation INTO of_conversation;
    IF of_conversation IS NOT NULL THEN
        SELECT number INTO next FROM turns WHERE conversation = of_conversation AND state = 'queued'
        ORDER BY first DESC, number LIMIT 1;
        UPDATE turns SET due = true, not_before = greatest(not_before, NEW.ended) WHERE number = (
            SELECT q.number FROM turns AS q
            WHERE q.number = next AND q.state = 'queued' AND NOT q.due FOR UPDATE SKIP LOCKED
        );
    END IF;
    RETURN NULL;
END $$;

UPDATE turns AS t SET agent = c.agent, tenant = c.tenant FROM conversations AS c
WHERE c.number = t.conversation AND t.state = 'queued';
SELECT schedule_queue(conversation) FROM (SELECT DISTINCT conversation FROM turns WHERE state = 'queued') AS queues;
CREATE INDEX turns_due ON turns (agent, tenant, not_before, number) WHERE due AND state = 'queued';

-- Trees that became due at the same moment are in order, too: else each claim sorts all of them.
DROP INDEX heads_ready;
CREATE INDEX heads_ready ON heads (ready_at, run) WHERE ready_at IS NOT NULL;

-- The first deadline is one look into its index. A comparison of each with the moment, whose plan does not know how many
-- have passed, was a scan of all operations.
CREATE OR REPLACE FUNCTION claim_due(claimer TEXT, claimer_process TEXT, seconds DOUBLE PRECISION, most BIGINT, agents TEXT)
RETURNS JSONB LANGUAGE plpgsql AS $$
DECLARE
    moment DOUBLE PRECISION := extract(epoch FROM clock_timestamp());
    found JSONB;
BEGIN
    IF (SELECT min(expires) FROM operations WHERE state = 'waiting') <= moment THEN
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
