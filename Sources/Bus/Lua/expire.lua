-- A task of the tick: fails queued, scheduled and paused jobs whose deadline has passed. Writes deadlines, and what
-- overdue() writes.
--
-- A running job is ended by its worker, and stays at the head of `deadlines` until then. So if there are many entries,
-- each second checks the next 100 of them, and running jobs do not block the others.
local function expire(tick)
  local count = call('ZCOUNT', DEADLINES, '-inf', NOW)
  if count == 0 then return end
  local first = count > 100 and math.floor(now / 1000) * 100 % count or 0
  local max, ids, ended = budget(tick), {}, 0
  for _, id in ipairs(call('ZRANGEBYSCORE', DEADLINES, '-inf', NOW, 'LIMIT', first, 100)) do
    if #ids < max and not call('ZSCORE', LEASES, id) then ids[#ids + 1] = id end
  end
  local function remove(id)
    call('ZREM', DEADLINES, id)
    ended = ended + 1
  end
  each(ids, function(id)
    local job = wrong_type(id) and {} or read_job(id)
    if job.state == 'queued' or job.state == 'scheduled' or job.state == 'paused' then
      overdue(id, job, tick.retention)
      ended = ended + 1
    elseif job.state ~= 'running' then
      remove(id)
    end
  end, remove)
  spend(tick, ended, max)
  if count > 100 and ended > 0 then tick.more = true end
end
