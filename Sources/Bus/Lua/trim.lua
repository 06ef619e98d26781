-- A duty of tick.lua: the hashes of ended jobs expire by themselves, their index entries go here. Where a setting has made the time
-- shorter, the hashes of before it go here, too; where it has made the time longer, those of before it have expired first.
local function trim(tick)
  for state, ms in pairs(tick.retention) do
    local old = call('ZRANGEBYSCORE', INDEX[state], '-inf', whole(now - tonumber(ms)), 'LIMIT', 0, 50)
    for _, id in ipairs(old) do
      if redis.pcall('HGET', key(id), 'state') == state then call('DEL', key(id), spec(id), offsets(id)) end
    end
    if #old > 0 then
      call('ZREM', INDEX[state], unpack(old))
      fleet.forget_responses(old)
    end
    if #old == 50 then tick.more = true end
    -- The oldest expires first, as long as nobody changes the time.
    local oldest = call('ZRANGE', INDEX[state], 0, 0)[1]
    if oldest and size(key(oldest)) == 0 then
      call('ZREM', INDEX[state], oldest)
      fleet.forget_responses({ oldest })
      tick.more = true
    end
  end
end
