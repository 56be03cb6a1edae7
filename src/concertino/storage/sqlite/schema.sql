-- Runs, their journals, what they used, and what users want remembered.
-- Times are seconds since the epoch, UTC: datetime(started, 'unixepoch') shows them.
--
-- One rule applies to tables with content (what people wrote, did, or are called): a row is added at the end of its
-- table, is never deleted, and never grows. It is blanked in its page. SQLite overwrites what is deleted
-- (secure_delete), but where rows are deleted, grow or are inserted between others it moves their neighbours to other
-- pages, and leaves copies of those in the gaps. No index contains content, for the same reason: names are looked up by
-- their hashes (*_key). What changes with every append is in tables without content: heads, operations, accounts,
-- reservations.

-- One row: a random id of the database, which the watermark next to its file also has.
CREATE TABLE identity (id TEXT NOT NULL);

CREATE TABLE runs (
    number           INTEGER PRIMARY KEY,   -- other tables refer to a run by it
    run_id           TEXT NOT NULL UNIQUE,
    root             INTEGER NOT NULL,      -- number of the run at the top of its tree
    scope_key        BLOB NOT NULL,
    parent_id        TEXT,                  -- of a root: the run of another tree whose call it answers
    parent_call      TEXT,                  -- of a root: the key of that call
    agent            TEXT NOT NULL,
    agent_path       TEXT NOT NULL,
    conversation_key BLOB,
    conversation_id  TEXT NOT NULL,
    tenant           TEXT NOT NULL,         -- stays when its user is erased: bills are made by tenant
    user_id          TEXT NOT NULL,
    task             TEXT NOT NULL,
    started          REAL NOT NULL,
    forked_from      TEXT
);
CREATE INDEX runs_by_root ON runs (root, started);
CREATE INDEX runs_by_conversation ON runs (conversation_key, started);
CREATE INDEX runs_by_scope ON runs (scope_key, started);
CREATE INDEX runs_by_tenant ON runs (tenant, started) WHERE tenant <> '';  -- a single tenant needs none
CREATE INDEX runs_by_start ON runs (started);
CREATE INDEX runs_by_caller ON runs (parent_id) WHERE root = number AND parent_id IS NOT NULL;

-- The state of each run. The row of a root also has the claim on its tree (epoch, owner, process, lease, tries), and
-- when the tree is due (ready_at, not_before, reason).
CREATE TABLE heads (
    run         INTEGER PRIMARY KEY,
    root        INTEGER NOT NULL,
    state       TEXT NOT NULL,
    entries     INTEGER NOT NULL,           -- in its journal: the number of the next
    commands    INTEGER NOT NULL,           -- number of the last
    stop        INTEGER NOT NULL,
    epoch       INTEGER NOT NULL,
    owner       TEXT NOT NULL,              -- '': released
    process     TEXT NOT NULL,              -- of the owner, while its lease counts; '': none
    lease       REAL NOT NULL,              -- end of the lease
    tries       INTEGER NOT NULL,
    not_before  REAL NOT NULL,              -- postponed until then
    reason      TEXT NOT NULL,              -- of a postponement or a dead letter
    ready_at    REAL,                       -- due from then on; NULL: not before something happens
    ending      INTEGER,                    -- its row in ends
    ended       REAL,                       -- by the store's clock
    erase_after REAL,                       -- seconds after the end of its tree; NULL: never
    erase_at    REAL,
    sweep_at    REAL                        -- time of its next erasure
);
CREATE INDEX heads_of_tree ON heads (root);
CREATE INDEX heads_ready ON heads (ready_at) WHERE ready_at IS NOT NULL;
CREATE INDEX heads_of_process ON heads (process) WHERE process <> '';
CREATE INDEX heads_to_stop ON heads (root) WHERE stop AND ending IS NULL;
CREATE INDEX heads_to_sweep ON heads (sweep_at) WHERE sweep_at IS NOT NULL;
-- A run that completes without a pause is never in it. ready_at leads to the running ones.
CREATE INDEX heads_by_state ON heads (state, run) WHERE state NOT IN ('running', 'completed');

CREATE TABLE ends (
    number       INTEGER PRIMARY KEY,
    answer       TEXT NOT NULL,
    error        TEXT,
    ended        REAL NOT NULL,
    keep_seconds REAL                       -- for answer, error and task; NULL: they stay
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
    content TEXT,                           -- JSON
    UNIQUE (run, seq)
);

CREATE TABLE messages (
    number        INTEGER PRIMARY KEY,
    run           INTEGER NOT NULL,
    entry         INTEGER NOT NULL,         -- of its run's journal
    role          TEXT NOT NULL,
    tokens        INTEGER,
    keep_seconds  REAL,                     -- after the end of the run; NULL: it stays
    keep_progress INTEGER NOT NULL,
    progress      TEXT,                     -- JSON
    body          TEXT NOT NULL,            -- JSON; '': erased
    kept          TEXT,                     -- after the end of the run: NULL: the body, '': nothing, or JSON
    later         TEXT                      -- after keep_seconds: JSON, or NULL: nothing
);
CREATE INDEX messages_of_entry ON messages (run, entry);

CREATE TABLE texts (
    number          INTEGER PRIMARY KEY,
    id              TEXT UNIQUE,            -- NULL: erased
    scope_key       BLOB,
    run_id          TEXT,                   -- erased with the end of this run
    tenant          TEXT NOT NULL,
    user_id         TEXT NOT NULL,
    conversation_key BLOB,                 -- of the conversation with which the text is erased
    body            TEXT NOT NULL
);
CREATE INDEX texts_of_scope ON texts (scope_key);
CREATE INDEX texts_of_a_conversation ON texts (conversation_key) WHERE conversation_key IS NOT NULL;
CREATE INDEX texts_of_run ON texts (run_id) WHERE run_id IS NOT NULL;

-- Contents of images, documents and recordings. Messages and events name them by digest.
CREATE TABLE media (
    number    INTEGER PRIMARY KEY,
    scope_key BLOB,                         -- NULL: erased
    digest    TEXT,                         -- SHA-256; NULL: erased
    body      TEXT NOT NULL,                -- base64; '': erased
    UNIQUE (scope_key, digest)
);

CREATE TABLE media_of_runs (
    run   INTEGER NOT NULL,
    media INTEGER NOT NULL,
    PRIMARY KEY (run, media)
) WITHOUT ROWID;
CREATE INDEX runs_of_media ON media_of_runs (media);

-- Open operations. Closed ones leave the table, so that recovery costs what is open and not what is old.
CREATE TABLE operations (
    scope_key  BLOB NOT NULL,
    key        TEXT NOT NULL,
    run        INTEGER NOT NULL,
    root       INTEGER NOT NULL,
    kind       TEXT NOT NULL,
    state      TEXT NOT NULL,
    answered   INTEGER NOT NULL,            -- an answer from outside was not taken in yet
    step       INTEGER NOT NULL,
    call_index INTEGER NOT NULL,
    name       TEXT NOT NULL,
    call_id    TEXT NOT NULL,
    effect     TEXT NOT NULL,
    remote     INTEGER NOT NULL,
    waits_for  TEXT,
    tokens     INTEGER,
    money      TEXT,                        -- US dollars, an exact decimal
    prompt     INTEGER,
    expires    REAL,                        -- deadline of its wait
    outcome    INTEGER,                     -- its row in outcomes
    due_at     REAL,                        -- of a call of a target: a process may take it from then on; NULL: taken
    PRIMARY KEY (scope_key, key)
) WITHOUT ROWID;
CREATE INDEX operations_of_tree ON operations (root, run);
CREATE INDEX operations_waiting ON operations (expires) WHERE state = 'waiting';
CREATE INDEX operations_due ON operations (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE outcomes (
    number  INTEGER PRIMARY KEY,
    content TEXT NOT NULL                   -- JSON; '': erased
);

CREATE TABLE waits (
    number         INTEGER PRIMARY KEY,
    key            TEXT,                    -- of its operation; NULL: erased
    run            INTEGER NOT NULL,
    agent_path     TEXT NOT NULL,
    call_id        TEXT NOT NULL,
    tool           TEXT NOT NULL,
    kind           TEXT NOT NULL,
    arguments      TEXT NOT NULL,
    arguments_hash TEXT NOT NULL,
    who            TEXT NOT NULL,           -- JSON
    note           TEXT NOT NULL,
    opened         REAL NOT NULL,
    expires        REAL,
    target         TEXT NOT NULL,           -- whose processes do the work; '': none
    task           TEXT NOT NULL,           -- JSON: the work
    UNIQUE (key, kind)                      -- a call may wait for an approval, and later for its result
);
CREATE INDEX waits_of_run ON waits (run);

-- Answers to waits: one per wait, also before the wait itself is stored.
CREATE TABLE answers (
    number    INTEGER PRIMARY KEY,
    key       TEXT,                         -- NULL: erased
    kind      TEXT NOT NULL,                -- of the wait
    run       INTEGER NOT NULL,
    token     TEXT NOT NULL,                -- made by the sender
    verdict   TEXT NOT NULL,
    at        REAL NOT NULL,
    by        TEXT NOT NULL,
    content   TEXT NOT NULL,
    arguments TEXT,
    UNIQUE (key, kind)
);
CREATE INDEX answers_of_run ON answers (run);

-- A run that works for a call of another tree stops when the call is answered without it.
CREATE TRIGGER stop_called AFTER INSERT ON answers WHEN new.kind = 'result' BEGIN
    UPDATE heads SET
        stop = 1, not_before = 0, ready_at = max(new.at, CASE WHEN owner = '' THEN 0 ELSE lease END)
    WHERE ending IS NULL AND run IN (
        SELECT r.number FROM runs AS c JOIN runs AS r ON r.parent_id = c.run_id AND r.root = r.number
        WHERE c.number = new.run AND r.parent_call = new.key AND r.scope_key = c.scope_key
    );
END;

-- The only consumers of targets that have one.
CREATE TABLE consumers (
    target TEXT PRIMARY KEY,
    owner  TEXT NOT NULL,
    lease  REAL NOT NULL,                   -- end of the lease
    agents TEXT                             -- JSON: the agents of the target
) WITHOUT ROWID;

-- Quotas of provider keys that processes share, and the share of each process.
CREATE TABLE quotas (
    key      TEXT PRIMARY KEY,
    requests REAL NOT NULL,                 -- available at `refilled`; negative: a debt
    tokens   REAL NOT NULL,
    refilled REAL NOT NULL,
    pauses   TEXT NOT NULL                  -- JSON: the end of each pause, by model
) WITHOUT ROWID;
CREATE TABLE quota_shares (
    key      TEXT NOT NULL,
    owner    TEXT NOT NULL,
    seen     REAL NOT NULL,
    served   REAL NOT NULL,
    requests INTEGER NOT NULL,              -- of those that still wait
    tokens   INTEGER NOT NULL,
    tenants  TEXT NOT NULL,                 -- JSON: hashes of those that wait
    PRIMARY KEY (key, owner)
) WITHOUT ROWID;

-- Tools that a user has approved for a conversation, or for good. It has names of agents and tools only, so its rows are
-- deleted like those of other tables without content.
CREATE TABLE approval_rules (
    scope_key        BLOB NOT NULL,
    agent            TEXT NOT NULL,
    tool             TEXT NOT NULL,
    conversation_key BLOB NOT NULL,         -- x'': in every conversation
    PRIMARY KEY (scope_key, agent, tool, conversation_key)
) WITHOUT ROWID;

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

-- Money in billionths of a US dollar. The key is a hash, because the account may be a user's.
CREATE TABLE accounts (
    account         BLOB PRIMARY KEY,
    limited         INTEGER NOT NULL,       -- 0: it has no budget now
    limit_tokens    INTEGER,
    limit_money     INTEGER,
    reserved_tokens INTEGER NOT NULL,
    reserved_money  INTEGER NOT NULL,
    spent_tokens    INTEGER NOT NULL,
    spent_money     INTEGER NOT NULL
) WITHOUT ROWID;

-- The charges of each attempt: reserved, and after its settlement spent.
CREATE TABLE reservations (
    id      TEXT NOT NULL,                  -- of a usage record
    account BLOB NOT NULL,
    settled INTEGER NOT NULL,
    tokens  INTEGER NOT NULL,
    money   INTEGER NOT NULL,
    PRIMARY KEY (id, account)
) WITHOUT ROWID;
CREATE INDEX reservations_of_account ON reservations (account);

CREATE TABLE usage (
    booking        INTEGER PRIMARY KEY,     -- order of booking
    id             TEXT NOT NULL UNIQUE,
    run            INTEGER NOT NULL,
    entry          INTEGER,                 -- of its run's journal
    agent_path     TEXT NOT NULL,
    provider       TEXT NOT NULL,
    model          TEXT NOT NULL,
    prompt         INTEGER NOT NULL,        -- all input, cached and cache_write included
    completion     INTEGER NOT NULL,        -- all output, reasoning included
    cached         INTEGER NOT NULL,
    cache_write    INTEGER NOT NULL,
    reasoning      INTEGER NOT NULL,
    cache_write_1h INTEGER NOT NULL,        -- the part of cache_write that is kept for an hour
    source         TEXT NOT NULL,
    how            TEXT NOT NULL,
    cost           TEXT,                    -- US dollars, an exact decimal; NULL: no price is known
    price_version  TEXT NOT NULL,
    receipt        TEXT,                    -- JSON, what else the provider reported; no text of the conversation
    tools          TEXT NOT NULL,           -- JSON
    booked         REAL NOT NULL
);
CREATE INDEX usage_of_run ON usage (run);
CREATE INDEX usage_unknown ON usage (booking) WHERE source = 'unknown';

-- The log of each tree's events: the number of its last event, and whether any can follow.
CREATE TABLE event_logs (
    root   INTEGER PRIMARY KEY,
    last   INTEGER NOT NULL,
    closed INTEGER NOT NULL
);

CREATE TABLE events (
    number INTEGER PRIMARY KEY,
    root   INTEGER NOT NULL,
    run    INTEGER NOT NULL,
    entry  INTEGER NOT NULL,                -- of its run's journal, that covers the events
    source INTEGER,                         -- of pieces; negative: complete
    first  INTEGER NOT NULL,                -- numbers of the first and the last event of the batch
    last   INTEGER NOT NULL,
    body   TEXT NOT NULL                    -- JSON; '': erased, or replaced by a complete event
);
CREATE INDEX events_of_tree ON events (root, last) WHERE body <> '';
CREATE INDEX events_of_source ON events (root, source) WHERE source IS NOT NULL;
CREATE INDEX events_of_run ON events (run);

CREATE TABLE memories (
    number    INTEGER PRIMARY KEY,
    id        TEXT UNIQUE,                  -- NULL: erased
    scope_key BLOB,
    tenant    TEXT NOT NULL,
    user_id   TEXT NOT NULL,
    text      TEXT NOT NULL,
    created   REAL NOT NULL,
    metadata  TEXT NOT NULL                 -- JSON
);
CREATE INDEX memories_of_scope ON memories (scope_key);

-- The scope is a word of the index, so that a search reads no other scope's entries.
CREATE VIRTUAL TABLE memory_words USING fts5 (scope, words, tokenize = 'unicode61 remove_diacritics 0');

-- Messages that are sent to agents at given times. The content never moves; what changes is in the head.
CREATE TABLE schedules (
    number    INTEGER PRIMARY KEY,
    id        TEXT,                         -- NULL: erased
    scope_key BLOB,
    tenant    TEXT NOT NULL,
    user_id   TEXT NOT NULL,
    agent     TEXT NOT NULL,
    body      TEXT NOT NULL,                -- JSON: the input and the times
    created   REAL NOT NULL
);
CREATE UNIQUE INDEX schedules_of_scope ON schedules (scope_key, id) WHERE id IS NOT NULL;

CREATE TABLE schedule_heads (
    schedule INTEGER PRIMARY KEY,
    due_at   REAL                           -- NULL: paused
);
CREATE INDEX due_schedules ON schedule_heads (due_at) WHERE due_at IS NOT NULL;

-- Secrets of users, such as tokens. They are changed and deleted in place, because what may remain is encrypted.
CREATE TABLE secrets (
    number        INTEGER PRIMARY KEY,
    name          TEXT NOT NULL,
    scope_key     BLOB NOT NULL,
    tenant        TEXT NOT NULL,
    user_id       TEXT NOT NULL,
    sealed        TEXT NOT NULL,           -- encrypted with a key that the database does not have
    version       INTEGER NOT NULL,
    claimed_until REAL NOT NULL            -- until then other processes do not claim it
);
CREATE UNIQUE INDEX secrets_of_scope ON secrets (scope_key, name);

-- Conversations. A turn is one root run, or a message that waits until the conversation is idle. Its row has no content:
-- what people wrote is in messages, runs and ends, and in conversation_texts.
CREATE TABLE conversations (
    number           INTEGER PRIMARY KEY,
    scope_key        BLOB NOT NULL,
    conversation_key BLOB,                 -- NULL: erased
    id               TEXT NOT NULL,
    tenant           TEXT NOT NULL,
    user_id          TEXT NOT NULL,
    agent            TEXT NOT NULL,
    created          REAL NOT NULL
);
CREATE INDEX conversations_by_id ON conversations (scope_key, conversation_key);
CREATE INDEX conversations_of_tenant ON conversations (tenant) WHERE tenant <> '';

CREATE TABLE conversation_heads (
    conversation INTEGER PRIMARY KEY,
    leaf         INTEGER,                   -- the active turn; NULL: none
    current      INTEGER,                   -- the turn that started last
    modes        TEXT NOT NULL,             -- JSON
    tools        TEXT NOT NULL,             -- JSON
    updated      REAL NOT NULL
);

CREATE TABLE turns (
    number       INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL,
    run_id       TEXT NOT NULL UNIQUE,
    run          INTEGER,                   -- NULL: it has not started
    state        TEXT NOT NULL,             -- queued, open, closed; steered: a message to the run of another turn
    parent       INTEGER,                   -- NULL: the first of a branch, or while queued: the leaf at its start
    anchored     INTEGER NOT NULL,          -- its parent was chosen when it was queued
    first        INTEGER NOT NULL,          -- it starts before the other queued turns
    submit_key   BLOB,                      -- of its idempotency key
    mode         TEXT NOT NULL,
    created      REAL NOT NULL,
    not_before   REAL NOT NULL,             -- a queued turn that could not be started is postponed until then
    ended        INTEGER NOT NULL DEFAULT 0,    -- its run has ended
    due          INTEGER NOT NULL DEFAULT 0,    -- queued, and next in an idle conversation: to start from not_before on
    agent        TEXT,                      -- of a queued turn's conversation
    tenant       TEXT,
    UNIQUE (conversation, submit_key)
);
CREATE INDEX turns_by_parent ON turns (conversation, parent);
-- What the watchdog looks for has indexes that leave out the turns of runs that wait.
CREATE INDEX turns_queued ON turns (conversation, first DESC, number) WHERE state = 'queued';
CREATE INDEX turns_open ON turns (run) WHERE state = 'open';
CREATE INDEX turns_ended ON turns (number) WHERE state = 'open' AND ended;
CREATE INDEX turns_due ON turns (agent, tenant, not_before, number) WHERE due AND state = 'queued';

CREATE TRIGGER turn_ends AFTER UPDATE OF ending ON heads WHEN NEW.ending IS NOT NULL
BEGIN
    UPDATE turns SET ended = 1 WHERE run = NEW.run AND state = 'open';
    UPDATE turns SET due = 1, not_before = max(not_before, NEW.ended)
    WHERE NOT due AND number = (
        SELECT q.number FROM turns AS t JOIN turns AS q ON q.conversation = t.conversation AND q.state = 'queued'
        WHERE t.run = NEW.run AND t.state = 'open' ORDER BY q.first DESC, q.number LIMIT 1
    );
END;
CREATE TRIGGER turn_is_queued AFTER INSERT ON turns WHEN NEW.state = 'queued'
BEGIN
    UPDATE turns SET (agent, tenant) = (SELECT agent, tenant FROM conversations WHERE number = NEW.conversation)
    WHERE number = NEW.number;
    -- Of the first two, since the new one may be before the one that is due.
    UPDATE turns SET not_before = max(not_before, created), due = NOT EXISTS (
        SELECT 1 FROM conversation_heads AS c JOIN turns AS t ON t.number = c.current JOIN heads AS r ON r.run = t.run
        WHERE c.conversation = NEW.conversation AND r.ending IS NULL
    ) AND number = (
        SELECT q.number FROM turns AS q WHERE q.conversation = NEW.conversation AND q.state = 'queued'
        ORDER BY q.first DESC, q.number LIMIT 1
    )
    WHERE number IN (
        SELECT q.number FROM turns AS q WHERE q.conversation = NEW.conversation AND q.state = 'queued'
        ORDER BY q.first DESC, q.number LIMIT 2
    );
END;
CREATE TRIGGER turn_leaves_queue AFTER DELETE ON turns WHEN OLD.state = 'queued' AND OLD.due
BEGIN
    UPDATE turns SET due = 1, not_before = max(not_before, created) WHERE number = (
        SELECT q.number FROM turns AS q WHERE q.conversation = OLD.conversation AND q.state = 'queued'
        ORDER BY q.first DESC, q.number LIMIT 1
    );
END;

CREATE TABLE conversation_texts (
    number       INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL,
    turn         INTEGER,
    kind         TEXT NOT NULL,             -- title, input (of a queued turn), feedback
    body         TEXT NOT NULL,             -- '': erased or replaced
    erase_at     REAL                       -- NULL: it stays
);
CREATE INDEX conversation_texts_to_sweep ON conversation_texts (erase_at) WHERE erase_at IS NOT NULL;
CREATE INDEX texts_of_conversation ON conversation_texts (conversation, kind);
CREATE INDEX texts_of_turn ON conversation_texts (turn) WHERE turn IS NOT NULL;

-- The words of closed turns, as the data policy leaves them for good. A search reads those of its scope. A full-text
-- index would have to be built anew for each deletion, since its segments keep the words of deleted rows.
CREATE TABLE turn_words (
    number INTEGER PRIMARY KEY,
    turn   INTEGER,                         -- NULL: erased
    words  BLOB NOT NULL                    -- in UTF-8, each after a space, and one at the end
);
CREATE INDEX words_of_turn ON turn_words (turn) WHERE turn IS NOT NULL;

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

-- For display: a sum of costs here is a floating-point number. Bills are made from usage.cost.
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
