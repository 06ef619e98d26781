-- Checks jobs by the rules of the bus, each job in one atomic call. With 'repair' it corrects what it can.
--
-- ARGV: nonce, 'repair' or '', retention of completed, failed, cancelled jobs (ms), then for each job: id, and the
-- element that the caller did not find in the queue, or ''
-- Returns names and values: `findings`, a list of {id, rule, '1' if it was repaired}, and `queued`, pairs of a queued
-- job's id and its element. Finding.swift has a sentence for each rule. The caller checks whether these elements are in
-- the queue, because a search for each would take as long as the queue is.
-- Writes nothing without 'repair'. With it: the job's keys, its indexes, leases, deadlines, jobs, responses,
-- response_bytes.

-- The checks. `check` is the check of one job: `id`, `key`, `keys`, `found(rule, repair)`, `is_repairing`, `ttl` (ms by
-- final state), `missed` (the element that was not in the queue), `queued` (collects elements), and `job`, the job,
-- once it is read.
local INSPECT = {}
local NUMBERS = { 'want_at', 'settled_until', 'crashes', 'attempt', 'deadline_at', 'seq', 'pushed' }

-- Whether an index entry of an ended job is only waiting for the next tick to trim it. The job's hash has expired by
-- then.
local function is_expired(check, state, score) return check.ttl[state] and tonumber(score) <= now - tonumber(check.ttl[state]) end

-- Whether all keys of the job are hashes. A repair deletes the others.
function INSPECT.types(check)
  for _, name in ipairs(check.keys) do
    local kind = call('TYPE', name).ok
    if kind ~= 'hash' and kind ~= 'none' then
      check.found('type', function() call('DEL', name) end)
      if not check.is_repairing then return false end
    end
  end
  return true
end

-- Without a hash, the job must have no other keys and entries.
function INSPECT.absent(check)
  local id = check.id
  if call('EXISTS', spec(id), offsets(id)) > 0 then
    check.found('orphan', function() call('DEL', spec(id), offsets(id)) end)
  end
  local is_to_be_trimmed = false
  for state, index in pairs(INDEX) do
    local there = call('ZSCORE', index, id)
    if there and is_expired(check, state, there) then is_to_be_trimmed = true
    elseif there then check.found('index without job', function() call('ZREM', index, id) end) end
  end
  if call('ZSCORE', LEASES, id) then check.found('index without job', function() call('ZREM', LEASES, id) end) end
  local counted = responses.size_of(id)
  if not is_to_be_trimmed and counted ~= false and counted ~= 0 then
    check.found('response', function() responses.count(id, 0) end)
  end
  if call('ZSCORE', DEADLINES, id) then check.found('deadline', function() call('ZREM', DEADLINES, id) end) end
end

-- Fields that read_job() would ignore, because they are not numbers.
function INSPECT.numbers(check)
  local texts = call('HMGET', check.key, unpack(NUMBERS))
  for n, name in ipairs(NUMBERS) do
    if texts[n] and not number(texts[n]) then check.found('number', function() call('HDEL', check.key, name) end) end
  end
end

-- What is counted of the response must be what the hash holds (responses.lua).
function INSPECT.response(check)
  local bytes, counted = 0, responses.size_of(check.id)
  for _, part in ipairs({ 'headers', 'body', 'body_base64' }) do bytes = bytes + call('HSTRLEN', check.key, part) end
  if counted ~= false and counted ~= bytes then check.found('response', function() responses.count(check.id, bytes) end) end
end

-- A control operation or a removal leaves a tombstone. Its fields must say so, and it must expire.
function INSPECT.tombstone(check)
  if not (check.job.settled_until or check.job.want_at) then return check.found('no state') end
  if call('PTTL', check.key) < 0 then check.found('ttl', function() call('PEXPIRE', check.key, 3600000) end) end
end

function INSPECT.indexes(check)
  for state, index in pairs(INDEX) do
    local there = call('ZSCORE', index, check.id)
    if there and state ~= check.job.state and not is_expired(check, state, there) then
      check.found('second place', function() call('ZREM', index, check.id) end)
    end
    -- The entry of an ended job may be trimmed shortly before its hash expires.
    if not there and state == check.job.state and not (check.ttl[state] and call('PTTL', check.key) < 5000) then
      check.found('no place', function() call('ZADD', index, NOW, check.id) end)
    end
  end
end

function INSPECT.lease(check)
  local id, job, lease = check.id, check.job, call('ZSCORE', LEASES, check.id)
  if job.state ~= 'running' then
    if lease then check.found('second place', function() call('ZREM', LEASES, id) end) end
    return
  end
  -- The lease ends at once, so the next tick requeues the job.
  local function end_lease() call('ZADD', LEASES, NOW, id) end
  if not lease then check.found('no lease', end_lease) end
  if not job.token or not job.worker then check.found('no token')
  elseif lease and tonumber(lease) > now and redis.pcall('HGET', PREFIX .. KEY.worker .. job.worker, job.token) ~= id then
    check.found('unknown to its worker', end_lease)
  end
end

function INSPECT.element(check)
  if check.job.state ~= 'queued' then return end
  local element = '{"id":"' .. check.id .. '","t":"' .. (check.job.ticket or '') .. '"}'
  -- The new ticket makes the old element void, in case it is in the queue after all.
  if element == check.missed then check.found('no element', function() enqueue_continuation(check.id, true) end) end
  check.queued[#check.queued + 1], check.queued[#check.queued + 2] = check.id, element
end

function INSPECT.times(check)
  local is_final = check.ttl[check.job.state] ~= nil
  for _, name in ipairs(check.keys) do
    local ttl = call('PTTL', name)
    if is_final and ttl == -1 then check.found('ttl', function() call('PEXPIRE', name, check.ttl[check.job.state]) end)
    elseif not is_final and ttl >= 0 then check.found('unexpected ttl', function() call('PERSIST', name) end) end
  end
  if is_final then return end
  if call('HEXISTS', spec(check.id), 'spec') == 0 then check.found('no spec') end
  if check.job.deadline and not call('ZSCORE', DEADLINES, check.id) then
    check.found('deadline', function() call('ZADD', DEADLINES, check.job.deadline, check.id) end)
  end
end

local function inspect_job(check)
  if not INSPECT.types(check) then return end
  if call('EXISTS', check.key) == 0 then return INSPECT.absent(check) end
  INSPECT.numbers(check)
  INSPECT.response(check)
  check.job = read_job(check.id)
  local state = check.job.state
  if not state then return INSPECT.tombstone(check) end
  if state ~= 'queued' and state ~= 'running' and not INDEX[state] then return check.found('unknown state') end
  INSPECT.indexes(check)
  INSPECT.lease(check)
  INSPECT.element(check)
  INSPECT.times(check)
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
    local check = { id = id, key = key(id), keys = { key(id), spec(id), offsets(id) }, found = found, is_repairing = is_repairing,
      ttl = ttl, missed = ARGV[n + 1], queued = queued }
    local fine = isolated(inspect_job, check)
    if not fine then findings[#findings + 1] = { id, 'trouble', '0' } end
  end
  return publish(named { findings = findings, queued = queued })
end)
