-- A task of the tick: control operations that wait in `want`.
--
-- Uses: BatchOperations, Budget, Isolation, Order, Rejections.
-- Writes: want.
do
  -- A task of the tick: does the control operations in `want`. If there are many, it does some that Redis picks at
  -- random.
  function Control.apply_operations(c, tick)
    if tick.operation_count == 0 then return end
    local max = Budget.of(tick)
    local ids, operations = call('HRANDFIELD', c.WANT, max), {}
    tick.handed, tick.has_single = 0, false
    for _, id in ipairs(ids) do tick.has_single = tick.has_single or not BatchOperations.named(id) end
    Isolation.each(c, ids, function(id)
      -- Only now, because an operation for a batch may have done it, and have left another one.
      operations[id] = Order.waiting(c, id) or ''
      if call('HDEL', c.WANT, id) == 0 then return end
      local batch = BatchOperations.named(id)
      if batch then return BatchOperations.apply(c, batch, operations[id], tick) end
      Order.apply(c, id, operations[id], tick.applied_until)
    end, function(id, wrong)
      call('HDEL', c.WANT, id)
      Rejections.add(c, operations[id], 'want: job ' .. id .. ' cannot be changed: ' .. wrong, id)
    end)
    Budget.spend(tick, #ids, max)
    if tick.has_unapplied then tick.more = true end
  end
end
