-- A duty of tick.lua: notes that the worker lives. ARGV from `first` on: number of its own fields, then pairs of them.
-- Does nothing if another process has the name now. Writes workers, worker:<worker>, held:<worker>, jobs.
local function heartbeat(tick, first)
  local n = tonumber(ARGV[first])
  if not tick.is_known then return end
  local mine = { 'instance', tick.instance, 'seen', NOW }
  for k = 1, n * 2 do mine[#mine + 1] = ARGV[first + k] end
  for k = first + 1, first + n * 2, 2 do
    if ARGV[k] == 'received' then history.receive(ARGV[k + 1], tick.received) end
  end
  call('ZADD', WORKERS, NOW, tick.worker)
  call('HSET', WORKER, unpack(mine))
  call('PEXPIRE', WORKER, 86400000)
  -- A BLMOVE on a lost connection may have taken an element that no claim followed. If a claim does follow, it finds
  -- the element in the line.
  if not return_elements(HELD, 50) then tick.more = true end
end
