-- Authentication. A disabled user keeps all data, and none of the user's credentials is accepted.
ALTER TABLE app_user ADD COLUMN status TEXT NOT NULL DEFAULT 'active';
-- A user who registered while mail could be sent creates no key before the address is verified.
ALTER TABLE app_user ADD COLUMN must_verify BIGINT NOT NULL DEFAULT 0;
ALTER TABLE app_user ADD COLUMN email_verified_at_ms BIGINT;
ALTER TABLE app_user ADD COLUMN signed_in_at_ms BIGINT;

-- The second factor: its secret sealed, in force once its owner has shown a code of it. No step of its clock is taken
-- twice. Recovery codes by their digests, JSON; each goes when it is used.
ALTER TABLE app_user ADD COLUMN sealed_totp TEXT;
ALTER TABLE app_user ADD COLUMN totp_since_ms BIGINT;
ALTER TABLE app_user ADD COLUMN totp_step BIGINT NOT NULL DEFAULT 0;
ALTER TABLE app_user ADD COLUMN recovery_digests TEXT NOT NULL DEFAULT '[]';

-- A browser that is signed in, known by the digest of what its cookie holds.
CREATE TABLE session (
  id TEXT PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  user_id TEXT NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
  created_at_ms BIGINT NOT NULL,
  seen_at_ms BIGINT NOT NULL,
  address TEXT NOT NULL,
  user_agent TEXT NOT NULL
);
CREATE INDEX session_of_user ON session (user_id, seen_at_ms);
CREATE INDEX session_seen ON session (seen_at_ms);

-- Personal access tokens: for programs that do what their owner may do.
CREATE TABLE access_token (
  id TEXT PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  user_id TEXT NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  last4 TEXT NOT NULL,
  scope TEXT NOT NULL,
  created_at_ms BIGINT NOT NULL,
  expires_at_ms BIGINT,
  used_at_ms BIGINT
);
CREATE INDEX access_token_user ON access_token (user_id, created_at_ms);

-- Links that work once. An invitation names an address and a role; the others name a user.
CREATE TABLE one_time_link (
  id TEXT PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  purpose TEXT NOT NULL,
  email TEXT NOT NULL,
  role TEXT,
  user_id TEXT REFERENCES app_user (id) ON DELETE CASCADE,
  created_at_ms BIGINT NOT NULL,
  created_by TEXT NOT NULL,
  expires_at_ms BIGINT NOT NULL,
  used_at_ms BIGINT
);
CREATE INDEX one_time_link_user ON one_time_link (user_id, purpose);
CREATE INDEX one_time_link_created ON one_time_link (created_at_ms, id);

-- Who changed what. Rows are added, never changed: each one's hash covers the row and the hash before it.
CREATE TABLE audit (
  seq BIGINT PRIMARY KEY,
  at_ms BIGINT NOT NULL,
  actor_kind TEXT NOT NULL,
  actor_id TEXT,
  actor_name TEXT NOT NULL,
  action TEXT NOT NULL,
  target TEXT NOT NULL,
  changes TEXT NOT NULL,
  address TEXT,
  hash TEXT NOT NULL
);
CREATE INDEX audit_target ON audit (target, seq);
CREATE INDEX audit_actor ON audit (actor_id, seq);
CREATE INDEX audit_at ON audit (at_ms, seq);

-- One row: the end of the chain. A writer locks it first, so that the chain never forks.
CREATE TABLE audit_head (
  id BIGINT PRIMARY KEY,
  seq BIGINT NOT NULL,
  hash TEXT NOT NULL
);
INSERT INTO audit_head (id, seq, hash) VALUES (1, 0, '');
