-- The workers of the queue: they register, live, and leave.
--
-- Uses: Call, Events, History, Isolation, Jobs, Losses, Permits, Rates, Settings, States.
-- Writes: worker:<worker>, workers, settings, host:<identity>.
do
  -- How many jobs one registration returns to the queue, each of which takes Redis some 70 µs.
  local MAX_RETURNED = 20

  -- Whether a call belongs to the worker's last registration. session: the instance and the session number, with a
  -- space between them. A call that was sent over a connection lost since may still arrive, and no worker would receive
  -- the jobs that it claims. Sets c.kinds, the kinds of jobs that this worker does.
  function Workers.is_current(c, session)
    local instance, known_session, done = unpack(call('HMGET', c.WORKER, 'instance', 'session', 'kinds'))
    c.kinds = done or KIND.all
    return instance and known_session and instance .. ' ' .. known_session == session
  end

  -- Registers a worker on a new connection. Requeues the claims that it does not know, because their replies were lost
  -- and their runs never began. If an earlier process had the name, all its jobs were lost with it. Also returns the
  -- elements that the worker holds.
  --
  -- ARGV: nonce, worker, instance, session (grows with each registration of this process), crash limit, retention of
  -- completed, failed, cancelled jobs (ms), number of the worker's fields, pairs of them, then the tokens that the
  -- worker knows
  -- Returns 'ok'; 'more' if there are more claims to requeue than one call does: then it has to be sent again; 'old' if a later registration of this process came first; or {'taken', instance, ms since that
  -- process was seen} while another live process has the name.
  Call.define('register', { 'allow-oom' }, function(c)
    local ARGV = c.ARGV
    call('HLEN', c.WORKER)
    Settings.read(c, nil, 6)
    local worker, instance = ARGV[2], ARGV[3]
    local known_instance, seen, session = unpack(call('HMGET', c.WORKER, 'instance', 'seen', 'session'))
    if known_instance and known_instance ~= instance and c.now - tonumber(seen or 0) < 3000 then
      return { 'taken', known_instance, integer_text(c.now - tonumber(seen or 0)) }
    end
    -- The call was sent over a connection that was lost, and knows fewer tokens than the later registration.
    if known_instance == instance and tonumber(ARGV[4]) < tonumber(session or 0) then return 'old' end
    local is_successor = known_instance ~= instance
    -- The setting was for the earlier process.
    if is_successor then call('HDEL', c.SETTINGS, 'quiet:' .. worker) end
    local count = tonumber(ARGV[9])
    local known = {}
    for n = 10 + count * 2, #ARGV do known[ARGV[n]] = true end
    local claims, returned = call('HGETALL', c.WORKER), 0
    local function return_job(id, token)
      local job = Jobs.find(c, id)
      if job.state ~= 'running' or job.token ~= token then return end
      if is_successor then Losses.end_run(c, id, job, tonumber(ARGV[5]))
      else States.requeue(c, id, job, true, 'reply lost') end
    end
    for n = 1, #claims, 2 do
      local token, id = claims[n], claims[n + 1]
      if #token == 32 and find(token, '^%x+$') and not known[token] then
        -- The worker is registered by the last of its calls, so until then it is a successor, too.
        if returned == MAX_RETURNED then return Events.publish(c, 'more') end
        returned = returned + 1
        -- A job that causes an error here is reaped when its lease ends.
        Isolation.run(c, return_job, id, token)
        call('HDEL', c.WORKER, token)
      end
    end
    call('ZADD', c.WORKERS, c.NOW, worker)
    local mine = { 'instance', instance, 'session', ARGV[4], 'seen', c.NOW }
    for n = 1, count * 2 do mine[#mine + 1] = ARGV[9 + n] end
    -- A process counts what it has received from 0.
    if is_successor then call('HDEL', c.WORKER, 'received') end
    call('HSET', c.WORKER, unpack(mine))
    call('PEXPIRE', c.WORKER, 86400000)
    States.return_elements(c, c.HELD, 1000)
    if Permits.are_limited(c) then Permits.offer(c, false) end
    return Events.publish(c, 'ok')
  end)

  -- A task of the tick: records that the worker lives. ARGV from `first` on: number of its own fields, then pairs of
  -- them. Does nothing if another process has the name now.
  function Workers.heartbeat(c, tick, first)
    local ARGV = c.ARGV
    local count = tonumber(ARGV[first])
    if not tick.is_known then return end
    local mine = { 'instance', tick.instance, 'seen', c.NOW }
    for n = 1, count * 2 do mine[#mine + 1] = ARGV[first + n] end
    for n = first + 1, first + count * 2, 2 do
      if ARGV[n] == 'received' then History.receive(c, ARGV[n + 1], tick.received) end
    end
    call('ZADD', c.WORKERS, c.NOW, tick.worker)
    call('HSET', c.WORKER, unpack(mine))
    call('PEXPIRE', c.WORKER, 86400000)
    -- A BLMOVE on a lost connection may have moved an element that no claim followed. If a claim does follow, it finds
    -- the element in the queue.
    if not States.return_elements(c, c.HELD, 50) then tick.more = true end
  end

  -- Forgets a worker that ends, and returns the elements that it holds to the queue.
  --
  -- ARGV: nonce, worker, instance, host identity (colocated.lua), bytes that the worker has received since it began
  -- Returns nothing. Does nothing if another process has the name.
  Call.define('leave', { 'allow-oom' }, function(c)
    local ARGV = c.ARGV
    Settings.read(c)
    local known, received = unpack(call('HMGET', c.WORKER, 'instance', 'received'))
    if (known or ARGV[3]) ~= ARGV[3] then return end
    -- If the call is sent again, the hash is gone, and nothing is counted twice.
    if known then History.receive(c, ARGV[5], received) end
    States.return_elements(c, c.HELD, 1000)
    call('DEL', c.WORKER)
    Rates.end_leases(c, ARGV[3])
    call('HDEL', c.SETTINGS, 'quiet:' .. ARGV[2])
    call('HDEL', c.PREFIX .. KEY.host .. ARGV[4], ARGV[2])
    -- The server may still have a BLMOVE of a lost connection, which can move an element. So ticks check this worker's
    -- `held` list for another 15 s.
    call('ZADD', c.WORKERS, integer_text(c.now - 86400000 + 15000), ARGV[2])
    -- There may be no other worker whose tick writes the counts.
    History.keep(c)
  end)
end
