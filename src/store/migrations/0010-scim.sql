-- A person whom a directory pushes by SCIM, beside the row of external_identity. `issuer` is that of the provider.
CREATE TABLE scim_user (
  user_id TEXT PRIMARY KEY REFERENCES app_user (id) ON DELETE CASCADE,
  issuer TEXT NOT NULL,
  -- The subject of the person at the provider.
  external_id TEXT,
  user_name TEXT NOT NULL,
  user_name_folded TEXT NOT NULL,
  display_name_folded TEXT,
  -- Names and addresses as JSON.
  profile TEXT NOT NULL,
  is_active BIGINT NOT NULL,
  -- `app_user.status` is 'disabled' if file or console say so here, or if the directory has deactivated the person.
  local_status TEXT NOT NULL,
  -- Whether the directory has suspended the keys: the person is inactive, or has lost a required group.
  is_suspended BIGINT NOT NULL,
  version BIGINT NOT NULL,
  created_at_ms BIGINT NOT NULL,
  changed_at_ms BIGINT NOT NULL,
  -- Since when the directory no longer lists the person.
  removed_at_ms BIGINT,
  UNIQUE (issuer, external_id)
);
CREATE UNIQUE INDEX scim_user_name ON scim_user (issuer, user_name_folded) WHERE removed_at_ms IS NULL;
CREATE INDEX scim_user_created ON scim_user (issuer, created_at_ms, user_id);

CREATE TABLE scim_group (
  id TEXT PRIMARY KEY,
  issuer TEXT NOT NULL,
  external_id TEXT,
  display_name TEXT NOT NULL,
  display_name_folded TEXT NOT NULL,
  version BIGINT NOT NULL,
  created_at_ms BIGINT NOT NULL,
  changed_at_ms BIGINT NOT NULL,
  UNIQUE (issuer, external_id),
  UNIQUE (issuer, display_name_folded)
);

CREATE TABLE scim_member (
  group_id TEXT NOT NULL REFERENCES scim_group (id) ON DELETE CASCADE,
  user_id TEXT NOT NULL REFERENCES scim_user (user_id) ON DELETE CASCADE,
  PRIMARY KEY (group_id, user_id)
);
CREATE INDEX scim_member_user ON scim_member (user_id);

-- The last push of each provider.
CREATE TABLE scim_sync (
  issuer TEXT PRIMARY KEY,
  at_ms BIGINT NOT NULL,
  service_account TEXT NOT NULL
);

-- The last rejected pushes, for administrators.
CREATE TABLE rejected_push (
  id TEXT PRIMARY KEY,
  at_ms BIGINT NOT NULL,
  service_account TEXT NOT NULL,
  request TEXT NOT NULL,
  status BIGINT NOT NULL,
  reason TEXT NOT NULL
);
