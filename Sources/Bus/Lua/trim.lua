-- A duty of tick.lua: the hashes of old jobs expire by themselves, their index entries here.
local function trim(tick)
  for state, ms in pairs(tick.retention) do
    local old = call('ZRANGEBYSCORE', INDEX[state], '-inf', whole(now - tonumber(ms)), 'LIMIT', 0, 100)
    if #old > 0 then call('ZREM', INDEX[state], unpack(old)) end
    if #old == 100 then tick.more = true end
  end
end
