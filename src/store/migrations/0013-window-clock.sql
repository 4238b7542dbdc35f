-- Windows that are read again after the clock of the server was set back: rows since then have its time, which is behind
-- the time of the coordinator.
-- begin postgres

-- Reads the use of a window again, and replaces its buckets. Rows are placed by the time of the coordinator that they
-- have at the latest: those from before the clock was set back count for longer. Days are not read then, because a day
-- that leaves the window is replaced by its hours at their own time.
CREATE OR REPLACE FUNCTION limit_read_window(r limit_subject, p_per BIGINT, p_now BIGINT) RETURNS limit_subject
LANGUAGE plpgsql AS $$
DECLARE
  c_day CONSTANT BIGINT := 86400000;
  v_width BIGINT := limit_bucket_width(p_per);
  v_scope TEXT := split_part(r.id, ':', 1);
  v_id TEXT := substr(r.id, length(v_scope) + 2, length(r.id) - length(v_scope) - length(p_per::TEXT) - 2);
  v_behind BIGINT := COALESCE((SELECT GREATEST(offset_ms, 0) FROM limit_epoch), 0);
BEGIN
  DELETE FROM limit_window_bucket WHERE window_id = r.id;
  WITH stored AS MATERIALIZED (
    SELECT * FROM limit_stored_use(v_scope, v_id, p_now - p_per - v_behind, 9007199254740991, v_behind = 0)
  ), written AS (
    INSERT INTO limit_window_bucket (window_id, no, requests, tokens, nano)
    SELECT r.id, (at_ms + v_behind) / v_width, SUM(requests), SUM(tokens), SUM(nano) FROM stored GROUP BY 2
  )
  SELECT COALESCE(array_agg(at_ms + 1 - c_day ORDER BY at_ms) FILTER (WHERE is_day), '{}') INTO r.days FROM stored;
  RETURN limit_sum_window(r);
END
$$;
-- end postgres
