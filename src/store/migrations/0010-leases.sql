-- Money of a wallet that a process has set aside for requests to come: it is part of what the wallet holds, as holds
-- are. What a dead process left goes back.
CREATE TABLE lease (
  incarnation TEXT NOT NULL,
  user_id TEXT NOT NULL,
  amount_nano BIGINT NOT NULL,
  PRIMARY KEY (incarnation, user_id),
  CHECK (amount_nano >= 0)
) /* sqlite: WITHOUT ROWID */;

-- Responses of other interfaces are never looked up by their random ids; each cost a page of the index.
DROP INDEX usage_response;
CREATE INDEX usage_response ON usage (response_id) WHERE response_id IS NOT NULL AND interface = 'responses';
