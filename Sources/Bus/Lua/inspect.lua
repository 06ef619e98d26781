-- Checks jobs by the rules of the bus, each job at one moment. With 'repair' it corrects what it can.
--
-- ARGV: nonce, 'repair' or '', retention of completed, failed, cancelled jobs (ms), then for each job: id, and the
-- element that the caller did not find in line, or ''
-- Returns names and values: `findings`, a list of {id, rule, '1' if it was repaired}, and `queued`, pairs of a queued
-- job's id and its element. Finding.swift has a sentence for each rule. The caller checks whether these elements are in
-- line: a search for each would take as long as the line is.
-- Writes nothing without 'repair'. With it: the job's keys, its indexes, leases, deadlines, jobs, responses,
-- response_bytes.

-- The checks. `c` is the check of one job: `id`, `key`, `keys`, `found(rule, repair)`, `is_repairing`, `ttl` (ms by
-- final state), `missed` (the element that was not in line), `queued` (collects elements), and `job`, the job, once it is
-- read.
local INSPECT = {}
local NUMBERS = { 'want_at', 'settled_until', 'crashes', 'attempt', 'deadline_at', 'seq', 'pushed' }

-- Whether an index entry of an ended job is only waiting for the next tick to trim it. The job's hash has expired by
-- then.
local function is_over(c, state, score) return c.ttl[state] and tonumber(score) <= now - tonumber(c.ttl[state]) end

-- Whether all keys of the job are hashes. A repair deletes the others.
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

-- Without a hash, the job must have no other keys and entries.
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

-- Fields that read_job() would ignore, because they hold no number.
function INSPECT.numbers(c)
  local texts = call('HMGET', c.key, unpack(NUMBERS))
  for n, name in ipairs(NUMBERS) do
    if texts[n] and not number(texts[n]) then c.found('number', function() call('HDEL', c.key, name) end) end
  end
end

-- What is counted of the response must be what the hash holds (responses.lua).
function INSPECT.response(c)
  local bytes, counted = 0, fleet.size_of_response(c.id)
  for _, part in ipairs({ 'headers', 'body', 'body_base64' }) do bytes = bytes + call('HSTRLEN', c.key, part) end
  if counted ~= false and counted ~= bytes then c.found('response', function() fleet.count_response(c.id, bytes) end) end
end

-- A stub is what a request or a removal leaves. It must say so, and expire.
function INSPECT.tombstone(c)
  if not (c.job.settled_until or c.job.want_at) then return c.found('no state') end
  if call('PTTL', c.key) < 0 then c.found('ttl', function() call('PEXPIRE', c.key, 3600000) end) end
end

function INSPECT.indexes(c)
  for state, index in pairs(INDEX) do
    local there = call('ZSCORE', index, c.id)
    if there and state ~= c.job.state and not is_over(c, state, there) then
      c.found('second place', function() call('ZREM', index, c.id) end)
    end
    -- The entry of an ended job may be trimmed a moment before its hash expires.
    if not there and state == c.job.state and not (c.ttl[state] and call('PTTL', c.key) < 5000) then
      c.found('no place', function() call('ZADD', index, NOW, c.id) end)
    end
  end
end

function INSPECT.lease(c)
  local id, job, lease = c.id, c.job, call('ZSCORE', LEASES, c.id)
  if job.state ~= 'running' then
    if lease then c.found('second place', function() call('ZREM', LEASES, id) end) end
    return
  end
  -- The lease is over at once, so the next tick puts the job back in line.
  local function end_lease() call('ZADD', LEASES, NOW, id) end
  if not lease then c.found('no lease', end_lease) end
  if not job.token or not job.worker then c.found('no token')
  elseif lease and tonumber(lease) > now and redis.pcall('HGET', PREFIX .. KEY.worker .. job.worker, job.token) ~= id then
    c.found('unknown to its worker', end_lease)
  end
end

function INSPECT.element(c)
  if c.job.state ~= 'queued' then return end
  local element = '{"id":"' .. c.id .. '","t":"' .. (c.job.ticket or '') .. '"}'
  -- The new ticket makes the old element void, should it be in line after all.
  if element == c.missed then c.found('no element', function() enqueue_continuation(c.id, true) end) end
  c.queued[#c.queued + 1], c.queued[#c.queued + 2] = c.id, element
end

function INSPECT.times(c)
  local is_final = c.ttl[c.job.state] ~= nil
  for _, name in ipairs(c.keys) do
    local ttl = call('PTTL', name)
    if is_final and ttl == -1 then c.found('ttl', function() call('PEXPIRE', name, c.ttl[c.job.state]) end)
    elseif not is_final and ttl >= 0 then c.found('unexpected ttl', function() call('PERSIST', name) end) end
  end
  if is_final then return end
  if call('HEXISTS', spec(c.id), 'spec') == 0 then c.found('no spec') end
  if c.job.deadline and not call('ZSCORE', DEADLINES, c.id) then
    c.found('deadline', function() call('ZADD', DEADLINES, c.job.deadline, c.id) end)
  end
end

local function inspect_job(c)
  if not INSPECT.types(c) then return end
  if call('EXISTS', c.key) == 0 then return INSPECT.absent(c) end
  INSPECT.numbers(c)
  INSPECT.response(c)
  c.job = read_job(c.id)
  local state = c.job.state
  if not state then return INSPECT.tombstone(c) end
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
