-- A duty of tick.lua: notes that the queue was looked after. One that nobody looked after (a Redis that stalled or restarted)
-- takes no job from a live worker: its leases begin anew. A worker looks four times in its lease, and once a second at least. So
-- whoever could look when the last look was, or half a lease later, has not lost a lease in between. The third number says which
-- look was the last that left no request.
local function watch(tick)
  local last, grace, heard = string.match(call('GET', TICK) or '', '^(%d+) (%d+) ?(%d*)$')
  last, grace = tonumber(last or now), tonumber(grace or 0)
  if now - last > math.max(1000, math.min(2500, tick.lease / 2)) then grace = now + tick.lease end
  tick.last, tick.grace, tick.heard = last, grace, tonumber(heard) or last
  tick.wanted = call('HLEN', WANT)
  tick.are_many = tick.wanted > share(tick)
  call('SET', TICK, NOW .. ' ' .. whole(grace) .. ' ' .. whole(tick.are_many and tick.heard or now))
end
