-- A request may cost more than was held for it. The whole cost is charged, so a balance may fall below what is held of
-- it, and below zero. `debt_nano` is exactly what is missing, and 0 otherwise: a bug that overspends without recording a
-- debt still violates the last check. SQLite cannot change a check, so the table is made anew; adding the column first
-- locks it on PostgreSQL.
ALTER TABLE wallet ADD COLUMN debt_nano BIGINT NOT NULL DEFAULT 0;
CREATE TABLE wallet_with_debt (
  user_id TEXT PRIMARY KEY,
  balance_nano BIGINT NOT NULL,
  held_nano BIGINT NOT NULL,
  debt_nano BIGINT NOT NULL DEFAULT 0,
  CHECK (held_nano >= 0),
  CHECK (debt_nano >= 0),
  CHECK (balance_nano - held_nano + debt_nano >= 0)
) /* sqlite: WITHOUT ROWID */;
INSERT INTO wallet_with_debt (user_id, balance_nano, held_nano, debt_nano)
SELECT user_id, balance_nano, held_nano, debt_nano FROM wallet;
DROP TABLE wallet;
ALTER TABLE wallet_with_debt RENAME TO wallet;

-- Requests that cost more than was held for them: how much more, and how much of that nothing was left to pay from.
CREATE TABLE overrun (
  request_id TEXT PRIMARY KEY,
  at_ms BIGINT NOT NULL,
  user_id TEXT NOT NULL,
  -- Null: the wallet pays. What a subscription lacks is no debt: its window then shows more used than its limit.
  subscription_id TEXT,
  held_nano BIGINT NOT NULL,
  charged_nano BIGINT NOT NULL,
  debt_nano BIGINT NOT NULL,
  CHECK (charged_nano > held_nano),
  CHECK (debt_nano >= 0 AND debt_nano <= charged_nano - held_nano)
) /* sqlite: WITHOUT ROWID */;
CREATE INDEX overrun_at ON overrun (at_ms);
CREATE INDEX overrun_user ON overrun (user_id) WHERE debt_nano > 0;
