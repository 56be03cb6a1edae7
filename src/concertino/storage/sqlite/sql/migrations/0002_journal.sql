-- Runs become journals that any process can take up again.
--
-- Where content lies (what people said, did, or are called), one rule holds: a row is added at the end of its table,
-- is never deleted, and never grows. It is blanked where it lies. SQLite overwrites what is deleted (secure_delete), but
-- where rows are deleted, grow or are put between others it moves their neighbours to other pages, and leaves copies
-- of those in the gaps. No index holds content, for the same reason: names are looked up by hashes of them (*_key).
-- What changes with every append lies in tables without content: heads, accounts, reservations.

DROP VIEW transcript;
DROP VIEW usage_by_agent;
DROP INDEX runs_by_conversation;
DROP INDEX runs_by_root;
DROP INDEX runs_by_start;
DROP INDEX usage_by_root;
DROP INDEX memories_by_owner;
ALTER TABLE runs RENAME TO old_runs;
ALTER TABLE messages RENAME TO old_messages;
ALTER TABLE usage RENAME TO old_usage;
ALTER TABLE memories RENAME TO old_memories;

CREATE TABLE runs (
    number           INTEGER PRIMARY KEY,   -- what other tables call a run
    run_id           TEXT NOT NULL UNIQUE,
    root             INTEGER NOT NULL,      -- the number of the run at the top of its tree
    parent_id        TEXT,
    parent_call      TEXT,
    agent            TEXT NOT NULL,
    agent_path       TEXT NOT NULL,
    conversation_key INTEGER,
    conversation_id  TEXT NOT NULL,
    user_key         INTEGER,
    user_id          TEXT NOT NULL,
    organization_id  TEXT NOT NULL,
    task             TEXT NOT NULL,
    started          REAL NOT NULL,
    forked_from      TEXT
);
CREATE INDEX runs_by_root ON runs (root, started);
CREATE INDEX runs_by_conversation ON runs (conversation_key, started);
CREATE INDEX runs_by_user ON runs (user_key, started);
CREATE INDEX runs_by_start ON runs (started);

-- How each run stands. The claim (epoch, owner, lease, tries) of a tree is that in the row of its root.
CREATE TABLE heads (
    run      INTEGER PRIMARY KEY,
    root     INTEGER NOT NULL,
    state    TEXT NOT NULL,
    entries  INTEGER NOT NULL,              -- in its journal: the number of the next
    commands INTEGER NOT NULL,              -- the number of the last
    stop     INTEGER NOT NULL,
    epoch    INTEGER NOT NULL,
    owner    TEXT NOT NULL,                 -- '': released
    lease    REAL NOT NULL,                 -- until when it is held
    tries    INTEGER NOT NULL,
    ending   INTEGER,                       -- the row in ends
    ended    REAL,                          -- by the store's clock
    holds_for REAL,                         -- seconds after the end of its tree; NULL: for ever (from its beginning on)
    erase_at REAL,
    sweep_at REAL                           -- when something of it is to be erased next
);
CREATE INDEX heads_of_tree ON heads (root);
CREATE INDEX heads_alive ON heads (state) WHERE ending IS NULL;
CREATE INDEX heads_to_sweep ON heads (sweep_at) WHERE sweep_at IS NOT NULL;

CREATE TABLE ends (
    number INTEGER PRIMARY KEY,
    answer TEXT NOT NULL,
    error  TEXT,
    ended  REAL NOT NULL,
    lasts  REAL                             -- seconds for which answer, error and task remain; NULL: for ever
);

CREATE TABLE journal (
    number  INTEGER PRIMARY KEY,
    run     INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    epoch   INTEGER NOT NULL,
    kind    TEXT NOT NULL,
    step    INTEGER NOT NULL,
    at      REAL NOT NULL,
    version INTEGER NOT NULL,
    body    TEXT NOT NULL,                  -- JSON; the messages of an entry are in messages
    erased  INTEGER NOT NULL,
    held    TEXT,                           -- JSON
    UNIQUE (run, seq)
);

CREATE TABLE messages (
    number         INTEGER PRIMARY KEY,
    run            INTEGER NOT NULL,
    entry          INTEGER NOT NULL,        -- of its run's journal
    role           TEXT NOT NULL,
    tokens         INTEGER,
    lasts          REAL,                    -- seconds after the end of the run; NULL: for ever
    keeps_progress INTEGER NOT NULL,
    progress       TEXT,                    -- JSON
    body           TEXT NOT NULL,           -- JSON; '': it was erased
    kept           TEXT,                    -- what remains of it: NULL: all, '': nothing, or JSON
    later          TEXT                     -- what remains after `lasts`: JSON, or NULL: nothing
);
CREATE INDEX messages_of_run ON messages (run);

CREATE TABLE texts (
    number       INTEGER PRIMARY KEY,
    id           TEXT UNIQUE,               -- NULL: it was erased
    user_key     INTEGER,
    run_id       TEXT,                      -- with whose end it goes
    organization_id TEXT NOT NULL,
    user_id      TEXT NOT NULL,
    body         TEXT NOT NULL
);
CREATE INDEX texts_of_user ON texts (user_key);
CREATE INDEX texts_of_run ON texts (run_id) WHERE run_id IS NOT NULL;

CREATE TABLE waits (
    number         INTEGER PRIMARY KEY,
    key            TEXT UNIQUE,             -- NULL: it was erased
    run            INTEGER NOT NULL,
    open           INTEGER NOT NULL,
    agent_path     TEXT NOT NULL,
    call_id        TEXT NOT NULL,
    tool           TEXT NOT NULL,
    kind           TEXT NOT NULL,
    arguments      TEXT NOT NULL,
    arguments_hash TEXT NOT NULL,
    who            TEXT NOT NULL,           -- JSON
    note           TEXT NOT NULL,
    opened         REAL NOT NULL,
    expires        REAL
);
CREATE INDEX waits_of_run ON waits (run);
CREATE INDEX waits_to_expire ON waits (expires) WHERE open AND expires IS NOT NULL;
CREATE INDEX waits_open ON waits (opened) WHERE open;

-- The outcomes of waits: one for each key, also before the wait itself is there.
CREATE TABLE answers (
    number    INTEGER PRIMARY KEY,
    key       TEXT UNIQUE,
    run       INTEGER NOT NULL,
    taken     INTEGER NOT NULL,
    token     TEXT NOT NULL,                -- made by the one who answered
    verdict   TEXT NOT NULL,
    at        REAL NOT NULL,
    by        TEXT NOT NULL,
    content   TEXT NOT NULL,
    arguments TEXT
);
CREATE INDEX answers_of_run ON answers (run);

CREATE TABLE commands (
    id     INTEGER PRIMARY KEY,
    run    INTEGER NOT NULL,
    number INTEGER NOT NULL,
    kind   TEXT NOT NULL,
    by     TEXT NOT NULL,
    at     REAL NOT NULL,
    text   TEXT NOT NULL,
    UNIQUE (run, number)
);

-- Money in billionths of a US dollar. The name is a hash: it may hold a user's.
CREATE TABLE accounts (
    name_key        BLOB PRIMARY KEY,
    limited         INTEGER NOT NULL,       -- 0: it has no budget now
    limit_tokens    INTEGER,
    limit_money     INTEGER,
    reserved_tokens INTEGER NOT NULL,
    reserved_money  INTEGER NOT NULL,
    spent_tokens    INTEGER NOT NULL,
    spent_money     INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE reservations (
    id      TEXT NOT NULL,                  -- of a usage record
    account BLOB NOT NULL,
    settled INTEGER NOT NULL,
    tokens  INTEGER NOT NULL,
    money   INTEGER NOT NULL,
    PRIMARY KEY (id, account)
) WITHOUT ROWID;

CREATE TABLE usage (
    booking       INTEGER PRIMARY KEY,      -- the order of booking
    id            TEXT NOT NULL UNIQUE,
    run           INTEGER NOT NULL,
    entry         INTEGER,                  -- of its run's journal
    agent_path    TEXT NOT NULL,
    provider      TEXT NOT NULL,
    model         TEXT NOT NULL,
    prompt        INTEGER NOT NULL,         -- all input, cached and cache_write included
    completion    INTEGER NOT NULL,         -- all output, reasoning included
    cached        INTEGER NOT NULL,
    cache_write   INTEGER NOT NULL,
    reasoning     INTEGER NOT NULL,
    source        TEXT NOT NULL,
    how           TEXT NOT NULL,
    cost          TEXT,                     -- US dollars, an exact decimal; NULL: no price is known
    price_version TEXT NOT NULL,
    tools         TEXT NOT NULL,            -- JSON
    booked        REAL NOT NULL
);
CREATE INDEX usage_of_run ON usage (run);

CREATE TABLE memories (
    number    INTEGER PRIMARY KEY,
    id        TEXT UNIQUE,                  -- NULL: it was erased
    owner_key INTEGER,
    owner     TEXT NOT NULL,
    text      TEXT NOT NULL,
    created   REAL NOT NULL,
    metadata  TEXT NOT NULL                 -- JSON
);
CREATE INDEX memories_of_owner ON memories (owner_key);

INSERT INTO runs
SELECT
    r.number, r.run_id, coalesce(top.number, r.number), r.parent_id, r.parent_call, r.agent, r.agent_path,
    hash_key(r.conversation_id), r.conversation_id, hash_key(r.user_id), r.user_id, r.organization_id, r.task,
    r.started, NULL
FROM old_runs AS r LEFT JOIN old_runs AS top ON top.run_id = r.root_id
ORDER BY r.number;

-- What has no end has no journal either, from which it could be taken up.
INSERT INTO ends
SELECT number, coalesce(answer, ''), CASE WHEN status IS NULL THEN 'its process was killed' ELSE error END,
    coalesce(ended, started), NULL
FROM old_runs ORDER BY number;

INSERT INTO heads
SELECT r.number, n.root, coalesce(r.status, 'failed'), 0, 0, 0, 0, '', 0, 0, r.number, coalesce(r.ended, r.started),
    NULL, NULL, NULL
FROM old_runs AS r JOIN runs AS n ON n.number = r.number ORDER BY r.number;

INSERT INTO messages
SELECT m.number, r.number, 0, m.role, m.tokens, NULL, 1, m.progress, m.body, NULL, NULL
FROM old_messages AS m JOIN old_runs AS r ON r.run_id = m.run_id ORDER BY m.number;

INSERT INTO usage
SELECT u.booking, u.id, r.number, NULL, u.agent_path, u.provider, u.model, u.prompt, u.completion, u.cached,
    u.cache_write, u.reasoning, u.source, u.how, u.cost, u.price_version, u.tools, u.booked
FROM old_usage AS u JOIN old_runs AS r ON r.run_id = u.run_id ORDER BY u.booking;

INSERT INTO memories
SELECT number, id, hash_key(owner), owner, text, created, metadata FROM old_memories ORDER BY number;

DROP TABLE old_messages;
DROP TABLE old_usage;
DROP TABLE old_runs;
DROP TABLE old_memories;

CREATE VIEW transcript AS
SELECT
    r.run_id,
    r.agent_path,
    row_number() OVER (PARTITION BY m.run ORDER BY m.number) - 1 AS position,
    m.role,
    CASE m.role
        WHEN 'assistant' THEN (
            SELECT group_concat(json_extract(part.value, '$.text'), '')
            FROM json_each(coalesce(m.kept, m.body), '$.parts') AS part
            WHERE json_extract(part.value, '$.kind') = 'text'
        )
        WHEN 'tool' THEN json_extract(coalesce(m.kept, m.body), '$.content')
        ELSE json_extract(coalesce(m.kept, m.body), '$.text')
    END AS text,
    CASE m.role
        WHEN 'assistant' THEN (
            SELECT group_concat(
                json_extract(part.value, '$.name') || '(' || json_extract(part.value, '$.arguments') || ')', ', '
            )
            FROM json_each(coalesce(m.kept, m.body), '$.parts') AS part
            WHERE json_extract(part.value, '$.kind') = 'tool_call'
        )
        WHEN 'tool' THEN json_extract(coalesce(m.kept, m.body), '$.name')
    END AS tool,
    m.tokens
FROM messages AS m JOIN runs AS r ON r.number = m.run
WHERE coalesce(m.kept, m.body) <> ''
ORDER BY r.run_id, m.number;

-- For the eye: a sum of costs here is a floating-point number. Bills are made from usage.cost.
CREATE VIEW usage_by_agent AS
SELECT
    top.run_id AS root_id,
    u.agent_path,
    u.provider,
    u.model,
    count(*) AS attempts,
    sum(u.prompt) AS prompt,
    sum(u.completion) AS completion,
    sum(u.cached) AS cached,
    sum(u.cache_write) AS cache_write,
    sum(u.reasoning) AS reasoning,
    sum(u.source <> 'measured') AS not_measured,
    sum(u.cost IS NULL) AS without_price,
    sum(CAST(u.cost AS REAL)) AS about_cost
FROM usage AS u JOIN runs AS r ON r.number = u.run JOIN runs AS top ON top.number = r.root
GROUP BY top.run_id, u.agent_path, u.provider, u.model;
