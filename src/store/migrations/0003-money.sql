-- Money is integer nano-USD; a price stands still in its tariff.
-- What stands behind `sqlite:` in a comment is for SQLite alone: without rowids a table is one tree instead of two.

-- The context window of a model; null: from a price list, or unknown.
ALTER TABLE model ADD COLUMN context_tokens BIGINT;
ALTER TABLE model ADD COLUMN output_tokens_max BIGINT;

-- What every request of a publication pays, as it stood when the request was admitted. The id is a digest of the rest.
CREATE TABLE tariff (
  id TEXT PRIMARY KEY,
  terms TEXT NOT NULL
);

-- Changed only together with an entry or a hold.
CREATE TABLE wallet (
  user_id TEXT PRIMARY KEY,
  balance_nano BIGINT NOT NULL,
  held_nano BIGINT NOT NULL,
  CHECK (held_nano >= 0),
  CHECK (balance_nano - held_nano >= 0)
) /* sqlite: WITHOUT ROWID */;

-- The ledger: each row moves an amount from one book to another. Rows are added, never changed.
-- A request's charge is found by its id, charge:<request id>.
-- Books: user:<id>, subscription:<id>, revenue, promo, topup:<provider>, adjust, refund.
CREATE TABLE entry (
  id TEXT PRIMARY KEY,
  at_ms BIGINT NOT NULL,
  kind TEXT NOT NULL,
  debit TEXT NOT NULL,
  credit TEXT NOT NULL,
  amount_nano BIGINT NOT NULL,
  user_id TEXT,
  subscription_id TEXT,
  request_id TEXT,
  actor TEXT NOT NULL,
  reason TEXT,
  CHECK (amount_nano > 0),
  CHECK (debit <> credit)
) /* sqlite: WITHOUT ROWID */;
CREATE INDEX entry_user ON entry (user_id, at_ms, id) WHERE user_id IS NOT NULL;
CREATE INDEX entry_subscription ON entry (subscription_id, at_ms) WHERE subscription_id IS NOT NULL;

-- A running process that may own holds; one whose beat is old is dead.
CREATE TABLE incarnation (
  id TEXT PRIMARY KEY,
  host TEXT NOT NULL,
  pid BIGINT NOT NULL,
  started_at_ms BIGINT NOT NULL,
  beat_at_ms BIGINT NOT NULL
);

-- A paid request in flight: all that is needed to settle it if its process dies. There are never many at once, so
-- queries by other columns may read them all.
CREATE TABLE hold (
  request_id TEXT PRIMARY KEY,
  incarnation TEXT NOT NULL,
  state TEXT NOT NULL,
  at_ms BIGINT NOT NULL,
  user_id TEXT NOT NULL,
  subscription_id TEXT,
  amount_nano BIGINT NOT NULL,
  tariff_id TEXT NOT NULL,
  key_id TEXT NOT NULL,
  group_id TEXT NOT NULL,
  account_id TEXT,
  interface TEXT NOT NULL,
  endpoint TEXT NOT NULL,
  public_model TEXT NOT NULL,
  upstream_model TEXT,
  stream BIGINT NOT NULL,
  input_tokens BIGINT NOT NULL,
  output_tokens BIGINT NOT NULL,
  -- Of what is made in the background: who made it, until there is a row.
  response_id TEXT,
  CHECK (amount_nano >= 0)
) /* sqlite: WITHOUT ROWID */;
CREATE INDEX hold_response ON hold (response_id) WHERE response_id IS NOT NULL;

-- What a user may be granted beside a balance: so much money in each window. JSON.
CREATE TABLE plan (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  time_zone TEXT NOT NULL,
  windows TEXT NOT NULL,
  created_at_ms BIGINT NOT NULL
);

CREATE TABLE subscription (
  id TEXT PRIMARY KEY,
  user_id TEXT NOT NULL,
  plan_id TEXT NOT NULL REFERENCES plan (id),
  starts_at_ms BIGINT NOT NULL,
  ends_at_ms BIGINT,
  renews TEXT NOT NULL,
  priority BIGINT NOT NULL,
  status TEXT NOT NULL,
  created_at_ms BIGINT NOT NULL
);
CREATE INDEX subscription_user ON subscription (user_id);

-- Sums of the ledger, changed only together with an entry or a hold: `used_nano` of the entries and `held_nano` of the
-- holds of its time. A charge counts at the time of its hold, and its entry has that time.
CREATE TABLE subscription_window (
  subscription_id TEXT NOT NULL REFERENCES subscription (id),
  per TEXT NOT NULL,
  starts_at_ms BIGINT NOT NULL,
  ends_at_ms BIGINT NOT NULL,
  used_nano BIGINT NOT NULL,
  held_nano BIGINT NOT NULL,
  PRIMARY KEY (subscription_id, ends_at_ms, starts_at_ms, per)
);

CREATE TABLE redeem_code (
  digest TEXT PRIMARY KEY,
  batch TEXT NOT NULL,
  hint TEXT NOT NULL,
  amount_nano BIGINT NOT NULL,
  created_at_ms BIGINT NOT NULL,
  created_by TEXT NOT NULL,
  expires_at_ms BIGINT,
  voided_at_ms BIGINT,
  redeemed_at_ms BIGINT,
  redeemed_by TEXT,
  CHECK (amount_nano > 0)
);
CREATE INDEX redeem_code_batch ON redeem_code (batch);

-- What was asked under a client's own key for repeats: kept for a day. The body is sealed.
CREATE TABLE idempotency (
  scope TEXT NOT NULL,
  token TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  request_id TEXT NOT NULL,
  incarnation TEXT NOT NULL,
  at_ms BIGINT NOT NULL,
  state TEXT NOT NULL,
  status BIGINT,
  content_type TEXT,
  body TEXT,
  PRIMARY KEY (scope, token)
);
CREATE INDEX idempotency_at ON idempotency (at_ms);

-- The cost by the tariff, the charged part of it, and the cost of the account.
ALTER TABLE usage ADD COLUMN cost_nano BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN charged_nano BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN upstream_nano BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN payer TEXT;
ALTER TABLE usage ADD COLUMN tariff_id TEXT;
ALTER TABLE usage ADD COLUMN flags TEXT;
ALTER TABLE usage ADD COLUMN image_input_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN audio_input_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN audio_output_tokens BIGINT NOT NULL DEFAULT 0;
-- Lists are paged newest first, by time and id. Users and groups have no index here, which would cost every request
-- some 10 µs each: their lists find keys and hours in usage_hour first.
CREATE INDEX usage_key ON usage (key_id, at_ms, request_id);
CREATE INDEX usage_at ON usage (at_ms, request_id);

ALTER TABLE usage_hour ADD COLUMN cost_nano BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_hour ADD COLUMN charged_nano BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_hour ADD COLUMN upstream_nano BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_hour ADD COLUMN duration_ms BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_hour ADD COLUMN first_byte_ms BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_hour ADD COLUMN first_bytes BIGINT NOT NULL DEFAULT 0;
CREATE INDEX usage_hour_at ON usage_hour (hour_ms);

-- The same sums by day, folded from the hours in the background, for charts over months. Scope is all, group, user
-- or key; scope_id is '' for all. Scopes group_sum, user_sum and key_sum add all models up, with public_model '';
-- group_week, user_week and key_week add these up again, from Monday to Sunday: rankings read a seventh of the rows.
-- all_hour is everybody by hour, its day_ms the beginning of the hour.
CREATE TABLE usage_day (
  scope TEXT NOT NULL,
  scope_id TEXT NOT NULL,
  day_ms BIGINT NOT NULL,
  public_model TEXT NOT NULL,
  requests BIGINT NOT NULL,
  refused BIGINT NOT NULL,
  failed BIGINT NOT NULL,
  input_tokens BIGINT NOT NULL,
  cached_tokens BIGINT NOT NULL,
  cache_write_tokens BIGINT NOT NULL,
  output_tokens BIGINT NOT NULL,
  reasoning_tokens BIGINT NOT NULL,
  images BIGINT NOT NULL,
  cost_nano BIGINT NOT NULL,
  charged_nano BIGINT NOT NULL,
  upstream_nano BIGINT NOT NULL,
  duration_ms BIGINT NOT NULL,
  first_byte_ms BIGINT NOT NULL,
  first_bytes BIGINT NOT NULL,
  PRIMARY KEY (scope, scope_id, day_ms, public_model)
);
-- Who cost most: the index alone answers.
CREATE INDEX usage_day_top ON usage_day (scope, day_ms, scope_id, charged_nano, cost_nano, requests);

-- One row: folding locks it, so that of two nodes the later one also sees more.
CREATE TABLE usage_fold (
  id BIGINT PRIMARY KEY,
  folded_at_ms BIGINT NOT NULL
);
INSERT INTO usage_fold (id, folded_at_ms) VALUES (1, 0);

-- Days that got something later than the fold looks back by itself. One mark a request, written with what it marks.
CREATE TABLE usage_day_mark (
  request_id TEXT PRIMARY KEY,
  day_ms BIGINT NOT NULL
);
