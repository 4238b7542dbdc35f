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

-- After a restart, the recent usage of a group is read.
CREATE INDEX usage_hour_group ON usage_hour (group_id, hour_ms);
