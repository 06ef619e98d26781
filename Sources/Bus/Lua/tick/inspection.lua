-- For `haul check`. Checks jobs by the rules of the bus, each job in one atomic call. With 'repair' it corrects what it
-- can.
--
-- ARGV: nonce, 'repair' or '', retention of completed, failed, cancelled jobs (ms), then for each job: id, and the
-- element that the caller did not find in the queue, or ''
-- Returns names and values: `findings`, a list of {id, rule, '1' if it was repaired}, and `queued`, pairs of a queued
-- job's id and its element. Finding.swift has a sentence for each rule. The caller checks whether these elements are in
-- the queue, because a search for each would take as long as the queue is.
-- Without 'repair' nothing is written.
--
-- Uses: Call, Events, Isolation, Jobs, Responses, Settings, States, UrlIndex.
-- Writes: job:<id>, spec:<id>, offsets:<id>, scheduled, paused, completed, failed, cancelled, leases, deadlines.
do
  -- The checks. `check` is the check of one job: `id`, `key`, `keys`, `found(rule, repair)`, `is_repairing`, `ttl` (ms
  -- by final state), `missed` (the element that was not in the queue), `queued` (collects elements), and `job`, the
  -- job, once it is read.
  local INSPECT = {}
  local NUMBERS = { 'want_at', 'settled_until', 'crashes', 'attempt', 'deadline_at', 'seq', 'pushed' }

  -- Whether an index entry of an ended job is only waiting for the next tick to trim it. The job's hash has expired by
  -- then.
  local function is_expired(c, check, state, score)
    return c.retention[state] and tonumber(score) <= c.now - tonumber(c.retention[state])
  end

  -- Whether all keys of the job are hashes. A repair deletes the others.
  function INSPECT.types(c, check)
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
  function INSPECT.absent(c, check)
    local id = check.id
    if call('EXISTS', c.SPEC .. id, c.OFFSETS .. id) > 0 then
      check.found('orphan', function() call('DEL', c.SPEC .. id, c.OFFSETS .. id) end)
    end
    local is_to_be_trimmed = false
    for state, index in pairs(c.INDEX) do
      local entry = call('ZSCORE', index, id)
      if entry and is_expired(c, check, state, entry) then is_to_be_trimmed = true
      elseif entry then check.found('index without job', function() call('ZREM', index, id) end) end
    end
    if call('ZSCORE', c.LEASES, id) then check.found('index without job', function() call('ZREM', c.LEASES, id) end) end
    local counted = Responses.size_of(c, id)
    if not is_to_be_trimmed and counted ~= false and counted ~= 0 then
      check.found('response', function() Responses.count(c, id, 0) end)
    end
    if call('ZSCORE', c.DEADLINES, id) then check.found('deadline', function() call('ZREM', c.DEADLINES, id) end) end
  end

  -- Fields that Jobs.read() would ignore, because they are not numbers.
  function INSPECT.numbers(c, check)
    local texts = call('HMGET', check.key, unpack(NUMBERS))
    for n, name in ipairs(NUMBERS) do
      if texts[n] and not number(texts[n]) then check.found('number', function() call('HDEL', check.key, name) end) end
    end
  end

  -- What is counted of the response must be what the hash holds (responses.lua).
  function INSPECT.response(c, check)
    local bytes, counted = 0, Responses.size_of(c, check.id)
    for _, part in ipairs({ 'headers', 'body', 'body_base64' }) do bytes = bytes + call('HSTRLEN', check.key, part) end
    if counted ~= false and counted ~= bytes then check.found('response', function() Responses.count(c, check.id, bytes) end) end
  end

  -- A control operation or a removal leaves a tombstone. Its fields must say so, and it must expire.
  function INSPECT.tombstone(c, check)
    if not (check.job.settled_until or check.job.want_at) then return check.found('no state') end
    if call('PTTL', check.key) < 0 then check.found('ttl', function() call('PEXPIRE', check.key, 3600000) end) end
  end

  -- The index of URLs must lead to the job.
  function INSPECT.urls(c, check)
    local digests = check.job.url_digests
    if digests and not UrlIndex.has(c, check.id, digests) then
      check.found('url', function() UrlIndex.restore(c, check.id, digests) end)
    end
  end

  function INSPECT.indexes(c, check)
    for state, index in pairs(c.INDEX) do
      local entry = call('ZSCORE', index, check.id)
      if entry and state ~= check.job.state and not is_expired(c, check, state, entry) then
        check.found('second index', function() call('ZREM', index, check.id) end)
      end
      -- The entry of an ended job may be trimmed shortly before its hash expires.
      if not entry and state == check.job.state and not (c.retention[state] and call('PTTL', check.key) < 15000) then
        check.found('no index', function() call('ZADD', index, c.NOW, check.id) end)
      end
    end
  end

  function INSPECT.lease(c, check)
    local id, job, lease = check.id, check.job, call('ZSCORE', c.LEASES, check.id)
    if job.state ~= 'running' then
      if lease then check.found('second index', function() call('ZREM', c.LEASES, id) end) end
      return
    end
    -- The lease ends at once, so the next tick requeues the job.
    local function end_lease() call('ZADD', c.LEASES, c.NOW, id) end
    if not lease then check.found('no lease', end_lease) end
    if not job.token or not job.worker then check.found('no token')
    elseif lease and tonumber(lease) > c.now and try('HGET', c.PREFIX .. KEY.worker .. job.worker, job.token) ~= id then
      check.found('unknown to its worker', end_lease)
    end
  end

  function INSPECT.element(c, check)
    if check.job.state ~= 'queued' then return end
    local element = '{"id":"' .. check.id .. '","t":"' .. (check.job.ticket or '') .. '"}'
    -- The new ticket makes the old element void, in case it is in the queue after all.
    if element == check.missed then check.found('no element', function() States.enqueue(c, check.id, true, check.job.group) end) end
    check.queued[#check.queued + 1], check.queued[#check.queued + 2] = check.id, element
  end

  function INSPECT.times(c, check)
    local is_final = c.retention[check.job.state] ~= nil
    for _, name in ipairs(check.keys) do
      local ttl = call('PTTL', name)
      if is_final and ttl == -1 then check.found('ttl', function() call('PEXPIRE', name, c.retention[check.job.state]) end)
      elseif not is_final and ttl >= 0 then check.found('unexpected ttl', function() call('PERSIST', name) end) end
    end
    if is_final then return end
    if call('HEXISTS', c.SPEC .. check.id, 'spec') == 0 then check.found('no spec') end
    if check.job.deadline and not call('ZSCORE', c.DEADLINES, check.id) then
      check.found('deadline', function() call('ZADD', c.DEADLINES, check.job.deadline, check.id) end)
    end
  end

  local function inspect_job(c, check)
    if not INSPECT.types(c, check) then return end
    if call('EXISTS', check.key) == 0 then return INSPECT.absent(c, check) end
    INSPECT.numbers(c, check)
    INSPECT.response(c, check)
    check.job = Jobs.read(c, check.id)
    local state = check.job.state
    if not state then return INSPECT.tombstone(c, check) end
    if state ~= 'queued' and state ~= 'running' and not c.INDEX[state] then return check.found('unknown state') end
    INSPECT.indexes(c, check)
    INSPECT.urls(c, check)
    INSPECT.lease(c, check)
    INSPECT.element(c, check)
    INSPECT.times(c, check)
  end

  Call.define('inspect', { 'allow-oom' }, function(c)
    local ARGV = c.ARGV
    Settings.read(c, nil, 3)
    -- What is repaired goes to the front of `jobs`, and is sorted from there. So this needs fewer rights.
    c.are_groups_used = false
    local is_repairing, findings, queued = ARGV[2] == 'repair', {}, {}
    for n = 6, #ARGV, 2 do
      local id = ARGV[n]
      local function found(rule, repair)
        if is_repairing and repair then repair() end
        findings[#findings + 1] = { id, rule, is_repairing and repair and '1' or '0' }
      end
      local check = { id = id, key = c.JOB .. id, keys = { c.JOB .. id, c.SPEC .. id, c.OFFSETS .. id }, found = found,
        is_repairing = is_repairing, missed = ARGV[n + 1], queued = queued }
      local fine = Isolation.run(c, inspect_job, c, check)
      if not fine then findings[#findings + 1] = { id, 'trouble', '0' } end
    end
    return Events.publish(c, Call.named { findings = findings, queued = queued })
  end)

  -- Returns the elements that an unknown worker holds to the front of the queue.
  --
  -- ARGV: nonce, worker
  -- Returns '1' if the worker holds nothing now, '0' if it may hold more, '-' if the worker is known: then ticks return
  -- its elements.
  Call.define('recover', { 'allow-oom' }, function(c)
    Settings.read(c)
    if call('ZSCORE', c.WORKERS, c.ARGV[2]) then return '-' end
    return States.return_elements(c, c.HELD, 1000) and '1' or '0'
  end)
end
