-- Quotas of provider keys that processes share, and the share of each process. They belong to no tenant.
CREATE TABLE quotas (
    key      TEXT COLLATE "C" PRIMARY KEY,
    requests DOUBLE PRECISION NOT NULL,                 -- available at `refilled`; negative: a debt
    tokens   DOUBLE PRECISION NOT NULL,
    refilled DOUBLE PRECISION NOT NULL,
    pauses   TEXT COLLATE "C" NOT NULL                  -- JSON: the end of each pause, by model
);
CREATE TABLE quota_shares (
    key      TEXT COLLATE "C" NOT NULL,
    owner    TEXT COLLATE "C" NOT NULL,
    seen     DOUBLE PRECISION NOT NULL,
    served   DOUBLE PRECISION NOT NULL,
    requests BIGINT NOT NULL,                           -- of those that still wait
    tokens   BIGINT NOT NULL,
    tenants  TEXT COLLATE "C" NOT NULL,                 -- JSON: hashes of those that wait
    PRIMARY KEY (key, owner)
);
ALTER TABLE quotas ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON quotas USING (false);
ALTER TABLE quota_shares ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON quota_shares USING (false);
