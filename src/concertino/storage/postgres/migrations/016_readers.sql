-- Roles that read one tenant, whatever they set: a session may change the setting concertino_reader.tenant, but not the
-- rows here. A role without a row reads the tenant of the setting.
CREATE TABLE readers (
    role   TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (role, tenant)
);
ALTER TABLE readers ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON readers USING (false);

-- With the rights of its owner, since no reader may see the table.
CREATE OR REPLACE FUNCTION is_own(tenant TEXT) RETURNS BOOLEAN LANGUAGE sql STABLE SECURITY DEFINER
    RETURN CASE
        WHEN EXISTS (SELECT 1 FROM readers AS r WHERE r.role = session_user)
            THEN EXISTS (SELECT 1 FROM readers AS r WHERE r.role = session_user AND r.tenant = is_own.tenant)
        ELSE tenant = current_setting('concertino_reader.tenant', true)
    END;
