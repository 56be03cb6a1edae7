-- The frequent writes in one statement each: the start of a run, an entry of its journal, and a batch of events. They do
-- what the rules in storage/sql do. A function returns NULL, or raises CN000, if anything is not as usual: then the
-- store applies those rules, which also explain a refusal. A lost answer is repeated: a token tells that a write is done.

ALTER TABLE journal ADD COLUMN token TEXT COLLATE "C";
ALTER TABLE event_logs ADD COLUMN token TEXT COLLATE "C";

CREATE FUNCTION reserve(accounts_of JSONB, wanted JSONB) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    the RECORD;
    held RECORD;
BEGIN
    FOR the IN
        SELECT a.* FROM jsonb_array_elements_text(accounts_of) WITH ORDINALITY AS k (key, place)
        JOIN accounts AS a ON a.account = decode(k.key, 'hex') WHERE a.limited ORDER BY k.place FOR UPDATE OF a
    LOOP
        SELECT settled, tokens, money INTO held FROM reservations WHERE id = wanted ->> 0 AND account = the.account;
        CONTINUE WHEN held.settled;
        IF the.limit_tokens - the.spent_tokens - the.reserved_tokens + coalesce(held.tokens, 0)
                < (wanted ->> 1)::bigint + (wanted ->> 3)::bigint
            OR the.limit_money IS NOT NULL AND (
                wanted ->> 2 IS NULL
                OR the.limit_money - the.spent_money - the.reserved_money + coalesce(held.money, 0)
                    < (wanted ->> 2)::bigint + (wanted ->> 4)::bigint
            )
        THEN
            RAISE EXCEPTION 'an account cannot cover it' USING ERRCODE = 'CN000';
        END IF;
        INSERT INTO reservations (id, account, settled, tokens, money)
        VALUES (wanted ->> 0, the.account, false, (wanted ->> 1)::bigint, coalesce((wanted ->> 2)::bigint, 0))
        ON CONFLICT (id, account) DO UPDATE SET tokens = excluded.tokens, money = excluded.money;
        UPDATE accounts SET
            reserved_tokens = reserved_tokens + (wanted ->> 1)::bigint - coalesce(held.tokens, 0),
            reserved_money = reserved_money + coalesce((wanted ->> 2)::bigint, 0) - coalesce(held.money, 0)
        WHERE account = the.account;
    END LOOP;
END $$;

CREATE FUNCTION settle(accounts_of JSONB, done JSONB) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    the RECORD;
    held RECORD;
    known BOOLEAN;
    spent_now BIGINT[];
BEGIN
    FOR the IN
        SELECT a.* FROM jsonb_array_elements_text(accounts_of) WITH ORDINALITY AS k (key, place)
        JOIN accounts AS a ON a.account = decode(k.key, 'hex') ORDER BY k.place FOR UPDATE OF a
    LOOP
        SELECT settled, tokens, money INTO held FROM reservations WHERE id = done ->> 0 AND account = the.account;
        known := FOUND;
        CONTINUE WHEN known AND held.settled OR NOT known AND NOT the.limited;
        spent_now := CASE WHEN the.limited THEN ARRAY[(done ->> 1)::bigint, coalesce((done ->> 2)::bigint, 0)]
            ELSE ARRAY[0, 0]::bigint[] END;
        INSERT INTO reservations (id, account, settled, tokens, money)
        VALUES (done ->> 0, the.account, true, spent_now[1], spent_now[2])
        ON CONFLICT (id, account) DO UPDATE SET settled = true, tokens = excluded.tokens, money = excluded.money;
        UPDATE accounts SET
            reserved_tokens = reserved_tokens - coalesce(held.tokens, 0),
            reserved_money = reserved_money - coalesce(held.money, 0),
            spent_tokens = spent_tokens + spent_now[1],
            spent_money = spent_money + spent_now[2]
        WHERE account = the.account;
    END LOOP;
END $$;

CREATE FUNCTION erase_outcome(of_number BIGINT) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM outcomes WHERE number = of_number AND instr(content, '"digest":')) THEN
        RAISE EXCEPTION 'the outcome may have media' USING ERRCODE = 'CN000';
    END IF;
    UPDATE outcomes SET content = '' WHERE number = of_number;
END $$;

CREATE FUNCTION put_operation(of_root BIGINT, o JSONB, moment DOUBLE PRECISION) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    owner BYTEA := decode(o ->> 2, 'hex');
    added BIGINT;
    stored RECORD;
BEGIN
    IF o ->> 16 IS NOT NULL THEN
        PERFORM erase_outcome(p.outcome) FROM operations AS p
        WHERE p.scope_key = owner AND p.key = o ->> 0 AND p.state = 'unknown' AND o ->> 3 = 'done'
            AND p.outcome IS NOT NULL;
        INSERT INTO outcomes (content) VALUES (o ->> 16) RETURNING number INTO added;
    END IF;
    INSERT INTO operations AS p (
        scope_key, key, run, root, kind, state, answered, step, call_index, name, call_id, effect, remote, waits_for,
        tokens, money, prompt, outcome
    )
    SELECT r.scope_key, o ->> 0, r.number, r.root, o ->> 4, o ->> 5, false, (o ->> 6)::bigint, (o ->> 7)::bigint,
        o ->> 8, o ->> 9, o ->> 10, (o ->> 11)::boolean, o ->> 12, (o ->> 13)::bigint, o ->> 14, (o ->> 15)::bigint,
        added
    FROM runs AS r WHERE r.run_id = o ->> 1 AND r.root = of_root AND r.scope_key = owner
    ON CONFLICT (scope_key, key) DO UPDATE SET
        state = CASE
            WHEN p.state = 'unknown' AND excluded.state = 'done' THEN excluded.state
            WHEN p.state IN ('done', 'failed', 'unknown', 'cancelled') OR (p.answered AND excluded.state = 'waiting')
                THEN p.state
            ELSE excluded.state
        END,
        outcome = CASE
            WHEN p.outcome IS NULL OR (p.state = 'unknown' AND excluded.state = 'done') THEN excluded.outcome
            ELSE p.outcome
        END,
        answered = p.answered AND excluded.state = 'waiting',
        waits_for = coalesce(excluded.waits_for, p.waits_for),
        expires = CASE WHEN excluded.state = 'waiting' THEN p.expires END,
        step = excluded.step, call_index = excluded.call_index, name = excluded.name, call_id = excluded.call_id,
        effect = excluded.effect, remote = excluded.remote, tokens = excluded.tokens, money = excluded.money,
        prompt = excluded.prompt
    WHERE p.run = excluded.run
    RETURNING p.state, p.answered, p.waits_for, p.outcome INTO stored;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'it is not an operation of the run' USING ERRCODE = 'CN000';
    END IF;
    IF added IS NOT NULL AND stored.outcome IS DISTINCT FROM added THEN  -- the first outcome counts
        PERFORM erase_outcome(added);
    END IF;
    IF stored.waits_for IN ('approval', 'result') AND stored.state <> 'waiting' AND NOT stored.answered THEN
        PERFORM cancel_wait(o ->> 0, moment);
    END IF;
END $$;

CREATE FUNCTION cancel_wait(of_key TEXT, moment DOUBLE PRECISION) RETURNS VOID LANGUAGE sql AS $$
    INSERT INTO answers (key, kind, run, token, verdict, at, by, content)
    SELECT key, kind, run, '', 'cancelled', moment, '', '' FROM waits WHERE key = of_key
    ON CONFLICT (key, kind) DO NOTHING;
$$;

CREATE FUNCTION end_tree(of_run BIGINT, of_root BIGINT, finish JSONB, moment DOUBLE PRECISION) RETURNS VOID
LANGUAGE plpgsql AS $$
DECLARE
    added BIGINT;
    below RECORD;
BEGIN
    INSERT INTO answers (key, kind, run, token, verdict, at, by, content)
    SELECT o.key, o.waits_for, o.run, '', 'cancelled', moment, '', '' FROM operations AS o
    WHERE o.root = of_root AND (o.run = of_run OR of_run = of_root) AND o.state = 'waiting'
        AND o.waits_for IN ('approval', 'result')
    ON CONFLICT (key, kind) DO NOTHING;
    PERFORM erase_outcome(o.outcome) FROM operations AS o
    WHERE o.root = of_root AND (o.run = of_run OR of_run = of_root) AND o.outcome IS NOT NULL;
    DELETE FROM operations WHERE root = of_root AND (run = of_run OR of_run = of_root);
    INSERT INTO ends (answer, error, ended, keep_seconds)
    VALUES (finish ->> 1, finish ->> 2, (finish ->> 3)::double precision, (finish ->> 4)::double precision)
    RETURNING number INTO added;
    UPDATE heads SET
        state = finish ->> 0, ending = added, ended = moment, erase_after = (finish ->> 5)::double precision,
        owner = '', process = '', lease = 0, reason = '', ready_at = NULL
    WHERE run = of_run;
    IF of_run = of_root THEN
        FOR below IN SELECT h.run FROM heads AS h WHERE h.root = of_root AND h.run <> of_root AND h.ending IS NULL LOOP
            INSERT INTO ends (answer, error, ended) VALUES ('', finish ->> 6, (finish ->> 3)::double precision)
            RETURNING number INTO added;
            UPDATE heads SET state = 'cancelled', ending = added, ended = moment, owner = '', process = '', lease = 0,
                reason = '', ready_at = NULL
            WHERE run = below.run;
        END LOOP;
    ELSIF EXISTS (SELECT 1 FROM heads AS h WHERE h.run = of_root AND h.ending IS NULL) THEN
        RETURN;  -- what the tree keeps is decided at its end
    END IF;
    UPDATE heads AS h SET erase_at = moment + h.erase_after, sweep_at = least(
        moment + h.erase_after,
        (SELECT min(m.keep_seconds) + h.ended FROM messages AS m WHERE m.run = h.run AND m.body <> ''),
        (SELECT e.keep_seconds + h.ended FROM ends AS e WHERE e.number = h.ending)
    )
    WHERE h.root = of_root AND h.ending IS NOT NULL AND (of_run = of_root OR h.run = of_run);
    IF EXISTS (
        SELECT 1 FROM heads AS h
        WHERE h.root = of_root AND (of_run = of_root OR h.run = of_run) AND (h.sweep_at <= moment OR h.erase_after <= 0)
    ) THEN
        RAISE EXCEPTION 'content is to be erased at once' USING ERRCODE = 'CN000';
    END IF;
END $$;

-- e: entry [seq, epoch, kind, step, version, body, content], messages, texts, usage, operations, closed, accounts,
-- settle, reserve, end, token.
CREATE FUNCTION write_entry(of_run BIGINT, of_root BIGINT, e JSONB, moment DOUBLE PRECISION) RETURNS VOID
LANGUAGE plpgsql AS $$
DECLARE
    item JSONB;
    closed RECORD;
BEGIN
    FOR item IN SELECT value FROM jsonb_array_elements(e -> 'settle') LOOP
        PERFORM settle(e -> 'accounts', item);
    END LOOP;
    IF e ? 'reserve' THEN
        PERFORM reserve(e -> 'accounts', e -> 'reserve');
    END IF;
    INSERT INTO journal (run, seq, epoch, kind, step, at, version, body, erased, content, token)
    SELECT of_run, (j ->> 0)::bigint, (j ->> 1)::bigint, j ->> 2, (j ->> 3)::bigint, moment, (j ->> 4)::bigint, j ->> 5,
        false, j ->> 6, e ->> 'token'
    FROM (SELECT e -> 'entry' AS j) AS one;
    IF e ? 'messages' THEN
        INSERT INTO messages (run, entry, role, tokens, keep_seconds, keep_progress, progress, body, kept, later)
        SELECT of_run, (m ->> 0)::bigint, m ->> 1, (m ->> 2)::bigint, (m ->> 3)::double precision, (m ->> 4)::boolean,
            m ->> 5, m ->> 6, m ->> 7, m ->> 8
        FROM jsonb_array_elements(e -> 'messages') WITH ORDINALITY AS each (m, place) ORDER BY place;
    END IF;
    IF e ? 'texts' THEN
        INSERT INTO texts (id, scope_key, run_id, tenant, user_id, conversation_key, body)
        SELECT t ->> 0, r.scope_key, t ->> 1, r.tenant, r.user_id,
            CASE WHEN (t ->> 2)::boolean THEN r.conversation_key END, t ->> 3
        FROM jsonb_array_elements(e -> 'texts') WITH ORDINALITY AS each (t, place)
        JOIN runs AS r ON r.number = of_run ORDER BY t ->> 0  -- two runs that add the same texts wait in one order
        ON CONFLICT (id) DO NOTHING;
    END IF;
    IF e ? 'usage' THEN
        INSERT INTO usage (
            run, entry, id, agent_path, provider, model, prompt, completion, cached, cache_write, reasoning,
            cache_write_1h, source, how, cost, price_version, receipt, tools, booked
        )
        SELECT of_run, (e -> 'entry' ->> 0)::bigint, u ->> 0, u ->> 1, u ->> 2, u ->> 3, (u ->> 4)::bigint,
            (u ->> 5)::bigint, (u ->> 6)::bigint, (u ->> 7)::bigint, (u ->> 8)::bigint, (u ->> 9)::bigint, u ->> 10,
            u ->> 11, u ->> 12, u ->> 13, u ->> 14, u ->> 15, moment
        FROM jsonb_array_elements(e -> 'usage') WITH ORDINALITY AS each (u, place) ORDER BY place
        ON CONFLICT (id) DO NOTHING;
    END IF;
    FOR item IN SELECT value FROM jsonb_array_elements(e -> 'operations') LOOP
        PERFORM put_operation(of_root, item, moment);
    END LOOP;
    FOR closed IN
        DELETE FROM operations AS o USING jsonb_array_elements_text(e -> 'closed') AS k
        WHERE o.scope_key = (SELECT r.scope_key FROM runs AS r WHERE r.number = of_run) AND o.key = k AND o.root = of_root
        RETURNING o.key, o.waits_for, o.outcome
    LOOP
        PERFORM erase_outcome(closed.outcome);
        IF closed.waits_for IN ('approval', 'result') THEN
            PERFORM cancel_wait(closed.key, moment);
        END IF;
    END LOOP;
    IF e ? 'end' THEN
        PERFORM end_tree(of_run, of_root, e -> 'end', moment);
    END IF;
END $$;

CREATE FUNCTION run_in_reach(e JSONB, id TEXT) RETURNS runs LANGUAGE sql STABLE AS $$
    SELECT r FROM runs AS r
    WHERE r.run_id = id AND r.scope_key = decode(e ->> 'scope_key', 'hex') AND r.tenant = e ->> 'tenant'
        AND r.user_id = e ->> 'user';
$$;

-- e: as above, and run_id, the scope, owner, state, progress, late, read. Returns commands and stop.
CREATE FUNCTION append(e JSONB) RETURNS JSONB LANGUAGE plpgsql AS $$
DECLARE
    moment DOUBLE PRECISION := extract(epoch FROM clock_timestamp());
    r runs := run_in_reach(e, e ->> 'run_id');
    top heads;
    h heads;
    next BIGINT := (e -> 'entry' ->> 0)::bigint;
BEGIN
    SELECT * INTO top FROM heads WHERE run = r.root FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    h := top;
    IF r.number <> r.root THEN
        SELECT * INTO h FROM heads WHERE run = r.number;
    END IF;
    IF h.entries = next + 1 AND EXISTS (
        SELECT 1 FROM journal WHERE run = r.number AND seq = next AND token = e ->> 'token'
    ) THEN
        RETURN jsonb_build_array(h.commands, h.stop OR top.stop);
    END IF;
    IF h.entries <> next OR (h.ending IS NOT NULL AND NOT (e ->> 'late')::boolean)
        OR top.epoch <> (e -> 'entry' ->> 1)::bigint
        OR NOT (top.owner = e ->> 'owner' OR h.ending IS NOT NULL AND top.owner = '')
        OR (e ->> 'read')::bigint < h.commands
    THEN
        RETURN NULL;
    END IF;
    UPDATE heads SET
        entries = entries + 1,
        state = coalesce(e ->> 'state', state),
        tries = CASE WHEN (e ->> 'progress')::boolean AND run = root THEN 0 ELSE tries END
    WHERE run = r.number;
    IF r.number <> r.root AND top.tries > 0 AND (e ->> 'progress')::boolean THEN
        UPDATE heads SET tries = 0 WHERE run = r.root;
    END IF;
    PERFORM write_entry(r.number, r.root, e, moment);
    IF e ? 'state' AND r.number = r.root THEN
        PERFORM reschedule(r.root, moment);
    END IF;
    RETURN jsonb_build_array(h.commands, h.stop OR top.stop);
END $$;

CREATE FUNCTION reschedule(of_root BIGINT, moment DOUBLE PRECISION) RETURNS VOID LANGUAGE sql AS $$
    UPDATE heads SET ready_at = CASE
        WHEN ending IS NOT NULL OR state = 'dead_letter' THEN NULL
        WHEN state = 'running'
            OR EXISTS (SELECT 1 FROM heads AS h WHERE h.root = of_root AND h.stop AND h.ending IS NULL)
            OR EXISTS (
                SELECT 1 FROM operations AS a
                WHERE a.root = of_root AND a.answered AND NOT EXISTS (
                    SELECT 1 FROM operations AS o
                    WHERE o.root = of_root AND o.run = a.run AND o.state = 'waiting'
                        AND o.waits_for IN ('approval', 'result')
                )
            )
            THEN greatest(CASE WHEN owner = '' THEN moment ELSE lease END, not_before)
    END
    WHERE run = of_root;
$$;

-- e: as above, and start [run_id, parent_id, parent_call, agent, agent_path, conversation_key, conversation_id, task,
-- started, forked_from, erase_after], root_id, process, seconds; turn [parent, at_leaf, key, mode, queued] if it is one.
-- Returns whether an account has a budget.
CREATE FUNCTION begin_run(e JSONB) RETURNS JSONB LANGUAGE plpgsql AS $$
DECLARE
    moment DOUBLE PRECISION := extract(epoch FROM clock_timestamp());
    s JSONB := e -> 'start';
    is_root BOOLEAN := s ->> 0 = e ->> 'root_id';
    top heads;
    above runs;
    of_run BIGINT;
    of_root BIGINT;
BEGIN
    IF NOT is_root THEN
        above := run_in_reach(e, e ->> 'root_id');
        SELECT * INTO top FROM heads WHERE run = above.number AND root = above.number FOR UPDATE;
        IF NOT FOUND OR top.ending IS NOT NULL OR top.epoch <> (e -> 'entry' ->> 1)::bigint
            OR top.owner <> e ->> 'owner'
        THEN
            RETURN NULL;
        END IF;
        of_root := top.run;
    END IF;
    of_run := nextval(pg_get_serial_sequence('runs', 'number'));
    of_root := coalesce(of_root, of_run);
    INSERT INTO runs (
        number, run_id, root, scope_key, parent_id, parent_call, agent, agent_path, conversation_key, conversation_id,
        tenant, user_id, task, started, forked_from
    )
    VALUES (
        of_run, s ->> 0, of_root, decode(e ->> 'scope_key', 'hex'), s ->> 1, s ->> 2, s ->> 3, s ->> 4,
        decode(s ->> 5, 'hex'), s ->> 6, e ->> 'tenant', e ->> 'user', s ->> 7, (s ->> 8)::double precision, s ->> 9
    )
    ON CONFLICT (run_id) DO NOTHING;
    IF NOT FOUND THEN
        IF NOT EXISTS (
            SELECT 1 FROM runs AS r JOIN journal AS j ON j.run = r.number
            WHERE r.run_id = s ->> 0 AND j.seq = 0 AND j.token = e ->> 'token'
        ) THEN
            RETURN NULL;
        END IF;
        RETURN to_jsonb(has_budget(e -> 'accounts'));
    END IF;
    INSERT INTO heads (
        run, root, state, entries, commands, stop, epoch, owner, process, lease, tries, not_before, reason, ready_at,
        erase_after
    )
    VALUES (
        of_run, of_root, 'running', 1, 0, false, CASE WHEN is_root THEN (e -> 'entry' ->> 1)::bigint ELSE 0 END,
        CASE WHEN is_root THEN e ->> 'owner' ELSE '' END, CASE WHEN is_root THEN e ->> 'process' ELSE '' END,
        CASE WHEN is_root THEN moment + (e ->> 'seconds')::double precision ELSE 0 END, 0, 0, '',
        CASE WHEN is_root THEN moment + (e ->> 'seconds')::double precision END, (s ->> 10)::double precision
    );
    IF NOT is_root AND top.tries > 0 THEN
        UPDATE heads SET tries = 0 WHERE run = of_root;
    END IF;
    IF e ? 'turn' THEN
        PERFORM open_turn(of_run, e, moment);
    END IF;
    PERFORM write_entry(of_run, of_root, e, moment);
    RETURN to_jsonb(has_budget(e -> 'accounts'));
END $$;

CREATE FUNCTION has_budget(accounts_of JSONB) RETURNS BOOLEAN LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT 1 FROM jsonb_array_elements_text(accounts_of) AS k JOIN accounts AS a ON a.account = decode(k, 'hex')
        WHERE a.limited
    );
$$;

CREATE FUNCTION open_turn(of_run BIGINT, e JSONB, moment DOUBLE PRECISION) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    s JSONB := e -> 'start';
    t JSONB := e -> 'turn';
    of_conversation BIGINT;
    head conversation_heads;
    above BIGINT;
    added BIGINT;
BEGIN
    SELECT c.number INTO of_conversation FROM conversations AS c
    WHERE c.conversation_key = decode(s ->> 5, 'hex') AND c.id = s ->> 6 AND c.tenant = e ->> 'tenant'
        AND c.user_id = e ->> 'user' AND c.scope_key = decode(e ->> 'scope_key', 'hex');
    SELECT * INTO head FROM conversation_heads WHERE conversation = of_conversation FOR UPDATE;
    IF NOT FOUND
        OR EXISTS (SELECT 1 FROM turns AS n JOIN heads AS h ON h.run = n.run WHERE n.number = head.current AND h.ending IS NULL)
        OR EXISTS (SELECT 1 FROM turns AS n WHERE n.conversation = of_conversation AND n.state = 'queued')
        OR EXISTS (
            SELECT 1 FROM turns AS n WHERE n.conversation = of_conversation AND n.submit_key = decode(t ->> 2, 'hex')
        )
    THEN
        RAISE EXCEPTION 'the conversation is not idle' USING ERRCODE = 'CN000';
    END IF;
    SELECT n.number INTO above FROM turns AS n
    WHERE n.conversation = of_conversation AND n.run_id = t ->> 0 AND n.state <> 'steered';
    IF (t ->> 0 <> '' AND above IS NULL) OR ((t ->> 1)::boolean AND head.leaf IS DISTINCT FROM above) THEN
        RAISE EXCEPTION 'the leaf has moved' USING ERRCODE = 'CN000';
    END IF;
    INSERT INTO turns (
        conversation, run_id, run, state, parent, anchored, first, submit_key, mode, created, not_before
    )
    VALUES (
        of_conversation, s ->> 0, of_run, 'open', above, false, false, decode(t ->> 2, 'hex'), t ->> 3, moment, 0
    )
    RETURNING number INTO added;
    UPDATE conversation_heads SET leaf = added, current = added, updated = moment WHERE conversation = of_conversation;
    IF t ->> 3 <> '' AND NOT head.modes::jsonb ? (t ->> 3) THEN
        RAISE EXCEPTION 'the conversation has a new mode' USING ERRCODE = 'CN000';
    END IF;
END $$;

-- e: root_id, the scope, epoch, first, last, ends, completed, dropped, replaced, token; rows: [run_id, entry, source,
-- body].
CREATE FUNCTION add_events(e JSONB) RETURNS JSONB LANGUAGE plpgsql AS $$
DECLARE
    r runs := run_in_reach(e, e ->> 'root_id');
    top heads;
    log event_logs;
BEGIN
    SELECT * INTO top FROM heads WHERE run = r.number FOR UPDATE;
    IF (e ->> 'first')::bigint = 1 THEN
        INSERT INTO event_logs (root, last, closed) VALUES (top.run, 0, false) ON CONFLICT (root) DO NOTHING;
    END IF;
    SELECT * INTO log FROM event_logs WHERE root = top.run;
    IF log.token = e ->> 'token' THEN
        RETURN 'true';
    END IF;
    IF log.root IS NULL OR top.epoch <> (e ->> 'epoch')::bigint OR log.closed OR log.last <> (e ->> 'first')::bigint - 1
    THEN
        RETURN NULL;
    END IF;
    UPDATE event_logs SET
        last = (e ->> 'last')::bigint, closed = (e ->> 'ends')::boolean AND top.ending IS NOT NULL,
        token = e ->> 'token'
    WHERE root = top.run;
    IF jsonb_array_length(e -> 'completed') > 0 THEN
        UPDATE events SET source = -source
        WHERE root = top.run AND source IN (SELECT c::bigint FROM jsonb_array_elements_text(e -> 'completed') AS c);
    END IF;
    IF jsonb_array_length(e -> 'dropped') > 0 THEN
        UPDATE events SET body = '', source = NULL
        WHERE root = top.run AND source IN (SELECT -c::bigint FROM jsonb_array_elements_text(e -> 'dropped') AS c);
    END IF;
    IF jsonb_array_length(e -> 'replaced') > 0 THEN
        UPDATE events AS v SET body = c ->> 0, source = NULL FROM jsonb_array_elements(e -> 'replaced') AS c
        WHERE v.root = top.run AND v.number = (c ->> 1)::bigint;
    END IF;
    INSERT INTO events (root, run, entry, source, first, last, body)
    SELECT top.run, coalesce((SELECT n.number FROM runs AS n WHERE n.run_id = v ->> 0), top.run), (v ->> 1)::bigint,
        (v ->> 2)::bigint, (e ->> 'first')::bigint, (e ->> 'last')::bigint, v ->> 3
    FROM jsonb_array_elements(e -> 'rows') WITH ORDINALITY AS each (v, place) ORDER BY place;
    RETURN 'true';
END $$;

CREATE FUNCTION claim_due(claimer TEXT, claimer_process TEXT, seconds DOUBLE PRECISION, most BIGINT, agents TEXT)
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
        ORDER BY h.ready_at, h.run LIMIT most FOR UPDATE OF h SKIP LOCKED
    ), claimed AS (
        UPDATE heads AS h SET
            epoch = h.epoch + 1, owner = claimer, process = claimer_process, lease = moment + seconds,
            tries = h.tries + CASE WHEN h.owner = '' THEN 0 ELSE 1 END, not_before = 0, reason = '',
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
