-- The queue's limit of rate, shared by its workers. Each is lent a share of the bytes per second, which lapses with its lease.
--
-- The hash `shares` has for each process of a worker, by its instance: the number of its last question, what it may be using, what it wants, and
-- until when (ms). The sum of what may be used never exceeds the limit: a share that is to shrink counts in full until its worker has said that it
-- keeps to less, or until it lapses. So others grow only into what is certainly free. `epoch` is the epoch that this began in. After a failover
-- the last questions may be lost: for the length of a lease no share grows.
--
-- ARGV: nonce, worker, instance, number of the question, lease (ms), what it keeps to now, what it could use (bytes per second; 'all')
-- Returns nothing if there is no limit, else names and values: `share`, and `shrinks` '1' if that is less than it keeps to.

do
  -- Gives each of `wants` as much as it wants while that is fair, and all the same of what is left.
  local function divide(limit, wants)
    local shares, open, left = {}, {}, limit
    local least = limit / (50 * #wants)
    for n, want in ipairs(wants) do
      wants[n] = math.max(want, least)
      open[n] = n
    end
    table.sort(open, function(a, b) return wants[a] < wants[b] or wants[a] == wants[b] and a < b end)
    for place, n in ipairs(open) do
      shares[n] = math.min(wants[n], left / (#open - place + 1))
      left = left - shares[n]
    end
    for n, share in ipairs(shares) do shares[n] = math.floor(share + left / #wants) end
    return shares
  end

  -- Shares that have not lapsed, by instance. What cannot be read is none.
  local function lent(key)
    local known, all, since = {}, redis.pcall('HGETALL', key), nil
    if all.err then
      -- Nothing of anybody's belongs there.
      call('DEL', key)
      return known
    end
    for n = 1, #all, 2 do
      if all[n] == 'epoch' then since = all[n + 1]
      else
        local question, held, wants, due = string.match(all[n + 1], '^(%d+) (%d+) (%d+) (%d+)$')
        if due and tonumber(due) > now then
          known[all[n]] = { question = tonumber(question), held = tonumber(held), wants = tonumber(wants) }
        else call('HDEL', key, all[n]) end
      end
    end
    return known, since
  end

  define('share', { 'allow-oom' }, function()
    local key = PREFIX .. KEY.shares
    local limit = tonumber(number(call('HGET', SETTINGS, 'rate')))
    if not limit or limit < 1 then
      call('DEL', key)
      return {}
    end
    local instance, question, lease = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
    local known, since = lent(key)
    local mine = known[instance]
    -- It was sent over a connection that was lost since.
    if mine and question <= mine.question then return {} end
    local keeps = tonumber(ARGV[6])
    local wants = ARGV[7] == 'all' and limit or math.min(limit, tonumber(ARGV[7]))
    -- The epoch is written with the end of the time in which no share grows.
    local epoch, grace = string.match(since or '', '^(%d+) (%d+)$')
    if epoch ~= reign() then
      grace = epoch and whole(now + lease) or '0'
      call('HSET', key, 'epoch', reign() .. ' ' .. grace)
    end
    local demands, others = { wants }, 0
    for name, share in pairs(known) do
      if name ~= instance then
        demands[#demands + 1] = share.wants
        others = others + share.held
      end
    end
    -- Workers of whom nothing is known yet may want all of it.
    for _ = #demands + 1, call('ZCOUNT', WORKERS, whole(now - 3000), '+inf') do demands[#demands + 1] = limit end
    local share = divide(limit, demands)[1]
    if share > keeps then
      local free = math.max(0, limit - others - keeps)
      share = tonumber(grace) > now and keeps or math.min(share, keeps + free)
    end
    call('HSET', key, instance, whole(question) .. ' ' .. whole(math.max(share, keeps)) .. ' ' .. whole(wants) .. ' ' .. whole(now + lease))
    call('PEXPIRE', key, 86400000)
    return named { share = whole(share), shrinks = share < keeps and '1' }
  end)
end
