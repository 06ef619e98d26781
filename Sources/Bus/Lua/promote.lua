-- A task of the tick: puts scheduled jobs that are due at the end of the queue. Writes scheduled, job:<id>, jobs.
local function promote(tick)
  local max = budget(tick)
  local due = call('ZRANGEBYSCORE', SCHEDULED, '-inf', NOW, 'LIMIT', 0, max)
  each(due, function(id)
    call('ZREM', SCHEDULED, id)
    local job = wrong_type(id) and {} or read_job(id)
    if job.state == 'scheduled' then
      call('HSET', key(id), 'state', 'queued', 'updated', NOW)
      call('HDEL', key(id), 'waiting')
      enqueue_continuation(id, false)
      emit(id, job, 'queued', '')
    end
  end, function() end)
  spend(tick, #due, max)
end
