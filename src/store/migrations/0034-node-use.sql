-- What the ended requests of each running process have used, as far as their usage rows are stored. The rest of the
-- hourly sums was used by processes that have ended: it counts in the long windows of all nodes.
CREATE TABLE node_use (
  node TEXT NOT NULL,
  key_id TEXT NOT NULL,
  group_id TEXT NOT NULL,
  hour_ms BIGINT NOT NULL,
  requests BIGINT NOT NULL,
  tokens BIGINT NOT NULL,
  cost_nano BIGINT NOT NULL,
  PRIMARY KEY (node, key_id, group_id, hour_ms)
) /* sqlite: WITHOUT ROWID */;
