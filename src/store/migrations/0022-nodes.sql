-- What administrators see of each running process. NULL: a process from before these columns.
ALTER TABLE incarnation ADD COLUMN version TEXT;
ALTER TABLE incarnation ADD COLUMN address TEXT;
-- starting, ready or draining.
ALTER TABLE incarnation ADD COLUMN state TEXT;
-- Where the process counts its limits: memory, postgres or redis.
ALTER TABLE incarnation ADD COLUMN coordinator TEXT;
-- The clock of the process minus the clock of the database, at its last heartbeat.
ALTER TABLE incarnation ADD COLUMN clock_skew_ms BIGINT;

-- Which process runs a job that only one of them may run. `fence` grows with each new holder and never shrinks: a former
-- holder that wakes up late finds another number before it writes.
CREATE TABLE job_lease (
  name TEXT PRIMARY KEY,
  holder TEXT NOT NULL,
  fence BIGINT NOT NULL,
  until_ms BIGINT NOT NULL
) /* sqlite: WITHOUT ROWID */;
