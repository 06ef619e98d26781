-- Rate limits that workers share: the queue's limit, and those of hosts. Each worker has a rate lease, a part of the
-- limit in bytes per second, which ends if it is not renewed.
--
-- The hash `rate_leases`, or `rate_leases:<host>` for a host, has a field for each worker's process, by its instance:
-- the number of its last request, the rate that it may be using, the rate that it wants, and until when (ms). The sum
-- of what may be in use never exceeds the limit. A lease that has to shrink counts in full until its worker reports
-- that it uses less, or until the lease ends. Only then may other leases grow. `epoch` is the epoch in which the hash
-- began: a failover may lose the last requests, so no lease grows for the length of a lease after it.
--
-- A limit may depend on the time of day. Redis knows no time zones, so the workers say what it is now: all of them by
-- Redis' clock. A limit that is a number counts as it is set, whatever a worker says.
--
-- ARGV: nonce, worker, instance, number of the request, lease (ms), then for each limit: its name (a host, or * for the
-- queue), the limit now if it depends on the time of day, the rate that the worker uses at most now (bytes per second),
-- what it could use (bytes per second, 'all', or 'none', which returns its lease)
-- Returns for each limit that exists: its name, the leased rate, and '1' if that is less than the worker uses now, else
-- ''.
--
-- Uses: Call, Defaults, Hosts.
-- Writes: rate_leases, rate_leases:<host>.
do
  -- Divides a limit: each worker gets what it wants up to an equal part, and the rest is divided equally.
  local function divide(limit, wants)
    local rates, open, left = {}, {}, limit
    local min = limit / (50 * #wants)
    for n, want in ipairs(wants) do
      wants[n] = math.max(want, min)
      open[n] = n
    end
    table.sort(open, function(first, second) return wants[first] < wants[second] or wants[first] == wants[second] and first < second end)
    for rank, n in ipairs(open) do
      rates[n] = math.min(wants[n], left / (#open - rank + 1))
      left = left - rates[n]
    end
    for n, rate in ipairs(rates) do rates[n] = floor(rate + left / #wants) end
    return rates
  end

  -- The rate leases that have not ended, by instance, and the field `epoch`. Deletes the other fields.
  local function leases_of(c, key)
    local known, all, epoch = {}, try('HGETALL', key), nil
    if all.err then
      -- No other program may write this key.
      call('DEL', key)
      return known
    end
    for n = 1, #all, 2 do
      if all[n] == 'epoch' then epoch = all[n + 1]
      else
        local count, held, wants, due = match(all[n + 1], '^(%d+) (%d+) (%d+) (%d+)$')
        if due and tonumber(due) > c.now then
          known[all[n]] = { number = tonumber(count), held = tonumber(held), wants = tonumber(wants) }
        else call('HDEL', key, all[n]) end
      end
    end
    return known, epoch
  end

  -- Leases `instance` a part of `limit`, which is kept in `key`. request: the request, with `number`, `lease` (ms),
  -- `keeps`, `wants`, and `unknown`, how many other workers may want all of the limit. Returns the rate; nil for a
  -- request that is not newer than the last one.
  local function lease_rate(c, key, limit, instance, request)
    local known, epoch_field = leases_of(c, key)
    local mine = known[instance]
    -- The request was sent over a connection that has been lost meanwhile.
    if mine and request.number <= mine.number then return nil end
    if request.wants == 'none' then
      call('HDEL', key, instance)
      return 0
    end
    local wants = request.wants == 'all' and limit or math.min(limit, tonumber(request.wants))
    -- The field has the epoch, and until when no lease grows.
    local epoch, grace = match(epoch_field or '', '^(%d+) (%d+)$')
    if epoch ~= Call.epoch(c) then
      grace = epoch and integer_text(c.now + request.lease) or '0'
      call('HSET', key, 'epoch', Call.epoch(c) .. ' ' .. grace)
    end
    local demands, others = { wants }, 0
    for name, lease in pairs(known) do
      if name ~= instance then
        demands[#demands + 1] = lease.wants
        others = others + lease.held
      end
    end
    for _ = #demands + 1, request.unknown do demands[#demands + 1] = limit end
    local rate = divide(limit, demands)[1]
    if rate > request.keeps then
      local free = math.max(0, limit - others - request.keeps)
      rate = tonumber(grace) > c.now and request.keeps or math.min(rate, request.keeps + free)
    end
    call('HSET', key, instance, table.concat({ integer_text(request.number), integer_text(math.max(rate, request.keeps)), integer_text(wants),
      integer_text(c.now + request.lease) }, ' '))
    call('PEXPIRE', key, 86400000)
    return rate
  end

  -- The limit of a name in bytes per second, nil if there is none, and the key of its leases. now: the limit by the time
  -- of day.
  local function limit_of(c, name, now)
    local set, key
    if name == '*' then set, key = call('HGET', c.SETTINGS, 'rate'), c.PREFIX .. KEY.rateLeases
    else set, key = Hosts.rate_of(c, name), c.PREFIX .. KEY.hostRateLeases .. name end
    local limit = set and tonumber(number(set) or number(now))
    return limit and limit >= 1 and limit or nil, key
  end

  -- Deletes all rate leases of a process that has ended.
  function Rates.end_leases(c, instance)
    try('HDEL', c.PREFIX .. KEY.rateLeases, instance)
    -- If there are more than 500 hosts, the leases of the others end by themselves.
    local limited = Defaults.or_limits_exist(c) and try('HRANDFIELD', c.PREFIX .. KEY.limits, 500) or {}
    for _, host in ipairs(limited) do try('HDEL', c.PREFIX .. KEY.hostRateLeases .. host, instance) end
    return #limited + 1
  end

  Call.define('lease_rates', { 'allow-oom' }, function(c)
    local ARGV = c.ARGV
    local reported = {}
    for n = 6, #ARGV, 4 do
      local name, keeps = ARGV[n], tonumber(ARGV[n + 2])
      local limit, key = limit_of(c, name, ARGV[n + 1])
      if not limit then call('DEL', key)
      else
        -- Any worker that has not sent a request yet may want all of the queue's limit.
        local unknown = name == '*' and call('ZCOUNT', c.WORKERS, integer_text(c.now - 3000), '+inf') or 0
        local rate = lease_rate(c, key, limit, ARGV[3],
          { number = tonumber(ARGV[4]), lease = tonumber(ARGV[5]), keeps = keeps, wants = ARGV[n + 3], unknown = unknown })
        if rate then
          reported[#reported + 1], reported[#reported + 2], reported[#reported + 3] = name, integer_text(rate), rate < keeps and '1' or ''
        end
      end
    end
    return reported
  end)
end
