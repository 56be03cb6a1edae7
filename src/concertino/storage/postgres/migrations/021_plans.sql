-- Statements whose plans suit all values, so that they need not be planned each time.

-- The planner expects ten values, as in any array, where it expected a hundred.
CREATE OR REPLACE FUNCTION json_each(list TEXT) RETURNS TABLE (value TEXT) LANGUAGE sql IMMUTABLE ROWS 10
AS $$ SELECT unnest(ARRAY(SELECT json_array_elements_text(list::json))) $$;

-- Who may answer a wait, if not its owner.
CREATE FUNCTION people(list TEXT) RETURNS TEXT[] LANGUAGE sql IMMUTABLE
AS $$ SELECT ARRAY(SELECT json_array_elements_text(list::json)) $$;
CREATE INDEX waits_of_people ON waits USING gin (people(who)) WHERE who <> '[]';

CREATE FUNCTION claim_locked(
    tree BIGINT, sure BOOLEAN, claimer TEXT, claimer_process TEXT, moment DOUBLE PRECISION, seconds DOUBLE PRECISION
) RETURNS JSONB LANGUAGE plpgsql AS $$
DECLARE
    claim JSONB;
BEGIN
    UPDATE heads AS h SET
        epoch = h.epoch + 1, owner = claimer, process = claimer_process, lease = moment + seconds,
        tries = h.tries + CASE WHEN h.owner IN ('', '?') THEN 0 ELSE 1 END, not_before = 0, reason = '',
        ready_at = moment + seconds
    FROM runs AS r WHERE h.run = tree AND r.number = tree
    RETURNING jsonb_build_array(r.run_id, r.tenant, r.user_id, h.epoch, h.tries, sure) INTO claim;
    RETURN claim;
END $$;

CREATE FUNCTION claim_longest_due(
    claimer TEXT, claimer_process TEXT, moment DOUBLE PRECISION, seconds DOUBLE PRECISION, most BIGINT, agents TEXT[]
) RETURNS JSONB LANGUAGE plpgsql AS $$
DECLARE
    one RECORD;
    claims JSONB := '[]';
BEGIN
    FOR one IN
        SELECT due.run, due.owner FROM unnest(agents) AS a (agent) CROSS JOIN LATERAL (
            SELECT h.run, h.owner, h.ready_at FROM heads AS h
            WHERE h.agent = a.agent AND h.ready_at <= moment
                AND NOT h.stop AND h.tries = 0 AND (h.process <> claimer_process OR h.process = '')
            ORDER BY h.ready_at, h.run LIMIT most FOR UPDATE SKIP LOCKED
        ) AS due
        ORDER BY due.ready_at, due.run LIMIT most
    LOOP
        claims := claims
            || jsonb_build_array(claim_locked(one.run, one.owner = '', claimer, claimer_process, moment, seconds));
    END LOOP;
    RETURN claims;
END $$;

CREATE FUNCTION agents_of(list TEXT, moment DOUBLE PRECISION) RETURNS TEXT[] LANGUAGE plpgsql AS $$
BEGIN
    IF list IS NULL THEN
        RETURN ARRAY(SELECT DISTINCT h.agent FROM heads AS h WHERE h.ready_at <= moment);
    END IF;
    RETURN ARRAY(SELECT json_array_elements_text(list::json));
END $$;

CREATE OR REPLACE FUNCTION claim_due(claimer TEXT, claimer_process TEXT, seconds DOUBLE PRECISION, most BIGINT, agents TEXT)
RETURNS JSONB LANGUAGE plpgsql AS $$
DECLARE
    moment DOUBLE PRECISION := extract(epoch FROM clock_timestamp());
BEGIN
    IF (SELECT min(expires) FROM operations WHERE state = 'waiting') <= moment THEN
        RETURN NULL;
    END IF;
    RETURN claim_longest_due(claimer, claimer_process, moment, seconds, most, agents_of(agents, moment));
END $$;

CREATE OR REPLACE FUNCTION claim_in_turn(
    claimer TEXT, claimer_process TEXT, seconds DOUBLE PRECISION, most BIGINT, agents TEXT, last TEXT
) RETURNS JSONB LANGUAGE plpgsql AS $$
DECLARE
    looks CONSTANT INTEGER := 16;
    share CONSTANT BIGINT := (most + 1) / 2;
    moment DOUBLE PRECISION := extract(epoch FROM clock_timestamp());
    names TEXT[];
    one RECORD;
    claims JSONB := '[]';
BEGIN
    IF (SELECT min(expires) FROM operations WHERE state = 'waiting') <= moment THEN
        RETURN NULL;
    END IF;
    names := agents_of(agents, moment);
    FOR look IN 1 .. looks LOOP
        EXIT WHEN jsonb_array_length(claims) >= share;
        IF last IS NULL THEN
            last := '';
        ELSE
            last := (
                SELECT min(each.tenant) FROM unnest(names) AS a (agent) CROSS JOIN LATERAL (
                    SELECT h.tenant FROM heads AS h
                    WHERE h.agent = a.agent AND h.tenant > last COLLATE "C" AND h.ready_at IS NOT NULL
                    ORDER BY h.tenant LIMIT 1
                ) AS each
            );
        END IF;
        EXIT WHEN last IS NULL;
        -- Ordered by the tenant, so that only the index of tenants will do, even while there is one tenant.
        SELECT due.run, due.owner INTO one FROM unnest(names) AS a (agent) CROSS JOIN LATERAL (
            SELECT h.run, h.owner, h.ready_at FROM heads AS h
            WHERE h.agent = a.agent AND h.tenant BETWEEN last AND last AND h.ready_at <= moment
                AND NOT h.stop AND h.tries = 0 AND (h.process <> claimer_process OR h.process = '')
            ORDER BY h.tenant, h.ready_at, h.run LIMIT 1 FOR UPDATE SKIP LOCKED
        ) AS due
        ORDER BY due.ready_at, due.run LIMIT 1;
        IF FOUND THEN
            claims := claims
                || jsonb_build_array(claim_locked(one.run, one.owner = '', claimer, claimer_process, moment, seconds));
        END IF;
    END LOOP;
    RETURN jsonb_build_array(last, claims || claim_longest_due(
        claimer, claimer_process, moment, seconds, most - jsonb_array_length(claims), names
    ));
END $$;
