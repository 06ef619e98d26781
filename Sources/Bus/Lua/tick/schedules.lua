-- Schedules: jobs that are pushed at certain times (docs/guides/schedules.md).
--
-- The hash `schedules` has the definitions, which operators write. `schedule_due` says when each of them is due (ms). A
-- score from 0 to 1 is a schedule that is to be planned, since it was changed: the time of the change (ms) / 1e13, or 0 if
-- that is not known. inf is a schedule that is never due, and a negative score is an extra run that an operator has
-- requested (minus the time of the request). `schedule_paused` says which schedules operators have paused
-- (1) or resumed (0). It is a key of its own, because whoever pauses a schedule by writing its definition may write back
-- one that was changed meanwhile. Without an entry the member `paused` of the definition counts. schedule:<name> says
-- what was planned and what became of it:
--     next, definition                when it is due, and the SHA-1 of the definition for which that was computed
--     last_id, last_due, last_at      the last push: the job, the time that it was due, and the time of the push
--     pushed, skipped, missed         how many runs were pushed, were skipped because the last one had not ended, and how
--                                     often runs were missed
--     error                           why the definition is not valid
--     left_at                         when a worker left it to others, because its machine does not know the time zone
--
-- The functions know no calendar. A call finds what is due and hands it to its worker, which computes the next due time
-- (Queue+Schedules.swift) and calls `schedule`. That call does nothing unless the schedule still is as the worker has
-- read it. So each due time is pushed once, however many workers have read it, and if one of them dies another does it.
--
-- Uses: Call, Claims, Envelopes, Events, History, Isolation, Jobs, Rejections, Settings.
-- Writes: schedule_due, schedule_paused, schedule:<name>.
do
  -- How many schedules one call finds, and how many a queue may have.
  local MAX = { due = 5, count = 1000 }
  -- Up to how many definitions each tick compares; with more of them one tick in ten seconds. How many due schedules a call
  -- looks at if more than MAX.due are due, and for how long (ms) it passes over one that a worker has left.
  local COMPARED, LOOKED_AT, LEFT = 32, 100, 2000

  local function forget(c, name)
    call('ZREM', c.PREFIX .. KEY.scheduleDue, name)
    call('DEL', c.PREFIX .. KEY.schedule .. name)
    -- Another program may have given the key another type.
    try('HDEL', c.PREFIX .. KEY.schedulePaused, name)
  end

  -- What operators have said about a pause: '1', '0', or '' for nothing.
  local function pause_of(c, name)
    local value = try('HGET', c.PREFIX .. KEY.schedulePaused, name)
    return (value == '1' or value == '0') and value or ''
  end

  -- Finds definitions that another client has added or deleted without an entry in `schedule_due`.
  local function reconcile(c, definitions, due)
    local count = try('HLEN', definitions)
    local known = type(count) == 'number' and count <= MAX.count and try('ZCARD', due)
    if type(known) ~= 'number' then return end
    -- A definition may have replaced another one.
    if known == count and count > COMPARED and floor(c.now / 1000) % 10 > 0 then return end
    local is_defined = {}
    for _, name in ipairs(call('HKEYS', definitions)) do
      is_defined[name] = true
      if not call('ZSCORE', due, name) then call('ZADD', due, 0, name) end
    end
    for _, name in ipairs(call('ZRANGE', due, 0, MAX.count)) do
      if not is_defined[name] then forget(c, name) end
    end
  end

  -- The schedules that are due: now (ms), then for each its name, its score, its definition, what `schedule_paused` says
  -- of it, and the fields of schedule:<name> as pairs. An empty list if there are none. Records when the next one is due:
  -- now if there are more than one call hands out.
  -- is_tick: whether the caller is a tick of a queue that has schedules. It also looks for what other clients have
  -- changed.
  function Schedules.find(c, is_tick)
    local definitions, due = c.PREFIX .. KEY.schedules, c.PREFIX .. KEY.scheduleDue
    if is_tick then reconcile(c, definitions, due) end
    local first, found, count = try('ZRANGE', due, 0, 0, 'WITHSCORES'), {}, 0
    if first.err or not first[1] then return {} end
    -- Adds a schedule to those that are handed out.
    local function add(name, score)
      local size = try('HSTRLEN', definitions, name)
      if type(size) ~= 'number' then return end
      if size == 0 then return forget(c, name) end
      if size > LARGEST.schedule then return call('ZADD', due, 'inf', name) end
      local state = try('HGETALL', c.PREFIX .. KEY.schedule .. name)
      if #found == 0 then found[1] = c.NOW end
      found[#found + 1], found[#found + 2], found[#found + 3] = name, score, call('HGET', definitions, name)
      found[#found + 1], found[#found + 2] = pause_of(c, name), state.err and {} or state
      count = count + 1
    end
    local all = tonumber(first[2]) <= c.now and call('ZCOUNT', due, '-inf', c.NOW) or 0
    -- Runs come before schedules that are to be planned, of which there may be many.
    for _, range in ipairs(all > 0 and { { '-inf', '(0' }, { '(1', c.NOW }, { '0', '1' } } or {}) do
      local size = call('ZCOUNT', due, range[1], range[2])
      local skipped = size > LOOKED_AT and floor(c.now / 1000) * LOOKED_AT % size or 0
      local next = call('ZRANGEBYSCORE', due, range[1], range[2], 'WITHSCORES', 'LIMIT', skipped, LOOKED_AT)
      for n = 1, #next, 2 do
        if count == MAX.due then break end
        -- If more are due than one call hands out, those that a worker has left must not keep the others waiting.
        local left_at = all > MAX.due and try('HGET', c.PREFIX .. KEY.schedule .. next[n], 'left_at')
        if c.now - to_integer(left_at) >= LEFT then add(next[n], next[n + 1]) end
      end
    end
    local later = count == MAX.due and all > count and { '', c.NOW }
      or call('ZRANGEBYSCORE', due, '(' .. c.NOW, '(inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if later[1] then c.next_due = math.min(c.next_due or math.huge, tonumber(later[2])) end
    return found
  end

  -- Whether a job has not ended.
  local function is_active(c, id)
    local state = id and try('HGET', c.JOB .. id, 'state')
    return type(state) == 'string' and not IS_FINAL[state]
  end

  -- Makes the job of a run, or makes it run again. It is `scheduled` at first, and the next call of pace() puts it into
  -- the queue. So its hash shows from the start that it has not ended, which an element in the queue would not.
  local function push(c, element, id)
    local envelope, reason = Envelopes.read(c, element)
    reason = reason or Jobs.wrong_type(c, id)
    if reason then return Rejections.add_element(c, element, reason, id, envelope) end
    Envelopes.complete(c, envelope)
    envelope.delay = math.max(1, envelope.delay or 0)
    Claims.start(c, Claims.known(c, id, Jobs.size(c.JOB .. id) > 0, call('HLEN', c.WANT) > 0), envelope, true)
  end

  -- Carries out what a worker has planned for a schedule, unless another worker has done so already, or the definition or
  -- the pause has changed.
  --
  -- ARGV: nonce, worker, retention of completed, failed and cancelled jobs (ms), name, score as it was found, definition
  -- as it was found, next score or '' if this worker leaves the schedule to others, id and element of a run or '' for
  -- none, the time that the run was due (ms), 'skip' if it must not overlap with the last run, '1' if runs were missed,
  -- an error of the definition or '', the pause as it was found
  -- Returns in how many ms pace() has to be called, if that is within a second; else ''.
  Call.define('schedule', {}, function(c)
    local ARGV = c.ARGV
    Settings.read(c, ARGV[2], 3)
    local name, score, definition, next, id, element, due, overlap, has_missed, fault, pause = unpack(ARGV, 6)
    local due_key, state = c.PREFIX .. KEY.scheduleDue, c.PREFIX .. KEY.schedule .. name
    if call('ZSCORE', due_key, name) ~= score then return '' end
    if call('HGET', c.PREFIX .. KEY.schedules, name) ~= definition then return '' end
    if pause_of(c, name) ~= pause then return '' end
    -- No other program may write this key.
    if not Jobs.size(state) then call('DEL', state) end
    if next == '' then
      call('HSET', state, 'left_at', c.NOW)
      return ''
    end
    if element ~= '' then
      -- A client may have pushed the job itself.
      if is_active(c, id) or overlap == 'skip' and is_active(c, call('HGET', state, 'last_id')) then
        call('HINCRBY', state, 'skipped', 1)
        History.count(c, 'schedule_skipped')
      else
        local fine, wrong = Isolation.run(c, push, c, element, id)
        if not fine then Rejections.add_element(c, element, 'element: cannot be pushed: ' .. wrong, id) end
        call('HINCRBY', state, 'pushed', 1)
        call('HSET', state, 'last_id', id, 'last_due', due, 'last_at', c.NOW)
        History.count(c, 'schedule_pushed')
        History.count(c, 'schedule_late', math.max(0, c.now - tonumber(due)))
      end
    end
    if has_missed == '1' then
      call('HINCRBY', state, 'missed', 1)
      History.count(c, 'schedule_missed')
    end
    call('HSET', state, 'next', next, 'definition', redis.sha1hex(definition))
    if fault ~= '' then call('HSET', state, 'error', fault) else call('HDEL', state, 'error', 'left_at') end
    call('ZADD', due_key, next, name)
    local wait = math.min(tonumber(next), c.next_due or math.huge) - c.now
    return Events.publish(c, wait <= 1000 and integer_text(math.max(0, wait)) or '')
  end)
end
