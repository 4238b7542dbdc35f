-- One row for each process with wallet reservations. Every transaction of that process on its reservations advances
-- `sequence`. A process that recovers the reservations deletes the row first: the owner then finds no row and writes
-- nothing.
CREATE TABLE reservation_fence (
  incarnation TEXT PRIMARY KEY,
  sequence BIGINT NOT NULL
) /* sqlite: WITHOUT ROWID */;

-- Users whose reserved money another node needs. Nodes release the reservations of these users and make no new ones
-- for a while after `at_ms`.
CREATE TABLE reservation_recall (
  user_id TEXT PRIMARY KEY,
  at_ms BIGINT NOT NULL
) /* sqlite: WITHOUT ROWID */;
