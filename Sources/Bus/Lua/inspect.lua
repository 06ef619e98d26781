-- Judges jobs by the rules of the bus, each at one moment; with 'repair' it puts right what can be.
--
-- ARGV: nonce, 'repair' or '', retention of completed, failed, cancelled (ms), id, its element that was missed in line
--       or '', …
-- Returns {id, rule, repaired ('1' or '0'), …}, {id of a queued job, its element, …}; Finding.swift has the rules'
-- sentences. Whether an element is in line is for the caller to see: to look for each takes as long as the line is.
define('inspect', { 'allow-oom' }, function()
  local repairing, settings = ARGV[2] == 'repair', touch()
  local findings, queued = {}, {}
  local NUMBERS = { 'wantat', 'asof', 'crashes', 'attempt', 'deadline_at', 'seq', 'pushed' }
  local TTL = retention_of(settings, 3)

  -- Hashes of ended jobs expire by themselves, their entries are the next tick's to trim.
  local function is_over(state, score) return TTL[state] and tonumber(score) <= now - tonumber(TTL[state]) end

  local function judge(id, missed)
    local k = key(id)
    local function found(rule, repair)
      if repairing and repair then repair() end
      for _, x in ipairs({ id, rule, repairing and repair and '1' or '0' }) do findings[#findings + 1] = x end
    end
    for _, name in ipairs({ k, spec(id), offsets(id) }) do
      local kind = call('TYPE', name).ok
      if kind ~= 'hash' and kind ~= 'none' then
        found('type', function() call('DEL', name) end)
        if not repairing then return end
      end
    end
    local exists = call('EXISTS', k) == 1
    if not exists then
      if call('EXISTS', spec(id), offsets(id)) > 0 then
        found('orphan', function() call('DEL', spec(id), offsets(id)) end)
      end
      for state, index in pairs(INDEX) do
        local there = call('ZSCORE', index, id)
        if there and not is_over(state, there) then
          found('index without job', function() call('ZREM', index, id) end)
        end
      end
      if call('ZSCORE', LEASES, id) then found('index without job', function() call('ZREM', LEASES, id) end) end
      if call('ZSCORE', DEADLINES, id) then found('deadline', function() call('ZREM', DEADLINES, id) end) end
      return
    end
    -- What job() takes for absent.
    local texts = call('HMGET', k, unpack(NUMBERS))
    for n, name in ipairs(NUMBERS) do
      if texts[n] and not number(texts[n]) then found('number', function() call('HDEL', k, name) end) end
    end
    local j = job(id)
    local st = j.state
    if not st then
      if not (j.asof or j.wantat) then return found('no state') end
      if call('PTTL', k) < 0 then found('ttl', function() call('PEXPIRE', k, 3600000) end) end
      return
    end
    if st ~= 'queued' and st ~= 'running' and not INDEX[st] then return found('unknown state') end
    for state, index in pairs(INDEX) do
      local there = call('ZSCORE', index, id)
      if there and state ~= st and not is_over(state, there) then
        found('second place', function() call('ZREM', index, id) end)
      end
      -- A final job's entry may be trimmed a moment before its hash expires.
      if not there and state == st and not (TTL[st] and call('PTTL', k) < 5000) then
        found('no place', function() call('ZADD', index, NOW, id) end)
      end
    end
    local lease = call('ZSCORE', LEASES, id)
    if st == 'running' then
      -- With a lease that is over, the reaper takes it and puts it back in line.
      if not lease then found('no lease', function() call('ZADD', LEASES, NOW, id) end) end
      if not j.token or not j.worker then found('no token')
      elseif lease and tonumber(lease) > now and redis.pcall('HGET', PREFIX .. 'worker:' .. j.worker, j.token) ~= id then
        found('unknown to its worker', function() call('ZADD', LEASES, NOW, id) end)
      end
    elseif lease then
      found('second place', function() call('ZREM', LEASES, id) end)
    end
    if st == 'queued' then
      local element = '{"id":"' .. id .. '","t":"' .. (j.ticket or '') .. '"}'
      -- With a new ticket: should the old element be there after all, it counts no more.
      if element == missed then found('no element', function() line_up(id, true) end) end
      queued[#queued + 1] = id
      queued[#queued + 1] = element
    end
    for _, name in ipairs({ k, spec(id), offsets(id) }) do
      local ttl = call('PTTL', name)
      if TTL[st] and ttl == -1 then
        found('ttl', function() call('PEXPIRE', name, 86400000) end)
      elseif not TTL[st] and ttl >= 0 then
        found('unexpected ttl', function() call('PERSIST', name) end)
      end
    end
    if not TTL[st] and call('HEXISTS', spec(id), 'spec') == 0 then found('no spec') end
    if j.deadline and not TTL[st] and not call('ZSCORE', DEADLINES, id) then
      found('deadline', function() call('ZADD', DEADLINES, j.deadline, id) end)
    end
  end

  for n = 6, #ARGV, 2 do
    local id = ARGV[n]
    local fine = isolated(judge, id, ARGV[n + 1])
    if not fine then for _, x in ipairs({ id, 'trouble', '0' }) do findings[#findings + 1] = x end end
  end
  return publish({ findings, queued })
end)
