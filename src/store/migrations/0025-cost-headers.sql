-- Whether responses to the keys of a group report their cost.
ALTER TABLE grp ADD COLUMN cost_headers BIGINT NOT NULL DEFAULT 0;
