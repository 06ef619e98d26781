-- A duty of tick.lua: puts scheduled jobs that are due at the end of the line. Writes scheduled, job:<id>, jobs.
local function promote(tick)
  local most = share(tick)
  local due = call('ZRANGEBYSCORE', SCHEDULED, '-inf', NOW, 'LIMIT', 0, most)
  each(due, function(id)
    call('ZREM', SCHEDULED, id)
    local j = is_strange(id) and {} or job(id)
    if j.state == 'scheduled' then
      call('HSET', key(id), 'state', 'queued', 'updated', NOW)
      call('HDEL', key(id), 'waiting')
      line_up(id, false)
      emit(id, j, 'queued', '')
    end
  end, function() end)
  spend(tick, #due, most)
end
