-- e: that of add_events, and withheld: of each call whose results of before are not kept, the run and the call's id as
-- JSON text. NULL, and nothing is done, if the log may have such a result, which is to be found in a row's JSON. The batch
-- itself may look like that: once it is stored, add_events knows it by its token.
CREATE FUNCTION add_replacing_events(e JSONB) RETURNS JSONB LANGUAGE plpgsql AS $$
DECLARE
    r runs := run_in_reach(e, e ->> 'root_id');
BEGIN
    IF EXISTS (
        SELECT 1 FROM jsonb_array_elements(e -> 'withheld') AS w
        JOIN events AS v ON v.root = r.number AND v.run = (SELECT n.number FROM runs AS n WHERE n.run_id = w ->> 0)
        WHERE strpos(v.body, w ->> 1) > 0
            AND (strpos(v.body, '"tool_done"') > 0 OR strpos(v.body, '"tool_failed"') > 0
                OR strpos(v.body, '"tool_streamed"') > 0)
            OR starts_with(v.body, U&'\FDD02')    -- sealed
    ) AND NOT EXISTS (SELECT 1 FROM event_logs AS l WHERE l.root = r.number AND l.token = e ->> 'token') THEN
        RETURN NULL;
    END IF;
    RETURN add_events(e);
END $$;
