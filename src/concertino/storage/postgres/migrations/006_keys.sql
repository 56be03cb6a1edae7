-- Sealed content (storage/sql/sealing.py). The keys are elsewhere; a key whose content was erased is named here until it
-- is discarded there.

ALTER TABLE identity ADD COLUMN keys TEXT COLLATE "C";      -- the key store; NULL: content is not sealed

CREATE TABLE discarded_keys (id TEXT COLLATE "C" PRIMARY KEY);
ALTER TABLE discarded_keys ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON discarded_keys USING (false);
