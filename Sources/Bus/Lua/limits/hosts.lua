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
--
-- Uses: Defaults, Json, Starts.
-- Calls ahead: Groups.
-- Writes: job:<id>, busy:<host>, hosts, deferred_hosts, deferred_host:<host>, backoff, backoff:<host>.
do
  -- What reading the limits and the state of a host counts in the budget of a call (claims.lua).
  local BYTES_OF_CHECK = 200
  -- After how many bytes of elements one call returns no more to the queue, and how many elements it reads at once.
  local MAX_BYTES, PAGE = 1048576, 20
  local PORTS = { http = ':80', https = ':443' }

  -- Whether any limit of hosts may apply. It is read once in a call.
  local function are_limited(c)
    if c.are_hosts_limited == nil then
      if c.max_connections == nil then
        c.max_connections = tonumber(number(call('HGET', c.SETTINGS, 'host_connections'))) or false
      end
      c.are_hosts_limited = c.max_connections and true or Defaults.or_limits_exist(c)
    end
    return c.are_hosts_limited
  end

  -- The host of a URL in lower case, and the host with its port. Of an object it is the bucket. A dot at the end of a name
  -- makes it no other host.
  local function host_of(url)
    local scheme, authority = match(string.lower(url or ''), '^(%w+)://([^/?#]*)')
    authority = string.gsub(match(authority or '', '^.*@(.*)$') or authority or '', '%.$', '')
    authority = string.gsub(authority, '%.:', ':')
    local host = match(authority, '^%[[^%]]*%]') or match(authority, '^[^:]*')
    return host, authority .. (host == authority and PORTS[scheme] or '')
  end

  -- A whole number within these bounds, or nil.
  local function bounded(value, min, max)
    return type(value) == 'number' and value >= min and value <= max and value == floor(value) and value or nil
  end

  Hosts.run_limit_names = { 'max_seconds', 'min_speed', 'max_bytes' }

  -- The limits of `host`: `max` jobs at once, `interval` ms between two starts, `rate` as it is set, and those of a
  -- run by their names; each nil if there is no such limit. text: the JSON of the hash `limits`. The queue's
  -- `host_connections` is used if `text` has no connections. Invalid values have no effect.
  local function read_rule(c, host, text)
    local fine, own = pcall(Json.decode, type(text) == 'string' and text or '')
    if not fine or type(own) ~= 'table' then own = {} end
    local rule = { host = host, max = bounded(own.connections, 0, 1000000) or c.max_connections or nil,
      running = bounded(own.running, 0, 1000000),
      interval = Starts.interval(own.starts), rate = own.rate }
    for _, name in ipairs(Hosts.run_limit_names) do rule[name] = bounded(own[name], 1, 99999999999999) end
    return rule
  end

  -- The limit of rate of a host, or of a host and port: a text with a number of bytes per second, or one that depends on
  -- the time of day (RateSchedule.swift); nil without one.
  function Hosts.rate_of(c, host)
    local rate = read_rule(c, host, try('HGET', c.PREFIX .. KEY.limits, host)).rate
    if type(rate) == 'string' then return rate end
    local count = bounded(rate, 1, 99999999999999)
    return count and integer_text(count)
  end

  -- The limits of a group, which are in the same hash; nil if it has none. The hash of starts uses the name `host` as well.
  function Hosts.rule_of_group(c, group)
    local name = 'group:' .. group
    local text = try('HGET', c.PREFIX .. KEY.limits, name)
    return type(text) == 'string' and read_rule(c, name, text) or nil
  end

  local function limit_of(c, host)
    are_limited(c)
    return read_rule(c, host, try('HGET', c.PREFIX .. KEY.limits, host))
  end

  -- The rule for a URL's host. A limit of host and port comes before one of the host.
  local function rule_of(c, host, authority)
    local own = try('HMGET', c.PREFIX .. KEY.limits, authority, host)
    if own.err then return read_rule(c, host) end
    return read_rule(c, own[1] and authority or host, own[1] or own[2])
  end

  -- Until when (ms) no worker contacts a host; 0 if any worker may.
  local function backoff_until(c, host)
    return to_integer(try('GET', c.PREFIX .. KEY.hostBackoff .. host))
  end

  -- Whether elements wait for a host.
  local function has_queue(c, host)
    local due = try('ZSCORE', c.PREFIX .. KEY.deferredHosts, host)
    return due and type(due) ~= 'table'
  end

  -- Returns how many more of a host's jobs may start now, nil if any number may; whether only the limit of starts can
  -- hold them up; and, if so, whether elements wait for the host.
  local function startable_on(c, rule)
    if backoff_until(c, rule.host) > c.now then return 0, false end
    local busy = rule.max and try('SCARD', c.PREFIX .. KEY.busy .. rule.host)
    local free = type(busy) == 'number' and math.max(0, rule.max - busy) or nil
    if free == 0 or not rule.interval then return free, false end
    return math.min(free or math.huge, Starts.available(c, rule.host, rule.interval)), true, has_queue(c, rule.host)
  end

  -- Whether older elements of the host wait. A start becomes free with time, and must not go to the newest element.
  local function has_older(c, rule)
    if Starts.reserved(c, rule) > 0 then return false end
    local waiting = try('LLEN', c.PREFIX .. KEY.deferredHost .. rule.host)
    return type(waiting) == 'number' and waiting > 0
  end

  -- Whether a job may start now, and the rule of its host. If the job may not, its element has been moved to the queue
  -- of its host.
  function Hosts.admits(c, push)
    if not are_limited(c) then return true end
    local name, authority = host_of(push.url or call('HGET', c.JOB .. push.id, 'url'))
    -- Only the first element for a host is checked in a call. If the limit of its host is reached, the others follow
    -- it.
    c.full_hosts = c.full_hosts or {}
    local rule, is_full = c.full_hosts[authority], true
    if not rule then
      rule = rule_of(c, name, authority)
      c.produced = c.produced + BYTES_OF_CHECK
      -- A key of another type limits nothing.
      local free, _, has_waiting = startable_on(c, rule)
      is_full = (free == 0 or has_waiting and has_older(c, rule))
        and type(try('ZADD', c.PREFIX .. KEY.deferredHosts, 'NX', c.NOW, rule.host)) == 'number'
      c.full_hosts[authority] = is_full and rule or nil
    end
    if is_full then
      -- An element that came back, and is refused again because another job took the connection, stays the next one.
      local is_returned = try('HGET', c.PREFIX .. KEY.hosts, 'returned ' .. rule.host) == redis.sha1hex(push.element)
      local length = try(is_returned and 'RPUSH' or 'LPUSH', c.PREFIX .. KEY.deferredHost .. rule.host, push.element)
      if type(length) == 'number' then
        try('HINCRBY', c.PREFIX .. KEY.hosts, 'waiting', 1)
        return false
      end
    end
    return true, rule
  end

  -- The limits of a run that its job cannot lift, the strictest ones of the queue, the host and the group: a list of name,
  -- value, … rule: from Hosts.admits(). group_rule: the limits of the job's group, or nil.
  function Hosts.limits_of_run(c, rule, group_rule)
    local is_plain = not rule and not group_rule
    if is_plain and c.plain_limits then return c.plain_limits end
    local limits = {}
    for _, name in ipairs(Hosts.run_limit_names) do
      local value, stricter = c.settings.run_limits[name], name == 'min_speed' and math.max or math.min
      if rule and rule[name] then value = stricter(value or rule[name], rule[name]) end
      if group_rule and group_rule[name] then value = stricter(value or group_rule[name], group_rule[name]) end
      if value then limits[#limits + 1], limits[#limits + 2] = name, integer_text(value) end
    end
    if is_plain then c.plain_limits = limits end
    return limits
  end

  local function enter(c, id, host) try('SADD', c.PREFIX .. KEY.busy .. host, id) end

  -- Counts that a job starts. rule: from Hosts.admits(). Returns whether the job is counted at its host: then the
  -- caller sets its `host`.
  function Hosts.count_start(c, id, rule)
    if c.settings.interval then Starts.record(c, '*', c.settings.interval) end
    if not rule then return false end
    if rule.interval then Starts.record(c, rule.host, rule.interval) end
    if rule.max then enter(c, id, rule.host) end
    return rule.max ~= nil
  end

  -- The next elements of a list in its order, at most `max`, and none once this call has returned MAX_BYTES.
  local function next_elements(c, list, max)
    local found, elements, bytes = {}, {}, c.returned_bytes or 0
    while #found < max and bytes < MAX_BYTES do
      local page = try('LRANGE', list, -math.min(max, #found + PAGE), -#found - 1)
      if #page == 0 then break end
      for n = #page, 1, -1 do found[#found + 1], bytes = page[n], bytes + #page[n] end
    end
    c.returned_bytes = bytes
    for n = #found, 1, -1 do elements[#elements + 1] = found[n] end
    return elements
  end

  -- Returns at most `max` of a host's elements to the front of the queue, in their order. Returns how many.
  local function return_to_queue(c, rule, max)
    local host = rule.host
    local deferred, hosts_key = c.PREFIX .. KEY.deferredHost .. host, c.PREFIX .. KEY.hosts
    local elements = next_elements(c, deferred, max)
    if #elements == 0 then return 0 end
    Groups.return_first(c, elements)
    call('LTRIM', deferred, 0, -1 - #elements)
    local count = 0
    for _, element in ipairs(elements) do if element ~= VOID then count = count + 1 end end
    if try('HINCRBY', hosts_key, 'waiting', -count) == 0 then call('HDEL', hosts_key, 'waiting') end
    try('HSET', hosts_key, 'returned ' .. host, redis.sha1hex(elements[#elements]))
    if rule.interval then Starts.reserve(c, rule, Starts.reserved(c, rule) + #elements) end
    c.has_returned_elements = true
    return #elements
  end

  -- Whether an element is for a host.
  local function is_of(c, element, host)
    if #element > LARGEST.element then return false end
    local fine, parsed = pcall(Json.decode, element)
    if not fine or type(parsed) ~= 'table' then return false end
    local url = parsed.url or type(parsed.urls) == 'table' and parsed.urls[1]
      or is_id(parsed.id) and try('HGET', c.JOB .. parsed.id, 'url')
    if type(url) ~= 'string' then return false end
    local name, authority = host_of(url)
    return name == host or authority == host
  end

  -- Whether the element that was returned last is still the next in the queue. Further elements would overtake it.
  local function is_returned_element_next(c, rule)
    local front = Groups.first_returned(c) or try('LINDEX', c.JOBS, -1)
    if type(front) ~= 'string' then return false end
    if try('HGET', c.PREFIX .. KEY.hosts, 'returned ' .. rule.host) == redis.sha1hex(front) then return true end
    return rule.interval and Starts.reserved(c, rule) > 0 and is_of(c, front, rule.host)
  end

  -- Releases the connection of a counted job whose run has ended, and returns an element that waits for it.
  function Hosts.release(c, id, host)
    try('SREM', c.PREFIX .. KEY.busy .. host, id)
    c.full_hosts = nil
    call('HDEL', c.JOB .. id, 'host')
    if not has_queue(c, host) then return end
    local rule = limit_of(c, host)
    if startable_on(c, rule) ~= 0 then return_to_queue(c, rule, 1) end
  end

  -- Returns the next element of a host after one that came back and started nothing. If more than one job may start
  -- there, other elements may be on their way, and a tick returns the next ones.
  function Hosts.pass_on(c, push)
    if not are_limited(c) then return end
    local name, authority = host_of(push.url or call('HGET', c.JOB .. push.id, 'url'))
    if c.full_hosts and c.full_hosts[authority] then return end
    local rule = rule_of(c, name, authority)
    if not has_queue(c, rule.host)
      or try('HGET', c.PREFIX .. KEY.hosts, 'returned ' .. rule.host) ~= redis.sha1hex(push.element) then return end
    c.produced = c.produced + BYTES_OF_CHECK
    if rule.interval then Starts.reserve(c, rule, math.max(0, Starts.reserved(c, rule) - 1)) end
    if startable_on(c, rule) == 1 then return_to_queue(c, rule, 1) end
  end

  -- Records that a job's host asked for a pause of `delay` ms. mirror: its name and port, if it is not the host of the
  -- first URL. The fleet pauses for a minute at most, since the host may mean one of its resources only.
  function Hosts.back_off(c, id, delay, mirror)
    local host = rule_of(c, host_of(mirror ~= '' and 'any://' .. mirror or call('HGET', c.JOB .. id, 'url'))).host
    delay = math.min(delay, 60000)
    c.has_defaults_or_limits, c.are_hosts_limited, c.full_hosts = true, true, nil
    if delay < 1 or backoff_until(c, host) >= c.now + delay then return end
    try('SET', c.PREFIX .. KEY.hostBackoff .. host, integer_text(c.now + delay), 'PX', integer_text(delay))
    -- Without this key or limits no claim checks hosts (defaults.or_limits_exist).
    try('SET', c.PREFIX .. KEY.backoff, c.NOW, 'PX', 60000)
  end

  -- Counts a run that began before its host had a limit.
  function Hosts.count(c, id, job)
    if job.host or not are_limited(c) then return end
    local rule = rule_of(c, host_of(call('HGET', c.JOB .. id, 'url')))
    if not rule.max then return end
    call('HSET', c.JOB .. id, 'host', rule.host)
    enter(c, id, rule.host)
  end

  -- Removes jobs without a lease from the count. They stay there if another client has written over a job's keys.
  local function remove_ended_jobs(c, host)
    local busy = c.PREFIX .. KEY.busy .. host
    local some = try('SRANDMEMBER', busy, 8)
    if some.err then return end
    for _, id in ipairs(some) do if not call('ZSCORE', c.LEASES, id) then call('SREM', busy, id) end end
  end

  -- Maintains the queue of one host, and returns at most `left` elements. Returns how many, and in how many ms the next
  -- one may start; nil if none waits for a start. Records when a tick checks the host again.
  local function maintain_host(c, host, left)
    remove_ended_jobs(c, host)
    local rule = limit_of(c, host)
    local free, is_start_limited = startable_on(c, rule)
    local moved = 0
    if free ~= 0 and left > 0 and not is_returned_element_next(c, rule) then
      if rule.interval and Starts.reserved(c, rule) > 0 then Starts.reserve(c, rule, 0) end
      moved = return_to_queue(c, rule, math.min(free or left, left))
    end
    if try('LLEN', c.PREFIX .. KEY.deferredHost .. host) == 0 then
      call('ZREM', c.PREFIX .. KEY.deferredHosts, host)
      try('HDEL', c.PREFIX .. KEY.hosts, 'returned ' .. host)
      return moved
    end
    call('ZADD', c.PREFIX .. KEY.deferredHosts, integer_text(math.max(backoff_until(c, host), c.now + 1)), host)
    return moved, is_start_limited and Starts.next_in(c, host, rule.interval, moved) or nil
  end

  -- A task of the tick, and part of pace(): returns as many elements as may start, at most `left`. Returns in how many
  -- ms the next one may start; nil if none waits for a start.
  function Hosts.return_startable(c, left)
    if not are_limited(c) then return end
    local due = try('ZRANGEBYSCORE', c.PREFIX .. KEY.deferredHosts, '-inf', c.NOW, 'LIMIT', 0, 50)
    if due.err then return end
    local wait
    for _, host in ipairs(due) do
      local moved, after = maintain_host(c, host, left)
      left = left - moved
      wait = after and math.min(after, wait or after) or wait
    end
    return wait
  end
end
