-- A duty of tick.lua: publishes `completed` for jobs that have waited for replicas for a minute. Their producers wait
-- for it, and their worker may have ended. Writes untold, and what tell() writes.
local function tell_overdue(tick)
  local most = share(tick)
  local overdue = call('ZRANGEBYSCORE', UNTOLD, '-inf', now - 60000, 'LIMIT', 0, most)
  each(overdue, function(id) tell(id, UNREPLICATED) end, function(id) call('ZREM', UNTOLD, id) end)
  spend(tick, #overdue, most)
end
