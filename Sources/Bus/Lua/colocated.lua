-- Tasks of the tick: workers on one machine notice the end of each other's process before its lease ends. The host
-- identity stands for the machine since its boot, and the namespaces in which process numbers mean the same; it is ''
-- if it is unknown. `process` describes a worker's process: 'instance number start'.

-- Adds to tick.silent the name and process of each worker with this host identity that was silent for longer than a
-- tick. This worker then checks whether that process still exists. Writes host:<identity>.
local function register_colocated(tick)
  local silent = tick.silent
  if tick.host_identity == '' or not tick.is_known then return end
  local host = PREFIX .. KEY.host .. tick.host_identity
  if call('HGET', host, tick.worker) ~= tick.process then
    call('HSET', host, tick.worker, tick.process)
    call('PEXPIRE', host, 86400000)
  end
  local all = call('HGETALL', host)
  for n = 1, #all, 2 do
    local worker, process = all[n], all[n + 1]
    local seen = call('ZSCORE', WORKERS, worker)
    if not seen then call('HDEL', host, worker)
    elseif worker ~= tick.worker and tonumber(seen) <= now - 1300 then
      silent[#silent + 1], silent[#silent + 2] = worker, process
    end
  end
end

-- Requeues the jobs and elements of workers whose processes have ended, as this worker has found. ARGV from `first` on:
-- their number, then name and process of each. Writes worker:<worker>, held:<worker>, jobs, host:<identity>, and what
-- lose() and hosts.end_rate_leases() write.
local function reap_gone(tick, first)
  local last = first + 2 * tonumber(ARGV[first])
  for argument = first + 1, last, 2 do
    local worker, process = ARGV[argument], ARGV[argument + 1]
    local host, hash = PREFIX .. KEY.host .. tick.host_identity, PREFIX .. KEY.worker .. worker
    local instance = redis.pcall('HGET', hash, 'instance')
    -- Another process may have taken the name since. Its jobs stay.
    if call('HGET', host, worker) == process and instance == string.match(process, '^%S+') then
      hosts.end_rate_leases(instance)
      -- The hash has fewer than 20 fields besides the claims.
      local max, tokens, held = budget(tick), {}, {}
      local claims = call('HRANDFIELD', hash, max + 20, 'WITHVALUES')
      for n = 1, #claims, 2 do
        local token, id = claims[n], claims[n + 1]
        if #held < max and #token == 32 and string.find(token, '^%x+$') then
          held[#held + 1], tokens[id] = id, token
          call('HDEL', hash, token)
        end
      end
      -- A job that causes an error here is reaped when its lease ends.
      each(held, function(id)
        local job = not wrong_type(id) and read_job(id) or {}
        if job.state == 'running' and job.token == tokens[id] then reap(tick, id, job) end
      end, function() end)
      spend(tick, #held, max)
      if return_elements(PREFIX .. KEY.held .. worker, 50) and #held < max then call('HDEL', host, worker) else tick.more = true end
    end
  end
end
