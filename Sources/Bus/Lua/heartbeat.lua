-- A duty of tick.lua: what this worker says of itself, n pairs from ARGV[first]; nothing of a process whose name another one has
-- by now.
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
  -- What a wait over a lost connection took and no claim followed. A claim that is about to follow finds it in line.
  if not give_back(HELD, 50) then tick.more = true end
end
