-- A task of the tick: deletes index entries of ended jobs. The jobs' hashes usually expire by themselves. If a setting
-- has made the time shorter, the hashes of older jobs are deleted here as well. If it has made the time longer, the
-- hashes of older jobs expire before their entries are due.
-- Writes completed, failed, cancelled, responses, response_bytes; deletes job:<id>, spec:<id>, offsets:<id>.
local function trim(tick)
  for state, ms in pairs(tick.retention) do
    local old = call('ZRANGEBYSCORE', INDEX[state], '-inf', integer_text(now - tonumber(ms)), 'LIMIT', 0, 50)
    for _, id in ipairs(old) do
      if redis.pcall('HGET', key(id), 'state') == state then call('DEL', key(id), spec(id), offsets(id)) end
    end
    if #old > 0 then
      call('ZREM', INDEX[state], unpack(old))
      responses.forget(old)
    end
    if #old == 50 then tick.more = true end
    -- The oldest job expires first, unless the time was changed.
    local oldest = call('ZRANGE', INDEX[state], 0, 0)[1]
    if oldest and size(key(oldest)) == 0 then
      call('ZREM', INDEX[state], oldest)
      responses.forget({ oldest })
      tick.more = true
    end
  end
end
