-- A second secret of a key, for the playground of a signed-in person. It ends after minutes, and with its session.
CREATE TABLE temporary_secret (
  digest TEXT PRIMARY KEY,
  key_id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  created_at_ms BIGINT NOT NULL,
  works_until_ms BIGINT NOT NULL
);
CREATE INDEX temporary_secret_key ON temporary_secret (key_id, created_at_ms);
CREATE INDEX temporary_secret_session ON temporary_secret (session_id);
