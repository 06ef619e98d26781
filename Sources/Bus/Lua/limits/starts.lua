-- Limits of starts: how many jobs of the queue, or on one host, may start in a period, whichever workers run them.
--
-- Each limit is a token bucket, kept as one number: when the next start is due if starts come evenly. A start may come
-- EARLY ms before it is due, so that a late call loses no start. So after a pause as many may start at once as are due
-- in EARLY ms, and one more.
--
-- The hash `starts` has `due <name>` (ms) for each limit; the name is a host, or * for the queue. `reserved <host>` is
-- how many elements came back from the host's queue and have not started since. `since` is the epoch in which the hash
-- began. A failover loses only starts from before its epoch began, and no more than the limit allowed.
--
-- Uses: Call.
-- Writes: starts.
do
  local UNITS, EARLY = { s = 1000, min = 60000, h = 3600000 }, 200

  -- Milliseconds between two starts, of a value like 10, '10', '10/s', '30/min' or '5/h'; nil for an invalid value.
  function Starts.interval(value)
    if type(value) == 'number' then value = string.format('%.14g', value) end
    if type(value) ~= 'string' then return nil end
    local count, unit = match(value, '^(%d+)/(%a+)$')
    count = tonumber(number(count or value))
    unit = UNITS[unit or 's']
    return count and unit and count >= 1 and count <= 1000000 and unit / count or nil
  end

  -- The bucket of a limit: `due`, when the next start is due (ms), and `reserved`. It is read once in a call.
  local function bucket_of(c, name, interval)
    local buckets = c.start_buckets or {}
    if buckets[name] then return buckets[name] end
    local starts_key = c.PREFIX .. KEY.starts
    local kept = try('HMGET', starts_key, 'due ' .. name, 'since', 'reserved ' .. name)
    if kept.err then
      -- No other program may write this key.
      call('DEL', starts_key)
      kept = {}
    end
    local due = tonumber(kept[1] or nil) or 0
    if not kept[2] then call('HSET', starts_key, 'since', Call.epoch(c))
    elseif kept[2] ~= Call.epoch(c) then due = math.max(due, tonumber(Call.epoch(c)) + EARLY + interval) end
    -- If the limit was stricter, or the clock was ahead, when the last job started, the next one is due later than this
    -- limit asks for.
    if due > c.now + EARLY + interval then
      due = c.now + EARLY + interval
      call('HSET', starts_key, 'due ' .. name, integer_text(due))
    end
    buckets[name] = { due = math.max(due, c.now), reserved = tonumber(kept[3] or nil) or 0 }
    c.start_buckets = buckets
    return buckets[name]
  end

  -- How many jobs may start now under a limit, at most 500. name: a host, or *. interval: ms between two starts.
  function Starts.available(c, name, interval)
    local early = c.now + EARLY - bucket_of(c, name, interval).due
    return early < 0 and 0 or math.min(500, floor(early / interval) + 1)
  end

  -- Counts a start.
  function Starts.record(c, name, interval)
    local bucket = bucket_of(c, name, interval)
    bucket.due = bucket.due + interval
    local fields = { 'due ' .. name, string.format('%.3f', bucket.due) }
    if bucket.reserved > 0 then
      bucket.reserved = bucket.reserved - 1
      fields[3], fields[4] = 'reserved ' .. name, bucket.reserved
    end
    call('HSET', c.PREFIX .. KEY.starts, unpack(fields))
  end

  -- In how many ms the next job may start once `more` further ones have.
  function Starts.next_in(c, name, interval, more)
    return math.max(0, math.ceil(bucket_of(c, name, interval).due + more * interval - EARLY - c.now))
  end

  -- The same once all have that may start now. rule: of a group.
  function Starts.next_after(c, rule)
    return Starts.next_in(c, rule.host, rule.interval, Starts.available(c, rule.host, rule.interval))
  end

  -- How many elements came back from a host's queue and have not started since. They come before other elements of the
  -- host.
  function Starts.reserved(c, rule) return bucket_of(c, rule.host, rule.interval).reserved end

  -- Sets that number.
  function Starts.reserve(c, rule, count)
    bucket_of(c, rule.host, rule.interval).reserved = count
    call('HSET', c.PREFIX .. KEY.starts, 'reserved ' .. rule.host, count)
  end
end
