-- A claim looks at one tenant after the other, and ends once it has what it may take. Before, it looked at sixteen tenants
-- and locked the longest due run of each.
CREATE OR REPLACE FUNCTION claim_in_turn(
    claimer TEXT, claimer_process TEXT, seconds DOUBLE PRECISION, most BIGINT, agents TEXT, last TEXT
) RETURNS JSONB LANGUAGE plpgsql AS $$
DECLARE
    looks CONSTANT INTEGER := 16;
    share CONSTANT BIGINT := (most + 1) / 2;
    moment DOUBLE PRECISION := extract(epoch FROM clock_timestamp());
    one BIGINT;
    taken BIGINT[] := '{}';
    claims JSONB;
BEGIN
    IF (SELECT min(expires) FROM operations WHERE state = 'waiting') <= moment THEN
        RETURN NULL;
    END IF;
    agents := coalesce(agents, (SELECT json_agg(DISTINCT h.agent)::text FROM heads AS h WHERE h.ready_at <= moment));
    FOR look IN 1 .. looks LOOP
        EXIT WHEN cardinality(taken) >= share;
        IF last IS NULL THEN
            last := '';
        ELSE
            last := (
                SELECT min(each.tenant) FROM json_each(agents) AS a CROSS JOIN LATERAL (
                    SELECT h.tenant FROM heads AS h
                    WHERE h.agent = a.value AND h.tenant > last COLLATE "C" AND h.ready_at IS NOT NULL
                    ORDER BY h.tenant LIMIT 1
                ) AS each
            );
        END IF;
        EXIT WHEN last IS NULL;
        SELECT due.run INTO one FROM json_each(agents) AS a CROSS JOIN LATERAL (
            SELECT h.run, h.ready_at FROM heads AS h
            WHERE h.agent = a.value AND h.tenant = last AND h.ready_at <= moment
                AND NOT h.stop AND h.tries = 0 AND (h.process <> claimer_process OR h.process = '')
            ORDER BY h.ready_at, h.run LIMIT 1 FOR UPDATE SKIP LOCKED
        ) AS due
        ORDER BY due.ready_at, due.run LIMIT 1;
        IF one IS NOT NULL THEN
            taken := taken || one;
        END IF;
    END LOOP;
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
    ), '[]') INTO claims
    FROM chosen AS c JOIN claimed AS h USING (run) JOIN runs AS r ON r.number = c.run;
    RETURN jsonb_build_array(last, claims);
END $$;
