-- JSON of what is limited; {} limits nothing.
ALTER TABLE account ADD COLUMN limits TEXT NOT NULL DEFAULT '{}';
ALTER TABLE grp ADD COLUMN limits TEXT NOT NULL DEFAULT '{}';
ALTER TABLE grp ADD COLUMN group_limits TEXT NOT NULL DEFAULT '{}';
ALTER TABLE grp ADD COLUMN queue TEXT NOT NULL DEFAULT '{"maxWaiting":100,"timeoutMs":30000}';
ALTER TABLE api_key ADD COLUMN limits TEXT NOT NULL DEFAULT '{}';
ALTER TABLE app_user ADD COLUMN limits TEXT NOT NULL DEFAULT '{}';

-- How long the request waited for a free account, and how its account was chosen (JSON).
ALTER TABLE usage ADD COLUMN wait_ms BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN trace TEXT;

-- What a group has used lately is asked for after a restart.
CREATE INDEX usage_hour_group ON usage_hour (group_id, hour_ms);
