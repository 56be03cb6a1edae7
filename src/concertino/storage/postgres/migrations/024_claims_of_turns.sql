-- Queued turns are claimed in one call.

-- One turn by its number: so no plan for several of unknown number reads a whole table.
CREATE FUNCTION claim_turn(number_of_turn BIGINT, until DOUBLE PRECISION) RETURNS JSON LANGUAGE plpgsql AS $$
DECLARE
    claimed JSON;
BEGIN
    UPDATE turns AS t SET not_before = until FROM conversations AS c WHERE t.number = number_of_turn AND c.number = t.conversation
    RETURNING json_build_array(
        t.run_id, t.mode, t.anchored, coalesce((SELECT p.run_id FROM turns AS p WHERE p.number = t.parent), ''),
        (SELECT x.body FROM conversation_texts AS x WHERE x.turn = number_of_turn AND x.kind = 'input' AND x.body <> ''),
        c.id, c.tenant, c.user_id, c.agent
    ) INTO claimed;
    RETURN claimed;
END $$;

CREATE FUNCTION claim_turns_of(
    of_agent TEXT, of_tenant TEXT, most BIGINT, moment DOUBLE PRECISION, until DOUBLE PRECISION
) RETURNS JSON[] LANGUAGE plpgsql AS $$
DECLARE
    numbers BIGINT[];
BEGIN
    numbers := ARRAY(
        SELECT t.number FROM turns AS t
        WHERE t.due AND t.state = 'queued' AND t.agent = of_agent AND t.tenant = of_tenant AND t.not_before <= moment
        ORDER BY t.not_before, t.number LIMIT most FOR UPDATE SKIP LOCKED
    );
    RETURN ARRAY(SELECT claim_turn(n, until) FROM unnest(numbers) AS n ORDER BY n);
END $$;

-- The owners of due turns that this process may take, as the statement owners_of_due_turns finds them.
CREATE FUNCTION owners_of_turns(agents TEXT, moment DOUBLE PRECISION)
RETURNS TABLE (agent TEXT, tenant TEXT, since DOUBLE PRECISION) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF agents IS NULL THEN
        agents := (
            WITH RECURSIVE every (name) AS (
                SELECT (SELECT t.agent FROM turns AS t WHERE t.due AND t.state = 'queued' ORDER BY t.agent LIMIT 1)
                UNION ALL
                SELECT (
                    SELECT t.agent FROM turns AS t WHERE t.due AND t.state = 'queued' AND t.agent > e.name
                    ORDER BY t.agent LIMIT 1
                ) FROM every AS e WHERE e.name IS NOT NULL
            )
            SELECT coalesce(json_agg(e.name), '[]') FROM every AS e WHERE e.name IS NOT NULL
        );
    END IF;
    RETURN QUERY
        WITH RECURSIVE found (agent, tenant) AS (
            SELECT a.name, (
                SELECT t.tenant FROM turns AS t WHERE t.due AND t.state = 'queued' AND t.agent = a.name
                ORDER BY t.tenant LIMIT 1
            ) FROM unnest(agents_of(agents, moment)) AS a (name)
            UNION ALL
            SELECT f.agent, (
                SELECT t.tenant FROM turns AS t
                WHERE t.due AND t.state = 'queued' AND t.agent = f.agent AND t.tenant > f.tenant
                ORDER BY t.tenant LIMIT 1
            ) FROM found AS f WHERE f.tenant IS NOT NULL
        ), owners AS (
            SELECT f.agent, f.tenant, (
                SELECT min(t.not_before) FROM turns AS t
                WHERE t.due AND t.state = 'queued' AND t.agent = f.agent AND t.tenant = f.tenant
            ) AS since
            FROM found AS f WHERE f.tenant IS NOT NULL
        )
        SELECT o.agent, o.tenant, o.since FROM owners AS o WHERE o.since <= moment;
END $$;

-- Claims up to so many due turns. Returns whether turns are to be closed, the last owner, the turns of each owner's share,
-- and those beyond the shares: fewer than asked for are all that is due.
CREATE FUNCTION claim_turns(seconds DOUBLE PRECISION, most BIGINT, agents TEXT, last_agent TEXT, last_tenant TEXT)
RETURNS JSON LANGUAGE plpgsql AS $$
DECLARE
    moment CONSTANT DOUBLE PRECISION := extract(epoch FROM clock_timestamp());
    after_agent CONSTANT TEXT := last_agent;
    after_tenant CONSTANT TEXT := last_tenant;
    room BIGINT := most;
    share BIGINT;
    more TEXT[] := '{}';
    owner RECORD;
    taken JSON[];
    shares JSON[] := '{}';
    rest JSON[] := '{}';
BEGIN
    FOR owner IN
        SELECT o.agent, o.tenant, o.many
        FROM (SELECT *, count(*) OVER () AS many FROM owners_of_turns(agents, moment)) AS o
        ORDER BY
            CASE WHEN o.many > most THEN (o.agent COLLATE "C", o.tenant COLLATE "C") <= (after_agent, after_tenant) END,
            CASE WHEN o.many <= most THEN o.since END,
            o.agent COLLATE "C", o.tenant COLLATE "C"
    LOOP
        EXIT WHEN room <= 0;
        share := (most - 1) / owner.many + 1;
        taken := claim_turns_of(owner.agent, owner.tenant, least(share, room), moment, moment + seconds);
        shares := shares || array_to_json(taken);
        room := room - cardinality(taken);
        last_agent := owner.agent;
        last_tenant := owner.tenant;
        IF cardinality(taken) = share THEN
            more := more || ARRAY[ARRAY[owner.agent, owner.tenant]];
        END IF;
    END LOOP;
    FOR each IN 1 .. coalesce(array_length(more, 1), 0) LOOP
        EXIT WHEN room <= 0;
        taken := claim_turns_of(more[each][1], more[each][2], room, moment, moment + seconds);
        rest := rest || array_to_json(taken);
        room := room - cardinality(taken);
    END LOOP;
    -- In order, for the index of ended turns: EXISTS would read the table up to the first of them.
    RETURN json_build_array(
        (SELECT t.number FROM turns AS t WHERE t.state = 'open' AND t.ended ORDER BY t.number LIMIT 1) IS NOT NULL,
        last_agent, last_tenant, shares, rest
    );
END $$;
