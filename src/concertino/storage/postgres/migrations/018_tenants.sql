-- Tenants take turns: while more trees are due than a process claims at once, one half are of the next tenants, the
-- longest due of each, and the other half are the longest due of all. A trigger names the tenant, whichever version of
-- the program writes.
LOCK TABLE heads IN SHARE ROW EXCLUSIVE MODE;    -- processes of the version before write nothing meanwhile
ALTER TABLE heads ADD COLUMN tenant TEXT COLLATE "C";               -- of a root

CREATE OR REPLACE FUNCTION name_agent() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    SELECT r.agent, r.tenant INTO NEW.agent, NEW.tenant FROM runs AS r WHERE r.number = NEW.run;
    RETURN NEW;
END $$;

UPDATE heads AS h SET tenant = r.tenant FROM runs AS r WHERE r.number = h.run AND h.run = h.root AND h.ending IS NULL;
CREATE INDEX heads_of_tenants ON heads (agent, tenant, ready_at, run) WHERE ready_at IS NOT NULL;

-- `last` is the tenant with which the previous claim has ended. One claim looks at few tenants, whether any of their work
-- is due or not, and the next one continues there.
CREATE FUNCTION claim_in_turn(
    claimer TEXT, claimer_process TEXT, seconds DOUBLE PRECISION, most BIGINT, agents TEXT, last TEXT
) RETURNS JSONB LANGUAGE plpgsql AS $$
DECLARE
    looks CONSTANT INTEGER := 16;
    share CONSTANT BIGINT := (most + 1) / 2;
    moment DOUBLE PRECISION := extract(epoch FROM clock_timestamp());
    tenants TEXT[];
    taken BIGINT[];
    found JSONB;
BEGIN
    IF (SELECT min(expires) FROM operations WHERE state = 'waiting') <= moment THEN
        RETURN NULL;
    END IF;
    agents := coalesce(agents, (SELECT json_agg(DISTINCT h.agent)::text FROM heads AS h WHERE h.ready_at <= moment));
    WITH RECURSIVE next (look, tenant) AS (
        SELECT 0, last COLLATE "C"
        UNION ALL
        SELECT n.look + 1, (
            SELECT min(each.tenant) FROM json_each(agents) AS a CROSS JOIN LATERAL (
                SELECT h.tenant FROM heads AS h
                WHERE h.agent = a.value AND h.tenant > coalesce(n.tenant, '') AND h.ready_at IS NOT NULL
                ORDER BY h.tenant LIMIT 1
            ) AS each
        )
        FROM next AS n WHERE n.look < looks AND (n.tenant IS NOT NULL OR n.look = 0)
    )
    SELECT coalesce(array_agg(n.tenant ORDER BY n.look) FILTER (WHERE n.look > 0 AND n.tenant IS NOT NULL), '{}')
    INTO tenants FROM next AS n;
    IF last IS NULL THEN
        tenants := array_prepend('', tenants);
    END IF;
    WITH first AS (
        SELECT due.run, t.tenant, t.place FROM unnest(tenants) WITH ORDINALITY AS t (tenant, place)
        CROSS JOIN LATERAL (
            SELECT one.run, one.ready_at FROM json_each(agents) AS a CROSS JOIN LATERAL (
                SELECT h.run, h.ready_at FROM heads AS h
                WHERE h.agent = a.value AND h.tenant = t.tenant AND h.ready_at <= moment
                    AND NOT h.stop AND h.tries = 0 AND (h.process <> claimer_process OR h.process = '')
                ORDER BY h.ready_at, h.run LIMIT 1 FOR UPDATE SKIP LOCKED
            ) AS one
            ORDER BY one.ready_at, one.run LIMIT 1
        ) AS due
        ORDER BY t.place LIMIT share
    )
    SELECT coalesce(array_agg(run), '{}'), (array_agg(tenant ORDER BY place DESC))[1] INTO taken, last FROM first;
    IF cardinality(taken) < share THEN
        last := CASE WHEN cardinality(tenants) >= looks THEN tenants[cardinality(tenants)] END;
    END IF;
    WITH chosen AS (
        SELECT h.run, h.owner, h.ready_at FROM heads AS h WHERE h.run = ANY (taken)
        UNION ALL
        (
            SELECT due.run, due.owner, due.ready_at FROM json_each(agents) AS a CROSS JOIN LATERAL (
                SELECT h.run, h.owner, h.ready_at FROM heads AS h
                WHERE h.agent = a.value AND h.ready_at <= moment AND h.run <> ALL (taken)
                    AND NOT h.stop AND h.tries = 0 AND (h.process <> claimer_process OR h.process = '')
                ORDER BY h.ready_at, h.run LIMIT most - cardinality(taken) FOR UPDATE SKIP LOCKED
            ) AS due
            ORDER BY due.ready_at, due.run LIMIT most - cardinality(taken)
        )
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
    RETURN jsonb_build_array(last, found);
END $$;
