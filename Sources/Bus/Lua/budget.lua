-- How much one call of a tick does, since Redis serves nobody else meanwhile. The duties of a call share a number of
-- jobs, `tick.left`. While there is more to do (`tick.more`), the worker calls again at once.

-- How many jobs the next duty may handle: what is left, but at least 4, so that no duty keeps another from its work.
local function budget(tick) return math.max(4, math.min(12, tick.left)) end

-- Notes that a duty has handled `count` jobs of the `most` that it was allowed.
local function spend(tick, count, most)
  tick.left = tick.left - count
  if count >= most then tick.more = true end
end
