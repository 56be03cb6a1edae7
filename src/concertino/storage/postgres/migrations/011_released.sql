-- A tree that an unsure claim has released is due from that moment on, as any other. Its owner is '?', its lease 0.

CREATE OR REPLACE FUNCTION reschedule(of_root BIGINT, moment DOUBLE PRECISION) RETURNS VOID LANGUAGE sql AS $$
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
            THEN greatest(CASE WHEN owner = '' OR lease = 0 THEN moment ELSE lease END, not_before)
    END
    WHERE run = of_root;
$$;
