-- Programs that call the console API under their own name. Scopes are a JSON list; a node ignores those it does not know.
CREATE TABLE service_account (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  scopes TEXT NOT NULL,
  call_nano BIGINT,
  day_nano BIGINT,
  expires_at_ms BIGINT,
  created_at_ms BIGINT NOT NULL
);

-- Only digests are stored. A new token ends the ones before it, at once or after an overlap.
CREATE TABLE service_token (
  id TEXT PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  service_account_id TEXT NOT NULL REFERENCES service_account (id) ON DELETE CASCADE,
  last4 TEXT NOT NULL,
  created_at_ms BIGINT NOT NULL,
  works_until_ms BIGINT,
  used_at_ms BIGINT
);
CREATE INDEX service_token_account ON service_token (service_account_id, created_at_ms);

-- What a service account has topped up on a day (UTC), counted in the transaction of each ledger entry.
CREATE TABLE service_top_up_day (
  service_account_id TEXT NOT NULL REFERENCES service_account (id) ON DELETE CASCADE,
  day_ms BIGINT NOT NULL,
  amount_nano BIGINT NOT NULL,
  PRIMARY KEY (service_account_id, day_ms)
);
