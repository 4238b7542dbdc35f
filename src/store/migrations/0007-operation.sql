-- What the codes of a batch are worth: an amount, or a plan for so many days.
CREATE TABLE redeem_batch (
  name TEXT PRIMARY KEY,
  amount_nano BIGINT,
  plan_id TEXT,
  plan_days BIGINT,
  created_at_ms BIGINT NOT NULL,
  created_by TEXT NOT NULL,
  expires_at_ms BIGINT,
  CHECK ((amount_nano > 0 AND plan_id IS NULL AND plan_days IS NULL)
    OR (amount_nano IS NULL AND plan_id IS NOT NULL AND plan_days > 0))
);
CREATE INDEX redeem_batch_created ON redeem_batch (created_at_ms, name);
INSERT INTO redeem_batch (name, amount_nano, created_at_ms, created_by, expires_at_ms)
  SELECT batch, MAX(amount_nano), MIN(created_at_ms), MIN(created_by), MAX(expires_at_ms)
  FROM redeem_code GROUP BY batch;

CREATE TABLE redeem_code_next (
  digest TEXT PRIMARY KEY,
  batch TEXT NOT NULL REFERENCES redeem_batch (name),
  hint TEXT NOT NULL,
  voided_at_ms BIGINT,
  redeemed_at_ms BIGINT,
  redeemed_by TEXT
);
INSERT INTO redeem_code_next (digest, batch, hint, voided_at_ms, redeemed_at_ms, redeemed_by)
  SELECT digest, batch, hint, voided_at_ms, redeemed_at_ms, redeemed_by FROM redeem_code;
DROP TABLE redeem_code;
ALTER TABLE redeem_code_next RENAME TO redeem_code;
CREATE INDEX redeem_code_batch ON redeem_code (batch, digest);

-- Something that an operator should know, from when it was so until it no longer was. `node` is the process that
-- saw it, and empty where all see the same. What it is about is `subject`: an account's id, a group's, a day.
CREATE TABLE alert (
  id TEXT PRIMARY KEY,
  rule TEXT NOT NULL,
  subject TEXT NOT NULL,
  node TEXT NOT NULL,
  message TEXT NOT NULL,
  details TEXT NOT NULL,
  started_at_ms BIGINT NOT NULL,
  ended_at_ms BIGINT
);
-- An open alert is reported once, whichever node detects it.
CREATE UNIQUE INDEX alert_open ON alert (rule, subject, node) WHERE ended_at_ms IS NULL;
CREATE INDEX alert_started ON alert (started_at_ms, id);

-- One posting of an alert to one webhook, repeated until it is taken or given up.
CREATE TABLE alert_delivery (
  id TEXT PRIMARY KEY,
  alert_id TEXT NOT NULL REFERENCES alert (id) ON DELETE CASCADE,
  event TEXT NOT NULL,
  webhook TEXT NOT NULL,
  body TEXT NOT NULL,
  state TEXT NOT NULL,
  attempts BIGINT NOT NULL,
  due_at_ms BIGINT NOT NULL,
  answer TEXT,
  created_at_ms BIGINT NOT NULL,
  ended_at_ms BIGINT
);
CREATE INDEX alert_delivery_due ON alert_delivery (due_at_ms) WHERE state = 'pending';
CREATE INDEX alert_delivery_alert ON alert_delivery (alert_id, created_at_ms);

-- Lists of users are paged by address, those of subscriptions by start.
CREATE INDEX subscription_at ON subscription (created_at_ms, id);
