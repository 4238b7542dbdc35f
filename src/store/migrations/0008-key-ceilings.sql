-- The maximum that an operator set for a key: its owner may set less, not more. The author of existing limits is
-- unknown, so they are kept until an operator changes them.
ALTER TABLE api_key ADD COLUMN ceiling_limits TEXT NOT NULL DEFAULT '{}';
ALTER TABLE api_key ADD COLUMN ceiling_expires_at_ms BIGINT;
UPDATE api_key SET ceiling_limits = limits, ceiling_expires_at_ms = expires_at_ms;
