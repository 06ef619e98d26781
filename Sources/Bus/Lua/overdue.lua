-- A duty of tick.lua: completed jobs are told of after a minute although no replica has said that it has them. Their producers
-- wait for them, and their worker may be gone.
local function tell_overdue(tick)
  local most = share(tick)
  local overdue = call('ZRANGEBYSCORE', UNTOLD, '-inf', now - 60000, 'LIMIT', 0, most)
  each(overdue, function(id) tell(id, UNREPLICATED) end, function(id) call('ZREM', UNTOLD, id) end)
  spend(tick, #overdue, most)
end
