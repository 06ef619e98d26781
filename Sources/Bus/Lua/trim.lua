-- A duty of tick.lua: the hashes of old jobs expire by themselves, their index entries here.
local function trim(tick)
  for state, ms in pairs(tick.retention) do call('ZREMRANGEBYSCORE', INDEX[state], '-inf', now - tonumber(ms)) end
end
