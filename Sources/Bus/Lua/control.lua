-- A task of the tick: does the control operations in `want`. If there are many, it does some that Redis picks at
-- random. Writes want, batch:<name>, and what apply_operation() writes.
local function apply_operations(tick)
  if tick.wanted == 0 then return end
  local max = budget(tick)
  local wanted = tick.are_many and call('HRANDFIELD', WANT, max, 'WITHVALUES') or call('HGETALL', WANT)
  local ids, operations = {}, {}
  tick.handed, tick.has_single = 0, false
  for n = 1, #wanted, 2 do
    ids[#ids + 1] = wanted[n]
    tick.has_single = tick.has_single or not batches.named(wanted[n])
    operations[wanted[n]] = wanted[n + 1]
  end
  each(ids, function(id)
    call('HDEL', WANT, id)
    local batch = batches.named(id)
    if batch then return batches.apply_operation(batch, operations[id], tick) end
    apply_operation(id, operations[id], tick.retention, tick.applied_until)
  end, function(id, wrong)
    call('HDEL', WANT, id)
    reject(operations[id], 'want: job ' .. id .. ' cannot be changed: ' .. wrong, id)
  end)
  spend(tick, #ids, max)
  if tick.are_many then tick.more = true end
end
