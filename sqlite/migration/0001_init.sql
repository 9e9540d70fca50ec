-- Tables are not STRICT: checking types took a twentieth of a first call, and
-- readers check what they decode.

-- One row for each operation. Rows are never deleted and ids have no gaps, so
-- max(id) is the number of operations.
--
-- The row is updated in place: integers keep their width (state starts at 2,
-- rev is the version plus one, absent times are extreme values, result is
-- first while there is none) and data is padded, so that an update seldom
-- changes the size of the row and never splits its page.
CREATE TABLE op (
    id       INTEGER PRIMARY KEY,
    tenant   TEXT    NOT NULL,
    key      TEXT    NOT NULL,
    tool     TEXT    NOT NULL,
    rev      INTEGER NOT NULL, -- version + 1
    state    INTEGER NOT NULL, -- 2 pending, 3 running, 4 unknown, 5 review, 6 succeeded, 7 failed
    due      INTEGER NOT NULL, -- Unix nanoseconds; the largest integer: never
    lease    INTEGER NOT NULL, -- Unix nanoseconds; the smallest integer: nobody holds it
    created  INTEGER NOT NULL, -- Unix nanoseconds
    ref      TEXT,             -- the provider's reference
    identity BLOB,             -- hash; as text if it is not hexadecimal
    fixed    BLOB    NOT NULL, -- fingerprint, encoded: what an update never changes
    data     BLOB    NOT NULL, -- all other fields, encoded and padded
    first    INTEGER NOT NULL, -- entry with the arguments; 0 once purged
    last     INTEGER NOT NULL, -- newest entry; the others follow by entry.prev
    result   INTEGER NOT NULL  -- entry with the result; equal to first: none
);

-- Where to find the operation of a key or an identity: a hash table with
-- linear probing. hash is 35 bits (five bytes in the row) of the SHA-256 of
-- the seed, which of the two it is, tenant and value. On a collision the next
-- free number is taken; who looks goes on until the value itself or a gap is
-- met. A slot whose operation has the value no more, since it was archived, is
-- passed over. At its random place a slot is what a new operation costs most;
-- these are a quarter of the size of an index on the text.
CREATE TABLE slot (
    hash INTEGER PRIMARY KEY,
    op   INTEGER NOT NULL
);

-- Makes collisions unpredictable.
CREATE TABLE seed (value BLOB NOT NULL);
INSERT INTO seed (value) VALUES (randomblob(16));

CREATE INDEX op_created ON op (tenant, created);
CREATE INDEX op_ref ON op (ref, tenant) WHERE ref IS NOT NULL;
CREATE INDEX op_failed ON op (tenant, created) WHERE state = 7;
-- Everything that has not ended: what is due, and what there is to count.
CREATE INDEX op_live ON op (due, created, lease, state, tool) WHERE state < 6;

-- Histories, arguments and results. Append-only but for Purge.
CREATE TABLE entry (
    id   INTEGER PRIMARY KEY,
    op   INTEGER NOT NULL,
    prev INTEGER NOT NULL, -- the operation's entry before this one; 0: none
    data BLOB    NOT NULL, -- all fields but the body, encoded
    body BLOB              -- arguments or result
);

-- Operations that ended in a state, for states that are rare enough to be
-- counted when they are entered. The rest follows from max(id) and op_live.
CREATE TABLE tally (
    state INTEGER PRIMARY KEY,
    n     INTEGER NOT NULL
);
INSERT INTO tally (state, n) VALUES (7, 0);
