-- Accounts and their reservations.

-- name: account
SELECT limited, limit_tokens, limit_money, reserved_tokens, reserved_money, spent_tokens, spent_money
FROM accounts WHERE account = ?;

-- name: limited_accounts
-- As they are with what their trees have leased, where they lease something.
SELECT CASE account WHEN :run THEN 'run' WHEN :user THEN 'user' ELSE 'tenant' END AS kind,
    limit_tokens, limit_money, reserved_tokens, reserved_money, spent_tokens, spent_money
FROM accounts WHERE account IN (:run, :user, :tenant) AND limited
ORDER BY CASE account WHEN :run THEN 1 WHEN :user THEN 2 ELSE 3 END;

-- name: is_limited
SELECT 1 FROM accounts WHERE account = ? AND limited;

-- name: set_budget
INSERT INTO accounts VALUES (:account, :limited, :tokens, :money, 0, 0, 0, 0)
ON CONFLICT (account) DO UPDATE SET limited = :limited, limit_tokens = :tokens, limit_money = :money;

-- name: reserved
SELECT settled, tokens, money FROM reservations WHERE id = ? AND account = ?;

-- name: reserve
INSERT INTO reservations (id, account, settled, tokens, money) VALUES (?, ?, false, ?, ?)
ON CONFLICT (id, account) DO UPDATE SET tokens = excluded.tokens, money = excluded.money;

-- name: settle
INSERT INTO reservations (id, account, settled, tokens, money) VALUES (?, ?, true, ?, ?)
ON CONFLICT (id, account) DO UPDATE SET settled = true, tokens = excluded.tokens, money = excluded.money;

-- name: charges
SELECT account, settled, tokens, money FROM reservations WHERE id = ?;

-- name: charge
UPDATE accounts SET
    reserved_tokens = reserved_tokens + ?, reserved_money = reserved_money + ?,
    spent_tokens = spent_tokens + ?, spent_money = spent_money + ?
WHERE account = ?;

-- name: usage_source
SELECT u.source FROM usage AS u WHERE u.id = :id AND u.run = :run;

-- name: correct_usage
UPDATE usage SET
    provider = ?, model = ?, prompt = ?, completion = ?, cached = ?, cache_write = ?, reasoning = ?,
    cache_write_1h = ?, source = ?, how = ?, cost = ?, price_version = ?, receipt = coalesce(?, receipt)
WHERE id = ?;
