-- Limits of hosts that the whole fleet shares: how many of the queue's jobs run on a host at once, how many start in a
-- period (starts.lua), and for how long no worker contacts a host that asked for a pause.
--
-- If a host's connections are limited, each of its jobs has one connection. The job is in the set `busy:<host>` from
-- its claim to the end of its run. A lost worker's jobs leave the set when they are requeued. So workers hold no part
-- of the limit that would have to be reclaimed. If a host's limit is reached, its elements are deferred to the host's
-- own queue, the list `deferred_host:<host>`, and take no slot. A call that releases a connection returns the oldest
-- element to the front of the queue. Ticks do this where limits have changed, or where a time has passed.
--
-- The sorted set `deferred_hosts` has each host with such a queue, by when (ms) a tick checks it next. So a tick checks
-- only hosts with waiting elements, none before it may be contacted again, and all of them cyclically. The string
-- `backoff:<host>` says until when (ms) no worker contacts that host, and expires then; `backoff` exists as long as
-- there may be one of these. The hash `hosts` has `returned <host>`, a digest of the element that was returned last,
-- and `waiting`, how many elements are in all these queues.
--
-- A rule is the table that read_rule() returns.

do
  -- What reading the limits and the state of a host counts in the budget of a call (claiming.lua).
  local BYTES_OF_CHECK = 200

  -- Whether any limit of hosts may apply. It is read once in a call.
  local function are_limited()
    if hosts.limits_exist == nil then
      if hosts.max_connections == nil then hosts.max_connections = tonumber(number(call('HGET', SETTINGS, 'host_connections'))) or false end
      hosts.limits_exist = hosts.max_connections and true or defaults.or_limits_exist()
    end
    return hosts.limits_exist
  end

  -- The host of a URL in lower case, and the host with its port.
  local function host_of(url)
    local authority = string.lower(string.match(url or '', '^%a+://([^/?#]*)') or '')
    authority = string.match(authority, '^.*@(.*)$') or authority
    return string.match(authority, '^%[[^%]]*%]') or string.match(authority, '^[^:]*'), authority
  end

  -- A whole number within these bounds, or nil.
  local function bounded(value, min, max)
    return type(value) == 'number' and value >= min and value <= max and value == math.floor(value) and value or nil
  end

  hosts.run_limit_names = { 'max_seconds', 'min_speed', 'max_bytes' }

  -- The limits of `host`: `max` jobs at once, `interval` ms between two starts, `rate` bytes per second, and those of a
  -- run by their names; each nil if there is no such limit. text: the JSON of the hash `limits`. The queue's `host_connections` is used if `text` has
  -- no connections. Invalid values have no effect.
  local function read_rule(host, text)
    local fine, own = pcall(decode, type(text) == 'string' and text or '')
    if not fine or type(own) ~= 'table' then own = {} end
    local rule = { host = host, max = bounded(own.connections, 0, 1000000) or hosts.max_connections or nil, interval = starts.interval(own.starts),
      rate = bounded(own.rate, 1, 99999999999999) }
    for _, name in ipairs(hosts.run_limit_names) do rule[name] = bounded(own[name], 1, 99999999999999) end
    return rule
  end

  -- The limit of rate of a host, or of a host and port, in bytes per second; nil without one. Writes no key.
  function hosts.rate_of(host) return read_rule(host, redis.pcall('HGET', PREFIX .. KEY.limits, host)).rate end

  local function limit_of(host)
    are_limited()
    return read_rule(host, redis.pcall('HGET', PREFIX .. KEY.limits, host))
  end

  -- The rule for a URL's host. A limit of host and port comes before one of the host.
  local function rule_of(host, authority)
    local own = redis.pcall('HMGET', PREFIX .. KEY.limits, authority, host)
    if own.err then return read_rule(host) end
    return read_rule(own[1] and authority or host, own[1] or own[2])
  end

  -- Until when (ms) no worker contacts a host; 0 if any worker may. Writes no key.
  local function backoff_until(host) return tonumber(number(redis.pcall('GET', PREFIX .. KEY.hostBackoff .. host))) or 0 end

  -- Whether elements wait for a host.
  local function has_queue(host)
    local due = redis.pcall('ZSCORE', PREFIX .. KEY.deferredHosts, host)
    return due and type(due) ~= 'table'
  end

  -- Returns how many more of a host's jobs may start now, nil if any number may; whether only the limit of starts can
  -- hold them up; and, if so, whether elements wait for the host.
  local function startable_on(rule)
    if backoff_until(rule.host) > now then return 0, false end
    local busy = rule.max and redis.pcall('SCARD', PREFIX .. KEY.busy .. rule.host)
    local free = type(busy) == 'number' and math.max(0, rule.max - busy) or nil
    if free == 0 or not rule.interval then return free, false end
    return math.min(free or math.huge, starts.available(rule.host, rule.interval)), true, has_queue(rule.host)
  end

  -- Whether older elements of the host wait. A start becomes free with time, and must not go to the newest element.
  local function has_older(rule)
    if starts.reserved(rule) > 0 then return false end
    local waiting = redis.pcall('LLEN', PREFIX .. KEY.deferredHost .. rule.host)
    return type(waiting) == 'number' and waiting > 0
  end

  -- Whether a job may start now, and the rule of its host. If the job may not, its element has been moved to the queue
  -- of its host. Writes hosts, deferred_hosts, deferred_host:<host>.
  function hosts.admits(id, parsed, element)
    if not are_limited() then return true end
    local name, authority = host_of(parsed.url or parsed.urls and parsed.urls[1] or call('HGET', key(id), 'url'))
    -- Only the first element for a host is checked in a call. If the limit of its host is reached, the others follow
    -- it.
    local rule, is_full = hosts.full[authority], true
    if not rule then
      rule = rule_of(name, authority)
      produced = produced + BYTES_OF_CHECK
      -- A key of another type limits nothing.
      local free, _, has_waiting = startable_on(rule)
      is_full = (free == 0 or has_waiting and has_older(rule))
        and type(redis.pcall('ZADD', PREFIX .. KEY.deferredHosts, 'NX', NOW, rule.host)) == 'number'
      hosts.full[authority] = is_full and rule or nil
    end
    if is_full then
      local length = redis.pcall('LPUSH', PREFIX .. KEY.deferredHost .. rule.host, element)
      if type(length) == 'number' then
        redis.pcall('HINCRBY', PREFIX .. KEY.hosts, 'waiting', 1)
        return false
      end
    end
    return true, rule
  end

  -- The limits of a run that its job cannot lift, the stricter ones of the queue and of the host: a list of name, value,
  -- … rule: from hosts.admits(). Writes no key.
  function hosts.limits_of_run(rule)
    local limits = {}
    for _, name in ipairs(hosts.run_limit_names) do
      local value, of_host = hosts.run_limits[name], rule and rule[name]
      if of_host then value = (name == 'min_speed' and math.max or math.min)(value or of_host, of_host) end
      if value then limits[#limits + 1], limits[#limits + 2] = name, integer_text(value) end
    end
    return limits
  end

  local function enter(id, host) redis.pcall('SADD', PREFIX .. KEY.busy .. host, id) end

  -- Counts that a job starts. rule: from hosts.admits(). Returns whether the job is counted at its host: then the
  -- caller sets its `host`. Writes starts, busy:<host>.
  function hosts.count_start(id, rule)
    if starts.queue_interval then starts.record('*', starts.queue_interval) end
    if not rule then return false end
    if rule.interval then starts.record(rule.host, rule.interval) end
    if rule.max then enter(id, rule.host) end
    return rule.max ~= nil
  end

  -- Returns at most `max` of a host's elements to the front of the queue, in their order. Returns how many. Writes
  -- jobs, deferred_host:<host>, hosts, starts.
  local function return_to_queue(rule, max)
    local host = rule.host
    local deferred, hosts_key = PREFIX .. KEY.deferredHost .. host, PREFIX .. KEY.hosts
    local elements = redis.pcall('LRANGE', deferred, -max, -1)
    if elements.err or #elements == 0 then return 0 end
    call('RPUSH', JOBS, unpack(elements))
    call('LTRIM', deferred, 0, -1 - #elements)
    local count = 0
    for _, element in ipairs(elements) do if element ~= VOID then count = count + 1 end end
    if redis.pcall('HINCRBY', hosts_key, 'waiting', -count) == 0 then call('HDEL', hosts_key, 'waiting') end
    redis.pcall('HSET', hosts_key, 'returned ' .. host, redis.sha1hex(elements[#elements]))
    if rule.interval then starts.reserve(rule, starts.reserved(rule) + #elements) end
    hosts.has_returned = true
    return #elements
  end

  -- Whether an element is for a host.
  local function is_of(element, host)
    if #element > LARGEST.element then return false end
    local fine, parsed = pcall(decode, element)
    if not fine or type(parsed) ~= 'table' then return false end
    local url = parsed.url or type(parsed.urls) == 'table' and parsed.urls[1] or is_id(parsed.id) and redis.pcall('HGET', key(parsed.id), 'url')
    if type(url) ~= 'string' then return false end
    local name, authority = host_of(url)
    return name == host or authority == host
  end

  -- Whether the element that was returned last is still the next in the queue. Further elements would overtake it.
  local function is_returned_element_next(rule)
    local front = redis.pcall('LINDEX', JOBS, -1)
    if type(front) ~= 'string' then return false end
    if redis.pcall('HGET', PREFIX .. KEY.hosts, 'returned ' .. rule.host) == redis.sha1hex(front) then return true end
    return rule.interval and starts.reserved(rule) > 0 and is_of(front, rule.host)
  end

  -- Releases the connection of a counted job whose run has ended, and returns an element that waits for it. Writes
  -- busy:<host>, job:<id> (host), jobs, deferred_host:<host>, hosts, starts.
  function hosts.release(id, host)
    redis.pcall('SREM', PREFIX .. KEY.busy .. host, id)
    hosts.full = {}
    call('HDEL', key(id), 'host')
    if not has_queue(host) then return end
    local rule = limit_of(host)
    if startable_on(rule) ~= 0 then return_to_queue(rule, 1) end
  end

  -- Records that a job's host asked for a pause of `delay` ms. The fleet pauses for a minute at most, since the host
  -- may mean one of its resources only. Writes backoff:<host>, backoff.
  function hosts.back_off(id, delay)
    local host = rule_of(host_of(call('HGET', key(id), 'url'))).host
    delay = math.min(delay, 60000)
    defaults.or_limits_cached, hosts.limits_exist, hosts.full = true, true, {}
    if delay < 1 or backoff_until(host) >= now + delay then return end
    redis.pcall('SET', PREFIX .. KEY.hostBackoff .. host, integer_text(now + delay), 'PX', integer_text(delay))
    -- Without this key or limits no claim checks hosts (defaults.or_limits_exist).
    redis.pcall('SET', PREFIX .. KEY.backoff, NOW, 'PX', 60000)
  end

  -- Counts a run that began before its host had a limit. Writes job:<id> (host), busy:<host>.
  function hosts.count(id, job)
    if job.host or not are_limited() then return end
    local rule = rule_of(host_of(call('HGET', key(id), 'url')))
    if not rule.max then return end
    call('HSET', key(id), 'host', rule.host)
    enter(id, rule.host)
  end

  -- Removes jobs without a lease from the count. They stay there if another client has written over a job's keys.
  local function remove_ended_jobs(host)
    local busy = PREFIX .. KEY.busy .. host
    local some = redis.pcall('SRANDMEMBER', busy, 8)
    if some.err then return end
    for _, id in ipairs(some) do if not call('ZSCORE', LEASES, id) then call('SREM', busy, id) end end
  end

  -- Maintains the queue of one host, and returns at most `left` elements. Returns how many, and in how many ms the next
  -- one may start; nil if none waits for a start. Records when a tick checks the host again.
  local function maintain_host(host, left)
    remove_ended_jobs(host)
    local rule = limit_of(host)
    local free, is_start_limited = startable_on(rule)
    local moved = 0
    if free ~= 0 and left > 0 and not is_returned_element_next(rule) then
      if rule.interval and starts.reserved(rule) > 0 then starts.reserve(rule, 0) end
      moved = return_to_queue(rule, math.min(free or left, left))
    end
    if redis.pcall('LLEN', PREFIX .. KEY.deferredHost .. host) == 0 then
      call('ZREM', PREFIX .. KEY.deferredHosts, host)
      redis.pcall('HDEL', PREFIX .. KEY.hosts, 'returned ' .. host)
      return moved
    end
    call('ZADD', PREFIX .. KEY.deferredHosts, integer_text(math.max(backoff_until(host), now + 1)), host)
    return moved, is_start_limited and starts.next_in(host, rule.interval, moved) or nil
  end

  -- A task of the tick, and part of pace(): returns as many elements as may start, at most `left`. Returns in how many
  -- ms the next one may start; nil if none waits for a start. Writes jobs, deferred_host:<host>, busy:<host>, hosts,
  -- deferred_hosts, starts.
  function hosts.return_startable(left)
    if not are_limited() then return end
    local due = redis.pcall('ZRANGEBYSCORE', PREFIX .. KEY.deferredHosts, '-inf', NOW, 'LIMIT', 0, 50)
    if due.err then return end
    local wait
    for _, host in ipairs(due) do
      local moved, after = maintain_host(host, left)
      left = left - moved
      wait = after and math.min(after, wait or after) or wait
    end
    return wait
  end
end
