-- Limits of rate that workers share: the queue's limit, and those of hosts. Each worker is lent a share in bytes per
-- second, which ends with its lease.
--
-- The hash `rate_leases`, or `rate_leases:<host>` for a host, has a field for each worker's process, by its instance: the number of
-- its last question, what it may be using, what it wants, and until when (ms). The sum of what may be in use never
-- exceeds the limit. A share that has to shrink counts in full until its worker says that it keeps to less, or until
-- the share ends. Only then may other shares grow. `epoch` is the epoch in which the hash began: a failover may lose
-- the last questions, so no share grows for the length of a lease after it.
--
-- ARGV: nonce, worker, instance, number of the question, lease (ms), then for each limit: its name (a host, or * for
-- the queue), the rate that the worker keeps to now (bytes per second), what it could use (bytes per second, 'all', or
-- 'none': its share comes back)
-- Returns for each limit that exists: its name, the share, and '1' if the share is less than the worker keeps to now,
-- else ''.
-- Writes rate_leases, rate_leases:<host>.

do
  -- Divides a limit: each worker gets what it wants up to a fair share, and the rest is divided equally.
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

  -- The shares that have not ended, by instance, and the field `epoch`. Deletes the other fields.
  local function leases_of(key)
    local known, all, since = {}, redis.pcall('HGETALL', key), nil
    if all.err then
      -- Nobody but Haul may write this key.
      call('DEL', key)
      return known
    end
    for n = 1, #all, 2 do
      if all[n] == 'epoch' then since = all[n + 1]
      else
        local count, held, wants, due = string.match(all[n + 1], '^(%d+) (%d+) (%d+) (%d+)$')
        if due and tonumber(due) > now then
          known[all[n]] = { number = tonumber(count), held = tonumber(held), wants = tonumber(wants) }
        else call('HDEL', key, all[n]) end
      end
    end
    return known, since
  end

  -- Lends `instance` a share of `limit`, which is kept in `key`. request: the request, with `number`, `lease` (ms), `keeps`,
  -- `wants`, and `unknown`, how many other workers may want all of the limit. Returns the share; nil for a request
  -- that is no newer than the last one.
  local function lease_rate(key, limit, instance, request)
    local known, since = leases_of(key)
    local mine = known[instance]
    -- The request was sent over a connection that was lost since.
    if mine and request.number <= mine.number then return nil end
    if request.wants == 'none' then
      call('HDEL', key, instance)
      return 0
    end
    local wants = request.wants == 'all' and limit or math.min(limit, tonumber(request.wants))
    -- The field has the epoch, and until when no share grows.
    local epoch, grace = string.match(since or '', '^(%d+) (%d+)$')
    if epoch ~= current_epoch() then
      grace = epoch and whole(now + request.lease) or '0'
      call('HSET', key, 'epoch', current_epoch() .. ' ' .. grace)
    end
    local demands, others = { wants }, 0
    for name, lease in pairs(known) do
      if name ~= instance then
        demands[#demands + 1] = lease.wants
        others = others + lease.held
      end
    end
    for _ = #demands + 1, request.unknown do demands[#demands + 1] = limit end
    local share = divide(limit, demands)[1]
    if share > request.keeps then
      local free = math.max(0, limit - others - request.keeps)
      share = tonumber(grace) > now and request.keeps or math.min(share, request.keeps + free)
    end
    call('HSET', key, instance, whole(request.number) .. ' ' .. whole(math.max(share, request.keeps)) .. ' ' .. whole(wants) .. ' ' .. whole(now + request.lease))
    call('PEXPIRE', key, 86400000)
    return share
  end

  -- The limit of a name in bytes per second, nil if there is none, and the key of its shares.
  local function limit_of(name)
    if name ~= '*' then return fleet.rate_of(name), PREFIX .. KEY.hostRateLeases .. name end
    local limit = tonumber(number(call('HGET', SETTINGS, 'rate')))
    return limit and limit >= 1 and limit or nil, PREFIX .. KEY.rateLeases
  end

  -- Takes back all shares of a process that has ended. Writes rate_leases, rate_leases:<host>.
  function fleet.end_leases(instance)
    redis.pcall('HDEL', PREFIX .. KEY.rateLeases, instance)
    -- If there are more than 500 hosts, the shares of the others end with their leases.
    local hosts = fleet.is_used() and redis.pcall('HRANDFIELD', PREFIX .. KEY.limits, 500) or {}
    for _, host in ipairs(hosts) do redis.pcall('HDEL', PREFIX .. KEY.hostRateLeases .. host, instance) end
  end

  define('lease_rates', { 'allow-oom' }, function()
    local reported = {}
    for n = 6, #ARGV, 3 do
      local name, keeps = ARGV[n], tonumber(ARGV[n + 1])
      local limit, key = limit_of(name)
      if not limit then call('DEL', key)
      else
        -- Any worker that has not asked yet may want all of the queue's limit.
        local unknown = name == '*' and call('ZCOUNT', WORKERS, whole(now - 3000), '+inf') or 0
        local share = lease_rate(key, limit, ARGV[3],
          { number = tonumber(ARGV[4]), lease = tonumber(ARGV[5]), keeps = keeps, wants = ARGV[n + 2], unknown = unknown })
        if share then
          reported[#reported + 1], reported[#reported + 2], reported[#reported + 3] = name, whole(share), share < keeps and '1' or ''
        end
      end
    end
    return reported
  end)
end
