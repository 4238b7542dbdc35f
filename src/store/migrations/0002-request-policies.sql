-- What the requests of groups and keys may contain. `rules` is a JSON object with the names of gateway.yaml.
CREATE TABLE request_policy (
  name TEXT PRIMARY KEY,
  -- Owners of keys may choose the policy for their own keys.
  self_service BIGINT NOT NULL,
  rules TEXT NOT NULL,
  created_at_ms BIGINT NOT NULL
);

ALTER TABLE key_group ADD COLUMN request_policy TEXT;
ALTER TABLE api_key ADD COLUMN request_policy TEXT;
