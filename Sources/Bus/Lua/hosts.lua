-- Limits of hosts that the whole fleet shares: how many of the queue's jobs are at work on a host at once, and a host that has asked
-- to be left alone.
--
-- A limited job has one connection, and is counted from its claim to the end of its run in the set `busy:<host>`. So nothing is lent to a
-- worker, and nothing has to be taken back from one that is gone: a lost worker's jobs leave the set when they are taken back. An
-- element whose host has no room goes to the host's own line, `aside:<host>`, and holds no slot. Whoever frees a place brings the
-- oldest back to the front; ticks do the same where limits have changed.
--
-- The hash `hosts` has `line <host>` for each host that has a line, `back <host>`, a digest of what was brought back last from it,
-- `shut <host>`, until when nobody asks that host, and `waiting`, how many elements are in all lines.

do
  -- Whether this call has to look at hosts at all: one command for a call, whatever it does.
  local function are_limited()
    if fleet.limited == nil then
      if fleet.most == nil then fleet.most = tonumber(number(call('HGET', SETTINGS, 'host_connections'))) or false end
      fleet.limited = fleet.most and true or fleet.is_used()
    end
    return fleet.limited
  end

  -- The host of a URL, and the host with its port.
  local function host_of(url)
    local authority = string.lower(string.match(url or '', '^%a+://([^/?#]*)') or '')
    authority = string.match(authority, '^.*@(.*)$') or authority
    return string.match(authority, '^%[[^%]]*%]') or string.match(authority, '^[^:]*'), authority
  end

  -- The most jobs on a host, by its own limit or the queue's; nil: as many as there are. A value that is none has no effect.
  local function most_of(text)
    local fine, rule = pcall(decode, type(text) == 'string' and text or '')
    local most = fine and type(rule) == 'table' and rule.connections
    if type(most) == 'number' and most >= 0 and most <= 1000000 and most == math.floor(most) then return most end
    return fleet.most or nil
  end

  local function limit_of(host)
    are_limited()
    return most_of(redis.pcall('HGET', PREFIX .. KEY.limits, host))
  end

  -- Under which name a URL's host is counted, and how many jobs it may have. A limit of host and port comes before one of the host.
  local function rule_of(host, authority)
    local own = redis.pcall('HMGET', PREFIX .. KEY.limits, authority, host)
    if own.err then return host, fleet.most or nil end
    return own[1] and authority or host, most_of(own[1] or own[2])
  end

  -- How many more of a host's jobs may begin now; nil: as many as there are.
  local function room(host, most)
    local shut = redis.pcall('HGET', PREFIX .. KEY.hosts, 'shut ' .. host)
    if type(shut) == 'string' and (tonumber(number(shut)) or 0) > now then return 0 end
    if not most then return nil end
    local busy = redis.pcall('SCARD', PREFIX .. KEY.busy .. host)
    return type(busy) == 'number' and math.max(0, most - busy) or nil
  end

  -- Whether a job may begin now; if not, its element has been put into the line of its host. Returns also the name that the job is
  -- counted under, if it is.
  function fleet.admits(id, j, element)
    if not are_limited() then return true end
    local name, authority = host_of(j.url or j.urls and j.urls[1] or call('HGET', key(id), 'url'))
    -- Of many elements for one host the first one of a call is looked at, and the others follow it.
    local host, most, is_full = fleet.full[authority], nil, true
    if not host then
      host, most = rule_of(name, authority)
      -- A key of another type limits nothing.
      is_full = room(host, most) == 0 and type(redis.pcall('HSET', PREFIX .. KEY.hosts, 'line ' .. host, NOW)) == 'number'
      fleet.full[authority] = is_full and host or nil
    end
    if is_full then
      local length = redis.pcall('LPUSH', PREFIX .. KEY.aside .. host, element)
      if type(length) == 'number' then
        call('HINCRBY', PREFIX .. KEY.hosts, 'waiting', 1)
        return false
      end
    end
    return true, most and host or nil
  end

  function fleet.begin(id, host) redis.pcall('SADD', PREFIX .. KEY.busy .. host, id) end

  -- Brings up to `most` of a host's elements back to the front of the line, in their order.
  local function bring_back(host, most)
    local aside, hosts = PREFIX .. KEY.aside .. host, PREFIX .. KEY.hosts
    local elements = redis.pcall('LRANGE', aside, -most, -1)
    if elements.err or #elements == 0 then return end
    call('RPUSH', JOBS, unpack(elements))
    call('LTRIM', aside, 0, -1 - #elements)
    if redis.pcall('HINCRBY', hosts, 'waiting', -#elements) == 0 then call('HDEL', hosts, 'waiting') end
    redis.pcall('HSET', hosts, 'back ' .. host, redis.sha1hex(elements[#elements]))
    fleet.moved = true
  end

  -- Whether what was brought back last is still the next in line: more would come in front of it.
  local function is_awaited(host)
    local front = redis.pcall('LINDEX', JOBS, -1)
    return type(front) == 'string' and redis.pcall('HGET', PREFIX .. KEY.hosts, 'back ' .. host) == redis.sha1hex(front)
  end

  -- The run of a counted job has ended.
  function fleet.free(id, host)
    redis.pcall('SREM', PREFIX .. KEY.busy .. host, id)
    fleet.full = {}
    call('HDEL', key(id), 'host')
    if redis.pcall('HEXISTS', PREFIX .. KEY.hosts, 'line ' .. host) ~= 1 then return end
    if room(host, limit_of(host)) ~= 0 then bring_back(host, 1) end
  end

  -- A host wants nobody to ask it for a while: nobody does, for a minute at most, since it may mean one of its resources alone.
  function fleet.shut(id, delay)
    local host = rule_of(host_of(call('HGET', key(id), 'url')))
    local shut = redis.pcall('HGET', PREFIX .. KEY.hosts, 'shut ' .. host)
    local due = now + math.min(delay, 60000)
    fleet.used, fleet.limited, fleet.full = true, true, {}
    if type(shut) ~= 'table' and (tonumber(number(shut)) or 0) < due then redis.pcall('HSET', PREFIX .. KEY.hosts, 'shut ' .. host, whole(due)) end
  end

  -- Counts a run that began before there was a limit.
  function fleet.count(id, j)
    if j.host or not are_limited() then return end
    local host, most = rule_of(host_of(call('HGET', key(id), 'url')))
    if not most then return end
    call('HSET', key(id), 'host', host)
    fleet.begin(id, host)
  end

  -- Takes jobs out of the count that no lease tells of: what was written over a job's keys can leave one there.
  local function forget_strays(host)
    local busy = PREFIX .. KEY.busy .. host
    local some = redis.pcall('SRANDMEMBER', busy, 8)
    if some.err then return end
    for _, id in ipairs(some) do if not call('ZSCORE', LEASES, id) then call('SREM', busy, id) end end
  end

  -- A duty of tick.lua: brings back what there is room for.
  function fleet.look_after_hosts(tick)
    if not are_limited() then return end
    local hosts = PREFIX .. KEY.hosts
    local all = redis.pcall('HRANDFIELD', hosts, 50, 'WITHVALUES')
    if all.err then return end
    for n = 1, #all, 2 do
      local what, host = string.match(all[n], '^(%a+) (.*)$')
      if what == 'shut' and (tonumber(number(all[n + 1])) or 0) <= now then call('HDEL', hosts, all[n])
      elseif what == 'line' then
        forget_strays(host)
        local free = room(host, limit_of(host))
        local most = math.min(free or 500, tick.left_aside or 500)
        if most > 0 and not is_awaited(host) then
          bring_back(host, most)
          tick.left_aside = (tick.left_aside or 500) - most
        end
        if redis.pcall('LLEN', PREFIX .. KEY.aside .. host) == 0 then call('HDEL', hosts, all[n], 'back ' .. host) end
      end
    end
  end
end
