-- The usage feed: numbers for request rows, in the order in which exports deliver them. A row that is written again, such
-- as a background response that has ended, gets a further number.
CREATE TABLE usage_export (
  feed_no BIGINT PRIMARY KEY,
  request_id TEXT NOT NULL,
  appended_at_ms BIGINT NOT NULL
) /* sqlite: WITHOUT ROWID */;

-- One row once the export was enabled for the first time. The id changes when the export is enabled again, because the
-- rows written meanwhile are not in the feed.
CREATE TABLE usage_export_feed (
  id TEXT PRIMARY KEY,
  enabled BIGINT NOT NULL,
  -- Entries up to this number were removed or belong to an earlier feed.
  removed_to BIGINT NOT NULL
) /* sqlite: WITHOUT ROWID */;

-- How far each webhook has received the feed.
CREATE TABLE usage_export_target (
  name TEXT PRIMARY KEY,
  feed_id TEXT NOT NULL,
  delivered_to BIGINT NOT NULL,
  -- The last entry of the batch in delivery: a retry sends the same batch. NULL: no batch.
  sending_to BIGINT,
  -- Failed attempts since the last success.
  failures BIGINT NOT NULL,
  due_at_ms BIGINT NOT NULL,
  answer TEXT,
  delivered_at_ms BIGINT
) /* sqlite: WITHOUT ROWID */;

-- On PostgreSQL a trigger appends to the feed, so that nodes of the earlier version append as well. SQLite has one node,
-- which creates its trigger while the export is enabled.
-- begin postgres
CREATE SEQUENCE usage_export_no;

-- With the rights of the owner: a node whose role may only read and write tables must be able to write requests.
CREATE FUNCTION append_usage_export() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
  SET search_path FROM CURRENT AS $$
BEGIN
  -- A copy of a store includes its feed.
  IF current_setting('model_gateway.copying', true) = 'on' THEN
    RETURN NULL;
  END IF;
  INSERT INTO usage_export (feed_no, request_id, appended_at_ms)
  SELECT nextval('usage_export_no'), request_id, CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)
  FROM changed WHERE EXISTS (SELECT 1 FROM usage_export_feed WHERE enabled = 1);
  RETURN NULL;
END
$$;

-- The last number, committed or not.
CREATE FUNCTION last_usage_export_no() RETURNS BIGINT LANGUAGE sql VOLATILE SECURITY DEFINER
  SET search_path FROM CURRENT AS $$
  SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM usage_export_no
$$;

CREATE TRIGGER usage_export_insert AFTER INSERT ON usage_row
  REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION append_usage_export();
CREATE TRIGGER usage_export_update AFTER UPDATE ON usage_row
  REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION append_usage_export();
-- end postgres
