-- Tasks of the tick: workers on one machine notice the end of each other's process before its lease ends. The host
-- identity stands for the machine since its boot, and the namespaces in which process numbers mean the same; it is ''
-- if it is unknown. `process` describes a worker's process: 'instance number start'.
--
-- Uses: Losses.
-- Writes: host:<identity>.
do
  -- Adds to tick.silent the name and process of each worker with this host identity that has missed a tick. This worker
  -- then checks whether that process still exists.
  function Colocated.register(c, tick)
    local silent = tick.silent
    if tick.host_identity == '' or not tick.is_known then return end
    local host = c.PREFIX .. KEY.host .. tick.host_identity
    if call('HGET', host, tick.worker) ~= tick.process then
      call('HSET', host, tick.worker, tick.process)
      call('PEXPIRE', host, 86400000)
      for _, worker in ipairs(call('HKEYS', host)) do
        if not call('ZSCORE', c.WORKERS, worker) then call('HDEL', host, worker) end
      end
    end
    for _, worker in ipairs(tick.missed) do
      local process = call('HGET', host, worker)
      if process then silent[#silent + 1], silent[#silent + 2] = worker, process end
    end
  end

  -- Requeues the jobs and elements of workers whose processes have ended, as this worker has found. ARGV from `first`
  -- on: their number, then name and process of each.
  function Colocated.reap_gone(c, tick, first)
    local ARGV = c.ARGV
    local last = first + 2 * tonumber(ARGV[first])
    for argument = first + 1, last, 2 do
      if Losses.has_done_enough(tick) then return end
      local worker, process = ARGV[argument], ARGV[argument + 1]
      local host, hash = c.PREFIX .. KEY.host .. tick.host_identity, c.PREFIX .. KEY.worker .. worker
      local instance = try('HGET', hash, 'instance')
      -- Another process may have taken the name since. Its jobs stay.
      if call('HGET', host, worker) == process and instance == match(process, '^%S+') then
        if Losses.end_worker(c, tick, worker, instance) then call('HDEL', host, worker) end
      end
    end
  end
end
