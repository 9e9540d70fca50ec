-- One row for each operation; never deleted. No index has a column that an
-- ordinary update changes, so that updates stay within their page (HOT) and
-- leave nothing for vacuum to do in the indexes. What changes and must be found
-- is in the small table watch.
--
-- Times are Unix nanoseconds. The greatest bigint is "never", the least
-- "nobody" or "none".
CREATE TABLE op (
    id      bigint   NOT NULL GENERATED ALWAYS AS IDENTITY (CACHE 64),
    version bigint   NOT NULL DEFAULT 1,
    created bigint   NOT NULL,
    updated bigint   NOT NULL,
    lease   bigint   NOT NULL,
    watch   bigint,                      -- watch.due of the operation; NULL: it has succeeded
    was     bigint,                      -- the same of the version before
    result  bigint   NOT NULL DEFAULT 0, -- version of the write with the result; negative: it is in entry; 0: none
    hash    uuid     NOT NULL,           -- of tenant and key
    ident   uuid,                        -- of tenant and identity
    ref     uuid,                        -- of tenant and the provider's reference
    state   smallint NOT NULL,           -- 2 pending, 3 running, 4 unknown, 5 review, 6 succeeded, 7 failed
    purged  boolean  NOT NULL DEFAULT false,
    tenant  text     NOT NULL COLLATE "C",
    key     text     NOT NULL COLLATE "C",
    tool    text     NOT NULL COLLATE "C",
    scope   text     NOT NULL COLLATE "C",
    run     text     NOT NULL COLLATE "C",
    fixed   bytea    NOT NULL,           -- fingerprint and identity, encoded: what no update changes
    data    bytea    NOT NULL,           -- all other fields, encoded
    first   bytea,                       -- entry 0 with the arguments; NULL once purged
    log     bytea    NOT NULL DEFAULT '' -- later entries, as long as they are few and small
) WITH (
    fillfactor = 45, -- room for the second version of each row in its page
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.05
);
ALTER TABLE op
    ALTER COLUMN fixed SET STORAGE MAIN,
    ALTER COLUMN data SET STORAGE MAIN,
    ALTER COLUMN log SET STORAGE EXTERNAL;
ALTER TABLE op ADD CONSTRAINT op_hash PRIMARY KEY (hash);
CREATE UNIQUE INDEX op_ident ON op (ident) WHERE ident IS NOT NULL;
CREATE INDEX op_created ON op (tenant, created);

-- Every operation that has not succeeded: what is due, what waits for a person,
-- and what failed. Small and always changing, so that it is vacuumed early.
CREATE TABLE watch (
    due     bigint   NOT NULL, -- of an open operation, else never
    id      bigint   NOT NULL,
    created bigint   NOT NULL,
    lease   bigint   NOT NULL,
    hash    uuid     NOT NULL,
    state   smallint NOT NULL,
    tenant  text     NOT NULL COLLATE "C",
    tool    text     NOT NULL COLLATE "C",
    CONSTRAINT watch_due PRIMARY KEY (due, id)
) WITH (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 50000
);
CREATE INDEX watch_failed ON watch (tenant, created) WHERE state = 7;

-- The entries of writes that are too big or too many for op.log, a row for
-- each write.
CREATE TABLE entry (
    op      bigint NOT NULL,
    version bigint NOT NULL, -- that the write made
    chunk   bytea  NOT NULL,
    CONSTRAINT entry_op PRIMARY KEY (op, version)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

-- Who holds or held a reference; op.ref tells whether it still does.
CREATE TABLE reference (
    hash    uuid   NOT NULL,
    op      bigint NOT NULL,
    created bigint NOT NULL, -- of the operation, to find it by
    CONSTRAINT reference_hash PRIMARY KEY (hash, op)
);

-- How many operations there are: the sum of n. A row for each commit that made
-- some, folded into fewer from time to time: one row for all to update would
-- make all commits wait for each other.
CREATE TABLE tally (
    n bigint NOT NULL
) WITH (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
);
