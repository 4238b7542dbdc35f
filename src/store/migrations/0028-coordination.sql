-- The document by which nodes divide limits between them. It may be lost at any time: nodes then write it again from what
-- each of them holds.
CREATE TABLE coordination (
  id BIGINT PRIMARY KEY,
  -- Changes with each write: a node replaces only the document that it has read.
  token TEXT NOT NULL,
  document TEXT NOT NULL
);
-- begin postgres
ALTER TABLE coordination SET UNLOGGED;
-- end postgres
