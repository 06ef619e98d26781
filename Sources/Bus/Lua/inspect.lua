-- Checks jobs by the rules of the bus, each at one moment. With 'repair' it puts right what can be.
--
-- ARGV: nonce, 'repair' or '', retention of completed, failed, cancelled (ms), id, its element that was missed in line
--       or '', …
-- Returns names and values: `findings`, a list of {id, rule, '1' if it was repaired}, and `queued`, pairs of a queued job's id and its
-- element. Finding.swift has the rules' sentences. Whether an element is in line is for the caller to see: to look for each takes
-- as long as the line is.

-- What is looked at. `c` is the look at one job: its id and key, `found(rule, repair)`, `ttl` by final state, its element that was
-- missed in line, `queued` that takes its element, and once that is read the job `j`.
local INSPECT = {}
local NUMBERS = { 'wantat', 'asof', 'crashes', 'attempt', 'deadline_at', 'seq', 'pushed' }

-- Hashes of ended jobs expire by themselves, their entries are the next tick's to trim.
local function is_over(c, state, score) return c.ttl[state] and tonumber(score) <= now - tonumber(c.ttl[state]) end

-- Whether all keys of the job are hashes, or have been made so.
function INSPECT.types(c)
  for _, name in ipairs(c.keys) do
    local kind = call('TYPE', name).ok
    if kind ~= 'hash' and kind ~= 'none' then
      c.found('type', function() call('DEL', name) end)
      if not c.is_repairing then return false end
    end
  end
  return true
end

-- A job that has no hash has nothing else.
function INSPECT.absent(c)
  local id = c.id
  if call('EXISTS', spec(id), offsets(id)) > 0 then
    c.found('orphan', function() call('DEL', spec(id), offsets(id)) end)
  end
  local is_to_be_trimmed = false
  for state, index in pairs(INDEX) do
    local there = call('ZSCORE', index, id)
    if there and is_over(c, state, there) then is_to_be_trimmed = true
    elseif there then c.found('index without job', function() call('ZREM', index, id) end) end
  end
  if call('ZSCORE', LEASES, id) then c.found('index without job', function() call('ZREM', LEASES, id) end) end
  local counted = fleet.size_of_response(id)
  if not is_to_be_trimmed and counted ~= false and counted ~= 0 then
    c.found('response', function() fleet.count_response(id, 0) end)
  end
  if call('ZSCORE', DEADLINES, id) then c.found('deadline', function() call('ZREM', DEADLINES, id) end) end
end

-- What job() takes for absent.
function INSPECT.numbers(c)
  local texts = call('HMGET', c.key, unpack(NUMBERS))
  for n, name in ipairs(NUMBERS) do
    if texts[n] and not number(texts[n]) then c.found('number', function() call('HDEL', c.key, name) end) end
  end
end

-- What is counted of a response is what the hash holds of it (responses.lua).
function INSPECT.response(c)
  local bytes, counted = 0, fleet.size_of_response(c.id)
  for _, part in ipairs({ 'headers', 'body', 'body_base64' }) do bytes = bytes + call('HSTRLEN', c.key, part) end
  if counted ~= false and counted ~= bytes then c.found('response', function() fleet.count_response(c.id, bytes) end) end
end

-- A stub, which a request or a removal has left.
function INSPECT.stub(c)
  if not (c.j.asof or c.j.wantat) then return c.found('no state') end
  if call('PTTL', c.key) < 0 then c.found('ttl', function() call('PEXPIRE', c.key, 3600000) end) end
end

function INSPECT.indexes(c)
  for state, index in pairs(INDEX) do
    local there = call('ZSCORE', index, c.id)
    if there and state ~= c.j.state and not is_over(c, state, there) then
      c.found('second place', function() call('ZREM', index, c.id) end)
    end
    -- A final job's entry may be trimmed a moment before its hash expires.
    if not there and state == c.j.state and not (c.ttl[state] and call('PTTL', c.key) < 5000) then
      c.found('no place', function() call('ZADD', index, NOW, c.id) end)
    end
  end
end

function INSPECT.lease(c)
  local id, j, lease = c.id, c.j, call('ZSCORE', LEASES, c.id)
  if j.state ~= 'running' then
    if lease then c.found('second place', function() call('ZREM', LEASES, id) end) end
    return
  end
  -- With a lease that is over, the reaper takes it and puts it back in line.
  local function end_lease() call('ZADD', LEASES, NOW, id) end
  if not lease then c.found('no lease', end_lease) end
  if not j.token or not j.worker then c.found('no token')
  elseif lease and tonumber(lease) > now and redis.pcall('HGET', PREFIX .. KEY.worker .. j.worker, j.token) ~= id then
    c.found('unknown to its worker', end_lease)
  end
end

function INSPECT.element(c)
  if c.j.state ~= 'queued' then return end
  local element = '{"id":"' .. c.id .. '","t":"' .. (c.j.ticket or '') .. '"}'
  -- With a new ticket: should the old element be there after all, it counts no more.
  if element == c.missed then c.found('no element', function() line_up(c.id, true) end) end
  c.queued[#c.queued + 1], c.queued[#c.queued + 2] = c.id, element
end

function INSPECT.times(c)
  local is_final = c.ttl[c.j.state] ~= nil
  for _, name in ipairs(c.keys) do
    local ttl = call('PTTL', name)
    if is_final and ttl == -1 then c.found('ttl', function() call('PEXPIRE', name, 86400000) end)
    elseif not is_final and ttl >= 0 then c.found('unexpected ttl', function() call('PERSIST', name) end) end
  end
  if is_final then return end
  if call('HEXISTS', spec(c.id), 'spec') == 0 then c.found('no spec') end
  if c.j.deadline and not call('ZSCORE', DEADLINES, c.id) then
    c.found('deadline', function() call('ZADD', DEADLINES, c.j.deadline, c.id) end)
  end
end

local function inspect_job(c)
  if not INSPECT.types(c) then return end
  if call('EXISTS', c.key) == 0 then return INSPECT.absent(c) end
  INSPECT.numbers(c)
  INSPECT.response(c)
  c.j = job(c.id)
  local state = c.j.state
  if not state then return INSPECT.stub(c) end
  if state ~= 'queued' and state ~= 'running' and not INDEX[state] then return c.found('unknown state') end
  INSPECT.indexes(c)
  INSPECT.lease(c)
  INSPECT.element(c)
  INSPECT.times(c)
end

define('inspect', { 'allow-oom' }, function()
  local is_repairing, settings = ARGV[2] == 'repair', touch()
  local findings, queued, ttl = {}, {}, retention_of(settings, 3)
  for n = 6, #ARGV, 2 do
    local id = ARGV[n]
    local function found(rule, repair)
      if is_repairing and repair then repair() end
      findings[#findings + 1] = { id, rule, is_repairing and repair and '1' or '0' }
    end
    local c = { id = id, key = key(id), keys = { key(id), spec(id), offsets(id) }, found = found, is_repairing = is_repairing,
      ttl = ttl, missed = ARGV[n + 1], queued = queued }
    local fine = isolated(inspect_job, c)
    if not fine then findings[#findings + 1] = { id, 'trouble', '0' } end
  end
  return publish(named { findings = findings, queued = queued })
end)
