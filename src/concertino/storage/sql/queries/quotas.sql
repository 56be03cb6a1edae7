-- Quotas of provider keys, and the share of each process that draws on one.

-- name: open_quota
-- Locks the row until the end of the transaction, where there are several writers.
INSERT INTO quotas (key, requests, tokens, refilled, pauses) VALUES (:key, 0, 0, 0, '{}')
ON CONFLICT (key) DO UPDATE SET refilled = quotas.refilled
RETURNING requests, tokens, refilled, pauses;

-- name: quota_shares
SELECT owner, seen, served, requests, tokens, tenants FROM quota_shares WHERE key = :key;

-- name: write_quota
UPDATE quotas SET requests = :requests, tokens = :tokens, refilled = :refilled, pauses = :pauses WHERE key = :key;

-- name: write_quota_share
INSERT INTO quota_shares (key, owner, seen, served, requests, tokens, tenants)
VALUES (:key, :owner, :seen, :served, :requests, :tokens, :tenants)
ON CONFLICT (key, owner) DO UPDATE SET
    seen = excluded.seen, served = excluded.served, requests = excluded.requests, tokens = excluded.tokens,
    tenants = excluded.tenants;

-- name: delete_quota_shares
DELETE FROM quota_shares WHERE key = :key AND seen <= :before;
