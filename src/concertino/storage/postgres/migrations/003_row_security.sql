-- A second barrier between tenants, for roles that do not own the tables: they read the rows of the tenant that the
-- setting concertino_reader.tenant names, and without it none. What a role may not read it may not change either.

CREATE FUNCTION is_own(tenant TEXT) RETURNS BOOLEAN LANGUAGE sql STABLE
    RETURN tenant = current_setting('concertino_reader.tenant', true);

CREATE INDEX heads_of_ending ON heads (ending) WHERE ending IS NOT NULL;

DO $$
DECLARE
    rule TEXT[];
BEGIN
    FOREACH rule SLICE 1 IN ARRAY ARRAY[
        ['identity', 'true'],
        ['runs', 'is_own(tenant)'],
        ['texts', 'is_own(tenant)'],
        ['memories', 'is_own(tenant)'],
        ['conversations', 'is_own(tenant)'],
        ['heads', 'EXISTS (SELECT 1 FROM runs AS r WHERE r.number = run)'],
        ['ends', 'EXISTS (SELECT 1 FROM heads AS h WHERE h.ending = ends.number)'],
        ['journal', 'EXISTS (SELECT 1 FROM runs AS r WHERE r.number = run)'],
        ['messages', 'EXISTS (SELECT 1 FROM runs AS r WHERE r.number = run)'],
        ['media_of_runs', 'EXISTS (SELECT 1 FROM runs AS r WHERE r.number = run)'],
        ['media', 'EXISTS (SELECT 1 FROM media_of_runs AS l WHERE l.media = media.number)'],
        ['operations', 'EXISTS (SELECT 1 FROM runs AS r WHERE r.number = run)'],
        ['outcomes', 'EXISTS (SELECT 1 FROM operations AS o WHERE o.outcome = outcomes.number)'],
        ['waits', 'EXISTS (SELECT 1 FROM runs AS r WHERE r.number = run)'],
        ['answers', 'EXISTS (SELECT 1 FROM runs AS r WHERE r.number = run)'],
        ['commands', 'EXISTS (SELECT 1 FROM runs AS r WHERE r.number = run)'],
        ['usage', 'EXISTS (SELECT 1 FROM runs AS r WHERE r.number = run)'],
        ['event_logs', 'EXISTS (SELECT 1 FROM runs AS r WHERE r.number = root)'],
        ['events', 'EXISTS (SELECT 1 FROM runs AS r WHERE r.number = run)'],
        ['memory_words', 'EXISTS (SELECT 1 FROM memories AS m WHERE m.number = memory)'],
        ['conversation_heads', 'EXISTS (SELECT 1 FROM conversations AS c WHERE c.number = conversation)'],
        ['turns', 'EXISTS (SELECT 1 FROM conversations AS c WHERE c.number = conversation)'],
        ['conversation_texts', 'EXISTS (SELECT 1 FROM conversations AS c WHERE c.number = conversation)'],
        ['turn_words', 'EXISTS (SELECT 1 FROM turns AS t WHERE t.number = turn)'],
        ['approval_rules', 'false'],
        ['accounts', 'false'],
        ['reservations', 'false']
    ] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', rule[1]);
        EXECUTE format('CREATE POLICY own_tenant ON %I USING (%s)', rule[1], rule[2]);
    END LOOP;
END $$;
