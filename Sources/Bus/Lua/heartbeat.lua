-- A task of the tick: records that the worker lives. ARGV from `first` on: number of its own fields, then pairs of
-- them. Does nothing if another process has the name now. Writes workers, worker:<worker>, held:<worker>, jobs.
local function heartbeat(tick, first)
  local count = tonumber(ARGV[first])
  if not tick.is_known then return end
  local mine = { 'instance', tick.instance, 'seen', NOW }
  for n = 1, count * 2 do mine[#mine + 1] = ARGV[first + n] end
  for n = first + 1, first + count * 2, 2 do
    if ARGV[n] == 'received' then history.receive(ARGV[n + 1], tick.received) end
  end
  call('ZADD', WORKERS, NOW, tick.worker)
  call('HSET', WORKER, unpack(mine))
  call('PEXPIRE', WORKER, 86400000)
  -- A BLMOVE on a lost connection may have moved an element that no claim followed. If a claim does follow, it finds
  -- the element in the queue.
  if not return_elements(HELD, 50) then tick.more = true end
end
