-- By time alone: rows of one millisecond are few, and sorted when they are read. With the id of the request in it, an
-- entry was twice as long (of a key) or four times (of all), and each row dirtied more pages.
DROP INDEX usage_key;
DROP INDEX usage_at;
CREATE INDEX usage_key ON usage (key_id, at_ms);
CREATE INDEX usage_at ON usage (at_ms);
