-- A duty of tick.lua: notes that the queue was looked after. One that nobody looked after (a Redis that stalled or restarted)
-- robs no live worker: its leases are young again.
local function watch(tick)
  local last, grace = string.match(call('GET', TICK) or '', '^(%d+) (%d+)$')
  last, grace = tonumber(last or now), tonumber(grace or 0)
  if now - last > 2500 then grace = now + tick.lease end
  call('SET', TICK, NOW .. ' ' .. whole(grace))
  tick.last, tick.grace = last, grace
end
