-- The person at an OpenID Connect provider that a user is. The address of the person is not part of the link.
CREATE TABLE external_identity (
  user_id TEXT PRIMARY KEY REFERENCES app_user (id) ON DELETE CASCADE,
  issuer TEXT NOT NULL,
  subject TEXT NOT NULL,
  -- The name of the provider at the last sign-in.
  provider TEXT NOT NULL,
  -- `app_user.role` is the higher one of the two: the role that file or console gave, and the one that claims grant.
  local_role TEXT NOT NULL,
  granted_role TEXT,
  created_at_ms BIGINT NOT NULL,
  signed_in_at_ms BIGINT NOT NULL,
  -- Since when the keys of the person are suspended; NULL while the person has access.
  suspended_at_ms BIGINT,
  UNIQUE (issuer, subject)
);
CREATE INDEX external_identity_signed_in ON external_identity (provider, signed_in_at_ms);

-- Groups that claims grant, a subset of `group_member`. `is_local`: file or console grants the group too.
CREATE TABLE directory_group (
  user_id TEXT NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
  group_id TEXT NOT NULL,
  is_local BIGINT NOT NULL,
  PRIMARY KEY (user_id, group_id)
);

-- Revoked keys that work again when the person, or the group of the person, returns. `group_id` is the lost group;
-- NULL: the person has lost access. Nodes of the version before see an ordinary revoked key.
CREATE TABLE suspended_key (
  key_id TEXT PRIMARY KEY,
  user_id TEXT NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
  group_id TEXT,
  suspended_at_ms BIGINT NOT NULL
);
CREATE INDEX suspended_key_user ON suspended_key (user_id);

-- Digests of the `state` of completed sign-ins: each is accepted once, on all nodes.
CREATE TABLE used_sign_in_state (
  digest TEXT PRIMARY KEY,
  expires_at_ms BIGINT NOT NULL
);

-- The last rejected sign-ins, for administrators.
CREATE TABLE rejected_sign_in (
  id TEXT PRIMARY KEY,
  at_ms BIGINT NOT NULL,
  provider TEXT NOT NULL,
  code TEXT NOT NULL,
  reason TEXT NOT NULL,
  subject TEXT,
  email TEXT,
  address TEXT NOT NULL
);
