-- Limits of rate, shared by the workers: the queue's, and those of hosts. Each worker is lent a share of the bytes per second, which lapses
-- with its lease.
--
-- The hash `shares`, and `lent:<host>` for a host, has for each process of a worker, by its instance: the number of its last question, what it
-- may be using, what it wants, and until when (ms). The sum of what may be used never exceeds the limit: a share that is to shrink counts in full
-- until its worker has said that it keeps to less, or until it lapses. So others grow only into what is certainly free. `epoch` is the epoch that
-- this began in. After a failover the last questions may be lost: for the length of a lease no share grows.
--
-- ARGV: nonce, worker, instance, number of the question, lease (ms), then for each limit: its name (a host, or * for the queue), what the
--       worker keeps to now, what it could use (bytes per second; 'all'; 'none': its share comes back)
-- Returns for each that is a limit: its name, the share, and '1' if that is less than it keeps to, or ''.

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

  -- Lends `instance` a share of `limit`, which is kept in `key`. `q` is what it asks: `number`, `lease`, `keeps`, `wants`, and `unknown`, how
  -- many others may want all of it. Returns the share; nil for a question that was sent before the last one.
  local function lend(key, limit, instance, q)
    local known, since = lent(key)
    local mine = known[instance]
    -- It was sent over a connection that was lost since.
    if mine and q.number <= mine.question then return nil end
    if q.wants == 'none' then
      call('HDEL', key, instance)
      return 0
    end
    local wants = q.wants == 'all' and limit or math.min(limit, tonumber(q.wants))
    -- The epoch is written with the end of the time in which no share grows.
    local epoch, grace = string.match(since or '', '^(%d+) (%d+)$')
    if epoch ~= reign() then
      grace = epoch and whole(now + q.lease) or '0'
      call('HSET', key, 'epoch', reign() .. ' ' .. grace)
    end
    local demands, others = { wants }, 0
    for name, share in pairs(known) do
      if name ~= instance then
        demands[#demands + 1] = share.wants
        others = others + share.held
      end
    end
    for _ = #demands + 1, q.unknown do demands[#demands + 1] = limit end
    local share = divide(limit, demands)[1]
    if share > q.keeps then
      local free = math.max(0, limit - others - q.keeps)
      share = tonumber(grace) > now and q.keeps or math.min(share, q.keeps + free)
    end
    call('HSET', key, instance, whole(q.number) .. ' ' .. whole(math.max(share, q.keeps)) .. ' ' .. whole(wants) .. ' ' .. whole(now + q.lease))
    call('PEXPIRE', key, 86400000)
    return share
  end

  -- The limit of a name, in bytes per second, and where its shares are.
  local function limit_of(name)
    if name ~= '*' then return fleet.rate_of(name), PREFIX .. KEY.lent .. name end
    local limit = tonumber(number(call('HGET', SETTINGS, 'rate')))
    return limit and limit >= 1 and limit or nil, PREFIX .. KEY.shares
  end

  -- Takes all shares back of a process that is gone.
  function fleet.end_shares(instance)
    redis.pcall('HDEL', PREFIX .. KEY.shares, instance)
    -- Shares of further hosts lapse.
    local hosts = fleet.is_used() and redis.pcall('HRANDFIELD', PREFIX .. KEY.limits, 500) or {}
    for _, host in ipairs(hosts) do redis.pcall('HDEL', PREFIX .. KEY.lent .. host, instance) end
  end

  define('share', { 'allow-oom' }, function()
    local told = {}
    for n = 6, #ARGV, 3 do
      local name, keeps = ARGV[n], tonumber(ARGV[n + 1])
      local limit, key = limit_of(name)
      if not limit then call('DEL', key)
      else
        -- Workers of whom nothing is known yet may want all of the queue's limit.
        local unknown = name == '*' and call('ZCOUNT', WORKERS, whole(now - 3000), '+inf') or 0
        local share = lend(key, limit, ARGV[3],
          { number = tonumber(ARGV[4]), lease = tonumber(ARGV[5]), keeps = keeps, wants = ARGV[n + 2], unknown = unknown })
        if share then
          told[#told + 1], told[#told + 2], told[#told + 3] = name, whole(share), share < keeps and '1' or ''
        end
      end
    end
    return told
  end)
end
