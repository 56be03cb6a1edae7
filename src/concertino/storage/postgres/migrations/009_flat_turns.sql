-- What the watchdog looks for has indexes that leave out the turns of runs that wait: its passes cost the same, however
-- many of them there are.
LOCK TABLE heads IN SHARE ROW EXCLUSIVE MODE;    -- processes of the version before end no run between UPDATE and trigger
ALTER TABLE turns ADD COLUMN ended BOOLEAN NOT NULL DEFAULT false;     -- its run has ended
UPDATE turns AS t SET ended = true FROM heads AS h WHERE h.run = t.run AND h.ending IS NOT NULL AND t.state = 'open';
CREATE INDEX turns_queued ON turns (conversation, first DESC, number) WHERE state = 'queued';
CREATE INDEX turns_open ON turns (run) WHERE state = 'open';
CREATE INDEX turns_ended ON turns (number) WHERE state = 'open' AND ended;
DROP INDEX turns_to_close;

CREATE FUNCTION end_turn() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    UPDATE turns SET ended = true WHERE run = NEW.run AND state = 'open';
    RETURN NULL;
END $$;
CREATE TRIGGER turn_ends AFTER UPDATE OF ending ON heads FOR EACH ROW WHEN (NEW.ending IS NOT NULL)
    EXECUTE FUNCTION end_turn();
