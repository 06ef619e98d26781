-- A task of the tick: records that a worker maintained the queue. If no worker did so for max(1 s, min(2.5 s, half a
-- lease)), Redis has stalled or restarted, or there was no worker. Then live workers could not extend their leases, so
-- nothing is reaped until another lease has passed (tick.grace). Workers tick four times in a lease, and at least once
-- a second. So a worker that could tick at the last tick of any worker, or within half a lease after it, still has its
-- lease.
--
-- The key `tick` has three numbers (ms): the last tick, until when nothing is reaped, and the last tick that left no
-- control operation. Writes tick.
local function watch(tick)
  local last, grace, applied_until = string.match(call('GET', TICK) or '', '^(%d+) (%d+) ?(%d*)$')
  last, grace = tonumber(last or now), tonumber(grace or 0)
  if now - last > math.max(1000, math.min(2500, tick.lease / 2)) then grace = now + tick.lease end
  tick.grace, tick.applied_until = grace, tonumber(applied_until) or last
  tick.wanted = call('HLEN', WANT)
  tick.are_many = tick.wanted > budget(tick)
  call('SET', TICK, NOW .. ' ' .. integer_text(grace) .. ' ' .. integer_text(tick.are_many and tick.applied_until or now))
end
