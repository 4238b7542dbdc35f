-- Sign-ins of tools that wait for a signed-in person to approve them, and for the tool to collect its tokens.
CREATE TABLE device_request (
  device_digest TEXT PRIMARY KEY,
  user_code_digest TEXT NOT NULL UNIQUE,
  -- The network address of the tool, and the block of addresses that counts as one caller.
  address TEXT NOT NULL,
  address_block TEXT NOT NULL,
  state TEXT NOT NULL,
  created_at_ms BIGINT NOT NULL,
  expires_at_ms BIGINT NOT NULL,
  -- The earliest time of the next poll, and the pause after it.
  poll_from_ms BIGINT NOT NULL,
  interval_ms BIGINT NOT NULL,
  -- The answer of the person; NULL while the request is pending.
  user_id TEXT REFERENCES app_user (id) ON DELETE CASCADE,
  group_id TEXT,
  name TEXT
);
CREATE INDEX device_request_block ON device_request (address_block);
CREATE INDEX device_request_expiry ON device_request (expires_at_ms);
CREATE INDEX device_request_user ON device_request (user_id);

-- Keys of signed-in tools. Their secrets are access tokens, replaced by each refresh.
CREATE TABLE tool_key (
  key_id TEXT PRIMARY KEY,
  -- The network address at the sign-in.
  address TEXT NOT NULL,
  created_at_ms BIGINT NOT NULL,
  -- Without a refresh, the sign-in ends at this time.
  idle_end_ms BIGINT NOT NULL
);
CREATE INDEX tool_key_idle ON tool_key (idle_end_ms);

CREATE TABLE refresh_token (
  digest TEXT PRIMARY KEY,
  key_id TEXT NOT NULL REFERENCES tool_key (key_id) ON DELETE CASCADE,
  created_at_ms BIGINT NOT NULL,
  expires_at_ms BIGINT NOT NULL,
  -- When its first successor was issued.
  replaced_at_ms BIGINT
);
CREATE INDEX refresh_token_key ON refresh_token (key_id);
