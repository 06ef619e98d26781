-- What a push does to its job: docs/bus.md, "What a push of a known id does".

-- The beginning of an element as text: what is no UTF-8 would make its whole entry none.
local function beginning(element)
  local shown = string.sub(element, 1, 4096)
  if is_ascii(shown) then return shown end
  -- Without the first bytes of a character.
  if #element > 4096 then shown = string.gsub(shown, '[\192-\255][\128-\191]*$', '') end
  return is_utf8(shown) and shown or (string.gsub(shown, '[\128-\255]', '?'))
end

-- What is no valid push is told of, and kept for a look.
local function reject(element, reason, id)
  local shown = type(element) == 'string' and beginning(element) or ''
  call('LPUSH', REJECTED, '{"at":' .. NOW .. ',"reason":' .. quoted(reason) .. ',"element":' .. quoted(shown) .. '}')
  call('LTRIM', REJECTED, 0, 999)
  id = id or 'unknown'
  call('PUBLISH', PREFIX .. 'events:' .. id, '{"v":1,"event":"rejected","id":"' .. id .. '","queue":"' .. QUEUE
    .. '","at":' .. NOW .. ',"reason":' .. quoted(reason) .. '}')
end

-- Whether a push of `at` is no newer than what was settled.
local function is_old(at, asof) return at and asof and tonumber(at) <= tonumber(asof) end

-- When the newest push that was taken was made, if this one is newer. Clocks differ: it was not made after now.
local function newer(at, h)
  local moment = at and math.min(at, now)
  return moment and moment > tonumber(h.pushed or 0) and whole(moment)
end

local IS_FINAL = { completed = true, failed = true, cancelled = true }

-- By the job's state: what a job element does, and what a continuation does.
--   begin: it runs, from what was pushed           unknown, spent, gone: it cannot
--   go on: it runs, from its offsets               stale: a ticket that counts no more
--   refresh: its url and headers are newer         again: done after the request that is pending
local VERDICTS = {
  [false] = { job = 'begin', continuation = 'unknown' },
  queued = { job = 'refresh', continuation = 'duplicate' },
  scheduled = { job = 'refresh', continuation = 'go on' },
  running = { job = 'refresh', continuation = 'duplicate' },
  paused = { job = 'begin', continuation = 'go on' },
  failed = { job = 'begin', continuation = 'go on' },
  completed = { job = 'begin', continuation = 'go on' },
  cancelled = { job = 'begin', continuation = 'go on' },
}

-- `h` is the job, `push` its kind, its at, its ticket, and for what has no url whether the job's spec is known.
local function verdict(h, push)
  local state, kind = h.state, push.kind
  if kind == 'ticket' then
    if state ~= 'queued' or h.ticket ~= push.ticket then return 'stale' end
    return push.has_spec and 'go on' or 'gone'
  end
  if state == 'running' then
    if kind == 'continuation' then return h.want == 'paused' and 'again' or 'duplicate' end
    if not is_old(push.at, h.asof) and h.want and not is_old(push.at, h.wantat) then return 'again' end
  end
  if state and is_old(push.at, h.asof) then return 'duplicate' end
  -- A state that is none is one in which nothing happens to the job.
  local word = (VERDICTS[state or false] or VERDICTS.paused)[kind]
  if word == 'go on' and not push.has_spec then return 'spent' end
  return word
end

-- Takes note of a push that begins the job, or goes on with it: in its hash, its spec, and `h`. Returns the pairs of the
-- hash that are not written yet.
local function note(id, h, j, element)
  local k, fields = key(id), {}
  local function set(name, value) fields[#fields + 1] = name fields[#fields + 1] = value end
  local is_final = IS_FINAL[h.state]
  if j.url or j.urls then
    call('HSET', spec(id), 'spec', element)
    set('url', mask(j.url or j.urls[1]))
    if j.path then set('path', j.path) end
    if j.meta ~= nil then
      h.meta = RAW(element, 'meta')
      set('meta', h.meta)
    end
    if j.reply_to then
      h.reply_to = j.reply_to
      set('reply_to', j.reply_to)
    end
    if not h.state or is_final then
      set('created', NOW)
      if j.deadline then
        h.deadline = whole((j.at or now) + j.deadline * 1000)
        set('deadline_at', h.deadline)
        call('ZADD', DEADLINES, h.deadline, id)
      end
    end
  end
  local moment = newer(j.at, h)
  if moment then set('pushed', moment) end
  if is_final then
    h.crashes, h.attempt = 0, 0
    call('HDEL', k, 'crashes', 'attempt', 'error', 'message', 'finished')
  end
  return fields
end

-- What a push does that starts nothing, by its verdict.
local INSTEAD = {
  stale = function() end,
  unknown = function(id, h, j, element) reject(element, 'id: no job ' .. id .. ' is known; push it with its url', id) end,
  spent = function(id, h, j, element)
    reject(element, 'id: job ' .. id .. ' is ' .. h.state .. ' and its url is no longer kept; push it with its url', id)
  end,
  gone = function(id, h, j, element, retention)
    fail(id, h, 'bad_job', 'what was pushed is gone from Redis; push the job again with its url', false, retention)
  end,
  again = function(id, h, j, element)
    call('HSET', spec(id), 'again', element)
    call('HSET', key(id), 'again', '1')
  end,
  refresh = function(id, h, j, element)
    -- A newer url and headers replace the old ones: signed URLs expire.
    call('HSET', spec(id), 'spec', element)
    local moment = newer(j.at, h)
    if moment then call('HSET', key(id), 'pushed', moment) end
    emit(id, h, 'duplicate', ',"state":"' .. h.state .. '"')
  end,
  duplicate = function(id, h) emit(id, h, 'duplicate', ',"state":"' .. h.state .. '"') end,
}
