-- How much one call of a tick does, since Redis serves no other client meanwhile. The tasks of a call share a number of
-- jobs, `tick.left`. While there is more to do (`tick.more`), the worker calls again at once.
do
  -- How many jobs the next task may handle: what is left, but at least 4, so that no task starves another.
  function Budget.of(tick) return math.max(4, math.min(12, tick.left)) end

  -- Records that a task has handled `count` jobs of the `max` that it was allowed.
  function Budget.spend(tick, count, max)
    tick.left = tick.left - count
    if count >= max then tick.more = true end
  end
end
