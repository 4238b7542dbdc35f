-- The coordinator of limits, on PostgreSQL: what is used of each limit, and what is lent to which node. The protocol and
-- its rules are in src/limits/coordinator/protocol.ts, and a second implementation of the same rules in
-- src/limits/coordinator/meter-record.test-support.ts. One contract test covers both.
-- begin postgres

-- One row. Tables without a write-ahead log are empty after a crash, all at once: a missing row shows that the state of
-- rates is lost.
CREATE UNLOGGED TABLE limit_epoch (
  id BIGINT PRIMARY KEY CHECK (id = 1),
  epoch TEXT NOT NULL,
  -- Added to the clock of the server, so that time does not jump when that clock is set.
  offset_ms BIGINT NOT NULL,
  -- The time of the first term; NULL before it.
  began_ms BIGINT,
  -- 1: all processes have declared what they hold.
  is_open BIGINT NOT NULL,
  minutes_open_at_ms BIGINT NOT NULL
);

-- One continuous contact of a process with the coordinator.
CREATE UNLOGGED TABLE limit_term (
  id TEXT PRIMARY KEY,
  process TEXT NOT NULL,
  folder TEXT NOT NULL,
  seq BIGINT NOT NULL,
  alive_until_ms BIGINT NOT NULL,
  -- 0: running. 1: ended; everything was reported and returned, or declared in another term. 2: dead; the process has
  -- ended, and its folder may have usage that is not stored. 3: a process that started in its folder has stored it.
  state BIGINT NOT NULL DEFAULT 0,
  -- 1: as a newcomer. 2: as a survivor of an earlier epoch.
  has_declared BIGINT NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- Concurrency, requests and tokens of a minute: three meters, by position. A row that is over 2 kB stays in one piece.
CREATE UNLOGGED TABLE limit_subject (
  id TEXT PRIMARY KEY,
  revision BIGINT NOT NULL DEFAULT -1,
  -- -1: no limit.
  limits BIGINT[] NOT NULL DEFAULT '{-1,-1,-1}' CHECK (cardinality(limits) = 3),
  -- What is lent to each term, and the newest recall that it has responded to: three numbers for each holder.
  holders TEXT[] NOT NULL DEFAULT '{}',
  lent BIGINT[] NOT NULL DEFAULT '{}' CHECK (cardinality(lent) = 3 * cardinality(holders)),
  confirmed BIGINT[] NOT NULL DEFAULT '{}' CHECK (cardinality(confirmed) = 3 * cardinality(holders)),
  recalls BIGINT[] NOT NULL DEFAULT '{0,0,0}' CHECK (cardinality(recalls) = 3),
  -- Requests that wait, by term and API key, with meter, least amount, recall and end: four numbers for each.
  wait_terms TEXT[] NOT NULL DEFAULT '{}',
  wait_keys TEXT[] NOT NULL DEFAULT '{}' CHECK (cardinality(wait_keys) = cardinality(wait_terms)),
  wait_numbers BIGINT[] NOT NULL DEFAULT '{}' CHECK (cardinality(wait_numbers) = 4 * cardinality(wait_terms)),
  -- The sum of the buckets. NULL: the use of a window was not read yet.
  used BIGINT[] CHECK (cardinality(used) = 3),
  -- Ascending. Requests and tokens: two numbers for each bucket.
  bucket_nos BIGINT[] NOT NULL DEFAULT '{}',
  bucket_used BIGINT[] NOT NULL DEFAULT '{}',
  -- Windows only: days in the past that count as one bucket.
  days BIGINT[] NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50, toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0.02);

-- Requests, tokens and money of a long window. `bucket_nos` has the oldest and the newest bucket; `bucket_used` is empty.
CREATE TABLE limit_window (LIKE limit_subject INCLUDING ALL) WITH (fillfactor = 50);
ALTER TABLE limit_subject ADD CHECK (cardinality(bucket_used) = 2 * cardinality(bucket_nos));

CREATE TABLE limit_window_bucket (
  window_id TEXT NOT NULL,
  no BIGINT NOT NULL,
  requests BIGINT NOT NULL,
  tokens BIGINT NOT NULL,
  nano BIGINT NOT NULL,
  PRIMARY KEY (window_id, no)
) WITH (fillfactor = 50);

CREATE FUNCTION limit_server_ms() RETURNS BIGINT LANGUAGE sql VOLATILE AS $$
  SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::BIGINT
$$;

-- By how much the time of the server is outside of the bounds of a call: a positive number if its clock is ahead, a
-- negative one if it is behind, otherwise 0. `p_ahead` is NULL unless the last reply has proven that the clock is ahead.
CREATE FUNCTION limit_clock_error(p_server BIGINT, p_lo BIGINT, p_hi BIGINT, p_ahead BIGINT) RETURNS BIGINT
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_server - p_hi > 2000 OR p_server > p_hi AND p_server - p_hi >= p_ahead THEN p_server - p_hi
    WHEN p_server < p_lo - 2000 THEN p_server - p_lo ELSE 0 END
$$;

-- The clock of the server was set: the earliest time that the call can have is the time from now on. Returns false if the
-- bounds are wrong instead, because the process was paused.
CREATE FUNCTION limit_correct_clock(p_lo BIGINT, p_hi BIGINT, p_ahead BIGINT, p_process TEXT, p_term_ms BIGINT)
RETURNS BOOLEAN LANGUAGE plpgsql AS $$
DECLARE
  v_server BIGINT;
  v_error BIGINT;
BEGIN
  -- Another call may have corrected it.
  SELECT limit_server_ms() + offset_ms INTO v_server FROM limit_epoch FOR UPDATE;
  v_error := limit_clock_error(v_server, p_lo, p_hi, p_ahead);
  IF v_error = 0 THEN RETURN TRUE; END IF;
  -- It was set after the calls of all others: one within this time would have corrected it.
  IF EXISTS (SELECT 1 FROM limit_term WHERE state = 0 AND process <> p_process
    AND v_server >= alive_until_ms - p_term_ms
    AND v_server - (alive_until_ms - p_term_ms) < CASE WHEN v_error > 0 THEN v_error ELSE p_term_ms END)
  THEN RETURN FALSE; END IF;
  UPDATE limit_epoch SET offset_ms = offset_ms + p_lo - v_server;
  RETURN TRUE;
END
$$;

-- Begins an epoch if there is none.
CREATE FUNCTION limit_begin_epoch() RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO limit_epoch (id, epoch, offset_ms, is_open, minutes_open_at_ms)
  VALUES (1, gen_random_uuid()::TEXT, 0, 0, 0) ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN RETURN; END IF;
  DELETE FROM limit_term;
  DELETE FROM limit_subject;
END
$$;

CREATE FUNCTION limit_open_term(p_term TEXT, p_process TEXT, p_folder TEXT, p_lo BIGINT, p_hi BIGINT, p_ahead BIGINT,
  p_epoch TEXT, p_term_ms BIGINT, OUT now_ms BIGINT, OUT epoch TEXT, OUT beat BIGINT, OUT has_unknown_use BIGINT)
LANGUAGE plpgsql AS $$
DECLARE
  v_error BIGINT;
  v_earliest BIGINT;
BEGIN
  PERFORM limit_begin_epoch();
  UPDATE limit_term SET state = 3 WHERE folder = p_folder AND process <> p_process AND state IN (0, 2);
  LOOP
    SELECT e.epoch, limit_server_ms() + e.offset_ms INTO epoch, now_ms FROM limit_epoch e;
    EXIT WHEN p_epoch IS DISTINCT FROM epoch;
    v_error := limit_clock_error(now_ms, p_lo, p_hi, p_ahead);
    IF v_error = 0 THEN v_earliest := LEAST(now_ms, p_lo); END IF;
    EXIT WHEN v_error = 0 OR NOT limit_correct_clock(p_lo, p_hi, p_ahead, p_process, p_term_ms);
  END LOOP;
  IF v_earliest IS NULL THEN
    SELECT max(alive_until_ms) - p_term_ms INTO beat FROM limit_term WHERE state = 0 AND folder <> p_folder;
  END IF;
  UPDATE limit_epoch SET began_ms = now_ms WHERE began_ms IS NULL;
  INSERT INTO limit_term (id, process, folder, seq, alive_until_ms)
  VALUES (p_term, p_process, p_folder, 0, COALESCE(v_earliest, beat, now_ms) + p_term_ms) ON CONFLICT DO NOTHING;
  SELECT CASE WHEN now_ms < e.minutes_open_at_ms
    OR e.is_open = 0 AND EXISTS (SELECT 1 FROM limit_term WHERE has_declared = 2)
    OR EXISTS (SELECT 1 FROM limit_term t WHERE state > 0 AND now_ms < alive_until_ms + 60000
      AND NOT EXISTS (SELECT 1 FROM limit_term o WHERE o.process = t.process AND o.state = 0))
    THEN 1 ELSE 0 END INTO has_unknown_use FROM limit_epoch e;
END
$$;

-- The terms, as arrays of equal length, and when the epoch began. Their rows are not locked: a term that seems to be over
-- may only count too much as used.
CREATE TYPE limit_terms AS (ids TEXT[], processes TEXT[], alive BIGINT[], states BIGINT[], began BIGINT);
CREATE VIEW limit_all_terms AS
  SELECT ROW(array_agg(id), array_agg(process), array_agg(alive_until_ms), array_agg(state),
    (SELECT began_ms FROM limit_epoch))::limit_terms AS terms FROM limit_term;

-- Accepts a call of a living term: `new` or `repeated`. Otherwise `gone`, or `declare`. The call is booked at the latest
-- time that it can have (book_ms), and what expires does so by the earliest (now_ms): nodes know them better than the
-- server, whose clock may be set. One query computes it all, because the server prepares each expression of a function
-- again for each call.
CREATE FUNCTION limit_accept(p_term TEXT, p_seq BIGINT, p_lo BIGINT, p_hi BIGINT, p_ahead BIGINT, p_term_ms BIGINT,
  p_is_exchange BOOLEAN) RETURNS RECORD LANGUAGE plpgsql AS $$
DECLARE
  v RECORD;
BEGIN
  LOOP
    SELECT CASE WHEN t.state > 0 OR LEAST(c.server_ms, p_lo) > t.alive_until_ms THEN 'gone'
        WHEN p_is_exchange AND t.has_declared = 0 THEN 'declare'
        WHEN p_seq = t.seq THEN 'repeated'
        WHEN p_seq = t.seq + 1 AND (p_is_exchange OR t.has_declared = 0) THEN 'new' ELSE 'gone' END AS status,
      LEAST(c.server_ms, p_lo) AS now_ms, GREATEST(c.server_ms, p_lo) AS book_ms, c.server_ms, e.is_open,
      e.is_open = 1 AND LEAST(c.server_ms, p_lo) >= e.minutes_open_at_ms AS are_minutes_open, a.terms, t.process,
      CASE t.state WHEN 0 THEN limit_clock_error(c.server_ms, p_lo, p_hi, p_ahead) ELSE 0 END AS clock_error INTO v
    FROM limit_term t CROSS JOIN limit_epoch e CROSS JOIN limit_all_terms a
      CROSS JOIN LATERAL (SELECT limit_server_ms() + e.offset_ms AS server_ms) c
    WHERE t.id = p_term FOR UPDATE OF t;
    IF NOT FOUND THEN
      v.status := CASE WHEN p_is_exchange AND NOT EXISTS (SELECT 1 FROM limit_epoch) THEN 'declare' ELSE 'gone' END;
      PERFORM limit_begin_epoch();
      RETURN v;
    END IF;
    EXIT WHEN v.clock_error = 0;
    IF NOT limit_correct_clock(p_lo, p_hi, p_ahead, v.process, p_term_ms) THEN
      v.status := 'gone';
      RETURN v;
    END IF;
  END LOOP;
  IF v.status IN ('new', 'repeated') THEN
    UPDATE limit_term SET seq = p_seq, alive_until_ms = GREATEST(alive_until_ms, v.now_ms + p_term_ms)
    WHERE id = p_term;
  END IF;
  RETURN v;
END
$$;

CREATE FUNCTION limit_bucket_width(p_per BIGINT) RETURNS BIGINT LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_per = 0 THEN 1000 ELSE LEAST((p_per + 59) / 60, 3600000) END
$$;

-- Hourly sums. One statement for each scope and span of time, because each is a range of an index.
CREATE FUNCTION limit_stored_hours(p_scope TEXT, p_id TEXT, p_from BIGINT, p_to BIGINT)
RETURNS TABLE (hour_ms BIGINT, requests BIGINT, tokens BIGINT, nano BIGINT) LANGUAGE plpgsql STABLE
  SET enable_seqscan = off SET max_parallel_workers_per_gather = 0 AS $$
DECLARE
  -- A group also limits each of its keys: the id is "key in group".
  v_key TEXT := split_part(p_id, ' in ', 1);
  v_group TEXT := NULLIF(split_part(p_id, ' in ', 2), '');
BEGIN
  IF p_scope = 'key' THEN
    RETURN QUERY SELECT h.hour_ms, SUM(h.requests)::BIGINT, SUM(h.input_tokens + h.output_tokens)::BIGINT,
      SUM(h.cost_nano)::BIGINT
    FROM usage_hour h WHERE h.key_id = v_key AND h.hour_ms >= p_from AND h.hour_ms < p_to
      AND (v_group IS NULL OR h.group_id = v_group) GROUP BY h.hour_ms;
  ELSIF p_scope = 'group' THEN
    RETURN QUERY SELECT h.hour_ms, SUM(h.requests)::BIGINT, SUM(h.input_tokens + h.output_tokens)::BIGINT,
      SUM(h.cost_nano)::BIGINT
    FROM usage_hour h WHERE h.group_id = p_id AND h.hour_ms >= p_from AND h.hour_ms < p_to GROUP BY h.hour_ms;
  ELSIF p_scope = 'user' THEN
    RETURN QUERY SELECT h.hour_ms, SUM(h.requests)::BIGINT, SUM(h.input_tokens + h.output_tokens)::BIGINT,
      SUM(h.cost_nano)::BIGINT
    FROM api_key k JOIN usage_hour h ON h.key_id = k.id AND h.hour_ms >= p_from AND h.hour_ms < p_to
    WHERE k.user_id = p_id GROUP BY h.hour_ms;
  END IF;
END
$$;

-- The stored use of a window: hours, and days of users and groups where the daily sums are complete. An hour counts at
-- its end, and so does a day.
CREATE FUNCTION limit_stored_use(p_scope TEXT, p_id TEXT, p_from BIGINT, p_to BIGINT, p_with_days BOOLEAN)
RETURNS TABLE (at_ms BIGINT, is_day BOOLEAN, requests BIGINT, tokens BIGINT, nano BIGINT)
LANGUAGE plpgsql STABLE AS $$
DECLARE
  c_hour CONSTANT BIGINT := 3600000;
  c_day CONSTANT BIGINT := 86400000;
  v_days_from BIGINT := p_to;
  v_days_to BIGINT := p_to;
BEGIN
  IF p_with_days AND p_scope <> 'key' THEN
    SELECT LEAST(GREATEST(0, (f.folded_at_ms / c_day - 1) * c_day), (SELECT min(day_ms) FROM usage_day_mark))
    INTO v_days_to FROM usage_fold f WHERE f.id = 1;
    v_days_from := (p_from + c_day - 1) / c_day * c_day;
    v_days_to := GREATEST(v_days_from, COALESCE(v_days_to, 0));
    RETURN QUERY SELECT d.day_ms + c_day - 1, TRUE, d.requests, d.input_tokens + d.output_tokens, d.cost_nano
    FROM usage_day d WHERE d.scope = p_scope || '_sum' AND d.scope_id = p_id AND d.public_model = ''
      AND d.day_ms >= v_days_from AND d.day_ms < v_days_to;
  END IF;
  RETURN QUERY SELECT h.hour_ms + c_hour - 1, FALSE, h.requests, h.tokens, h.nano
  FROM limit_stored_hours(p_scope, p_id, p_from - c_hour + 1, v_days_from) h;
  IF v_days_to < p_to THEN
    RETURN QUERY SELECT h.hour_ms + c_hour - 1, FALSE, h.requests, h.tokens, h.nano
    FROM limit_stored_hours(p_scope, p_id, v_days_to, p_to) h;
  END IF;
END
$$;

-- Reads the use of a window again, and replaces its buckets.
CREATE FUNCTION limit_read_window(r limit_subject, p_per BIGINT, p_now BIGINT) RETURNS limit_subject
LANGUAGE plpgsql AS $$
DECLARE
  c_day CONSTANT BIGINT := 86400000;
  v_width BIGINT := limit_bucket_width(p_per);
  v_scope TEXT := split_part(r.id, ':', 1);
  v_id TEXT := substr(r.id, length(v_scope) + 2, length(r.id) - length(v_scope) - length(p_per::TEXT) - 2);
BEGIN
  DELETE FROM limit_window_bucket WHERE window_id = r.id;
  WITH stored AS MATERIALIZED (
    SELECT * FROM limit_stored_use(v_scope, v_id, p_now - p_per, 9007199254740991, TRUE)
  ), written AS (
    INSERT INTO limit_window_bucket (window_id, no, requests, tokens, nano)
    SELECT r.id, at_ms / v_width, SUM(requests), SUM(tokens), SUM(nano) FROM stored GROUP BY 2
  )
  SELECT COALESCE(array_agg(at_ms + 1 - c_day ORDER BY at_ms) FILTER (WHERE is_day), '{}') INTO r.days FROM stored;
  RETURN limit_sum_window(r);
END
$$;

-- Replaces a day that has left the window in part by its hours.
CREATE FUNCTION limit_split_day(r limit_subject, p_per BIGINT, p_now BIGINT) RETURNS limit_subject
LANGUAGE plpgsql AS $$
DECLARE
  c_day CONSTANT BIGINT := 86400000;
  v_width BIGINT := limit_bucket_width(p_per);
  v_scope TEXT := split_part(r.id, ':', 1);
  v_id TEXT := substr(r.id, length(v_scope) + 2, length(r.id) - length(v_scope) - length(p_per::TEXT) - 2);
BEGIN
  DELETE FROM limit_window_bucket WHERE window_id = r.id AND no = (r.days[1] + c_day - 1) / v_width;
  INSERT INTO limit_window_bucket (window_id, no, requests, tokens, nano)
  SELECT r.id, at_ms / v_width, SUM(requests), SUM(tokens), SUM(nano)
  FROM limit_stored_use(v_scope, v_id, GREATEST(r.days[1], p_now - p_per), r.days[1] + c_day, FALSE) GROUP BY 2
  ON CONFLICT (window_id, no) DO UPDATE SET requests = limit_window_bucket.requests + excluded.requests,
    tokens = limit_window_bucket.tokens + excluded.tokens, nano = limit_window_bucket.nano + excluded.nano;
  r.days := r.days[2:];
  RETURN limit_sum_window(r);
END
$$;

CREATE FUNCTION limit_sum_window(r limit_subject) RETURNS limit_subject LANGUAGE plpgsql AS $$
BEGIN
  SELECT ARRAY[COALESCE(SUM(requests), 0), COALESCE(SUM(tokens), 0), COALESCE(SUM(nano), 0)]::BIGINT[],
    CASE WHEN count(*) = 0 THEN '{}' ELSE ARRAY[min(no), max(no)] END
  INTO r.used, r.bucket_nos FROM limit_window_bucket WHERE window_id = r.id;
  RETURN r;
END
$$;

-- Adds a use: to the buckets of the row (rates), or to the table (windows).
CREATE FUNCTION limit_book(r limit_subject, p_per BIGINT, p_at BIGINT, p_amounts BIGINT[]) RETURNS limit_subject
LANGUAGE plpgsql AS $$
DECLARE
  v_no BIGINT := p_at / limit_bucket_width(p_per);
  j INT := cardinality(r.bucket_nos);
BEGIN
  r.used := ARRAY[r.used[1] + p_amounts[1], r.used[2] + p_amounts[2], r.used[3] + p_amounts[3]];
  IF p_per > 0 THEN
    INSERT INTO limit_window_bucket AS b (window_id, no, requests, tokens, nano)
    VALUES (r.id, v_no, p_amounts[1], p_amounts[2], p_amounts[3])
    ON CONFLICT (window_id, no) DO UPDATE SET requests = b.requests + excluded.requests,
      tokens = b.tokens + excluded.tokens, nano = b.nano + excluded.nano;
    r.bucket_nos := ARRAY[LEAST(r.bucket_nos[1], v_no), GREATEST(r.bucket_nos[2], v_no)];
    RETURN r;
  END IF;
  WHILE j > 0 AND r.bucket_nos[j] > v_no LOOP j := j - 1; END LOOP;
  IF r.bucket_nos[j] = v_no THEN
    r.bucket_used[2 * j - 1:2 * j] := ARRAY[r.bucket_used[2 * j - 1] + p_amounts[2], r.bucket_used[2 * j] + p_amounts[3]];
  ELSE
    r.bucket_nos := r.bucket_nos[:j] || v_no || r.bucket_nos[j + 1:];
    r.bucket_used := r.bucket_used[:2 * j] || p_amounts[2:3] || r.bucket_used[2 * j + 1:];
  END IF;
  RETURN r;
END
$$;

-- Removes use that no longer counts.
CREATE FUNCTION limit_expire(r limit_subject, p_per BIGINT, p_now BIGINT) RETURNS limit_subject
LANGUAGE plpgsql AS $$
DECLARE
  -- The first bucket that counts.
  v_first BIGINT := (p_now - GREATEST(p_per, 60000)) / limit_bucket_width(p_per);
  v_gone BIGINT[];
  v_requests BIGINT := 0;
  v_tokens BIGINT := 0;
  k INT := 0;
BEGIN
  IF p_per = 0 THEN
    WHILE r.bucket_nos[k + 1] < v_first LOOP
      k := k + 1;
      v_requests := v_requests + r.bucket_used[2 * k - 1];
      v_tokens := v_tokens + r.bucket_used[2 * k];
    END LOOP;
    r.used := ARRAY[0, r.used[2] - v_requests, r.used[3] - v_tokens];
    r.bucket_nos := r.bucket_nos[k + 1:];
    r.bucket_used := r.bucket_used[2 * k + 1:];
    RETURN r;
  END IF;
  WITH gone AS (
    DELETE FROM limit_window_bucket WHERE window_id = r.id AND no < v_first RETURNING requests, tokens, nano
  )
  SELECT ARRAY[COALESCE(SUM(requests), 0), COALESCE(SUM(tokens), 0), COALESCE(SUM(nano), 0)]::BIGINT[] INTO v_gone
  FROM gone;
  FOR m IN 1..3 LOOP r.used[m] := r.used[m] - v_gone[m]; END LOOP;
  SELECT CASE WHEN min(no) IS NULL THEN '{}' ELSE ARRAY[min(no), max(no)] END INTO r.bucket_nos
  FROM limit_window_bucket WHERE window_id = r.id;
  RETURN r;
END
$$;

-- Removes what is lent to terms that are over, and requests that no longer wait.
CREATE FUNCTION limit_advance(r limit_subject, p_per BIGINT, p_now BIGINT, p_terms limit_terms) RETURNS limit_subject
LANGUAGE plpgsql AS $$
DECLARE
  t limit_terms := p_terms;
  -- How long the usage of a dead process may take to be stored, by a process that starts in its folder.
  c_folder_returns CONSTANT BIGINT := 60000;
  v_holders TEXT[] := '{}';
  v_lent BIGINT[] := '{}';
  v_confirmed BIGINT[] := '{}';
  v_terms TEXT[] := '{}';
  v_keys TEXT[] := '{}';
  v_numbers BIGINT[] := '{}';
  v_own BIGINT[];
  v_state BIGINT;
  v_must_read BOOLEAN := r.used IS NULL AND p_per > 0;
  k INT;
BEGIN
  IF r.used IS NULL THEN r.used := '{0,0,0}'; END IF;
  -- A term that began after the terms were read, and before the record was locked.
  IF NOT r.holders <@ t.ids THEN t := (SELECT terms FROM limit_all_terms); END IF;
  FOR w IN 1..cardinality(r.wait_terms) LOOP
    CONTINUE WHEN NOT limit_is_alive(t, r.wait_terms[w], p_now) OR r.wait_numbers[4 * w] <= p_now;
    v_terms := v_terms || r.wait_terms[w];
    v_keys := v_keys || r.wait_keys[w];
    v_numbers := v_numbers || r.wait_numbers[4 * w - 3:4 * w];
  END LOOP;
  FOR h IN 1..cardinality(r.holders) LOOP
    v_own := r.lent[3 * h - 2:3 * h];
    k := array_position(t.ids, r.holders[h]);
    -- An unknown term is of an earlier epoch, or ended long ago.
    v_state := COALESCE(t.states[k], 2);
    IF p_per = 0 THEN
      -- The term may have used all of its requests and tokens up to its end.
      IF v_state > 0 OR p_now > t.alive[k] THEN
        IF v_own[2] > 0 OR v_own[3] > 0 THEN
          r := limit_book(r, 0, COALESCE(t.alive[k], p_now), ARRAY[0, v_own[2], v_own[3]]);
        END IF;
        v_own := ARRAY[v_own[1], 0, 0];
      END IF;
      CONTINUE WHEN v_state > 0;
    ELSIF v_state = 2 THEN
      -- Its usage may be in its folder, which is waited for, but not for ever. Should it return later, the sums are
      -- read again.
      IF p_now > COALESCE(t.alive[k], t.began) + c_folder_returns THEN
        v_must_read := v_must_read OR v_own <> '{0,0,0}';
        v_own := '{0,0,0}';
        CONTINUE WHEN k IS NULL;
      END IF;
    ELSIF v_state > 0 THEN
      -- Its usage is stored, so the sums contain what it did not report.
      v_must_read := v_must_read OR v_own <> '{0,0,0}' OR v_state = 3;
      CONTINUE;
    END IF;
    CONTINUE WHEN v_own = '{0,0,0}' AND v_terms = '{}' AND v_state = 0;
    v_holders := v_holders || r.holders[h];
    v_lent := v_lent || v_own;
    v_confirmed := v_confirmed || r.confirmed[3 * h - 2:3 * h];
  END LOOP;
  r.holders := v_holders;
  r.lent := v_lent;
  r.confirmed := v_confirmed;
  r.wait_terms := v_terms;
  r.wait_keys := v_keys;
  r.wait_numbers := v_numbers;
  IF v_must_read THEN r := limit_read_window(r, p_per, p_now); END IF;
  WHILE r.days[1] < p_now - p_per LOOP r := limit_split_day(r, p_per, p_now); END LOOP;
  RETURN r;
END
$$;

CREATE FUNCTION limit_free(r limit_subject, m INT) RETURNS BIGINT LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_free BIGINT;
BEGIN
  IF r.limits[m] < 0 THEN RETURN 9007199254740991; END IF;
  v_free := r.limits[m] - r.used[m];
  FOR h IN 1..cardinality(r.holders) LOOP v_free := v_free - r.lent[3 * h - 3 + m]; END LOOP;
  RETURN v_free;
END
$$;

CREATE FUNCTION limit_lend(r limit_subject, p_term TEXT, m INT, p_amount BIGINT) RETURNS limit_subject
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  h INT := array_position(r.holders, p_term);
BEGIN
  IF h IS NULL THEN
    r.holders := r.holders || p_term;
    r.lent := r.lent || '{0,0,0}'::BIGINT[];
    r.confirmed := r.confirmed || '{0,0,0}'::BIGINT[];
    h := cardinality(r.holders);
  END IF;
  r.lent[3 * h - 3 + m] := GREATEST(0, r.lent[3 * h - 3 + m] + p_amount);
  RETURN r;
END
$$;

CREATE FUNCTION limit_stop_waiting(r limit_subject, w INT) RETURNS limit_subject LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  r.wait_terms := r.wait_terms[:w - 1] || r.wait_terms[w + 1:];
  r.wait_keys := r.wait_keys[:w - 1] || r.wait_keys[w + 1:];
  r.wait_numbers := r.wait_numbers[:4 * w - 4] || r.wait_numbers[4 * w + 1:];
  RETURN r;
END
$$;

CREATE FUNCTION limit_is_alive(t limit_terms, p_term TEXT, p_now BIGINT) RETURNS BOOLEAN
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  k INT := array_position(t.ids, p_term);
BEGIN
  RETURN k IS NOT NULL AND t.states[k] = 0 AND p_now <= t.alive[k];
END
$$;

-- A wake-up, delivered at the commit. `p_what` is r (recall), g (grant) or f (final).
CREATE FUNCTION limit_note(t limit_terms, p_term TEXT, p_id TEXT, m INT, p_what TEXT, p_value TEXT) RETURNS VOID
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('limits_' || t.processes[array_position(t.ids, p_term)],
    json_build_array(p_term, p_id, m - 1, p_what, p_value)::TEXT);
END
$$;

-- Asks all other holders of a meter to return what is idle.
CREATE FUNCTION limit_recall(r limit_subject, t limit_terms, p_term TEXT, m INT, p_now BIGINT)
RETURNS limit_subject LANGUAGE plpgsql AS $$
BEGIN
  r.recalls[m] := r.recalls[m] + 1;
  FOR h IN 1..cardinality(r.holders) LOOP
    IF r.holders[h] <> p_term AND r.lent[3 * h - 3 + m] > 0 AND limit_is_alive(t, r.holders[h], p_now) THEN
      PERFORM limit_note(t, r.holders[h], r.id, m, 'r', r.recalls[m]::TEXT);
    END IF;
  END LOOP;
  RETURN r;
END
$$;

-- Locks the records of a call, always in the same order. A plan that was made for an empty table would scan it for as
-- long as the connection lives.
CREATE FUNCTION limit_lock(p_ids TEXT[], p_pers BIGINT[]) RETURNS limit_subject[] LANGUAGE plpgsql
  SET enable_seqscan = off AS $$
DECLARE
  recs limit_subject[];
  r limit_subject;
  v_rates INT := cardinality(array_positions(p_pers, 0));
  v_windows INT := cardinality(p_pers) - v_rates;
BEGIN
  IF v_rates > 0 THEN
    IF (SELECT count(*) FROM limit_subject WHERE id = ANY (p_ids)) < v_rates THEN
      INSERT INTO limit_subject (id) SELECT x.id FROM unnest(p_ids, p_pers) AS x (id, per) WHERE per = 0 ORDER BY 1
      ON CONFLICT DO NOTHING;
    END IF;
    FOR r IN SELECT * FROM limit_subject WHERE id = ANY (p_ids) ORDER BY id FOR UPDATE LOOP
      recs[array_position(p_ids, r.id)] := r;
      v_rates := v_rates - 1;
    END LOOP;
  END IF;
  IF v_windows > 0 THEN
    IF (SELECT count(*) FROM limit_window WHERE id = ANY (p_ids)) < v_windows THEN
      INSERT INTO limit_window (id) SELECT x.id FROM unnest(p_ids, p_pers) AS x (id, per) WHERE per > 0 ORDER BY 1
      ON CONFLICT DO NOTHING;
    END IF;
    FOR r IN SELECT * FROM limit_window WHERE id = ANY (p_ids) ORDER BY id FOR UPDATE LOOP
      recs[array_position(p_ids, r.id)] := r;
      v_windows := v_windows - 1;
    END LOOP;
  END IF;
  -- A sweep has deleted a row in between. The node repeats its call.
  IF v_rates + v_windows > 0 THEN RAISE serialization_failure; END IF;
  RETURN recs;
END
$$;

-- Writes the records of a call. All rows exist and are locked; an insert that conflicts finds them by their ids, whatever
-- size the tables had when the statement was planned.
CREATE FUNCTION limit_store(p_recs limit_subject[], p_pers BIGINT[]) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
  IF 0 = ANY (p_pers) THEN
    INSERT INTO limit_subject SELECT r.* FROM unnest(p_recs) AS r WHERE r.id LIKE '%:' ON CONFLICT (id) DO UPDATE SET
      revision = excluded.revision, limits = excluded.limits, holders = excluded.holders, lent = excluded.lent,
      confirmed = excluded.confirmed, recalls = excluded.recalls, wait_terms = excluded.wait_terms,
      wait_keys = excluded.wait_keys, wait_numbers = excluded.wait_numbers, used = excluded.used,
      bucket_nos = excluded.bucket_nos, bucket_used = excluded.bucket_used;
  END IF;
  IF 0 < ANY (p_pers) THEN
    INSERT INTO limit_window SELECT r.* FROM unnest(p_recs) AS r WHERE r.id NOT LIKE '%:' ON CONFLICT (id) DO UPDATE SET
      revision = excluded.revision, limits = excluded.limits, holders = excluded.holders, lent = excluded.lent,
      confirmed = excluded.confirmed, recalls = excluded.recalls, wait_terms = excluded.wait_terms,
      wait_keys = excluded.wait_keys, wait_numbers = excluded.wait_numbers, used = excluded.used,
      bucket_nos = excluded.bucket_nos, days = excluded.days;
  END IF;
END
$$;

-- Takes back use of earlier bookings: for each, the meter, the bucket and the amount.
CREATE FUNCTION limit_refund(r limit_subject, p_refunds BIGINT[]) RETURNS limit_subject LANGUAGE plpgsql AS $$
DECLARE
  v_amount BIGINT;
  m INT;
  j INT;
BEGIN
  FOR x IN 0..cardinality(p_refunds) / 3 - 1 LOOP
    m := p_refunds[3 * x + 1];
    j := array_position(r.bucket_nos, p_refunds[3 * x + 2]);
    CONTINUE WHEN j IS NULL OR m = 1;
    v_amount := LEAST(r.bucket_used[2 * j - 3 + m], p_refunds[3 * x + 3]);
    r.bucket_used[2 * j - 3 + m] := r.bucket_used[2 * j - 3 + m] - v_amount;
    r.used[m] := r.used[m] - v_amount;
  END LOOP;
  RETURN r;
END
$$;

-- Lends to waiting requests, and informs those that nothing more can be recalled for.
CREATE FUNCTION limit_serve(r limit_subject, p_per BIGINT, p_now BIGINT, t limit_terms, p_are_minutes_open BOOLEAN)
RETURNS limit_subject LANGUAGE plpgsql AS $$
DECLARE
  v_may_grow BOOLEAN;
  v_term TEXT;
  v_free BIGINT;
  m INT;
  w INT := 1;
BEGIN
  WHILE w <= cardinality(r.wait_terms) LOOP
    m := r.wait_numbers[4 * w - 3];
    v_term := r.wait_terms[w];
    v_free := limit_free(r, m);
    IF p_per = 0 AND m > 1 AND NOT p_are_minutes_open THEN
      w := w + 1;
    ELSIF v_free >= r.wait_numbers[4 * w - 2] THEN
      r := limit_lend(r, v_term, m, r.wait_numbers[4 * w - 2]);
      PERFORM limit_note(t, v_term, r.id, m, 'g', r.wait_keys[w]);
      r := limit_stop_waiting(r, w);
    ELSE
      v_may_grow := p_per = 0 AND m = 1;
      FOR h IN 1..cardinality(r.holders) LOOP
        EXIT WHEN v_may_grow;
        v_may_grow := r.holders[h] <> v_term AND r.lent[3 * h - 3 + m] > 0
          AND r.confirmed[3 * h - 3 + m] < r.wait_numbers[4 * w - 1] AND limit_is_alive(t, r.holders[h], p_now);
      END LOOP;
      IF v_may_grow THEN
        w := w + 1;
      ELSE
        PERFORM limit_note(t, v_term, r.id, m, 'f', r.wait_keys[w]);
        r := limit_stop_waiting(r, w);
      END IF;
    END IF;
  END LOOP;
  RETURN r;
END
$$;

-- Lets a request wait. Returns NULL if no other node can return anything.
CREATE FUNCTION limit_wait(r limit_subject, p_per BIGINT, p_now BIGINT, t limit_terms, p_term TEXT, p_key TEXT,
  m INT, p_least BIGINT, p_limits BIGINT[]) RETURNS limit_subject LANGUAGE plpgsql AS $$
DECLARE
  v_is_slots BOOLEAN := p_per = 0 AND m = 1;
  v_is_recalled BOOLEAN := FALSE;
  v_is_held BOOLEAN := FALSE;
  v_own INT;
  h INT;
BEGIN
  IF r.limits[m] >= 0 AND r.limits[m] < p_least THEN RETURN NULL; END IF;
  FOR w IN 1..cardinality(r.wait_terms) LOOP
    CONTINUE WHEN r.wait_numbers[4 * w - 3] <> m;
    IF r.wait_terms[w] = p_term AND r.wait_keys[w] = p_key THEN v_own := w; END IF;
    v_is_recalled := v_is_recalled OR v_is_slots
      OR r.wait_terms[w] <> p_term AND r.wait_numbers[4 * w - 1] = r.recalls[m];
  END LOOP;
  IF NOT v_is_slots THEN
    FOR i IN 1..cardinality(r.holders) LOOP
      v_is_held := v_is_held OR r.holders[i] <> p_term AND r.lent[3 * i - 3 + m] > 0
        AND limit_is_alive(t, r.holders[i], p_now);
    END LOOP;
    IF NOT v_is_held THEN RETURN NULL; END IF;
  END IF;
  IF NOT v_is_recalled THEN r := limit_recall(r, t, p_term, m, p_now); END IF;
  IF NOT v_is_slots THEN
    -- An asker has nothing idle.
    r := limit_lend(r, p_term, m, 0);
    h := array_position(r.holders, p_term);
    r.confirmed[3 * h - 3 + m] := r.recalls[m];
  END IF;
  IF v_own IS NULL THEN
    IF cardinality(r.wait_terms) >= p_limits[3] THEN RETURN r; END IF;
    r.wait_terms := r.wait_terms || p_term;
    r.wait_keys := r.wait_keys || p_key;
    r.wait_numbers := r.wait_numbers || '{0,0,0,0}'::BIGINT[];
    v_own := cardinality(r.wait_terms);
  END IF;
  r.wait_numbers[4 * v_own - 3:4 * v_own] := ARRAY[m, p_least, CASE WHEN v_is_slots THEN 0 ELSE r.recalls[m] END,
    p_now + CASE WHEN v_is_slots THEN p_limits[1] ELSE p_limits[2] END];
  RETURN r;
END
$$;

-- When this much use has expired; -1 if there is not as much.
CREATE FUNCTION limit_frees_in(r limit_subject, p_per BIGINT, p_now BIGINT, m INT, p_missing BIGINT) RETURNS BIGINT
LANGUAGE plpgsql AS $$
DECLARE
  v_missing BIGINT := p_missing;
  v_no BIGINT;
BEGIN
  IF p_per > 0 THEN
    SELECT no INTO v_no FROM (
      SELECT no, SUM(CASE m WHEN 1 THEN requests WHEN 2 THEN tokens ELSE nano END) OVER (ORDER BY no) AS freed
      FROM limit_window_bucket WHERE window_id = r.id
    ) sums WHERE freed >= v_missing ORDER BY no LIMIT 1;
    RETURN COALESCE((v_no + 1) * limit_bucket_width(p_per) + p_per - p_now, -1);
  END IF;
  IF m = 1 THEN RETURN -1; END IF;
  FOR j IN 1..cardinality(r.bucket_nos) LOOP
    v_missing := v_missing - r.bucket_used[2 * j - 3 + m];
    IF v_missing <= 0 THEN RETURN (r.bucket_nos[j] + 1) * 1000 + 60000 - p_now; END IF;
  END LOOP;
  RETURN -1;
END
$$;

-- Brings a record up to date, and applies its part of a call: reports, refunds and waiting requests.
CREATE FUNCTION limit_apply(r limit_subject, p_per BIGINT, p_now BIGINT, p_book BIGINT, t limit_terms, p_term TEXT,
  p_revision BIGINT, p_limits BIGINT[], p_items BIGINT[], p_refunds BIGINT[], p_is_open BOOLEAN,
  p_are_minutes_open BOOLEAN) RETURNS limit_subject LANGUAGE plpgsql AS $$
DECLARE
  v_is_stale BOOLEAN;
  v_lent BIGINT[];
  v_booked BIGINT[];
  h INT;
  k INT;
  m INT;
BEGIN
  IF p_revision >= r.revision THEN
    r.revision := p_revision;
    r.limits := p_limits;
  END IF;
  v_is_stale := r.used IS NULL OR r.wait_terms <> '{}' OR COALESCE(r.days[1] < p_now - p_per, FALSE);
  FOR i IN 1..cardinality(r.holders) LOOP
    EXIT WHEN v_is_stale;
    CONTINUE WHEN r.holders[i] = p_term;
    k := array_position(t.ids, r.holders[i]);
    v_is_stale := k IS NULL OR t.states[k] > 0 OR p_now > t.alive[k];
  END LOOP;
  IF v_is_stale THEN r := limit_advance(r, p_per, p_now, t); END IF;
  IF (r.bucket_nos[1] + 1) * limit_bucket_width(p_per) <= p_now - GREATEST(p_per, 60000) THEN
    r := limit_expire(r, p_per, p_now);
  END IF;
  h := array_position(r.holders, p_term);
  IF h IS NULL THEN
    r.holders := r.holders || p_term;
    r.lent := r.lent || '{0,0,0}'::BIGINT[];
    r.confirmed := r.confirmed || '{0,0,0}'::BIGINT[];
    h := cardinality(r.holders);
  END IF;
  IF p_items <> '{}' THEN
    v_lent := r.lent;
    v_booked := '{0,0,0}';
    FOR x IN 0..cardinality(p_items) - 1 BY 4 LOOP
      m := p_items[x + 1];
      k := 3 * h - 3 + m;
      IF p_per > 0 OR m > 1 THEN v_booked[m] := v_booked[m] + p_items[x + 2]; END IF;
      v_lent[k] := GREATEST(0, v_lent[k] - p_items[x + 2] - p_items[x + 3]);
      -- A higher number is from a record that was deleted since.
      IF p_items[x + 4] BETWEEN r.confirmed[k] + 1 AND r.recalls[m] THEN r.confirmed[k] := p_items[x + 4]; END IF;
    END LOOP;
    r.lent := v_lent;
    IF v_booked <> '{0,0,0}' THEN r := limit_book(r, p_per, p_book, v_booked); END IF;
  END IF;
  IF p_refunds <> '{}' AND p_per = 0 THEN r := limit_refund(r, p_refunds); END IF;
  IF p_is_open AND r.wait_terms <> '{}' THEN r := limit_serve(r, p_per, p_now, t, p_are_minutes_open); END IF;
  RETURN r;
END
$$;

-- Whether another request waits for a slot.
CREATE FUNCTION limit_is_queued(r limit_subject, p_term TEXT, p_key TEXT) RETURNS BOOLEAN LANGUAGE plpgsql AS $$
BEGIN
  FOR w IN 1..cardinality(r.wait_terms) LOOP
    IF r.wait_numbers[4 * w - 3] = 1 AND (r.wait_terms[w] <> p_term OR r.wait_keys[w] <> p_key) THEN RETURN TRUE; END IF;
  END LOOP;
  RETURN FALSE;
END
$$;

-- The one operation of nodes: reports, returns and asks. `p_limits` has the life of a term, how long requests wait for
-- slots and for other meters, and how many may wait. Items have four numbers (meter, used, returned, confirms), refunds
-- three (meter, bucket, amount), wants five (record, meter, least, need, most). Those of record or ask i end at
-- `p_..._ends[i]`. A result has three numbers: the kind (0 granted, 1 waiting, 2 refused, 3 closed, 4 repeated), the want
-- that lacks, and when it is free. A state has 16: the bucket of now, and for each meter what is lent to the term, free
-- and used, when all use has expired, and whether others wait.
CREATE FUNCTION limit_exchange(p_term TEXT, p_seq BIGINT, p_lo BIGINT, p_hi BIGINT, p_ahead BIGINT, p_limits BIGINT[],
  p_ids TEXT[], p_pers BIGINT[], p_revisions BIGINT[], p_record_limits BIGINT[],
  p_items BIGINT[], p_item_ends BIGINT[], p_refunds BIGINT[], p_refund_ends BIGINT[],
  p_modes BIGINT[], p_keys TEXT[], p_wants BIGINT[], p_want_ends BIGINT[],
  OUT status TEXT, OUT now_ms BIGINT, OUT is_open BIGINT, OUT states TEXT, OUT results TEXT)
LANGUAGE plpgsql AS $$
DECLARE
  v_accepted RECORD;
  recs limit_subject[];
  r limit_subject;
  t limit_terms;
  v_is_new BOOLEAN;
  v_has_lent BOOLEAN := FALSE;
  -- By record: the position of the term among the holders, and whether requests wait. By record and meter: what is free, how many other terms hold
  -- some of it, and what is lent by this call.
  v_own INT[] := '{}';
  v_has_waiting BOOLEAN[] := '{}';
  v_free BIGINT[] := '{}';
  v_others INT[] := '{}';
  v_lent BIGINT[] := '{}';
  v_sums BIGINT[];
  v_counts INT[];
  v_kind INT;
  v_lacks INT;
  v_in BIGINT;
  v_amount BIGINT;
  v_waits BIGINT[];
  v_reset BIGINT;
  v_results BIGINT[] := '{}';
  v_states BIGINT[] := '{}';
  i INT;
  m INT;
  k INT;
  h INT;
BEGIN
  v_accepted := limit_accept(p_term, p_seq, p_lo, p_hi, p_ahead, p_limits[1], TRUE);
  status := v_accepted.status;
  IF status NOT IN ('new', 'repeated') THEN RETURN; END IF;
  v_is_new := status = 'new';
  status := 'ok';
  now_ms := v_accepted.now_ms;
  is_open := v_accepted.is_open;
  t := v_accepted.terms;
  IF cardinality(p_ids) = 1 AND p_pers[1] = 0 THEN
    SELECT * INTO r FROM limit_subject WHERE id = p_ids[1] FOR UPDATE;
    recs[1] := r;
  END IF;
  IF p_ids <> '{}' AND r.id IS NULL THEN recs := limit_lock(p_ids, p_pers); END IF;
  FOR i IN 1..cardinality(p_ids) LOOP
    r := limit_apply(recs[i], p_pers[i], now_ms, v_accepted.book_ms, t, p_term, p_revisions[i],
      p_record_limits[3 * i - 2:3 * i],
      CASE WHEN v_is_new THEN p_items[COALESCE(p_item_ends[i - 1], 0) + 1:p_item_ends[i]] ELSE '{}' END,
      CASE WHEN v_is_new THEN p_refunds[COALESCE(p_refund_ends[i - 1], 0) + 1:p_refund_ends[i]] ELSE '{}' END,
      is_open = 1, v_accepted.are_minutes_open);
    v_has_waiting[i] := r.wait_terms <> '{}';
    v_has_lent := v_has_lent OR v_has_waiting[i];
    h := array_position(r.holders, p_term);
    v_sums := '{0,0,0}';
    v_counts := '{0,0,0}';
    FOR k IN 1..cardinality(r.lent) LOOP
      CONTINUE WHEN r.lent[k] = 0;
      m := (k - 1) % 3 + 1;
      v_sums[m] := v_sums[m] + r.lent[k];
      IF k <= 3 * h - 3 OR k > 3 * h THEN v_counts[m] := v_counts[m] + 1; END IF;
    END LOOP;
    FOR m IN 1..3 LOOP
      v_free := v_free
        || CASE WHEN r.limits[m] < 0 THEN 9007199254740991 ELSE r.limits[m] - r.used[m] - v_sums[m] END;
    END LOOP;
    v_others := v_others || v_counts;
    v_own := v_own || h;
    v_lent := v_lent || '{0,0,0}'::BIGINT[];
    recs[i] := r;
  END LOOP;
  FOR a IN 1..cardinality(p_modes) LOOP
    v_kind := CASE WHEN NOT v_is_new THEN 4 WHEN is_open = 0 THEN 3 ELSE 0 END;
    v_lacks := -1;
    v_in := -1;
    IF v_kind = 0 AND NOT v_accepted.are_minutes_open THEN
      FOR x IN COALESCE(p_want_ends[a - 1], 0)..p_want_ends[a] - 1 BY 5 LOOP
        IF p_pers[p_wants[x + 1]] = 0 AND p_wants[x + 2] > 1 THEN v_kind := 3; END IF;
      END LOOP;
    END IF;
    FOR x IN COALESCE(p_want_ends[a - 1], 0)..p_want_ends[a] - 1 BY 5 LOOP
      EXIT WHEN v_kind <> 0;
      i := p_wants[x + 1];
      m := p_wants[x + 2];
      k := 3 * i - 3 + m;
      CONTINUE WHEN v_free[k] >= p_wants[x + 3]
        AND (NOT v_has_waiting[i] OR m > 1 OR p_pers[i] > 0 OR NOT limit_is_queued(recs[i], p_term, p_keys[a]));
      v_kind := 2;
      v_lacks := (x - COALESCE(p_want_ends[a - 1], 0)) / 5;
      IF p_modes[a] = 0 OR p_modes[a] = 1 AND m = 1 AND p_pers[i] = 0 THEN
        r := limit_wait(recs[i], p_pers[i], now_ms, t, p_term, p_keys[a], m, p_wants[x + 3], p_limits[2:4]);
        IF r.id IS NOT NULL THEN
          v_kind := 1;
          recs[i] := r;
          v_has_waiting[i] := TRUE;
        END IF;
      END IF;
      IF v_kind = 2 THEN
        v_in := limit_frees_in(recs[i], p_pers[i], now_ms, m, p_wants[x + 3] - v_free[k]);
      END IF;
    END LOOP;
    FOR x IN COALESCE(p_want_ends[a - 1], 0)..p_want_ends[a] - 1 BY 5 LOOP
      EXIT WHEN v_kind <> 0;
      i := p_wants[x + 1];
      m := p_wants[x + 2];
      k := 3 * i - 3 + m;
      -- The slice of the node bounds only what exceeds the need of its request.
      v_amount := LEAST(v_free[k],
        GREATEST(p_wants[x + 4], LEAST(p_wants[x + 5], v_free[k] / (2 * (v_others[k] + 1)))));
      IF v_free[k] < 9007199254740991 THEN v_free[k] := v_free[k] - v_amount; END IF;
      v_lent[k] := v_lent[k] + v_amount;
      v_has_lent := TRUE;
      IF v_has_waiting[i] THEN
        r := recs[i];
        FOR w IN REVERSE cardinality(r.wait_terms)..1 LOOP
          IF r.wait_numbers[4 * w - 3] = m AND r.wait_terms[w] = p_term AND r.wait_keys[w] = p_keys[a] THEN
            r := limit_stop_waiting(r, w);
          END IF;
        END LOOP;
        recs[i] := r;
      END IF;
    END LOOP;
    v_results := v_results || ARRAY[v_kind, v_lacks, v_in];
  END LOOP;
  FOR i IN 1..cardinality(p_ids) LOOP
    r := recs[i];
    h := 3 * v_own[i] - 3;
    IF v_lent[3 * i - 2:3 * i] <> '{0,0,0}' THEN
      r.lent[h + 1:h + 3] := ARRAY[r.lent[h + 1] + v_lent[3 * i - 2], r.lent[h + 2] + v_lent[3 * i - 1],
        r.lent[h + 3] + v_lent[3 * i]];
      recs[i] := r;
    END IF;
    v_waits := '{0,0,0}';
    FOR w IN 1..cardinality(r.wait_terms) LOOP
      IF r.wait_terms[w] <> p_term THEN v_waits[r.wait_numbers[4 * w - 3]] := 1; END IF;
    END LOOP;
    v_amount := CASE WHEN p_pers[i] = 0 THEN 1000 ELSE limit_bucket_width(p_pers[i]) END;
    v_reset := GREATEST(0, COALESCE((r.bucket_nos[cardinality(r.bucket_nos)] + 1) * v_amount
      + GREATEST(p_pers[i], 60000) - now_ms, 0));
    v_states := v_states || v_accepted.book_ms / v_amount;
    FOR m IN 1..3 LOOP
      v_states := v_states || ARRAY[r.lent[h + m], v_free[3 * i - 3 + m], r.used[m],
        CASE WHEN r.used[m] > 0 THEN v_reset ELSE 0 END, v_waits[m]];
    END LOOP;
  END LOOP;
  PERFORM limit_store(recs, p_pers);
  now_ms := v_accepted.server_ms;
  states := array_to_string(v_states, ',');
  results := array_to_string(v_results, ',');
  -- A report that is lost counts as lent. A loan that is lost would be lent twice.
  IF NOT v_has_lent THEN PERFORM set_config('synchronous_commit', 'off', TRUE); END IF;
END
$$;

-- Opens the epoch when all registered processes have declared. Only survivors know which processes have ended; without
-- any, everything that was used before counts as unknown.
CREATE FUNCTION limit_open_epoch(p_process TEXT, p_registered TEXT[], p_has_unknown_use BIGINT, p_unknown_ms BIGINT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
  v_is_open BIGINT;
  v_declared TEXT[];
  v_survivors TEXT[];
  v_is_newcomer BOOLEAN;
BEGIN
  SELECT is_open INTO v_is_open FROM limit_epoch FOR UPDATE;
  IF v_is_open IS NULL OR v_is_open = 1 THEN RETURN COALESCE(v_is_open, 0); END IF;
  SELECT array_agg(process), COALESCE(array_agg(process) FILTER (WHERE has_declared = 2), '{}')
  INTO v_declared, v_survivors FROM limit_term WHERE has_declared > 0;
  v_is_newcomer := v_survivors <> '{}' AND p_process <> ALL (v_survivors);
  IF v_is_newcomer AND p_registered && v_survivors THEN RETURN 0; END IF;
  v_is_open := CASE WHEN p_registered <@ v_declared THEN 1 ELSE 0 END;
  UPDATE limit_epoch SET is_open = v_is_open, minutes_open_at_ms = CASE
    WHEN p_has_unknown_use = 1 OR v_is_newcomer THEN COALESCE(began_ms, 0) + p_unknown_ms ELSE minutes_open_at_ms END;
  RETURN v_is_open;
END
$$;

-- What a term holds: record, meter and amount, three numbers each; its own use of the last minute: record, meter, age
-- and amount.
CREATE FUNCTION limit_declare(p_term TEXT, p_seq BIGINT, p_lo BIGINT, p_hi BIGINT, p_ahead BIGINT, p_term_ms BIGINT,
  p_ids TEXT[], p_pers BIGINT[], p_revisions BIGINT[], p_record_limits BIGINT[], p_holdings BIGINT[], p_uses BIGINT[],
  p_is_last BIGINT, p_replaces TEXT, p_is_survivor BIGINT, OUT status TEXT, OUT now_ms BIGINT, OUT is_open BIGINT) LANGUAGE plpgsql AS $$
DECLARE
  recs limit_subject[];
  r limit_subject;
  v_amounts BIGINT[];
  v_accepted RECORD;
  i INT;
  h INT;
  m INT;
BEGIN
  v_accepted := limit_accept(p_term, p_seq, p_lo, p_hi, p_ahead, p_term_ms, FALSE);
  status := v_accepted.status;
  now_ms := v_accepted.server_ms;
  IF status = 'new' THEN
    recs := limit_lock(p_ids, p_pers);
    FOR i IN 1..cardinality(p_ids) LOOP
      recs[i] := limit_apply(recs[i], p_pers[i], v_accepted.now_ms, v_accepted.book_ms, v_accepted.terms,
        p_term, p_revisions[i], p_record_limits[3 * i - 2:3 * i], '{}', '{}', FALSE, FALSE);
    END LOOP;
    FOR x IN 0..cardinality(p_holdings) / 3 - 1 LOOP
      i := p_holdings[3 * x + 1];
      m := p_holdings[3 * x + 2];
      r := recs[i];
      h := array_position(r.holders, p_term);
      r.lent[3 * h - 3 + m] := p_holdings[3 * x + 3];
      recs[i] := r;
    END LOOP;
    FOR x IN 0..cardinality(p_uses) / 4 - 1 LOOP
      i := p_uses[4 * x + 1];
      m := p_uses[4 * x + 2];
      CONTINUE WHEN p_pers[i] > 0 OR m = 1;
      v_amounts := '{0,0,0}';
      v_amounts[m] := p_uses[4 * x + 4];
      recs[i] := limit_book(recs[i], 0, v_accepted.book_ms - p_uses[4 * x + 3], v_amounts);
    END LOOP;
    PERFORM limit_store(recs, p_pers);
    IF p_is_last = 1 THEN
      UPDATE limit_term SET has_declared = 1 + p_is_survivor WHERE id = p_term;
      -- A process has one term. The one that it had before is unknown if the state was lost.
      INSERT INTO limit_term (id, process, folder, seq, alive_until_ms)
      SELECT p_replaces, process, folder, 0, alive_until_ms FROM limit_term WHERE id = p_term AND p_replaces IS NOT NULL
      ON CONFLICT DO NOTHING;
      UPDATE limit_term SET state = 1 WHERE state = 0 AND id <> p_term
        AND process = (SELECT process FROM limit_term WHERE id = p_term);
    END IF;
  END IF;
  IF status = 'repeated' THEN status := 'new'; END IF;
  status := CASE WHEN status = 'new' THEN 'ok' ELSE 'gone' END;
  SELECT e.is_open INTO is_open FROM limit_epoch e;
END
$$;

-- Deletes records that nothing depends on. A window that was not used for an hour is read again at its next use. A window
-- has up to 720 buckets, so only some are deleted at once, and calls about them wait for a moment only. Returns how many.
CREATE FUNCTION limit_sweep(p_ended_ms BIGINT, p_term_ms BIGINT, p_windows_max BIGINT) RETURNS BIGINT
LANGUAGE plpgsql AS $$
DECLARE
  c_hour CONSTANT BIGINT := 3600000;
  v_now BIGINT;
  v_windows BIGINT;
BEGIN
  -- The time of the last call: the clock of the server may have been set since.
  SELECT max(alive_until_ms) - p_term_ms INTO v_now FROM limit_term WHERE state = 0;
  IF v_now IS NULL THEN RETURN 0; END IF;
  DELETE FROM limit_subject WHERE id IN (
    SELECT id FROM limit_subject s
    WHERE COALESCE((s.bucket_nos[cardinality(s.bucket_nos)] + 1) * 1000 <= v_now - 60000, TRUE)
      AND NOT limit_is_held(s.holders, s.lent, v_now - 70000)
      AND NOT EXISTS (SELECT 1 FROM unnest(s.wait_numbers) WITH ORDINALITY AS x (value, i) WHERE i % 4 = 0 AND value > v_now)
    FOR UPDATE SKIP LOCKED);
  WITH idle AS (
    SELECT id FROM limit_window s
    WHERE COALESCE((s.bucket_nos[2] + 1) * limit_bucket_width(substring(s.id FROM '\d+$')::BIGINT) <= v_now - c_hour, TRUE)
      AND NOT limit_is_held(s.holders, s.lent, v_now - 60000)
      AND NOT EXISTS (SELECT 1 FROM unnest(s.wait_numbers) WITH ORDINALITY AS x (value, i) WHERE i % 4 = 0 AND value > v_now)
    LIMIT p_windows_max FOR UPDATE SKIP LOCKED
  ), buckets AS (
    DELETE FROM limit_window_bucket WHERE window_id IN (SELECT id FROM idle)
  )
  DELETE FROM limit_window WHERE id IN (SELECT id FROM idle);
  GET DIAGNOSTICS v_windows = ROW_COUNT;
  DELETE FROM limit_term WHERE state > 0 AND alive_until_ms < v_now - p_ended_ms;
  RETURN v_windows;
END
$$;

-- Whether something is lent to a term that has not ended before this time, or to one of an epoch before it.
CREATE FUNCTION limit_is_held(p_holders TEXT[], p_lent BIGINT[], p_before BIGINT) RETURNS BOOLEAN
LANGUAGE plpgsql STABLE AS $$
BEGIN
  FOR h IN 1..cardinality(p_holders) LOOP
    CONTINUE WHEN p_lent[3 * h - 2:3 * h] = '{0,0,0}';
    IF EXISTS (SELECT 1 FROM limit_term WHERE id = p_holders[h] AND (state = 0 OR alive_until_ms >= p_before))
      OR EXISTS (SELECT 1 FROM limit_epoch WHERE began_ms >= p_before) THEN RETURN TRUE; END IF;
  END LOOP;
  RETURN FALSE;
END
$$;
-- end postgres
