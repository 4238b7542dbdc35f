-- Responses that the gateway stores itself, because the account that created them has another interface.

-- The unit of retention: a response and all responses that continue it. The id is that of the first response.
CREATE TABLE stored_conversation (
  id TEXT PRIMARY KEY,
  key_id TEXT NOT NULL,
  -- The user of the key, or the key itself.
  owner TEXT NOT NULL,
  used_at_ms BIGINT NOT NULL,
  bytes BIGINT NOT NULL
) /* sqlite: WITHOUT ROWID */;
CREATE INDEX stored_conversation_owner ON stored_conversation (owner, used_at_ms);
CREATE INDEX stored_conversation_key ON stored_conversation (key_id);
CREATE INDEX stored_conversation_used ON stored_conversation (used_at_ms);

-- One row for each response: its own input and its output, sealed.
CREATE TABLE stored_response (
  id TEXT PRIMARY KEY,
  key_id TEXT NOT NULL,
  conversation_id TEXT NOT NULL,
  -- The response that it continues.
  previous_id TEXT,
  at_ms BIGINT NOT NULL,
  -- Tokens of the conversation up to its end. NULL: the upstream did not report them.
  tokens BIGINT,
  -- Memory of the conversation up to its end.
  memory_bytes BIGINT NOT NULL,
  -- 1: deleted by the client. The row stays while a later response continues it.
  is_deleted BIGINT NOT NULL,
  sealed TEXT NOT NULL
);
CREATE INDEX stored_response_conversation ON stored_response (conversation_id, previous_id);

-- Sums of the conversations of each owner.
CREATE TABLE stored_response_owner (
  owner TEXT PRIMARY KEY,
  bytes BIGINT NOT NULL
) /* sqlite: WITHOUT ROWID */;
