-- A duty of tick.lua: the deadlines of jobs that nobody runs; a running one is ended by its worker.
local function expire(tick)
  each(call('ZRANGEBYSCORE', DEADLINES, '-inf', now, 'LIMIT', 0, 100), function(id)
    local j = is_strange(id) and {} or job(id)
    if j.state == 'queued' or j.state == 'scheduled' or j.state == 'paused' then
      fail(id, j, 'deadline', 'the deadline passed before the download could end', false, tick.retention)
    elseif j.state ~= 'running' then
      call('ZREM', DEADLINES, id)
    end
  end, function(id) call('ZREM', DEADLINES, id) end)
end
