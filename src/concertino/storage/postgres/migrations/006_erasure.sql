-- Sealed content (storage/sql/sealing.py). The keys are elsewhere; a key whose content was erased is named here until it
-- is discarded there.

ALTER TABLE identity ADD COLUMN keys TEXT COLLATE "C";      -- the key store; NULL: content is not sealed

CREATE TABLE discarded_keys (id TEXT COLLATE "C" PRIMARY KEY);
ALTER TABLE discarded_keys ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON discarded_keys USING (false);

-- The erasure of a user finds what the user has answered and sent. An entry of an erased row goes with the next vacuum.
CREATE INDEX answers_by ON answers (by) WHERE by <> '';
CREATE INDEX commands_by ON commands (by) WHERE by <> '';
