-- The coordinator of limits on Redis or Valkey: concurrency and the limits of a minute. The protocol and its rules are
-- in src/limits/coordinator/protocol.ts, and a second implementation of the same rules in
-- src/limits/coordinator/meter-record.test-support.ts. One contract test covers both.
--
-- KEYS[1]: epoch, time and terms. Further keys: the records of the call. Each value is one packed table.
-- ARGV: the operation, the call as JSON, the run id of the server, an id for a new epoch, the prefix of channels.
-- Meters: 1 slots, 2 requests and 3 tokens of a minute.

local op, call, run_id, new_epoch, channel = ARGV[1], cjson.decode(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]
local conf = call.conf
local MINUTE_MS, WIDTH_MS, NO_LIMIT = 60000, 1000, 9007199254740991
-- A smaller difference between clocks may be the delay of a call.
local STEP_MS = 2000

-- Whether it is a list of numbers, in groups of this size.
local function is_numbers(list, size)
  if type(list) ~= 'table' or #list % size ~= 0 then return false end
  for i = 1, #list do if type(list[i]) ~= 'number' then return false end end
  return true
end

local function is_triple(list)
  return is_numbers(list, 3) and #list == 3
end

-- Returns nil for a missing value, and false for one of another type or shape.
local function read(key, is_valid)
  local raw = redis.pcall('GET', key)
  if not raw then return nil end
  if type(raw) ~= 'string' then return false end
  local is_packed, value = pcall(cmsgpack.unpack, raw)
  if is_packed and type(value) == 'table' and is_valid(value) then return value end
  return false
end

local function is_state(s)
  if s.run ~= run_id or type(s.epoch) ~= 'string' or type(s.offset) ~= 'number' or type(s.open) ~= 'boolean'
    or type(s.minutes) ~= 'number' or type(s.began or 0) ~= 'number' or type(s.terms) ~= 'table' then return false end
  for id, t in pairs(s.terms) do
    if type(id) ~= 'string' or type(t) ~= 'table' or type(t.process) ~= 'string' or type(t.folder) ~= 'string'
      or type(t.seq) ~= 'number' or type(t.alive) ~= 'number' then return false end
  end
  return true
end

local function is_record(r)
  if type(r.epoch) ~= 'string' or type(r.revision) ~= 'number' or not is_triple(r.limits) or not is_triple(r.recalls)
    or not is_triple(r.used) or type(r.holders) ~= 'table' or type(r.waiting) ~= 'table' or type(r.buckets) ~= 'table' then return false end
  for term, h in pairs(r.holders) do
    if type(term) ~= 'string' or not is_numbers(h, 6) or #h ~= 6 then return false end
  end
  for _, w in ipairs(r.waiting) do
    if type(w) ~= 'table' or type(w.term) ~= 'string' or type(w.key) ~= 'string' or type(w.meter) ~= 'number'
      or type(w.least) ~= 'number' or type(w.recall) ~= 'number' or type(w.till) ~= 'number' then return false end
  end
  return is_numbers(r.buckets, 3)
end

local clock = redis.call('TIME')
local server = clock[1] * 1000 + math.floor(clock[2] / 1000)
local state = read(KEYS[1], is_state)

local function save_state()
  redis.call('SET', KEYS[1], cmsgpack.pack(state))
end

local function begin_epoch()
  state = { run = run_id, epoch = new_epoch, offset = 0, open = false, minutes = 0, terms = {} }
  save_state()
end

-- Reads the time of a call. It is booked at the latest time that it can have (call.book), and what expires does so by the
-- earliest (call.now): nodes know them better than the server, whose clock may be set. Returns false if the bounds are
-- wrong, because the process was paused.
local function read_time(process)
  local raw = server + state.offset
  local late = raw - call.hi
  local is_ahead = late > STEP_MS or (call.aheadMs and late > 0 and late >= call.aheadMs)
  if is_ahead or raw < call.lo - STEP_MS then
    -- The clock was set, and after the calls of all others: one within this time would have corrected it.
    local proven = is_ahead and late or conf.termMs
    for _, t in pairs(state.terms) do
      local since = raw - (t.alive - conf.termMs)
      if not t.ended and t.process ~= process and since >= 0 and since < proven then return false end
    end
    state.offset = call.lo - server
  end
  call.server = server + state.offset
  call.now, call.book = math.min(call.server, call.lo), math.max(call.server, call.lo)
  return true
end

-- The time of the last call of any other folder; nil without one.
local function find_beat(folder)
  local beat
  for _, t in pairs(state.terms) do
    if not t.ended and t.folder ~= folder then beat = math.max(beat or 0, t.alive - conf.termMs) end
  end
  return beat
end

-- Accepts a call of a living term: returns 'new' or 'repeated', otherwise 'gone' or 'declare'.
local function accept(is_exchange)
  local t = state.terms[call.term]
  if not t or t.ended or not read_time(t.process) or call.now > t.alive then return 'gone' end
  if is_exchange and not t.declared then return 'declare' end
  local is_new = call.seq == t.seq + 1
  if not is_new and call.seq ~= t.seq then return 'gone' end
  if is_new and not is_exchange and t.declared then return 'gone' end
  t.seq = call.seq
  t.alive = math.max(t.alive, call.now + conf.termMs)
  return is_new and 'new' or 'repeated'
end

local function is_alive(term, now)
  local t = state.terms[term]
  return t and not t.ended and now <= t.alive
end

local function note(term, key, meter, what, value)
  local t = state.terms[term]
  if t then redis.call('PUBLISH', channel .. t.process, cjson.encode({ term, key, meter - 1, what, value })) end
end

-- What is lent to a term (1 to 3, by meter), and the newest recall that it has responded to (4 to 6).
local CONFIRMED = 3
local NOTHING_HELD = { 0, 0, 0 }
local function holder(r, term)
  local h = r.holders[term]
  if not h then
    h = { 0, 0, 0, 0, 0, 0 }
    r.holders[term] = h
  end
  return h
end

-- Buckets have three numbers, ascending: the number of the bucket, requests and tokens.
local function book(r, meter, at, amount)
  if amount == 0 then return end
  local no, b = math.floor(at / WIDTH_MS), r.buckets
  local j = #b - 2
  while j > 0 and b[j] > no do j = j - 3 end
  if j < 1 or b[j] < no then
    j = j + 3
    for x = 0, 2 do table.insert(b, j + x, x == 0 and no or 0) end
  end
  b[j + meter - 1] = b[j + meter - 1] + amount
  r.used[meter] = r.used[meter] + amount
end

local function free(r, meter)
  if r.limits[meter] < 0 then return NO_LIMIT end
  local rest = r.limits[meter] - r.used[meter]
  for _, h in pairs(r.holders) do rest = rest - h[meter] end
  return rest
end

-- When the bucket that begins at this position no longer counts.
local function expires_at(r, position)
  return (r.buckets[position] + 1) * WIDTH_MS + MINUTE_MS
end

local function is_idle(h)
  return h[1] == 0 and h[2] == 0 and h[3] == 0
end

-- Removes use that no longer counts, what is lent to terms that are over, and requests that no longer wait.
local function advance(r, now)
  local waiting = {}
  for _, w in ipairs(r.waiting) do
    if w.till > now and is_alive(w.term, now) then waiting[#waiting + 1] = w end
  end
  r.waiting = waiting
  for term, h in pairs(r.holders) do
    local t = state.terms[term]
    if not is_alive(term, now) then
      -- The term may have used all of its requests and tokens up to its end.
      local at = t and t.alive or now
      for meter = 2, 3 do
        book(r, meter, at, h[meter])
        h[meter] = 0
      end
      if not t or t.ended then h[1] = 0 end
    end
    if is_idle(h) and (#waiting == 0 or not is_alive(term, now)) then r.holders[term] = nil end
  end
  local first = 1
  while r.buckets[first] and expires_at(r, first) <= now do
    for meter = 2, 3 do r.used[meter] = r.used[meter] - r.buckets[first + meter - 1] end
    first = first + 3
  end
  if first > 1 then r.buckets = { unpack(r.buckets, first) } end
end

-- The records of the call. nil: a value has the wrong shape, so state is lost.
local function load_records(now)
  local records = {}
  for i = 1, #call.ids do
    local r = read(KEYS[i + 1], is_record)
    if r == false then
      redis.call('DEL', KEYS[i + 1])
      return nil
    end
    if not r or r.epoch ~= state.epoch then
      r = { epoch = state.epoch, revision = -1, recalls = { 0, 0, 0 }, used = { 0, 0, 0 }, holders = {}, waiting = {},
        buckets = {} }
    end
    if call.revisions[i] >= r.revision then
      r.revision = call.revisions[i]
      r.limits = { call.limits[3 * i - 2], call.limits[3 * i - 1], call.limits[3 * i] }
    end
    advance(r, now)
    records[i] = r
  end
  return records
end

local function is_held(r)
  for _, h in pairs(r.holders) do if not is_idle(h) then return true end end
  return false
end

-- A record expires some time after its use no longer counts, because the clock of the server may be set. What is lent
-- stays: a request may take days.
local function save_records(records, now)
  for i, r in ipairs(records) do
    if r.waiting[1] or is_held(r) then
      redis.call('SET', KEYS[i + 1], cmsgpack.pack(r), 'PX', conf.heldRecordMs)
    elseif r.buckets[1] then
      redis.call('SET', KEYS[i + 1], cmsgpack.pack(r), 'PX', conf.usedRecordMs)
    else
      redis.call('DEL', KEYS[i + 1])
    end
  end
end

local function report(r, i)
  for x = (call.itemEnds[i - 1] or 0) + 1, call.itemEnds[i], 4 do
    local meter, used, returned, confirms = unpack(call.items, x, x + 3)
    if meter > 1 then book(r, meter, call.book, used) end
    local h = holder(r, call.term)
    h[meter] = math.max(0, h[meter] - used - returned)
    -- A higher number is from a record that has expired since.
    if confirms <= r.recalls[meter] then h[CONFIRMED + meter] = math.max(h[CONFIRMED + meter], confirms) end
  end
  for x = (call.refundEnds[i - 1] or 0) + 1, call.refundEnds[i], 3 do
    local meter, no, amount = unpack(call.refunds, x, x + 2)
    local b = r.buckets
    for j = 1, #b, 3 do
      if b[j] == no and meter > 1 then
        local part = math.min(b[j + meter - 1], amount)
        b[j + meter - 1] = b[j + meter - 1] - part
        r.used[meter] = r.used[meter] - part
      end
    end
  end
end

-- Whether a term that has not responded to this recall holds some of the meter.
local function may_grow(r, w)
  for term, h in pairs(r.holders) do
    if term ~= w.term and h[w.meter] > 0 and h[CONFIRMED + w.meter] < w.recall and is_alive(term, call.now) then
      return true
    end
  end
  return false
end

-- Lends to waiting requests, and informs those that nothing more can be recalled for.
local function serve(r, i, are_minutes_open)
  local waiting = {}
  for _, w in ipairs(r.waiting) do
    if w.meter > 1 and not are_minutes_open then
      waiting[#waiting + 1] = w
    elseif free(r, w.meter) >= w.least then
      local h = holder(r, w.term)
      h[w.meter] = h[w.meter] + w.least
      note(w.term, call.ids[i], w.meter, 'g', w.key)
    elseif w.meter == 1 or may_grow(r, w) then
      waiting[#waiting + 1] = w
    else
      note(w.term, call.ids[i], w.meter, 'f', w.key)
    end
  end
  r.waiting = waiting
end

local function each_other_holder(r, meter, visit)
  for term, h in pairs(r.holders) do
    if term ~= call.term and h[meter] > 0 and is_alive(term, call.now) then visit(term) end
  end
end

-- Lets a request wait. Returns false if no other node can return anything.
local function wait(r, i, meter, least, key)
  if r.limits[meter] >= 0 and r.limits[meter] < least then return false end
  local own, is_recalled, is_held = nil, false, false
  for _, w in ipairs(r.waiting) do
    if w.meter == meter then
      if w.term == call.term and w.key == key then own = w end
      if meter == 1 or (w.term ~= call.term and w.recall == r.recalls[meter]) then is_recalled = true end
    end
  end
  if meter > 1 then
    each_other_holder(r, meter, function() is_held = true end)
    if not is_held then return false end
  end
  if not is_recalled then
    r.recalls[meter] = r.recalls[meter] + 1
    local no = string.format('%.0f', r.recalls[meter])
    each_other_holder(r, meter, function(term) note(term, call.ids[i], meter, 'r', no) end)
  end
  -- An asker has nothing idle.
  if meter > 1 then holder(r, call.term)[CONFIRMED + meter] = r.recalls[meter] end
  if not own then
    if #r.waiting >= conf.waitingMax then return true end
    own = { term = call.term, key = key, meter = meter }
    r.waiting[#r.waiting + 1] = own
  end
  own.least = least
  own.recall = meter == 1 and 0 or r.recalls[meter]
  own.till = call.now + (meter == 1 and conf.slotWaitMs or conf.recallWaitMs)
  return true
end

-- When so much use has expired that this amount is free; -1 if that is not enough.
local function frees_in(r, meter, amount)
  local missing = amount - free(r, meter)
  if meter == 1 then return -1 end
  for j = 1, #r.buckets, 3 do
    missing = missing - r.buckets[j + meter - 1]
    if missing <= 0 then return expires_at(r, j) - call.now end
  end
  return -1
end

local function is_queued(r, meter, key)
  if meter > 1 then return false end
  for _, w in ipairs(r.waiting) do
    if w.meter == 1 and (w.term ~= call.term or w.key ~= key) then return true end
  end
  return false
end

-- The slice of the node bounds only what exceeds the need of its request.
local function lend(r, meter, need, most, key)
  local rest, sharers = free(r, meter), 1
  for term, h in pairs(r.holders) do
    if term ~= call.term and h[meter] > 0 then sharers = sharers + 1 end
  end
  local h = holder(r, call.term)
  local slice = math.floor(rest / (2 * sharers))
  h[meter] = h[meter] + math.min(rest, math.max(need, math.min(most, slice)))
  if not r.waiting[1] then return end
  local waiting = {}
  for _, w in ipairs(r.waiting) do
    if w.meter ~= meter or w.term ~= call.term or w.key ~= key then waiting[#waiting + 1] = w end
  end
  r.waiting = waiting
end

-- All wants or none. Returns the kind (0 granted, 1 waiting, 2 refused, 3 closed), what lacks, and when it is free.
local function ask(records, a, are_minutes_open)
  local mode, key = call.modes[a], call.keys[a]
  local first, last = (call.wantEnds[a - 1] or 0) + 1, call.wantEnds[a]
  for x = first, last, 5 do
    if call.wants[x + 1] > 1 and not are_minutes_open then return 3, -1, -1 end
  end
  for x = first, last, 5 do
    local i, meter, least = unpack(call.wants, x, x + 2)
    local r = records[i]
    if is_queued(r, meter, key) or free(r, meter) < least then
      local lacks = (x - first) / 5
      if (mode == 0 or (mode == 1 and meter == 1)) and wait(r, i, meter, least, key) then return 1, lacks, -1 end
      return 2, lacks, frees_in(r, meter, least)
    end
  end
  for x = first, last, 5 do
    local i, meter, _, need, most = unpack(call.wants, x, x + 4)
    lend(records[i], meter, need, most, key)
  end
  return 0, -1, -1
end

local RESULT_FORMAT = '%.0f,%.0f,%.0f'
local STATE_FORMAT = '%.0f' .. string.rep(',%.0f', 15)

local function has_others_waiting(r, meter)
  for _, w in ipairs(r.waiting) do if w.meter == meter and w.term ~= call.term then return 1 end end
  return 0
end

local function state_text(r)
  local reset = r.buckets[1] and math.max(0, expires_at(r, #r.buckets - 2) - call.now) or 0
  local h, used = r.holders[call.term] or NOTHING_HELD, r.used
  local resets = { used[1] > 0 and reset or 0, used[2] > 0 and reset or 0, used[3] > 0 and reset or 0 }
  return string.format(STATE_FORMAT, math.floor(call.book / WIDTH_MS),
    h[1], free(r, 1), used[1], resets[1], has_others_waiting(r, 1),
    h[2], free(r, 2), used[2], resets[2], has_others_waiting(r, 2),
    h[3], free(r, 3), used[3], resets[3], has_others_waiting(r, 3))
end

local function is_open_text() return state.open and '1' or '0' end

local ops = {}

-- Whether a process has ended within a minute, so far as it is known.
local function has_unknown_use(now)
  if now < state.minutes then return true end
  local running = {}
  for _, t in pairs(state.terms) do
    if not t.ended then running[t.process] = true end
    if not state.open and t.declared == 'as survivor' then return true end
  end
  for _, t in pairs(state.terms) do
    if t.ended and not running[t.process] and now < t.alive + MINUTE_MS then return true end
  end
  return false
end

function ops.open()
  if not state then begin_epoch() end
  for _, t in pairs(state.terms) do
    if t.folder == call.folder and t.process ~= call.process then t.ended = true end
  end
  local is_certain = call.epoch == state.epoch and read_time(call.process)
  local beat = not is_certain and find_beat(call.folder) or nil
  local now = server + state.offset
  state.began = state.began or now
  if not state.terms[call.term] then
    local earliest = is_certain and call.now or beat or now
    state.terms[call.term] =
      { process = call.process, folder = call.folder, seq = 0, alive = earliest + conf.termMs }
  end
  save_state()
  local beat_text = beat and string.format('%.0f', beat) or ''
  return { string.format('%.0f', now), state.epoch, beat_text, has_unknown_use(now) and '1' or '0' }
end

function ops.exchange()
  if not state then
    begin_epoch()
    return { 'declare' }
  end
  local status = accept(true)
  if status == 'gone' or status == 'declare' then return { status } end
  local is_new, now = status == 'new', call.now
  local records = load_records(now)
  if not records then
    begin_epoch()
    return { 'declare' }
  end
  local are_minutes_open = state.open and now >= state.minutes
  for i, r in ipairs(records) do
    if is_new then report(r, i) end
    if state.open then serve(r, i, are_minutes_open) end
  end
  local results, states = {}, {}
  for a = 1, #call.modes do
    local kind, lacks, frees = is_new and 3 or 4, -1, -1
    if is_new and state.open then kind, lacks, frees = ask(records, a, are_minutes_open) end
    results[a] = string.format(RESULT_FORMAT, kind, lacks, frees)
  end
  for i, r in ipairs(records) do states[i] = state_text(r) end
  save_records(records, now)
  save_state()
  return { 'ok', string.format('%.0f', call.server), is_open_text(), table.concat(states, ','), table.concat(results, ',') }
end

function ops.declare()
  if not state then
    begin_epoch()
    return { 'gone' }
  end
  local status = accept(false)
  if status == 'gone' then return { 'gone' } end
  if status == 'new' then
    local records = load_records(call.now)
    if not records then
      begin_epoch()
      return { 'gone' }
    end
    for x = 1, #call.holdings, 3 do
      local i, meter, lent = unpack(call.holdings, x, x + 2)
      holder(records[i], call.term)[meter] = lent
    end
    for x = 1, #call.uses, 4 do
      local i, meter, ago, amount = unpack(call.uses, x, x + 3)
      if meter > 1 then book(records[i], meter, call.book - ago, amount) end
    end
    save_records(records, call.now)
    if call.last then
      local own = state.terms[call.term]
      own.declared = call.last.isSurvivor and 'as survivor' or 'as newcomer'
      -- A process has one term.
      for id, t in pairs(state.terms) do
        if t.process == own.process and id ~= call.term then t.ended = true end
      end
    end
  end
  save_state()
  return { 'ok', string.format('%.0f', call.server), is_open_text() }
end

-- Only survivors know which processes have ended. Without any, everything that was used before counts as unknown.
function ops.open_epoch()
  if not state then return { '0' } end
  if state.open then return { '1' } end
  local declared, has_survivor = {}, false
  for _, t in pairs(state.terms) do
    if t.declared and declared[t.process] ~= 'as survivor' then declared[t.process] = t.declared end
    if t.declared == 'as survivor' then has_survivor = true end
  end
  local is_newcomer = has_survivor and declared[call.process] ~= 'as survivor'
  local is_complete = next(declared) ~= nil
  for _, process in ipairs(call.registered) do
    if is_newcomer and declared[process] == 'as survivor' then return { '0' } end
    if not declared[process] then is_complete = false end
  end
  if call.hasUnknownUse or is_newcomer then state.minutes = (state.began or 0) + conf.unknownUseMs end
  state.open = is_complete
  save_state()
  return { is_open_text() }
end

function ops.end_terms()
  if not state then return {} end
  for id, t in pairs(state.terms) do
    if id == call.term or t.process == call.process then t.ended = true end
  end
  save_state()
  return {}
end

function ops.list()
  local processes = {}
  for _, t in pairs(state and state.terms or {}) do
    if not t.ended then processes[#processes + 1] = t.process end
  end
  return processes
end

function ops.sweep()
  if not state then return {} end
  local beat = find_beat('')
  for id, t in pairs(state.terms) do
    if beat and t.ended and t.alive < beat - conf.endedTermMs then state.terms[id] = nil end
  end
  save_state()
  return {}
end

return ops[op]()
