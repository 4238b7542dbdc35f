-- Which requests of the keys of a group are captured: off, errors or all.
ALTER TABLE grp ADD COLUMN capture TEXT NOT NULL DEFAULT 'off';

-- What an administrator ordered to be captured of a key.
CREATE TABLE key_capture (
  key_id TEXT PRIMARY KEY,
  -- NULL: the mode of the group applies.
  mode TEXT,
  -- How many of the next requests are captured, until until_ms. Nodes decrease it with each capture they store.
  remaining BIGINT NOT NULL,
  until_ms BIGINT NOT NULL
) /* sqlite: WITHOUT ROWID */;

CREATE TABLE capture (
  request_id TEXT PRIMARY KEY,
  at_ms BIGINT NOT NULL,
  key_id TEXT NOT NULL,
  user_id TEXT,
  group_id TEXT NOT NULL,
  endpoint TEXT NOT NULL,
  model TEXT NOT NULL,
  status BIGINT NOT NULL,
  outcome TEXT NOT NULL,
  -- The size of content, which counts against the budget.
  stored_bytes BIGINT NOT NULL,
  -- The data key of this capture, sealed with the master key.
  sealed_key TEXT NOT NULL,
  -- The capture as JSON: compressed, encrypted with the data key, in base64.
  content TEXT NOT NULL
);
CREATE INDEX capture_at ON capture (at_ms);
CREATE INDEX capture_key ON capture (key_id, at_ms);

-- One row: the sum of stored_bytes. Writers lock it first, so that the budget is exact with several nodes.
CREATE TABLE capture_total (
  id BIGINT PRIMARY KEY,
  bytes BIGINT NOT NULL
);
INSERT INTO capture_total (id, bytes) VALUES (1, 0);
