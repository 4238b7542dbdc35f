-- An auditor is a user with this flag; a new value of `role` would stop nodes of the version before. An invitation has it too.
ALTER TABLE app_user ADD COLUMN is_auditor BIGINT NOT NULL DEFAULT 0;
ALTER TABLE one_time_link ADD COLUMN is_auditor BIGINT NOT NULL DEFAULT 0;
