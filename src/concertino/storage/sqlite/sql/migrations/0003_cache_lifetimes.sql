-- What was written to a provider's cache for an hour costs more than what is kept for minutes.
ALTER TABLE usage ADD COLUMN cache_write_1h INTEGER NOT NULL DEFAULT 0; -- the part of cache_write that is kept so long
