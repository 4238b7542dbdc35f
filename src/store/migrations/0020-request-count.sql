-- One row may count several rejected requests of one kind: `request_count` is their number.
ALTER TABLE usage_row ADD COLUMN request_count BIGINT NOT NULL DEFAULT 1;

DROP VIEW usage;

CREATE VIEW usage AS
SELECT r.request_id, r.at_ms, key_told.id AS key_id, user_told.id AS user_id, group_told.id AS group_id,
  account_told.id AS account_id, r.interface, kind.endpoint,
  COALESCE(r.asked_model, kind.public_model) AS public_model, kind.upstream_model, kind.stream, kind.status,
  kind.outcome, kind.error_code, r.input_tokens, r.cached_tokens, r.cache_write_tokens, r.output_tokens,
  r.reasoning_tokens, r.image_input_tokens, r.audio_input_tokens, r.audio_output_tokens, r.images,
  kind.usage_source, kind.attempts, r.first_byte_ms, r.duration_ms, r.wait_ms, r.response_id,
  r.upstream_request_id, r.trace, r.cost_nano, r.charged_nano, r.upstream_nano, kind.payer, kind.tariff_id,
  kind.flags, r.charged_with, r.key_no, r.user_no, r.group_no, r.account_no, r.kind_no, r.request_count
FROM usage_row r
LEFT JOIN usage_kind kind ON kind.no = r.kind_no
LEFT JOIN usage_id key_told ON key_told.no = r.key_no
LEFT JOIN usage_id user_told ON user_told.no = r.user_no
LEFT JOIN usage_id group_told ON group_told.no = r.group_no
LEFT JOIN usage_id account_told ON account_told.no = r.account_no;
