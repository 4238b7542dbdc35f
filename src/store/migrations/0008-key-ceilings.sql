-- What an operator gave a key: its owner may have less, not more. Who set what is there already is not known, so all of
-- it stands until an operator says otherwise.
ALTER TABLE api_key ADD COLUMN ceiling_limits TEXT NOT NULL DEFAULT '{}';
ALTER TABLE api_key ADD COLUMN ceiling_expires_at_ms BIGINT;
UPDATE api_key SET ceiling_limits = limits, ceiling_expires_at_ms = expires_at_ms;
