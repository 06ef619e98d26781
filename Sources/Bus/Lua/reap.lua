-- Tasks of the tick: requeue what lost workers left, unless no worker maintained the queue for some time (silence.lua).

-- Ends the run of a job whose worker is lost. Writes what lose() writes.
local function reap(tick, id, job)
  lose(id, job, tick.crash_limit, tick.retention)
end

-- Ends the runs of workers that are lost, because their leases have ended. Writes leases, and what lose() writes.
local function reap_jobs(tick)
  if now < tick.grace then return end
  local max = budget(tick)
  local lost = call('ZRANGEBYSCORE', LEASES, '-inf', NOW, 'LIMIT', 0, max)
  each(lost, function(id)
    local job = wrong_type(id) and {} or read_job(id)
    if job.state ~= 'running' then call('ZREM', LEASES, id) else reap(tick, id, job) end
  end, function(id) call('ZREM', LEASES, id) end)
  spend(tick, #lost, max)
end

-- Returns elements that lost workers hold and did not claim. The BLMOVE of a frozen worker may still move one, so each
-- worker is checked for a day after it was last seen: 200 of them each second, in turn. Writes held:<worker>,
-- jobs, workers, settings.
local function reap_elements(tick)
  if now < tick.grace then return end
  local absent = call('ZCOUNT', WORKERS, '-inf', integer_text(now - tick.lease))
  local first = absent > 200 and math.floor(now / 1000) * 200 % absent or 0
  local names = call('ZRANGEBYSCORE', WORKERS, '-inf', integer_text(now - tick.lease), 'WITHSCORES', 'LIMIT', first, 200)
  local left = 50
  for n = 1, #names, 2 do
    local is_empty, moved = return_elements(PREFIX .. KEY.held .. names[n], left)
    left = left - moved
    -- After this no tick checks the worker's `held` list again.
    if is_empty and tonumber(names[n + 1]) < now - 86400000 then
      call('ZREM', WORKERS, names[n])
      call('HDEL', SETTINGS, 'quiet:' .. names[n])
    end
    if left == 0 then
      tick.more = true
      return
    end
  end
end
