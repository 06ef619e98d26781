-- Duties of tick.lua: put back what lost workers left, unless nobody looked after the queue for some time (silence.lua).

-- Ends the run of a job whose worker is lost. Writes what lose() writes.
local function reap(tick, id, job)
  lose(id, job, tick.crash_limit, tick.retention)
end

-- Takes jobs from workers that are lost: their leases are over. Writes leases, and what lose() writes.
local function reap_jobs(tick)
  if now < tick.grace then return end
  local most = budget(tick)
  local lost = call('ZRANGEBYSCORE', LEASES, '-inf', NOW, 'LIMIT', 0, most)
  each(lost, function(id)
    local job = is_strange(id) and {} or read_job(id)
    if job.state ~= 'running' then call('ZREM', LEASES, id) else reap(tick, id, job) end
  end, function(id) call('ZREM', LEASES, id) end)
  spend(tick, #lost, most)
end

-- Puts back elements that lost workers took and did not claim. The BLMOVE of a frozen worker may still take one, so
-- each worker is looked at for a day after it was last seen: 200 of them each second, in turn. Writes held:<worker>,
-- jobs, workers, settings.
local function reap_elements(tick)
  if now < tick.grace then return end
  local absent = call('ZCOUNT', WORKERS, '-inf', whole(now - tick.lease))
  local first = absent > 200 and math.floor(now / 1000) * 200 % absent or 0
  local names = call('ZRANGEBYSCORE', WORKERS, '-inf', whole(now - tick.lease), 'WITHSCORES', 'LIMIT', first, 200)
  local left = 50
  for k = 1, #names, 2 do
    local isEmpty, moved = return_elements(PREFIX .. KEY.held .. names[k], left)
    left = left - moved
    -- After this nobody looks at the worker's `held` list again.
    if isEmpty and tonumber(names[k + 1]) < now - 86400000 then
      call('ZREM', WORKERS, names[k])
      call('HDEL', SETTINGS, 'quiet:' .. names[k])
    end
    if left == 0 then
      tick.more = true
      return
    end
  end
end
