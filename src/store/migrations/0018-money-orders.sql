-- What each idempotency key of an order was first used for: an entry of the ledger, or a plan. Its row is the one lock
-- of every operation that takes such a key. Rows are never removed: a key stands for its order as long as the ledger.
CREATE TABLE money_order (
  idempotency_key TEXT PRIMARY KEY,
  kind TEXT NOT NULL,
  at_ms BIGINT NOT NULL
) /* sqlite: WITHOUT ROWID */;

INSERT INTO money_order (idempotency_key, kind, at_ms)
SELECT SUBSTR(id, 7), 'entry', at_ms FROM entry WHERE SUBSTR(id, 1, 6) = 'order:';
