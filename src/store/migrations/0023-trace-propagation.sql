-- Whether the upstream of the account receives the distributed trace of a request.
ALTER TABLE account ADD COLUMN propagate_trace BIGINT NOT NULL DEFAULT 0;
