-- A task of the tick: publishes `completed` for jobs that have waited for replicas for a minute. Their producers wait
-- for it, and their worker may have ended. Writes unannounced, and what announce() writes.
local function announce_overdue(tick)
  local max = budget(tick)
  local overdue = call('ZRANGEBYSCORE', UNANNOUNCED, '-inf', now - 60000, 'LIMIT', 0, max)
  each(overdue, function(id) announce(id, UNREPLICATED) end, function(id) call('ZREM', UNANNOUNCED, id) end)
  spend(tick, #overdue, max)
end
