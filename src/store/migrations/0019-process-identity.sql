-- Which process it is, so that its death can be known for certain: the data folder that it has locked, and when the
-- kernel started it, in ticks since boot. A process number alone is used again, and a clock may be set back.
ALTER TABLE incarnation ADD COLUMN folder_id TEXT;
ALTER TABLE incarnation ADD COLUMN start_ticks BIGINT;

-- Billing faults outside of the store, which the audit reports: segments of journals that could not be read to their
-- end. Rows are never removed.
CREATE TABLE billing_fault (
  id TEXT PRIMARY KEY,
  at_ms BIGINT NOT NULL,
  kind TEXT NOT NULL,
  detail TEXT NOT NULL
);
