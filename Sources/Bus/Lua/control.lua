-- A duty of tick.lua: does the requests in `want`. If there are many, it does some that Redis picks at random. Writes
-- want, batch:<name>, and what apply_operation() writes.
local function apply_operations(tick)
  if tick.wanted == 0 then return end
  local most = budget(tick)
  local wanted = tick.are_many and call('HRANDFIELD', WANT, most, 'WITHVALUES') or call('HGETALL', WANT)
  local ids, requests = {}, {}
  tick.handed, tick.has_single = 0, false
  for k = 1, #wanted, 2 do
    ids[#ids + 1] = wanted[k]
    tick.has_single = tick.has_single or not batches.named(wanted[k])
    requests[wanted[k]] = wanted[k + 1]
  end
  each(ids, function(id)
    call('HDEL', WANT, id)
    local batch = batches.named(id)
    if batch then return batches.apply_operation(batch, requests[id], tick) end
    apply_operation(id, requests[id], tick.retention, tick.heard)
  end, function(id, wrong)
    call('HDEL', WANT, id)
    reject(requests[id], 'want: job ' .. id .. ' cannot be changed: ' .. wrong, id)
  end)
  spend(tick, #ids, most)
  if tick.are_many then tick.more = true end
end
