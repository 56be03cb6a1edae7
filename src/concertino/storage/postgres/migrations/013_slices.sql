-- Slices of the budgets of users and tenants. A tree draws on its slice, so the steps of an organization's trees update
-- rows of their own, and the account's row only when a slice is leased or returned. A slice is free + spent of what its
-- account has reserved. So a change of the account alone, such as one of a version before, is right with slices, too.
--
-- The order of locks: the head of the tree, the accounts (the run's, the user's, the tenant's), then slices.

CREATE TABLE slices (
    account      BYTEA NOT NULL,
    root         BIGINT NOT NULL,
    place        BIGINT NOT NULL,                       -- of the account in the order of locks
    free_tokens  BIGINT NOT NULL,                       -- negative only where the account has no limit
    free_money   BIGINT NOT NULL,
    spent_tokens BIGINT NOT NULL,
    spent_money  BIGINT NOT NULL,
    PRIMARY KEY (account, root)
) WITH (fillfactor = 50);
CREATE INDEX slices_of_root ON slices (root);
ALTER TABLE slices ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON slices USING (false);

-- The policy before compared the run's own `root`, so it admitted the rows of all tenants.
DROP POLICY own_tenant ON event_logs;
CREATE POLICY own_tenant ON event_logs USING (EXISTS (SELECT 1 FROM runs AS r WHERE r.number = event_logs.root));

CREATE FUNCTION lock_accounts(keys BYTEA[]) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM unnest(keys) WITH ORDINALITY AS k (account, place) JOIN accounts AS a USING (account)
    ORDER BY k.place FOR UPDATE OF a;
END $$;

-- Return slices of accounts that are locked: those of one tree, or all.
CREATE FUNCTION return_slices(keys BYTEA[], of_root BIGINT) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    WITH gone AS (
        DELETE FROM slices WHERE account = ANY (keys) AND (of_root IS NULL OR root = of_root) RETURNING *
    ), sums AS (
        SELECT account, sum(free_tokens)::bigint AS free_tokens, sum(free_money)::bigint AS free_money,
            sum(spent_tokens)::bigint AS spent_tokens, sum(spent_money)::bigint AS spent_money
        FROM gone GROUP BY account
    )
    UPDATE accounts AS a SET
        reserved_tokens = a.reserved_tokens - s.free_tokens - s.spent_tokens,
        reserved_money = a.reserved_money - s.free_money - s.spent_money,
        spent_tokens = a.spent_tokens + s.spent_tokens,
        spent_money = a.spent_money + s.spent_money
    FROM sums AS s WHERE a.account = s.account;
END $$;

-- Change what is reserved and spent: of a locked account, or else of the tree's slice, which another process may have
-- returned since.
CREATE FUNCTION charge(
    of_account BYTEA, of_root BIGINT, is_locked BOOLEAN, held_tokens BIGINT, held_money BIGINT, used_tokens BIGINT,
    used_money BIGINT
) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF is_locked THEN
        UPDATE accounts SET
            reserved_tokens = reserved_tokens + held_tokens, reserved_money = reserved_money + held_money,
            spent_tokens = spent_tokens + used_tokens, spent_money = spent_money + used_money
        WHERE account = of_account;
        RETURN;
    END IF;
    UPDATE slices SET
        free_tokens = free_tokens - held_tokens - used_tokens, free_money = free_money - held_money - used_money,
        spent_tokens = spent_tokens + used_tokens, spent_money = spent_money + used_money
    WHERE account = of_account AND root = of_root;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the tree has no slice' USING ERRCODE = 'CN000';
    END IF;
END $$;

CREATE FUNCTION settle(keys BYTEA[], locked BYTEA[], of_root BIGINT, done JSONB) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    the RECORD;
    held RECORD;
    known BOOLEAN;
    used BIGINT[];
BEGIN
    FOR the IN
        SELECT a.account, a.limited FROM unnest(keys) WITH ORDINALITY AS k (account, place)
        JOIN accounts AS a USING (account) ORDER BY k.place
    LOOP
        SELECT settled, tokens, money INTO held FROM reservations WHERE id = done ->> 0 AND account = the.account;
        known := FOUND;
        CONTINUE WHEN known AND held.settled OR NOT known AND NOT the.limited;
        used := CASE WHEN the.limited THEN ARRAY[(done ->> 1)::bigint, coalesce((done ->> 2)::bigint, 0)]
            ELSE ARRAY[0, 0]::bigint[] END;
        INSERT INTO reservations (id, account, settled, tokens, money)
        VALUES (done ->> 0, the.account, true, used[1], used[2])
        ON CONFLICT (id, account) DO UPDATE SET settled = true, tokens = excluded.tokens, money = excluded.money;
        PERFORM charge(
            the.account, of_root, the.account = ANY (locked), -coalesce(held.tokens, 0), -coalesce(held.money, 0),
            used[1], used[2]
        );
    END LOOP;
END $$;

-- A locked account leases a slice with room for several more such reservations, but at most a part of what it has
-- left: the less there is, the smaller are the slices, and at the end there are none.
CREATE FUNCTION reserve(keys BYTEA[], locked BYTEA[], of_root BIGINT, wanted JSONB) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    size CONSTANT BIGINT := 16;
    tokens_wanted CONSTANT BIGINT := (wanted ->> 1)::bigint;
    money_wanted CONSTANT BIGINT := coalesce((wanted ->> 2)::bigint, 0);
    the RECORD;
    held RECORD;
    tokens_left BIGINT;
    money_left BIGINT;
    tokens_more BIGINT;
    money_more BIGINT;
    is_locked BOOLEAN;
BEGIN
    FOR the IN
        SELECT a.*, k.place FROM unnest(keys) WITH ORDINALITY AS k (account, place)
        JOIN accounts AS a USING (account) WHERE a.limited ORDER BY k.place
    LOOP
        SELECT settled, tokens, money INTO held FROM reservations WHERE id = wanted ->> 0 AND account = the.account;
        CONTINUE WHEN held.settled;
        INSERT INTO reservations (id, account, settled, tokens, money)
        VALUES (wanted ->> 0, the.account, false, tokens_wanted, money_wanted)
        ON CONFLICT (id, account) DO UPDATE SET tokens = excluded.tokens, money = excluded.money;
        is_locked := the.account = ANY (locked);
        PERFORM charge(
            the.account, of_root, is_locked, tokens_wanted - coalesce(held.tokens, 0),
            money_wanted - coalesce(held.money, 0), 0, 0
        );
        CONTINUE WHEN NOT is_locked;
        tokens_left := the.limit_tokens - the.spent_tokens - the.reserved_tokens + coalesce(held.tokens, 0)
            - tokens_wanted - (wanted ->> 3)::bigint;
        money_left := the.limit_money - the.spent_money - the.reserved_money + coalesce(held.money, 0)
            - money_wanted - (wanted ->> 4)::bigint;
        IF tokens_left < 0 OR money_left < 0 OR the.limit_money IS NOT NULL AND wanted ->> 2 IS NULL THEN
            RAISE EXCEPTION 'an account cannot cover it' USING ERRCODE = 'CN000';
        END IF;
        tokens_more := coalesce(least(size * tokens_wanted, tokens_left / size), 0);
        money_more := coalesce(least(size * money_wanted, money_left / size), 0);
        IF the.place > 1  -- the first account is the run's own
            AND (the.limit_tokens IS NULL OR tokens_more >= tokens_wanted)
            AND (the.limit_money IS NULL OR money_more >= money_wanted)
        THEN
            INSERT INTO slices VALUES (the.account, of_root, the.place, tokens_more, money_more, 0, 0);
            PERFORM charge(the.account, of_root, true, tokens_more, money_more, 0, 0);
        END IF;
    END LOOP;
END $$;

-- The settlements and the reservation of an entry. Accounts are locked whose slice cannot cover them, and all if the tree
-- ends or waits: then its slices are returned.
CREATE FUNCTION charge_entry(of_run BIGINT, of_root BIGINT, e JSONB) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    leaves CONSTANT BOOLEAN := of_run = of_root AND (e ? 'end' OR coalesce(e ->> 'state', '') = 'suspended');
    settled CONSTANT JSONB := coalesce(e -> 'settle', '[]');
    wanted CONSTANT JSONB := e -> 'reserve';
    keys BYTEA[];
    locked BYTEA[];
    item JSONB;
BEGIN
    IF wanted IS NOT NULL OR settled <> '[]' THEN
        keys := ARRAY(
            SELECT decode(k.key, 'hex') FROM jsonb_array_elements_text(e -> 'accounts') WITH ORDINALITY AS k (key, place)
            ORDER BY k.place
        );
    ELSIF leaves THEN
        keys := ARRAY(SELECT s.account FROM slices AS s WHERE s.root = of_root ORDER BY s.place);
    END IF;
    IF coalesce(cardinality(keys), 0) = 0 THEN
        RETURN;
    END IF;
    locked := ARRAY(
        SELECT a.account FROM unnest(keys) WITH ORDINALITY AS k (account, place) JOIN accounts AS a USING (account)
        LEFT JOIN slices AS s ON s.account = a.account AND s.root = of_root
        CROSS JOIN LATERAL (
            SELECT coalesce(sum((d ->> 1)::bigint - coalesce(r.tokens, 0)), 0) AS tokens,
                coalesce(sum(coalesce((d ->> 2)::bigint, 0) - coalesce(r.money, 0)), 0) AS money
            FROM jsonb_array_elements(settled) AS d
            LEFT JOIN reservations AS r ON r.id = d ->> 0 AND r.account = a.account AND NOT r.settled
        ) AS over
        WHERE leaves OR (a.limited OR settled <> '[]') AND NOT coalesce(
            s.root IS NOT NULL
            AND (a.limit_tokens IS NULL
                OR s.free_tokens >= over.tokens + coalesce((wanted ->> 1)::bigint + (wanted ->> 3)::bigint, 0))
            AND (a.limit_money IS NULL
                OR s.free_money >= over.money
                    + CASE WHEN wanted IS NULL THEN 0 ELSE (wanted ->> 2)::bigint + (wanted ->> 4)::bigint END),
            false  -- without a price, too
        )
        ORDER BY k.place
    );
    IF cardinality(locked) > 0 THEN
        PERFORM lock_accounts(locked);
        PERFORM return_slices(locked, of_root);
    END IF;
    FOR item IN SELECT value FROM jsonb_array_elements(settled) LOOP
        PERFORM settle(keys, locked, of_root, item);
    END LOOP;
    IF wanted IS NOT NULL THEN
        PERFORM reserve(keys, locked, of_root, wanted);
    END IF;
END $$;

CREATE FUNCTION leave_accounts() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE
    keys CONSTANT BYTEA[] := ARRAY(SELECT s.account FROM slices AS s WHERE s.root = NEW.run ORDER BY s.place);
BEGIN
    IF cardinality(keys) > 0 THEN  -- the tree was ended without `charge_entry`
        PERFORM lock_accounts(keys);
        PERFORM return_slices(keys, NEW.run);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER tree_ends AFTER UPDATE OF ending ON heads FOR EACH ROW
    WHEN (NEW.ending IS NOT NULL AND NEW.run = NEW.root) EXECUTE FUNCTION leave_accounts();

ALTER FUNCTION write_entry RENAME TO write_rows;
CREATE FUNCTION write_entry(of_run BIGINT, of_root BIGINT, e JSONB, moment DOUBLE PRECISION) RETURNS VOID
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM charge_entry(of_run, of_root, e);
    PERFORM write_rows(of_run, of_root, CASE WHEN e ? 'accounts' THEN e - 'settle' - 'reserve' ELSE e END, moment);
END $$;
