-- A duty of tick.lua: notes that the queue was looked after. If nobody did so for max(1 s, min(2.5 s, half a lease)),
-- Redis has stalled or restarted, or no worker was there. Then live workers could not extend their leases, so nothing
-- is reaped until another lease has passed (tick.grace). Workers tick four times in a lease, and at least once a
-- second. So a worker that could tick at the last look, or within half a lease after it, still has its lease.
-- The key `tick` has three numbers (ms): the last look, until when nothing is reaped, and the last look that left no
-- request. Writes tick.
local function watch(tick)
  local last, grace, heard = string.match(call('GET', TICK) or '', '^(%d+) (%d+) ?(%d*)$')
  last, grace = tonumber(last or now), tonumber(grace or 0)
  if now - last > math.max(1000, math.min(2500, tick.lease / 2)) then grace = now + tick.lease end
  tick.grace, tick.heard = grace, tonumber(heard) or last
  tick.wanted = call('HLEN', WANT)
  tick.are_many = tick.wanted > budget(tick)
  call('SET', TICK, NOW .. ' ' .. whole(grace) .. ' ' .. whole(tick.are_many and tick.heard or now))
end
