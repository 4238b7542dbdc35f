-- What nodes share about upstream accounts: one row for an account (model is empty) or a model on it.
CREATE TABLE account_fact (
  account_id TEXT NOT NULL,
  model TEXT NOT NULL,
  -- Digest of the address and the credential. The fact does not apply to another credential.
  access TEXT NOT NULL,
  -- NULL: the account works.
  cause TEXT,
  -- By the clock of the database. NULL: until an administrator acts.
  until_ms BIGINT,
  needs_probe BIGINT NOT NULL,
  node TEXT NOT NULL,
  revision BIGINT NOT NULL,
  PRIMARY KEY (account_id, model)
) /* sqlite: WITHOUT ROWID */;

-- Attempts that each node has counted against a throttle in the current window of the subject.
CREATE TABLE throttle_use (
  name TEXT NOT NULL,
  subject TEXT NOT NULL,
  node TEXT NOT NULL,
  taken BIGINT NOT NULL,
  until_ms BIGINT NOT NULL,
  revision BIGINT NOT NULL,
  PRIMARY KEY (name, subject, node)
) /* sqlite: WITHOUT ROWID */;
CREATE INDEX throttle_use_revision ON throttle_use (revision);

-- Grows with each change of the table of that name, in its transaction.
CREATE TABLE shared_revision (
  name TEXT PRIMARY KEY,
  revision BIGINT NOT NULL
) /* sqlite: WITHOUT ROWID */;
INSERT INTO shared_revision (name, revision) VALUES ('account_fact', 0), ('throttle_use', 0);
