-- The open trees of a tenant: the list of its approvals reads those of no other tenant. A single tenant needs no index.
CREATE INDEX heads_open ON heads (tenant, run) WHERE ending IS NULL AND tenant <> '';
