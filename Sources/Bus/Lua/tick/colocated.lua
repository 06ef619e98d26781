-- Tasks of the tick: workers on one machine notice the end of each other's process before its lease ends. The host
-- identity stands for the machine since its boot, and the namespaces in which process numbers mean the same; it is ''
-- if it is unknown. `process` describes a worker's process: 'instance number start'.
--
-- Uses: Budget, Isolation, Jobs, Losses, Rates, States.
-- Writes: host:<identity>, worker:<worker>.
do
  -- Adds to tick.silent the name and process of each worker with this host identity that was silent for longer than a
  -- tick. This worker then checks whether that process still exists.
  function Colocated.register(c, tick)
    local silent = tick.silent
    if tick.host_identity == '' or not tick.is_known then return end
    local host = c.PREFIX .. KEY.host .. tick.host_identity
    if call('HGET', host, tick.worker) ~= tick.process then
      call('HSET', host, tick.worker, tick.process)
      call('PEXPIRE', host, 86400000)
    end
    local all = call('HGETALL', host)
    for n = 1, #all, 2 do
      local worker, process = all[n], all[n + 1]
      local seen = call('ZSCORE', c.WORKERS, worker)
      if not seen then call('HDEL', host, worker)
      elseif worker ~= tick.worker and tonumber(seen) <= c.now - 1300 then
        silent[#silent + 1], silent[#silent + 2] = worker, process
      end
    end
  end

  -- Requeues the jobs and elements of workers whose processes have ended, as this worker has found. ARGV from `first`
  -- on: their number, then name and process of each.
  function Colocated.reap_gone(c, tick, first)
    local ARGV = c.ARGV
    local last = first + 2 * tonumber(ARGV[first])
    for argument = first + 1, last, 2 do
      local worker, process = ARGV[argument], ARGV[argument + 1]
      local host, hash = c.PREFIX .. KEY.host .. tick.host_identity, c.PREFIX .. KEY.worker .. worker
      local instance = try('HGET', hash, 'instance')
      -- Another process may have taken the name since. Its jobs stay.
      if call('HGET', host, worker) == process and instance == string.match(process, '^%S+') then
        Rates.end_leases(c, instance)
        -- The hash has fewer than 20 fields besides the claims.
        local max, tokens, held = Budget.of(tick), {}, {}
        local claims = call('HRANDFIELD', hash, max + 20, 'WITHVALUES')
        for n = 1, #claims, 2 do
          local token, id = claims[n], claims[n + 1]
          if #held < max and #token == 32 and string.find(token, '^%x+$') then
            held[#held + 1], tokens[id] = id, token
            call('HDEL', hash, token)
          end
        end
        -- A job that causes an error here is reaped when its lease ends.
        Isolation.each(c, held, function(id)
          local job = not Jobs.wrong_type(c, id) and Jobs.read(c, id) or {}
          if job.state == 'running' and job.token == tokens[id] then Losses.end_run(c, id, job, tick.crash_limit) end
        end, function() end)
        Budget.spend(tick, #held, max)
        local is_empty = States.return_elements(c, c.PREFIX .. KEY.held .. worker, 50)
        if is_empty and #held < max then call('HDEL', host, worker) else tick.more = true end
      end
    end
  end
end
