-- One row. Every write of policy or keys locks it first, so writers queue up on both engines alike,
-- and a reader of revision n can read everything written up to n.
CREATE TABLE revision (
  id BIGINT PRIMARY KEY,
  policy BIGINT NOT NULL,
  keys BIGINT NOT NULL
);
INSERT INTO revision (id, policy, keys) VALUES (1, 1, 1);

CREATE TABLE setting (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
);

CREATE TABLE model (
  id TEXT PRIMARY KEY,
  interfaces TEXT NOT NULL,
  price TEXT,
  created_at_ms BIGINT NOT NULL
);

CREATE TABLE account (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL,
  base_url TEXT NOT NULL,
  sealed_credential TEXT,
  interfaces TEXT NOT NULL,
  api_version TEXT,
  private_network BIGINT NOT NULL,
  priority BIGINT NOT NULL,
  weight BIGINT NOT NULL,
  models TEXT NOT NULL,
  enabled BIGINT NOT NULL,
  created_at_ms BIGINT NOT NULL
);

-- GROUP is a word of SQL.
CREATE TABLE grp (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  interfaces TEXT NOT NULL,
  billing TEXT NOT NULL,
  on_disconnect TEXT NOT NULL,
  created_at_ms BIGINT NOT NULL
);

CREATE TABLE publication (
  group_id TEXT NOT NULL REFERENCES grp (id),
  model_id TEXT NOT NULL REFERENCES model (id),
  position BIGINT NOT NULL,
  PRIMARY KEY (group_id, model_id)
);
CREATE INDEX publication_model ON publication (model_id);

CREATE TABLE pool (
  group_id TEXT NOT NULL REFERENCES grp (id),
  account_id TEXT NOT NULL REFERENCES account (id),
  position BIGINT NOT NULL,
  PRIMARY KEY (group_id, account_id)
);
CREATE INDEX pool_account ON pool (account_id);

CREATE TABLE app_user (
  id TEXT PRIMARY KEY,
  email TEXT NOT NULL,
  email_folded TEXT NOT NULL UNIQUE,
  role TEXT NOT NULL,
  password_hash TEXT,
  created_at_ms BIGINT NOT NULL
);

-- No foreign keys: a revoked key stays as a record when its group and its user have gone.
CREATE TABLE api_key (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  user_id TEXT,
  group_id TEXT NOT NULL,
  digest TEXT NOT NULL UNIQUE,
  public_id TEXT NOT NULL UNIQUE,
  last4 TEXT NOT NULL,
  status TEXT NOT NULL,
  expires_at_ms BIGINT,
  created_at_ms BIGINT NOT NULL,
  revoked_at_ms BIGINT,
  revision BIGINT NOT NULL
);
CREATE INDEX api_key_revision ON api_key (revision);
CREATE INDEX api_key_group ON api_key (group_id);
CREATE INDEX api_key_user ON api_key (user_id);

CREATE TABLE usage (
  request_id TEXT PRIMARY KEY,
  at_ms BIGINT NOT NULL,
  key_id TEXT NOT NULL,
  user_id TEXT,
  group_id TEXT NOT NULL,
  account_id TEXT,
  interface TEXT NOT NULL,
  endpoint TEXT NOT NULL,
  public_model TEXT NOT NULL,
  upstream_model TEXT,
  stream BIGINT NOT NULL,
  status BIGINT NOT NULL,
  outcome TEXT NOT NULL,
  error_code TEXT,
  input_tokens BIGINT NOT NULL,
  cached_tokens BIGINT NOT NULL,
  cache_write_tokens BIGINT NOT NULL,
  output_tokens BIGINT NOT NULL,
  reasoning_tokens BIGINT NOT NULL,
  images BIGINT NOT NULL,
  usage_source TEXT NOT NULL,
  attempts BIGINT NOT NULL,
  first_byte_ms BIGINT,
  duration_ms BIGINT NOT NULL,
  response_id TEXT,
  upstream_request_id TEXT
);
CREATE INDEX usage_response ON usage (response_id) WHERE response_id IS NOT NULL;

-- The sum of the rows above, written in the same transaction.
CREATE TABLE usage_hour (
  key_id TEXT NOT NULL,
  hour_ms BIGINT NOT NULL,
  group_id TEXT NOT NULL,
  public_model TEXT NOT NULL,
  interface TEXT NOT NULL,
  requests BIGINT NOT NULL,
  refused BIGINT NOT NULL,
  failed BIGINT NOT NULL,
  input_tokens BIGINT NOT NULL,
  cached_tokens BIGINT NOT NULL,
  cache_write_tokens BIGINT NOT NULL,
  output_tokens BIGINT NOT NULL,
  reasoning_tokens BIGINT NOT NULL,
  images BIGINT NOT NULL,
  PRIMARY KEY (key_id, hour_ms, group_id, public_model, interface)
);
