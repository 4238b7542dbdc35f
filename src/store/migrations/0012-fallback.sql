-- Fallback to other groups and models. Steps are a JSON list; NULL: none. `api_key.fallback` is 'deny' or NULL.
ALTER TABLE key_group ADD COLUMN fallback TEXT;
ALTER TABLE model ADD COLUMN fallback TEXT;
ALTER TABLE api_key ADD COLUMN fallback TEXT;

-- Of a request that another step than the first served: what it asked for, the number of the step, and why it left the
-- step before.
ALTER TABLE usage_kind ADD COLUMN requested_group TEXT;
ALTER TABLE usage_kind ADD COLUMN requested_model TEXT;
ALTER TABLE usage_kind ADD COLUMN fallback_step BIGINT;
ALTER TABLE usage_kind ADD COLUMN fallback_reason TEXT;

/* sqlite: DROP VIEW USAGE */;
CREATE
-- begin postgres
OR REPLACE
-- end postgres
VIEW usage AS
SELECT r.request_id, r.at_ms, api_keys.id AS key_id, users.id AS user_id, key_groups.id AS group_id,
  accounts.id AS account_id, r.interface, kind.endpoint,
  COALESCE(r.asked_model, kind.public_model) AS public_model, kind.upstream_model, kind.stream, kind.status,
  kind.outcome, kind.error_code, r.input_tokens, r.cached_tokens, r.cache_write_tokens, r.output_tokens,
  r.reasoning_tokens, r.image_input_tokens, r.audio_input_tokens, r.audio_output_tokens, r.images,
  kind.usage_source, kind.attempts, r.first_byte_ms, r.duration_ms, r.wait_ms, r.response_id,
  r.upstream_request_id, r.trace, r.cost_nano, r.charged_nano, r.upstream_nano, kind.payer, kind.tariff_id,
  kind.flags, r.charged_with, r.key_no, r.user_no, r.group_no, r.account_no, r.kind_no, r.request_count,
  r.cache_write_1h_tokens, r.web_searches, kind.requested_group, kind.requested_model, kind.fallback_step,
  kind.fallback_reason
FROM usage_row r
LEFT JOIN usage_kind kind ON kind.no = r.kind_no
LEFT JOIN usage_id api_keys ON api_keys.no = r.key_no
LEFT JOIN usage_id users ON users.no = r.user_no
LEFT JOIN usage_id key_groups ON key_groups.no = r.group_no
LEFT JOIN usage_id accounts ON accounts.no = r.account_no;
