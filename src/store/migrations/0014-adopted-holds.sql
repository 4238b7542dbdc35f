-- Responses that continue upstream after the process that served them has ended: no process reports their use, and they
-- have no usage row yet. Windows count what their holds have reserved.

-- 1: the process that created the hold has ended.
ALTER TABLE hold ADD COLUMN is_adopted BIGINT NOT NULL DEFAULT 0;

-- begin postgres

-- The holds of such responses. They are few, and an index finds them.
CREATE FUNCTION limit_adopted_use(p_scope TEXT, p_id TEXT, OUT requests BIGINT, OUT tokens BIGINT, OUT nano BIGINT)
LANGUAGE sql STABLE SET enable_seqscan = off AS $$
  SELECT count(*), COALESCE(SUM(h.input_tokens + h.output_tokens), 0)::BIGINT, COALESCE(SUM(h.amount_nano), 0)::BIGINT
  FROM hold h WHERE h.response_id IS NOT NULL AND h.is_adopted = 1 AND CASE p_scope
    WHEN 'key' THEN p_id IN (h.key_id, h.key_id || ' in ' || h.group_id)
    WHEN 'group' THEN p_id = h.group_id
    WHEN 'user' THEN p_id = h.user_id ELSE FALSE END
$$;

-- Reads the use of a window again, and replaces its buckets. Rows are placed by the time of the coordinator that they
-- have at the latest: those from before the clock was set back count for longer. Days are not read then, because a day
-- that leaves the window is replaced by its hours at their own time. The window is read once more when a response that
-- continues is settled: until then it counts as used now.
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
    SELECT at_ms + v_behind AS at_ms, at_ms + 1 - c_day AS day_ms, is_day, requests, tokens, nano
    FROM limit_stored_use(v_scope, v_id, p_now - p_per - v_behind, 9007199254740991, v_behind = 0)
    UNION ALL
    SELECT p_now, NULL, FALSE, requests, tokens, nano FROM limit_adopted_use(v_scope, v_id) WHERE requests > 0
  ), written AS (
    INSERT INTO limit_window_bucket (window_id, no, requests, tokens, nano)
    SELECT r.id, at_ms / v_width, SUM(requests), SUM(tokens), SUM(nano) FROM stored GROUP BY 2
  )
  SELECT COALESCE(array_agg(day_ms ORDER BY day_ms) FILTER (WHERE is_day), '{}') INTO r.days FROM stored;
  RETURN limit_sum_window(r);
END
$$;
-- end postgres
