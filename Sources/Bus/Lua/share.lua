-- How much a call of a tick does: Redis serves nobody else meanwhile. Each duty does a share, and the worker calls again at once
-- while there is more.

-- How many jobs the next duty may see to: what the call has left, and a few in any case, so that no duty keeps another from
-- its own.
local function share(tick) return math.max(4, math.min(25, tick.left)) end

-- Notes that a duty saw to `count` jobs of the `most` that it might.
local function spend(tick, count, most)
  tick.left = tick.left - count
  if count >= most then tick.more = true end
end
