-- A duty of tick.lua: completed jobs are told of after a minute although no replica has said that it has them. Their producers
-- wait for them, and their worker may be gone.
local function tell_overdue(tick)
  local overdue = call('ZRANGEBYSCORE', UNTOLD, '-inf', now - 60000, 'LIMIT', 0, 100)
  each(overdue, function(id) tell(id, ',"unreplicated":true') end, function(id) call('ZREM', UNTOLD, id) end)
  if #overdue == 100 then tick.more = true end
end
