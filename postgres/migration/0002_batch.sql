-- Operations that one commit has begun and that are due when their leases are
-- over. They are not in watch: an operation that runs with op.watch NULL is in a
-- batch. Of the others in it nothing is told.
CREATE TABLE batch (
    due    bigint NOT NULL, -- of the first
    id     bigint NOT NULL,
    hashes uuid[] NOT NULL, -- of the operations
    CONSTRAINT batch_due PRIMARY KEY (due, id)
) WITH (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE batch ALTER COLUMN hashes SET STORAGE EXTERNAL;
