-- Runs, their messages, what they used, and what users want remembered.
-- Times are seconds since the epoch, UTC: datetime(started, 'unixepoch') shows them.

CREATE TABLE runs (
    number          INTEGER PRIMARY KEY,
    run_id          TEXT NOT NULL UNIQUE,
    root_id         TEXT NOT NULL,
    parent_id       TEXT,
    parent_call     TEXT,
    agent           TEXT NOT NULL,
    agent_path      TEXT NOT NULL,
    conversation_id TEXT NOT NULL,
    user_id         TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    task            TEXT NOT NULL,
    started         REAL NOT NULL,
    status          TEXT,               -- NULL while it runs, or if its process was killed
    answer          TEXT,
    error           TEXT,
    ended           REAL
);
CREATE INDEX runs_by_conversation ON runs (conversation_id, started);
CREATE INDEX runs_by_root ON runs (root_id, started);
CREATE INDEX runs_by_start ON runs (started);

CREATE TABLE messages (
    number   INTEGER PRIMARY KEY,
    run_id   TEXT NOT NULL REFERENCES runs (run_id),
    position INTEGER NOT NULL,          -- in its run, from 0
    role     TEXT NOT NULL,
    tokens   INTEGER,
    progress TEXT,                      -- JSON
    body     TEXT NOT NULL,             -- JSON; the view transcript shows its text
    UNIQUE (run_id, position)
);

CREATE TABLE usage (
    booking       INTEGER PRIMARY KEY,  -- the order of booking
    id            TEXT NOT NULL UNIQUE,
    run_id        TEXT NOT NULL REFERENCES runs (run_id),
    root_id       TEXT NOT NULL,
    agent_path    TEXT NOT NULL,
    provider      TEXT NOT NULL,
    model         TEXT NOT NULL,
    prompt        INTEGER NOT NULL,     -- all input, cached and cache_write included
    completion    INTEGER NOT NULL,     -- all output, reasoning included
    cached        INTEGER NOT NULL,
    cache_write   INTEGER NOT NULL,
    reasoning     INTEGER NOT NULL,
    source        TEXT NOT NULL,
    how           TEXT NOT NULL,
    cost          TEXT,                 -- US dollars, an exact decimal; NULL: no price is known
    price_version TEXT NOT NULL,
    tools         TEXT NOT NULL,        -- JSON
    booked        REAL NOT NULL
);
CREATE INDEX usage_by_root ON usage (root_id);

CREATE TABLE memories (
    number   INTEGER PRIMARY KEY,
    id       TEXT NOT NULL UNIQUE,
    owner    TEXT NOT NULL,
    text     TEXT NOT NULL,
    created  REAL NOT NULL,
    metadata TEXT NOT NULL              -- JSON
);
CREATE INDEX memories_by_owner ON memories (owner);

-- The owner is a word of the index, so that a search reads no other owner's entries.
CREATE VIRTUAL TABLE memory_words USING fts5 (owner_key, words, tokenize = 'unicode61 remove_diacritics 0');

CREATE VIEW transcript AS
SELECT
    m.run_id,
    r.agent_path,
    m.position,
    m.role,
    CASE m.role
        WHEN 'assistant' THEN (
            SELECT group_concat(json_extract(part.value, '$.text'), '')
            FROM json_each(m.body, '$.parts') AS part
            WHERE json_extract(part.value, '$.kind') = 'text'
        )
        WHEN 'tool' THEN json_extract(m.body, '$.content')
        ELSE json_extract(m.body, '$.text')
    END AS text,
    CASE m.role
        WHEN 'assistant' THEN (
            SELECT group_concat(
                json_extract(part.value, '$.name') || '(' || json_extract(part.value, '$.arguments') || ')', ', '
            )
            FROM json_each(m.body, '$.parts') AS part
            WHERE json_extract(part.value, '$.kind') = 'tool_call'
        )
        WHEN 'tool' THEN json_extract(m.body, '$.name')
    END AS tool,
    m.tokens
FROM messages AS m JOIN runs AS r USING (run_id)
ORDER BY m.run_id, m.position;

-- For the eye: a sum of costs here is a floating-point number. Bills are made from usage.cost.
CREATE VIEW usage_by_agent AS
SELECT
    root_id,
    agent_path,
    provider,
    model,
    count(*) AS attempts,
    sum(prompt) AS prompt,
    sum(completion) AS completion,
    sum(cached) AS cached,
    sum(cache_write) AS cache_write,
    sum(reasoning) AS reasoning,
    sum(source <> 'measured') AS not_measured,
    sum(cost IS NULL) AS without_price,
    sum(CAST(cost AS REAL)) AS about_cost
FROM usage
GROUP BY root_id, agent_path, provider, model;
