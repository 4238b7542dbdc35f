-- Who may make keys in a group: everyone, or its members.
ALTER TABLE grp ADD COLUMN access TEXT NOT NULL DEFAULT 'everyone';

CREATE TABLE grp_member (
  group_id TEXT NOT NULL REFERENCES grp (id),
  user_id TEXT NOT NULL REFERENCES app_user (id),
  position BIGINT NOT NULL,
  PRIMARY KEY (user_id, group_id)
);
CREATE INDEX grp_member_group ON grp_member (group_id);

-- What a key's secret was before it was rotated. It works up to its time, counts for the same key, and is never taken
-- again.
CREATE TABLE former_secret (
  digest TEXT PRIMARY KEY,
  key_id TEXT NOT NULL,
  last4 TEXT NOT NULL,
  replaced_at_ms BIGINT NOT NULL,
  works_until_ms BIGINT NOT NULL
);
CREATE INDEX former_secret_key ON former_secret (key_id, works_until_ms);

-- Lists of keys are paged newest first, by time and id.
CREATE INDEX api_key_user_at ON api_key (user_id, created_at_ms, id);
CREATE INDEX api_key_group_at ON api_key (group_id, created_at_ms, id);
-- How many keys a user has in each group, answered by the index alone.
CREATE INDEX api_key_user_group ON api_key (user_id, group_id, status, id, expires_at_ms);
DROP INDEX api_key_user;
DROP INDEX api_key_group;
