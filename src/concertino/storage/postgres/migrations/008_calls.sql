-- Calls whose work the processes of a target do, and the runs that do it.

ALTER TABLE operations ADD COLUMN due_at DOUBLE PRECISION;    -- a process may take the call from then on; NULL: taken
ALTER TABLE waits ADD COLUMN target TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE waits ADD COLUMN task TEXT COLLATE "C" NOT NULL DEFAULT '';  -- JSON: the work
CREATE INDEX operations_due ON operations (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX runs_by_caller ON runs (parent_id) WHERE root = number AND parent_id IS NOT NULL;

-- A run that works for a call of another tree stops when the call is answered without it.
CREATE FUNCTION stop_called() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    UPDATE heads SET
        stop = true, not_before = 0, ready_at = greatest(new.at, CASE WHEN owner = '' THEN 0 ELSE lease END)
    WHERE ending IS NULL AND run IN (
        SELECT r.number FROM runs AS c JOIN runs AS r ON r.parent_id = c.run_id AND r.root = r.number
        WHERE c.number = new.run AND r.parent_call = new.key AND r.scope_key = c.scope_key
    );
    RETURN NULL;
END $$;
CREATE TRIGGER stop_called AFTER INSERT ON answers FOR EACH ROW WHEN (new.kind = 'result')
EXECUTE FUNCTION stop_called();

-- The only consumers of targets that have one. They belong to no tenant.
CREATE TABLE consumers (
    target TEXT COLLATE "C" PRIMARY KEY,
    owner  TEXT COLLATE "C" NOT NULL,
    lease  DOUBLE PRECISION NOT NULL                    -- end of the lease
);
ALTER TABLE consumers ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON consumers USING (false);
