-- A target with one consumer names its agents, so that no other process takes their work: not even one that does not know
-- the targets of the fleet, or is of the version before.
ALTER TABLE consumers ADD COLUMN agents TEXT COLLATE "C";           -- JSON; the version before does not change it

-- The agents of a list, or all with due work, that a process without such a target may take.
CREATE OR REPLACE FUNCTION agents_of(list TEXT, moment DOUBLE PRECISION) RETURNS TEXT[] LANGUAGE plpgsql AS $$
BEGIN
    IF list IS NULL THEN
        list := (SELECT json_agg(DISTINCT h.agent) FROM heads AS h WHERE h.ready_at <= moment);
    END IF;
    RETURN ARRAY(
        SELECT name FROM json_array_elements_text(list::json) AS name WHERE NOT EXISTS (
            SELECT 1 FROM consumers AS x WHERE x.lease > moment
                AND (name IN (SELECT value FROM json_each(x.agents)) OR starts_with(name, 'tool:' || x.target || ':'))
        )
    );
END $$;
