-- Which process it is, so that its death can be known for certain: the data folder that it has locked, and when the
-- kernel started it, in ticks since boot. A process number alone is used again, and a clock may be set back.
ALTER TABLE incarnation ADD COLUMN folder_id TEXT;
ALTER TABLE incarnation ADD COLUMN start_ticks BIGINT;

-- What went wrong with the books outside of the store, for the audit to tell: segments of journals that could not be
-- read to their end. Nothing is ever removed.
CREATE TABLE billing_fault (
  id TEXT PRIMARY KEY,
  at_ms BIGINT NOT NULL,
  kind TEXT NOT NULL,
  detail TEXT NOT NULL
);
