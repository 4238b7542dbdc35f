-- The schema of version 0.1.0: money is integer nano-USD, times are integer milliseconds, ids are prefixed UUIDv7.
-- A comment that begins with `sqlite:` is SQL for SQLite: without row ids, a table is one tree instead of two.
-- The lines between `begin postgres` and `end postgres` are for PostgreSQL.

-- ---------------------------------------------------------------------------------------------------------------------
-- Settings and revisions
-- ---------------------------------------------------------------------------------------------------------------------

CREATE TABLE setting (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
);

-- One row. Every write of policy or keys locks it first, so writers queue on both engines, and a reader of revision n
-- can read everything written up to n.
CREATE TABLE revision (
  id BIGINT PRIMARY KEY,
  policy BIGINT NOT NULL,
  keys BIGINT NOT NULL
);
INSERT INTO revision (id, policy, keys) VALUES (1, 1, 1);

-- ---------------------------------------------------------------------------------------------------------------------
-- Policy: models, accounts, groups. Columns with lists and settings are JSON; limits of '{}' limit nothing.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE TABLE model (
  id TEXT PRIMARY KEY,
  interfaces TEXT NOT NULL,
  price TEXT,
  -- NULL: from a price list, or unknown.
  context_tokens BIGINT,
  output_tokens_max BIGINT,
  created_at_ms BIGINT NOT NULL
);

CREATE TABLE account (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL,
  -- The vendor whose preset the account uses, and what its configuration overrides of the capability profile.
  vendor TEXT,
  profile TEXT,
  base_url TEXT NOT NULL,
  -- Where the models of an Amazon Bedrock or Google Vertex AI account run, and the Google project that pays for them.
  region TEXT,
  project TEXT,
  sealed_credential TEXT,
  interfaces TEXT NOT NULL,
  api_version TEXT,
  private_network BIGINT NOT NULL,
  -- Whether the account's /responses accepts WebSocket.
  websocket BIGINT NOT NULL DEFAULT 0,
  -- Whether the upstream receives the distributed trace of a request.
  propagate_trace BIGINT NOT NULL DEFAULT 0,
  priority BIGINT NOT NULL,
  weight BIGINT NOT NULL,
  models TEXT NOT NULL,
  limits TEXT NOT NULL DEFAULT '{}',
  enabled BIGINT NOT NULL,
  created_at_ms BIGINT NOT NULL
);

-- GROUP is a word of SQL: the table has the name of what a group consists of.
CREATE TABLE key_group (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  interfaces TEXT NOT NULL,
  -- Who may create keys: everyone, or the members.
  access TEXT NOT NULL DEFAULT 'everyone',
  billing TEXT NOT NULL,
  on_disconnect TEXT NOT NULL,
  -- Whether keys may use WebSocket.
  websocket BIGINT NOT NULL DEFAULT 1,
  -- Whether responses report their cost.
  cost_headers BIGINT NOT NULL DEFAULT 0,
  -- Which requests are captured: off, errors or all.
  capture TEXT NOT NULL DEFAULT 'off',
  limits TEXT NOT NULL DEFAULT '{}',
  group_limits TEXT NOT NULL DEFAULT '{}',
  queue TEXT NOT NULL DEFAULT '{"maxWaiting":100,"timeoutMs":30000}',
  created_at_ms BIGINT NOT NULL
);

CREATE TABLE publication (
  group_id TEXT NOT NULL REFERENCES key_group (id),
  model_id TEXT NOT NULL REFERENCES model (id),
  position BIGINT NOT NULL,
  PRIMARY KEY (group_id, model_id)
);
CREATE INDEX publication_model ON publication (model_id);

CREATE TABLE pool (
  group_id TEXT NOT NULL REFERENCES key_group (id),
  account_id TEXT NOT NULL REFERENCES account (id),
  position BIGINT NOT NULL,
  PRIMARY KEY (group_id, account_id)
);
CREATE INDEX pool_account ON pool (account_id);

-- ---------------------------------------------------------------------------------------------------------------------
-- People: users, sessions, tokens, links
-- ---------------------------------------------------------------------------------------------------------------------

CREATE TABLE app_user (
  id TEXT PRIMARY KEY,
  email TEXT NOT NULL,
  email_folded TEXT NOT NULL UNIQUE,
  role TEXT NOT NULL,
  -- A disabled user keeps all data, and no credential of the user is accepted.
  status TEXT NOT NULL DEFAULT 'active',
  limits TEXT NOT NULL DEFAULT '{}',
  password_hash TEXT,
  -- No longer read or written: an account is created after its address is verified.
  must_verify BIGINT NOT NULL DEFAULT 0,
  email_verified_at_ms BIGINT,
  -- The second factor: its secret is sealed, and in force once the user has entered a code of it. No step of its clock
  -- is accepted twice. Recovery codes are stored as digests, and each is deleted when it is used.
  sealed_totp TEXT,
  totp_since_ms BIGINT,
  totp_step BIGINT NOT NULL DEFAULT 0,
  recovery_digests TEXT NOT NULL DEFAULT '[]',
  signed_in_at_ms BIGINT,
  created_at_ms BIGINT NOT NULL
);

CREATE TABLE group_member (
  group_id TEXT NOT NULL REFERENCES key_group (id),
  user_id TEXT NOT NULL REFERENCES app_user (id),
  position BIGINT NOT NULL,
  PRIMARY KEY (user_id, group_id)
);
CREATE INDEX group_member_group ON group_member (group_id);

-- A signed-in browser. The digest is that of its cookie.
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

-- Personal access tokens: for programs that act for their owner. The scope is read, keys or admin.
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

-- Links that work once. An invitation names an address and a role, a verification an address; the others
-- name a user.
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
-- A new link ends the ones before it for its address, and a sweep those that have expired.
CREATE INDEX one_time_link_email ON one_time_link (email, purpose);
CREATE INDEX one_time_link_expires ON one_time_link (expires_at_ms);

-- ---------------------------------------------------------------------------------------------------------------------
-- API keys
-- ---------------------------------------------------------------------------------------------------------------------

-- No foreign keys: a revoked key stays as a record when its group and its user are deleted.
CREATE TABLE api_key (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  user_id TEXT,
  group_id TEXT NOT NULL,
  digest TEXT NOT NULL UNIQUE,
  public_id TEXT NOT NULL UNIQUE,
  last4 TEXT NOT NULL,
  status TEXT NOT NULL,
  limits TEXT NOT NULL DEFAULT '{}',
  expires_at_ms BIGINT,
  -- The maximum that an operator set: the owner of the key may set less, not more.
  ceiling_limits TEXT NOT NULL DEFAULT '{}',
  ceiling_expires_at_ms BIGINT,
  created_at_ms BIGINT NOT NULL,
  revoked_at_ms BIGINT,
  revision BIGINT NOT NULL
);
CREATE INDEX api_key_revision ON api_key (revision);
-- Lists of keys are paged newest first, by time and id.
CREATE INDEX api_key_user_at ON api_key (user_id, created_at_ms, id);
CREATE INDEX api_key_group_at ON api_key (group_id, created_at_ms, id);
-- Counts the keys of a user in each group without a read of the table.
CREATE INDEX api_key_user_group ON api_key (user_id, group_id, status, id, expires_at_ms);

-- The secret of a key before it was rotated. It works until its time, counts for the same key, and is never accepted
-- again.
CREATE TABLE former_secret (
  digest TEXT PRIMARY KEY,
  key_id TEXT NOT NULL,
  last4 TEXT NOT NULL,
  replaced_at_ms BIGINT NOT NULL,
  works_until_ms BIGINT NOT NULL
);
CREATE INDEX former_secret_key ON former_secret (key_id, works_until_ms);

-- What an administrator ordered to be captured of a key.
CREATE TABLE key_capture (
  key_id TEXT PRIMARY KEY,
  -- NULL: the mode of the group applies.
  mode TEXT,
  -- How many of the next requests are captured, until until_ms. Nodes decrease it with each capture they store.
  remaining BIGINT NOT NULL,
  until_ms BIGINT NOT NULL
) /* sqlite: WITHOUT ROWID */;

-- ---------------------------------------------------------------------------------------------------------------------
-- Audit log
-- ---------------------------------------------------------------------------------------------------------------------

-- Who changed what. Rows are added, never changed: the hash of a row covers the row and the hash before it.
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
CREATE INDEX audit_action ON audit (action, seq);
CREATE INDEX audit_at ON audit (at_ms, seq);

-- One row: the end of the chain. A writer locks it first, so that the chain never forks.
CREATE TABLE audit_head (
  id BIGINT PRIMARY KEY,
  seq BIGINT NOT NULL,
  hash TEXT NOT NULL
);
INSERT INTO audit_head (id, seq, hash) VALUES (1, 0, '');

-- ---------------------------------------------------------------------------------------------------------------------
-- Money: wallets, ledger, holds, subscriptions, codes
-- ---------------------------------------------------------------------------------------------------------------------

-- What every request of a publication pays, as it was when the request was admitted. The id is a digest of the terms.
CREATE TABLE tariff (
  id TEXT PRIMARY KEY,
  terms TEXT NOT NULL
);

-- Changed only together with an entry, a hold or a reservation. A request may cost more than was held for it. The whole
-- cost is charged, so a balance may fall below what is held of it, and below zero. `debt_nano` is exactly what is
-- missing, and 0 otherwise: a fault that overspends without a debt violates the last check.
CREATE TABLE wallet (
  user_id TEXT PRIMARY KEY,
  balance_nano BIGINT NOT NULL,
  held_nano BIGINT NOT NULL,
  debt_nano BIGINT NOT NULL DEFAULT 0,
  CHECK (held_nano >= 0),
  CHECK (debt_nano >= 0),
  CHECK (balance_nano - held_nano + debt_nano >= 0)
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
-- For refunds and the audit. Charges, of which every request may have one, are found by their ids and not indexed here.
CREATE INDEX entry_by_hand ON entry (kind, request_id) WHERE kind <> 'charge';

-- What each idempotency key of an order was first used for: an entry of the ledger, or a plan. Its row is the one lock
-- of every operation that takes such a key. Rows are never removed: a key stands for its order as long as the ledger.
CREATE TABLE money_order (
  idempotency_key TEXT PRIMARY KEY,
  kind TEXT NOT NULL,
  at_ms BIGINT NOT NULL
) /* sqlite: WITHOUT ROWID */;

-- A paid request in flight: all that is needed to settle it if its process dies. There are never many at once, so
-- queries by other columns may read them all.
CREATE TABLE hold (
  request_id TEXT PRIMARY KEY,
  process_id TEXT NOT NULL,
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
  -- Of a background response: routes its requests until there is a usage row.
  response_id TEXT,
  CHECK (amount_nano >= 0)
) /* sqlite: WITHOUT ROWID */;
CREATE INDEX hold_response ON hold (response_id) WHERE response_id IS NOT NULL;

-- Money of a wallet that a process has reserved for the next requests. It is part of what the wallet holds, as holds
-- are. Recovery releases what a dead process had reserved.
CREATE TABLE wallet_reservation (
  process_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  amount_nano BIGINT NOT NULL,
  PRIMARY KEY (process_id, user_id),
  CHECK (amount_nano >= 0)
) /* sqlite: WITHOUT ROWID */;

-- One row for each process with wallet reservations. Every transaction of that process on its reservations advances
-- `sequence`. A process that recovers the reservations deletes the row first: the owner then finds no row and writes
-- nothing.
CREATE TABLE reservation_fence (
  process_id TEXT PRIMARY KEY,
  sequence BIGINT NOT NULL
) /* sqlite: WITHOUT ROWID */;

-- Users whose reserved money another node needs. Nodes release the reservations of these users and make no new ones
-- for a while after `at_ms`.
CREATE TABLE reservation_recall (
  user_id TEXT PRIMARY KEY,
  at_ms BIGINT NOT NULL
) /* sqlite: WITHOUT ROWID */;

-- Requests that cost more than was held for them: how much more, and how much of that could not be paid.
CREATE TABLE overrun (
  request_id TEXT PRIMARY KEY,
  at_ms BIGINT NOT NULL,
  user_id TEXT NOT NULL,
  -- NULL: the wallet pays. What a subscription lacks is no debt: its window then shows more used than its limit.
  subscription_id TEXT,
  held_nano BIGINT NOT NULL,
  charged_nano BIGINT NOT NULL,
  debt_nano BIGINT NOT NULL,
  CHECK (charged_nano > held_nano),
  CHECK (debt_nano >= 0 AND debt_nano <= charged_nano - held_nano)
) /* sqlite: WITHOUT ROWID */;
CREATE INDEX overrun_at ON overrun (at_ms);
CREATE INDEX overrun_user ON overrun (user_id) WHERE debt_nano > 0;

-- Billing faults outside of the store, which the audit reports: segments of journals that could not be read to their
-- end. Rows are never removed.
CREATE TABLE billing_fault (
  id TEXT PRIMARY KEY,
  at_ms BIGINT NOT NULL,
  kind TEXT NOT NULL,
  detail TEXT NOT NULL
);

-- An allowance beside the balance: an amount of money in each window (JSON).
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
-- Lists are paged newest first.
CREATE INDEX subscription_at ON subscription (created_at_ms, id);
CREATE INDEX subscription_plan_at ON subscription (plan_id, created_at_ms, id);

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

-- The value of the codes of a batch: an amount, or a plan for a number of days.
CREATE TABLE redeem_batch (
  name TEXT PRIMARY KEY,
  amount_nano BIGINT,
  plan_id TEXT,
  plan_days BIGINT,
  created_at_ms BIGINT NOT NULL,
  created_by TEXT NOT NULL,
  expires_at_ms BIGINT,
  CHECK ((amount_nano > 0 AND plan_id IS NULL AND plan_days IS NULL)
    OR (amount_nano IS NULL AND plan_id IS NOT NULL AND plan_days > 0))
);
CREATE INDEX redeem_batch_created ON redeem_batch (created_at_ms, name);

CREATE TABLE redeem_code (
  digest TEXT PRIMARY KEY,
  batch TEXT NOT NULL REFERENCES redeem_batch (name),
  hint TEXT NOT NULL,
  voided_at_ms BIGINT,
  redeemed_at_ms BIGINT,
  redeemed_by TEXT
);
CREATE INDEX redeem_code_batch ON redeem_code (batch, digest);

-- Requests with an Idempotency-Key, for a day. The body of the response is sealed.
CREATE TABLE idempotency (
  scope TEXT NOT NULL,
  token TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  request_id TEXT NOT NULL,
  process_id TEXT NOT NULL,
  at_ms BIGINT NOT NULL,
  state TEXT NOT NULL,
  status BIGINT,
  content_type TEXT,
  body TEXT,
  PRIMARY KEY (scope, token)
);
CREATE INDEX idempotency_at ON idempotency (at_ms);

-- ---------------------------------------------------------------------------------------------------------------------
-- Usage rows: one for each request
-- ---------------------------------------------------------------------------------------------------------------------

-- Repeated text is stored once, and rows contain its number: a row with its indexes takes less than half of the space.
-- No row is ever deleted from these two tables.
CREATE TABLE usage_id (
  no BIGINT PRIMARY KEY,
  -- Of a key, a user, a group or an account.
  id TEXT NOT NULL UNIQUE
) /* sqlite: WITHOUT ROWID */;

CREATE TABLE usage_kind (
  no BIGINT PRIMARY KEY,
  -- Of all that follows, so that no kind gets two numbers.
  digest TEXT NOT NULL UNIQUE,
  -- Empty if the request was rejected: then its caller chose the name, which is in the row.
  public_model TEXT NOT NULL,
  upstream_model TEXT,
  endpoint TEXT NOT NULL,
  stream BIGINT NOT NULL,
  outcome TEXT NOT NULL,
  status BIGINT NOT NULL,
  error_code TEXT,
  usage_source TEXT NOT NULL,
  attempts BIGINT NOT NULL,
  payer TEXT,
  tariff_id TEXT,
  flags TEXT
) /* sqlite: WITHOUT ROWID */;

CREATE TABLE usage_row (
  request_id TEXT PRIMARY KEY,
  at_ms BIGINT NOT NULL,
  key_no BIGINT NOT NULL,
  user_no BIGINT,
  group_no BIGINT NOT NULL,
  account_no BIGINT,
  kind_no BIGINT NOT NULL,
  interface TEXT NOT NULL,
  -- One row may count several rejected requests of one kind.
  request_count BIGINT NOT NULL DEFAULT 1,
  input_tokens BIGINT NOT NULL,
  cached_tokens BIGINT NOT NULL,
  cache_write_tokens BIGINT NOT NULL,
  -- Cache writes that live for an hour have a price of their own.
  cache_write_1h_tokens BIGINT NOT NULL DEFAULT 0,
  output_tokens BIGINT NOT NULL,
  reasoning_tokens BIGINT NOT NULL,
  image_input_tokens BIGINT NOT NULL,
  audio_input_tokens BIGINT NOT NULL,
  audio_output_tokens BIGINT NOT NULL,
  images BIGINT NOT NULL,
  web_searches BIGINT NOT NULL DEFAULT 0,
  -- The cost by the tariff, the charged part of it, and the cost of the account.
  cost_nano BIGINT NOT NULL,
  charged_nano BIGINT NOT NULL,
  upstream_nano BIGINT NOT NULL,
  first_byte_ms BIGINT,
  duration_ms BIGINT NOT NULL,
  -- How long the request waited for a free account.
  wait_ms BIGINT NOT NULL,
  -- Requests of one user that are booked together share an entry, charge:<this>. NULL: the entry is the row's own,
  -- charge:<request id>.
  charged_with TEXT,
  response_id TEXT,
  upstream_request_id TEXT,
  asked_model TEXT,
  -- How the account was chosen (JSON).
  trace TEXT
)
-- begin postgres
PARTITION BY RANGE (request_id)
-- end postgres
;
-- begin postgres
-- Rows without a partition of their own: late ones, and all rows if the database role may not create partitions.
CREATE TABLE usage_row_default PARTITION OF usage_row DEFAULT;
-- end postgres
-- Lists are paged newest first, by time. Rows of one millisecond are few, and sorted when they are read: with the
-- request id, an entry would be two to four times as long. Users and groups have no index here, which would cost every
-- request some 10 µs each: their lists find keys and hours in usage_hour first.
CREATE INDEX usage_key ON usage_row (key_no, at_ms);
CREATE INDEX usage_at ON usage_row (at_ms);
-- Responses of other interfaces are never looked up by their ids.
CREATE INDEX usage_response ON usage_row (response_id) WHERE response_id IS NOT NULL AND interface = 'responses';

-- For readers of rows. Counts, and lookups by another table, query usage_row: an engine may do all of these joins
-- before it does anything else.
CREATE VIEW usage AS
SELECT r.request_id, r.at_ms, api_keys.id AS key_id, users.id AS user_id, key_groups.id AS group_id,
  accounts.id AS account_id, r.interface, kind.endpoint,
  COALESCE(r.asked_model, kind.public_model) AS public_model, kind.upstream_model, kind.stream, kind.status,
  kind.outcome, kind.error_code, r.input_tokens, r.cached_tokens, r.cache_write_tokens, r.output_tokens,
  r.reasoning_tokens, r.image_input_tokens, r.audio_input_tokens, r.audio_output_tokens, r.images,
  kind.usage_source, kind.attempts, r.first_byte_ms, r.duration_ms, r.wait_ms, r.response_id,
  r.upstream_request_id, r.trace, r.cost_nano, r.charged_nano, r.upstream_nano, kind.payer, kind.tariff_id,
  kind.flags, r.charged_with, r.key_no, r.user_no, r.group_no, r.account_no, r.kind_no, r.request_count,
  r.cache_write_1h_tokens, r.web_searches
FROM usage_row r
LEFT JOIN usage_kind kind ON kind.no = r.kind_no
LEFT JOIN usage_id api_keys ON api_keys.no = r.key_no
LEFT JOIN usage_id users ON users.no = r.user_no
LEFT JOIN usage_id key_groups ON key_groups.no = r.group_no
LEFT JOIN usage_id accounts ON accounts.no = r.account_no;

-- ---------------------------------------------------------------------------------------------------------------------
-- Roll-ups of usage rows
-- ---------------------------------------------------------------------------------------------------------------------

-- Sums of the usage rows, written in the same transaction.
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
  cost_nano BIGINT NOT NULL DEFAULT 0,
  charged_nano BIGINT NOT NULL DEFAULT 0,
  upstream_nano BIGINT NOT NULL DEFAULT 0,
  duration_ms BIGINT NOT NULL DEFAULT 0,
  first_byte_ms BIGINT NOT NULL DEFAULT 0,
  first_bytes BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (key_id, hour_ms, group_id, public_model, interface)
);
CREATE INDEX usage_hour_at ON usage_hour (hour_ms);
-- After a restart, the recent usage of a group is read.
CREATE INDEX usage_hour_group ON usage_hour (group_id, hour_ms);

-- The same sums by day, folded from the hours in the background, for charts over months. Scope is all, group, user
-- or key; scope_id is '' for all. Scopes group_sum, user_sum and key_sum add all models up, with public_model '';
-- group_week, user_week and key_week add these up again, from Monday to Sunday: rankings read a seventh of the rows.
-- all_hour has the sums of all keys by hour, and its day_ms is the start of the hour.
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
-- Rankings read this index only.
CREATE INDEX usage_day_top ON usage_day (scope, day_ms, scope_id, charged_nano, cost_nano, requests);

-- One row: a fold locks it, so that of two nodes the later one also reads more.
CREATE TABLE usage_fold (
  id BIGINT PRIMARY KEY,
  folded_at_ms BIGINT NOT NULL
);
INSERT INTO usage_fold (id, folded_at_ms) VALUES (1, 0);

-- Days with a row that was written later than the fold looks back. One mark a request, written with that row.
CREATE TABLE usage_day_mark (
  request_id TEXT PRIMARY KEY,
  day_ms BIGINT NOT NULL
);

-- ---------------------------------------------------------------------------------------------------------------------
-- Usage export
-- ---------------------------------------------------------------------------------------------------------------------

-- The usage feed: numbers for request rows, in the order in which exports deliver them. A row that is written again, such
-- as a background response that has ended, gets a further number.
CREATE TABLE usage_export (
  feed_no BIGINT PRIMARY KEY,
  request_id TEXT NOT NULL,
  appended_at_ms BIGINT NOT NULL
) /* sqlite: WITHOUT ROWID */;

-- One row once the export was enabled for the first time. The id changes when the export is enabled again, because the
-- rows written meanwhile are not in the feed.
CREATE TABLE usage_export_feed (
  id TEXT PRIMARY KEY,
  enabled BIGINT NOT NULL,
  -- Entries up to this number were removed or belong to the feed before.
  removed_to BIGINT NOT NULL
) /* sqlite: WITHOUT ROWID */;

-- How far each webhook has received the feed.
CREATE TABLE usage_export_target (
  name TEXT PRIMARY KEY,
  feed_id TEXT NOT NULL,
  delivered_to BIGINT NOT NULL,
  -- The last entry of the batch in delivery: a retry sends the same batch. NULL: no batch.
  sending_to BIGINT,
  -- Failed attempts since the last success.
  failures BIGINT NOT NULL,
  due_at_ms BIGINT NOT NULL,
  answer TEXT,
  delivered_at_ms BIGINT
) /* sqlite: WITHOUT ROWID */;

-- On PostgreSQL a trigger appends to the feed, so that nodes of every version append. SQLite has one node, which creates
-- its trigger while the export is enabled.
-- begin postgres
CREATE SEQUENCE usage_export_no;

-- With the rights of the owner: a node whose role may only read and write tables must be able to write requests.
CREATE FUNCTION append_usage_export() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
  SET search_path FROM CURRENT AS $$
BEGIN
  -- A copy of a store includes its feed.
  IF current_setting('model_gateway.copying', true) = 'on' THEN
    RETURN NULL;
  END IF;
  INSERT INTO usage_export (feed_no, request_id, appended_at_ms)
  SELECT nextval('usage_export_no'), request_id, CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)
  FROM changed WHERE EXISTS (SELECT 1 FROM usage_export_feed WHERE enabled = 1);
  RETURN NULL;
END
$$;

-- The last number, committed or not.
CREATE FUNCTION last_usage_export_no() RETURNS BIGINT LANGUAGE sql VOLATILE SECURITY DEFINER
  SET search_path FROM CURRENT AS $$
  SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM usage_export_no
$$;

CREATE TRIGGER usage_export_insert AFTER INSERT ON usage_row
  REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION append_usage_export();
CREATE TRIGGER usage_export_update AFTER UPDATE ON usage_row
  REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION append_usage_export();
-- end postgres

-- ---------------------------------------------------------------------------------------------------------------------
-- Captured requests and stored responses
-- ---------------------------------------------------------------------------------------------------------------------

CREATE TABLE capture (
  request_id TEXT PRIMARY KEY,
  at_ms BIGINT NOT NULL,
  key_id TEXT NOT NULL,
  user_id TEXT,
  group_id TEXT NOT NULL,
  endpoint TEXT NOT NULL,
  model TEXT NOT NULL,
  status BIGINT NOT NULL,
  outcome TEXT NOT NULL,
  -- The size of content, which counts against the budget.
  stored_bytes BIGINT NOT NULL,
  -- The data key of this capture, sealed with the master key.
  sealed_key TEXT NOT NULL,
  -- The capture as JSON: compressed, encrypted with the data key, in base64.
  content TEXT NOT NULL
);
CREATE INDEX capture_at ON capture (at_ms);
CREATE INDEX capture_key ON capture (key_id, at_ms);

-- One row: the sum of stored_bytes. Writers lock it first, so that the budget is exact with several nodes.
CREATE TABLE capture_total (
  id BIGINT PRIMARY KEY,
  bytes BIGINT NOT NULL
);
INSERT INTO capture_total (id, bytes) VALUES (1, 0);

-- Responses that the gateway stores itself, because the account that created them has another interface. The unit of
-- retention is a response and all responses that continue it. The id is that of the first response.
CREATE TABLE stored_conversation (
  id TEXT PRIMARY KEY,
  key_id TEXT NOT NULL,
  -- The user of the key, or the key itself.
  owner TEXT NOT NULL,
  used_at_ms BIGINT NOT NULL,
  bytes BIGINT NOT NULL
) /* sqlite: WITHOUT ROWID */;
CREATE INDEX stored_conversation_owner ON stored_conversation (owner, used_at_ms);
CREATE INDEX stored_conversation_key ON stored_conversation (key_id);
CREATE INDEX stored_conversation_used ON stored_conversation (used_at_ms);

-- One row for each response: its own input and its output, sealed.
CREATE TABLE stored_response (
  id TEXT PRIMARY KEY,
  key_id TEXT NOT NULL,
  conversation_id TEXT NOT NULL,
  -- The response that it continues.
  previous_id TEXT,
  at_ms BIGINT NOT NULL,
  -- Tokens of the conversation up to its end. NULL: the upstream did not report them.
  tokens BIGINT,
  -- Memory of the conversation up to its end.
  memory_bytes BIGINT NOT NULL,
  -- 1: deleted by the client. The row stays while a later response continues it.
  is_deleted BIGINT NOT NULL,
  sealed TEXT NOT NULL
);
CREATE INDEX stored_response_conversation ON stored_response (conversation_id, previous_id);

-- Sums of the conversations of each owner.
CREATE TABLE stored_response_owner (
  owner TEXT PRIMARY KEY,
  bytes BIGINT NOT NULL
) /* sqlite: WITHOUT ROWID */;

-- ---------------------------------------------------------------------------------------------------------------------
-- Alerts
-- ---------------------------------------------------------------------------------------------------------------------

-- A condition that an operator should know, from its start to its end. `node` is the process that detected it, and
-- empty if all nodes detect the same. `subject` is the id of an account or group, or a day.
CREATE TABLE alert (
  id TEXT PRIMARY KEY,
  rule TEXT NOT NULL,
  subject TEXT NOT NULL,
  node TEXT NOT NULL,
  message TEXT NOT NULL,
  details TEXT NOT NULL,
  started_at_ms BIGINT NOT NULL,
  ended_at_ms BIGINT
);
-- An open alert is reported once, whichever node detects it.
CREATE UNIQUE INDEX alert_open ON alert (rule, subject, node) WHERE ended_at_ms IS NULL;
CREATE INDEX alert_started ON alert (started_at_ms, id);

-- One delivery of an alert to one webhook, repeated until it succeeds or is abandoned.
CREATE TABLE alert_delivery (
  id TEXT PRIMARY KEY,
  alert_id TEXT NOT NULL REFERENCES alert (id) ON DELETE CASCADE,
  event TEXT NOT NULL,
  webhook TEXT NOT NULL,
  body TEXT NOT NULL,
  state TEXT NOT NULL,
  attempts BIGINT NOT NULL,
  due_at_ms BIGINT NOT NULL,
  answer TEXT,
  created_at_ms BIGINT NOT NULL,
  ended_at_ms BIGINT
);
CREATE INDEX alert_delivery_due ON alert_delivery (due_at_ms) WHERE state = 'pending';
CREATE INDEX alert_delivery_alert ON alert_delivery (alert_id, created_at_ms);

-- ---------------------------------------------------------------------------------------------------------------------
-- Nodes, and what they share
-- ---------------------------------------------------------------------------------------------------------------------

-- A running process, which may own holds and reservations. Its heartbeat shows that it is alive.
CREATE TABLE process (
  id TEXT PRIMARY KEY,
  host TEXT NOT NULL,
  pid BIGINT NOT NULL,
  -- The data folder that the process has locked, and when the kernel started it, in ticks since boot. A process number
  -- alone is used again, and a clock may be set back.
  folder_id TEXT,
  start_ticks BIGINT,
  started_at_ms BIGINT NOT NULL,
  beat_at_ms BIGINT NOT NULL,
  -- The schema that the process knows. A migration that removes something waits until no running process needs it.
  schema_known BIGINT,
  -- What administrators see of the process. State is starting, ready or draining.
  version TEXT,
  address TEXT,
  state TEXT,
  -- Where the process counts its limits: memory, postgres or redis.
  coordinator TEXT,
  -- The clock of the process minus the clock of the database, at its last heartbeat.
  clock_skew_ms BIGINT
);

-- Which process runs a job that only one of them may run. `fence` grows with each new holder and never shrinks: a former
-- holder that wakes up late finds another number before it writes.
CREATE TABLE job_lease (
  name TEXT PRIMARY KEY,
  holder TEXT NOT NULL,
  fence BIGINT NOT NULL,
  until_ms BIGINT NOT NULL
) /* sqlite: WITHOUT ROWID */;

-- What the ended requests of each running process have used, as far as their usage rows are stored. The rest of the
-- hourly sums was used by processes that have ended: it counts in the long windows of all nodes.
CREATE TABLE node_use (
  node TEXT NOT NULL,
  key_id TEXT NOT NULL,
  group_id TEXT NOT NULL,
  hour_ms BIGINT NOT NULL,
  requests BIGINT NOT NULL,
  tokens BIGINT NOT NULL,
  cost_nano BIGINT NOT NULL,
  PRIMARY KEY (node, key_id, group_id, hour_ms)
) /* sqlite: WITHOUT ROWID */;

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

-- The document by which nodes divide limits between them. It may be lost at any time: nodes then write it again from what
-- each of them holds.
CREATE TABLE coordination (
  id BIGINT PRIMARY KEY,
  -- Changes with each write: a node replaces only the document that it has read.
  token TEXT NOT NULL,
  document TEXT NOT NULL
);
-- begin postgres
ALTER TABLE coordination SET UNLOGGED;
-- end postgres
