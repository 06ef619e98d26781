-- Limits of starts: how many jobs of the queue, or on one host, may start in a period, whichever workers run them.
--
-- Each limit is a token bucket, kept as one number: when the next start is due if starts come evenly. A start may come
-- EARLY ms before it is due, so that a late call loses no start. So after a pause as many may start at once as are due
-- in EARLY ms, and one more.
--
-- The hash `starts` has `due <name>` (ms) for each limit; the name is a host, or * for the queue. `reserved <host>` is
-- how many elements came back from the host's queue and have not started since. `since` is the epoch in which the hash
-- began. A failover loses only starts from before its epoch began, and no more than the limit allowed. `pacer` says
-- which worker's process calls pace(), and until when (ms) other workers rely on it.

do
  local UNITS, EARLY = { s = 1000, min = 60000, h = 3600000 }, 200

  -- Milliseconds between two starts, of a value like 10, '10', '10/s', '30/min' or '5/h'; nil for an invalid value.
  function starts.interval(value)
    if type(value) == 'number' then value = string.format('%.14g', value) end
    if type(value) ~= 'string' then return nil end
    local count, unit = string.match(value, '^(%d+)/(%a+)$')
    count = tonumber(number(count or value))
    unit = UNITS[unit or 's']
    return count and unit and count >= 1 and count <= 1000000 and unit / count or nil
  end

  -- The bucket of a limit: `due`, when the next start is due (ms), and `reserved`. It is read once in a call. May write
  -- starts.
  local function bucket_of(name, interval)
    if starts.buckets[name] then return starts.buckets[name] end
    local starts_key = PREFIX .. KEY.starts
    local kept = redis.pcall('HMGET', starts_key, 'due ' .. name, 'since', 'reserved ' .. name)
    if kept.err then
      -- No other program may write this key.
      call('DEL', starts_key)
      kept = {}
    end
    local due = tonumber(kept[1] or nil) or 0
    if not kept[2] then call('HSET', starts_key, 'since', current_epoch())
    elseif kept[2] ~= current_epoch() then due = math.max(due, tonumber(current_epoch()) + EARLY + interval) end
    starts.buckets[name] = { due = math.max(due, now), reserved = tonumber(kept[3] or nil) or 0 }
    return starts.buckets[name]
  end

  -- How many jobs may start now under a limit, at most 500. name: a host, or *. interval: ms between two starts. May
  -- write starts.
  function starts.available(name, interval)
    local early = now + EARLY - bucket_of(name, interval).due
    return early < 0 and 0 or math.min(500, math.floor(early / interval) + 1)
  end

  -- Counts a start. Writes starts.
  function starts.record(name, interval)
    local bucket = bucket_of(name, interval)
    bucket.due = bucket.due + interval
    local fields = { 'due ' .. name, string.format('%.3f', bucket.due) }
    if bucket.reserved > 0 then
      bucket.reserved = bucket.reserved - 1
      fields[3], fields[4] = 'reserved ' .. name, bucket.reserved
    end
    call('HSET', PREFIX .. KEY.starts, unpack(fields))
  end

  -- In how many ms the next job may start once `more` further ones have. May write starts.
  function starts.next_in(name, interval, more)
    return math.max(0, math.ceil(bucket_of(name, interval).due + more * interval - EARLY - now))
  end

  -- How many elements came back from a host's queue and have not started since. They come before other elements of the
  -- host. May write starts.
  function starts.reserved(rule) return bucket_of(rule.host, rule.interval).reserved end

  -- Sets that number. Writes starts.
  function starts.reserve(rule, count)
    bucket_of(rule.host, rule.interval).reserved = count
    call('HSET', PREFIX .. KEY.starts, 'reserved ' .. rule.host, count)
  end

  -- Wakes a worker if jobs wait for a start of the queue and one is free. host_wait: in how many ms the next job of a
  -- host may start, or nil. worker: the instance of the caller. Returns in how many ms the caller has to call pace();
  -- nil if no job waits for a start, or if another worker calls pace(). Writes starts, permits.
  function starts.pace(settings, worker, host_wait)
    local wait = host_wait
    if settings.interval and call('LLEN', JOBS) > 0 then
      offer_permit(settings, false)
      wait = math.min(wait or math.huge, starts.next_in('*', settings.interval, starts.available('*', settings.interval)))
    end
    if not wait then return nil end
    local pacer = redis.pcall('HGET', PREFIX .. KEY.starts, 'pacer')
    local due, other = string.match(type(pacer) == 'string' and pacer or '', '^(%d+) (.+)$')
    if due and other ~= worker and tonumber(due) > now then return nil end
    wait = math.max(50, math.min(wait, 1000))
    redis.pcall('HSET', PREFIX .. KEY.starts, 'pacer', integer_text(now + wait + 250) .. ' ' .. worker)
    return wait
  end
end

-- Starts jobs that wait for a limit of starts. One worker calls it, between its ticks.
--
-- ARGV: nonce, worker, instance
-- Returns in how many ms it has to be called again; '' if it need not be.
-- Writes starts, permits, and what hosts.return_startable() writes.
define('pace', { 'allow-oom' }, function()
  local settings = touch(ARGV[2])
  local wait = starts.pace(settings, ARGV[3], hosts.return_startable(500))
  return publish(wait and integer_text(wait) or '')
end)
