-- A duty of tick.lua: what this worker says of itself, n pairs from ARGV[first]. Returns the index after them.
local function heartbeat(tick, first)
  local n = tonumber(ARGV[first])
  local mine = { 'instance', tick.instance, 'seen', NOW }
  for k = 1, n * 2 do mine[#mine + 1] = ARGV[first + k] end
  call('ZADD', WORKERS, NOW, tick.worker)
  call('HSET', WORKER, unpack(mine))
  call('PEXPIRE', WORKER, 86400000)
  return first + n * 2 + 1
end
