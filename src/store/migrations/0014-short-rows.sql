-- What rows of usage say again and again stands once in a table of its own, and in them as its number: a row with its
-- indexes takes less than half of the room. Nothing ever goes from these two tables.
CREATE TABLE usage_id (
  no BIGINT PRIMARY KEY,
  -- Of a key, a user, a group or an account.
  id TEXT NOT NULL UNIQUE
) /* sqlite: WITHOUT ROWID */;

CREATE TABLE usage_kind (
  no BIGINT PRIMARY KEY,
  -- Of all that follows, so that no kind gets two numbers.
  digest TEXT NOT NULL UNIQUE,
  -- Empty where the request was refused: then its caller chose it, and it stands in the row.
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
  input_tokens BIGINT NOT NULL,
  cached_tokens BIGINT NOT NULL,
  cache_write_tokens BIGINT NOT NULL,
  output_tokens BIGINT NOT NULL,
  reasoning_tokens BIGINT NOT NULL,
  image_input_tokens BIGINT NOT NULL,
  audio_input_tokens BIGINT NOT NULL,
  audio_output_tokens BIGINT NOT NULL,
  images BIGINT NOT NULL,
  cost_nano BIGINT NOT NULL,
  charged_nano BIGINT NOT NULL,
  upstream_nano BIGINT NOT NULL,
  first_byte_ms BIGINT,
  duration_ms BIGINT NOT NULL,
  wait_ms BIGINT NOT NULL,
  charged_with TEXT,
  response_id TEXT,
  upstream_request_id TEXT,
  asked_model TEXT,
  trace TEXT
);

INSERT INTO usage_id (no, id)
SELECT ROW_NUMBER() OVER (ORDER BY id), id FROM (
  SELECT key_id AS id FROM usage
  UNION SELECT user_id FROM usage WHERE user_id IS NOT NULL
  UNION SELECT group_id FROM usage
  UNION SELECT account_id FROM usage WHERE account_id IS NOT NULL
) AS ids;

-- Existing kinds are distinguished by their text, each value with its length, not by the digest of later rows: a kind
-- that occurs again gets a second number with the same meaning.
INSERT INTO usage_kind (no, digest, public_model, upstream_model, endpoint, stream, outcome, status, error_code,
  usage_source, attempts, payer, tariff_id, flags)
SELECT ROW_NUMBER() OVER (ORDER BY digest), digest, public_model, upstream_model, endpoint, stream, outcome, status,
  error_code, usage_source, attempts, payer, tariff_id, flags
FROM (
  SELECT DISTINCT
    CASE outcome WHEN 'refused' THEN '' ELSE LENGTH(public_model) || ':' || public_model END
    || COALESCE(LENGTH(upstream_model) || ':' || upstream_model, '-') || LENGTH(endpoint) || ':' || endpoint
    || stream || outcome || status || COALESCE(LENGTH(error_code) || ':' || error_code, '-') || usage_source
    || attempts || COALESCE(payer, '-') || COALESCE(tariff_id, '-') || COALESCE(flags, '-') AS digest,
    CASE outcome WHEN 'refused' THEN '' ELSE public_model END AS public_model, upstream_model, endpoint, stream,
    outcome, status, error_code, usage_source, attempts, payer, tariff_id, flags
  FROM usage
) AS kinds;

INSERT INTO usage_row (request_id, at_ms, key_no, user_no, group_no, account_no, kind_no, interface, input_tokens,
  cached_tokens, cache_write_tokens, output_tokens, reasoning_tokens, image_input_tokens, audio_input_tokens,
  audio_output_tokens, images, cost_nano, charged_nano, upstream_nano, first_byte_ms, duration_ms, wait_ms,
  charged_with, response_id, upstream_request_id, asked_model, trace)
SELECT u.request_id, u.at_ms, key_told.no, user_told.no, group_told.no, account_told.no, kind.no, u.interface,
  u.input_tokens, u.cached_tokens, u.cache_write_tokens, u.output_tokens, u.reasoning_tokens, u.image_input_tokens,
  u.audio_input_tokens, u.audio_output_tokens, u.images, u.cost_nano, u.charged_nano, u.upstream_nano,
  u.first_byte_ms, u.duration_ms, u.wait_ms, u.charged_with, u.response_id, u.upstream_request_id,
  CASE u.outcome WHEN 'refused' THEN u.public_model END, u.trace
FROM usage u
-- Outer joins: what should find no number fails, and is not left out.
LEFT JOIN usage_id key_told ON key_told.id = u.key_id
LEFT JOIN usage_id user_told ON user_told.id = u.user_id
LEFT JOIN usage_id group_told ON group_told.id = u.group_id
LEFT JOIN usage_id account_told ON account_told.id = u.account_id
LEFT JOIN usage_kind kind ON kind.digest =
  CASE u.outcome WHEN 'refused' THEN '' ELSE LENGTH(u.public_model) || ':' || u.public_model END
  || COALESCE(LENGTH(u.upstream_model) || ':' || u.upstream_model, '-') || LENGTH(u.endpoint) || ':' || u.endpoint
  || u.stream || u.outcome || u.status || COALESCE(LENGTH(u.error_code) || ':' || u.error_code, '-')
  || u.usage_source || u.attempts || COALESCE(u.payer, '-') || COALESCE(u.tariff_id, '-') || COALESCE(u.flags, '-');

DROP TABLE usage;

CREATE INDEX usage_key ON usage_row (key_no, at_ms);
CREATE INDEX usage_at ON usage_row (at_ms);
CREATE INDEX usage_response ON usage_row (response_id) WHERE response_id IS NOT NULL AND interface = 'responses';

-- For readers of rows. Counts, and lookups by another table, query usage_row: an engine may do all of these joins
-- before it does anything else.
CREATE VIEW usage AS
SELECT r.request_id, r.at_ms, key_told.id AS key_id, user_told.id AS user_id, group_told.id AS group_id,
  account_told.id AS account_id, r.interface, kind.endpoint,
  COALESCE(r.asked_model, kind.public_model) AS public_model, kind.upstream_model, kind.stream, kind.status,
  kind.outcome, kind.error_code, r.input_tokens, r.cached_tokens, r.cache_write_tokens, r.output_tokens,
  r.reasoning_tokens, r.image_input_tokens, r.audio_input_tokens, r.audio_output_tokens, r.images,
  kind.usage_source, kind.attempts, r.first_byte_ms, r.duration_ms, r.wait_ms, r.response_id,
  r.upstream_request_id, r.trace, r.cost_nano, r.charged_nano, r.upstream_nano, kind.payer, kind.tariff_id,
  kind.flags, r.charged_with, r.key_no, r.user_no, r.group_no, r.account_no, r.kind_no
FROM usage_row r
LEFT JOIN usage_kind kind ON kind.no = r.kind_no
LEFT JOIN usage_id key_told ON key_told.no = r.key_no
LEFT JOIN usage_id user_told ON user_told.no = r.user_no
LEFT JOIN usage_id group_told ON group_told.no = r.group_no
LEFT JOIN usage_id account_told ON account_told.no = r.account_no;
