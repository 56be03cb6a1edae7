-- A turn is queued in one call, and a queued turn is begun in one, too.

-- e: the scope, conversation_key, conversation_id, run_id, parent, first, key, mode, input, when. Returns whether the turn
-- is queued: also if an earlier call did it whose answer was lost.
CREATE FUNCTION queue_turn(e JSONB) RETURNS JSONB LANGUAGE plpgsql AS $$
DECLARE
    moment CONSTANT DOUBLE PRECISION := extract(epoch FROM clock_timestamp());
    of_conversation BIGINT;
    head conversation_heads;
    is_repeated BOOLEAN;
    is_busy BOOLEAN;
    above BIGINT;
    added BIGINT;
BEGIN
    SELECT c.number INTO of_conversation FROM conversations AS c
    WHERE c.conversation_key = decode(e ->> 'conversation_key', 'hex') AND c.id = e ->> 'conversation_id'
        AND c.tenant = e ->> 'tenant' AND c.user_id = e ->> 'user' AND c.scope_key = decode(e ->> 'scope_key', 'hex');
    SELECT * INTO head FROM conversation_heads WHERE conversation = of_conversation FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    SELECT n.submit_key IS NOT DISTINCT FROM decode(e ->> 'key', 'hex') INTO is_repeated FROM turns AS n
    WHERE n.conversation = of_conversation AND n.run_id = e ->> 'run_id';
    IF FOUND THEN
        RETURN CASE WHEN is_repeated THEN to_jsonb(true) END;
    END IF;
    SELECT n.number INTO above FROM turns AS n
    WHERE n.conversation = of_conversation AND n.run_id = e ->> 'parent' AND n.state <> 'steered';
    IF (e ->> 'parent' <> '' AND above IS NULL) OR EXISTS (
        SELECT 1 FROM turns AS n WHERE n.conversation = of_conversation AND n.submit_key = decode(e ->> 'key', 'hex')
    ) THEN
        RETURN NULL;
    END IF;
    IF e ->> 'when' <> 'always' THEN
        is_busy := EXISTS (SELECT 1 FROM turns AS n WHERE n.conversation = of_conversation AND n.state = 'queued')
            OR EXISTS (SELECT 1 FROM turns AS n JOIN heads AS h ON h.run = n.run WHERE n.number = head.current AND h.ending IS NULL);
        IF is_busy <> (e ->> 'when' = 'busy') THEN
            RETURN to_jsonb(false);
        END IF;
    END IF;
    INSERT INTO turns (conversation, run_id, state, parent, anchored, first, submit_key, mode, created, not_before)
    VALUES (
        of_conversation, e ->> 'run_id', 'queued', above, e ->> 'parent' IS NOT NULL, (e ->> 'first')::boolean,
        decode(e ->> 'key', 'hex'), e ->> 'mode', moment, 0
    )
    RETURNING number INTO added;
    INSERT INTO conversation_texts (conversation, turn, kind, body) VALUES (of_conversation, added, 'input', e ->> 'input');
    RETURN to_jsonb(true);
END $$;

-- As in 002, and a turn whose fifth value is true is queued: a process of the version before gives four.
CREATE OR REPLACE FUNCTION open_turn(of_run BIGINT, e JSONB, moment DOUBLE PRECISION) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    s JSONB := e -> 'start';
    t JSONB := e -> 'turn';
    was_queued BOOLEAN := coalesce((t ->> 4)::boolean, false);
    of_conversation BIGINT;
    head conversation_heads;
    next RECORD;
    above BIGINT;
    opened BIGINT;
BEGIN
    SELECT c.number INTO of_conversation FROM conversations AS c
    WHERE c.conversation_key = decode(s ->> 5, 'hex') AND c.id = s ->> 6 AND c.tenant = e ->> 'tenant'
        AND c.user_id = e ->> 'user' AND c.scope_key = decode(e ->> 'scope_key', 'hex');
    SELECT * INTO head FROM conversation_heads WHERE conversation = of_conversation FOR UPDATE;
    IF NOT FOUND
        OR EXISTS (SELECT 1 FROM turns AS n JOIN heads AS h ON h.run = n.run WHERE n.number = head.current AND h.ending IS NULL)
        OR EXISTS (
            SELECT 1 FROM turns AS n WHERE n.conversation = of_conversation AND n.submit_key = decode(t ->> 2, 'hex')
        )
    THEN
        RAISE EXCEPTION 'the conversation is not idle' USING ERRCODE = 'CN000';
    END IF;
    SELECT n.number, n.run_id INTO next FROM turns AS n WHERE n.conversation = of_conversation AND n.state = 'queued'
    ORDER BY n.first DESC, n.number LIMIT 1;
    IF FOUND <> was_queued OR next.run_id <> s ->> 0 THEN
        RAISE EXCEPTION 'another turn is the next' USING ERRCODE = 'CN000';
    END IF;
    SELECT n.number INTO above FROM turns AS n
    WHERE n.conversation = of_conversation AND n.run_id = t ->> 0 AND n.state <> 'steered';
    IF (t ->> 0 <> '' AND above IS NULL) OR ((t ->> 1)::boolean AND head.leaf IS DISTINCT FROM above) THEN
        RAISE EXCEPTION 'the leaf has moved' USING ERRCODE = 'CN000';
    END IF;
    IF was_queued THEN
        UPDATE turns SET state = 'open', run = of_run, parent = above WHERE number = next.number RETURNING number INTO opened;
        UPDATE conversation_texts SET body = '', erase_at = NULL WHERE turn = opened AND kind = 'input' AND body <> '';
    ELSE
        INSERT INTO turns (
            conversation, run_id, run, state, parent, anchored, first, submit_key, mode, created, not_before
        )
        VALUES (
            of_conversation, s ->> 0, of_run, 'open', above, false, false, decode(t ->> 2, 'hex'), t ->> 3, moment, 0
        )
        RETURNING number INTO opened;
    END IF;
    UPDATE conversation_heads SET leaf = opened, current = opened, updated = moment WHERE conversation = of_conversation;
    IF t ->> 3 <> '' AND NOT head.modes::jsonb ? (t ->> 3) THEN
        RAISE EXCEPTION 'the conversation has a new mode' USING ERRCODE = 'CN000';
    END IF;
END $$;
