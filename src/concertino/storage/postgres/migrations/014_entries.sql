-- What a run is resumed from is found by the numbers of entries, and its other messages and usage are not looked at.
CREATE INDEX messages_of_entry ON messages (run, entry);
DROP INDEX messages_of_run;
CREATE INDEX usage_of_entry ON usage (run, entry);
DROP INDEX usage_of_run;
