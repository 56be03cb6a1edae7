-- Schedules that are due are found by agent: a process reads none of those that others send. A trigger names the agent,
-- whichever version of the program writes.
LOCK TABLE schedule_heads IN SHARE ROW EXCLUSIVE MODE;    -- processes of the version before add none meanwhile
ALTER TABLE schedule_heads ADD COLUMN agent TEXT COLLATE "C";

CREATE FUNCTION name_scheduled_agent() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    SELECT s.agent INTO NEW.agent FROM schedules AS s WHERE s.number = NEW.schedule;
    RETURN NEW;
END $$;
CREATE TRIGGER schedule_begins BEFORE INSERT ON schedule_heads FOR EACH ROW EXECUTE FUNCTION name_scheduled_agent();

UPDATE schedule_heads AS h SET agent = s.agent FROM schedules AS s WHERE s.number = h.schedule;
DROP INDEX due_schedules;
CREATE INDEX due_schedules ON schedule_heads (agent, due_at, schedule) WHERE due_at IS NOT NULL;
