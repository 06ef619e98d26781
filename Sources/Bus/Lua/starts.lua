-- Limits of starts: how many jobs of the queue, or on one host, begin in a second, whichever workers run them.
--
-- A bucket of tokens for each limit, kept as one number: when the next start is due if all come evenly. A start may be EARLY, so that a late call
-- costs no start. After a pause as many may begin at once as come in that time, and one more.
--
-- The hash `starts` has `due <name>` (ms) for each limit, of which the queue's has the name *. `owed <host>` is how many elements came back from
-- the host's line and were not seen since. `since` is the epoch in which the hash began: what a failover has lost were starts of before the
-- epoch that it began, at most as many as the limit allows. `pacer` is the worker that calls pace(), and until when it is believed to.

do
  local UNITS, EARLY = { s = 1000, min = 60000, h = 3600000 }, 200

  -- Milliseconds between two starts, of a value like 10, '10', '10/s', '30/min' or '5/h'; nil for what is none.
  function fleet.interval(value)
    if type(value) == 'number' then value = string.format('%.14g', value) end
    if type(value) ~= 'string' then return nil end
    local count, unit = string.match(value, '^(%d+)/(%a+)$')
    count = tonumber(number(count or value))
    unit = UNITS[unit or 's']
    return count and unit and count >= 1 and count <= 1000000 and unit / count or nil
  end

  -- When the next start is due, and how many elements are owed.
  local function bucket_of(name, interval)
    if fleet.buckets[name] then return fleet.buckets[name] end
    local starts = PREFIX .. KEY.starts
    local kept = redis.pcall('HMGET', starts, 'due ' .. name, 'since', 'owed ' .. name)
    if kept.err then
      -- Nothing of anybody's belongs there.
      call('DEL', starts)
      kept = {}
    end
    local due = tonumber(kept[1] or nil) or 0
    if not kept[2] then call('HSET', starts, 'since', reign())
    elseif kept[2] ~= reign() then due = math.max(due, tonumber(reign()) + EARLY + interval) end
    fleet.buckets[name] = { due = math.max(due, now), owed = tonumber(kept[3] or nil) or 0 }
    return fleet.buckets[name]
  end

  -- How many may begin now, at most 500.
  function fleet.startable(name, interval)
    local early = now + EARLY - bucket_of(name, interval).due
    return early < 0 and 0 or math.min(500, math.floor(early / interval) + 1)
  end

  -- A job begins.
  function fleet.note_start(name, interval)
    local bucket = bucket_of(name, interval)
    bucket.due = bucket.due + interval
    local fields = { 'due ' .. name, string.format('%.3f', bucket.due) }
    if bucket.owed > 0 then
      bucket.owed = bucket.owed - 1
      fields[3], fields[4] = 'owed ' .. name, bucket.owed
    end
    call('HSET', PREFIX .. KEY.starts, unpack(fields))
  end

  -- In how many ms the next one may begin, once `more` have.
  function fleet.next_start(name, interval, more)
    return math.max(0, math.ceil(bucket_of(name, interval).due + more * interval - EARLY - now))
  end

  -- How many elements came back from a host's line and were not seen since: they come before others of the host.
  function fleet.owed(rule) return bucket_of(rule.host, rule.interval).owed end

  function fleet.owe(rule, count)
    bucket_of(rule.host, rule.interval).owed = count
    call('HSET', PREFIX .. KEY.starts, 'owed ' .. rule.host, count)
  end

  -- Lets begin what waits for a start and may. Returns in how many ms `worker` is to call again; nil where none waits, or another
  -- worker sees to it. `hosts` is when the next one of a host may begin.
  function fleet.pace(settings, worker, hosts)
    local wait = hosts
    if settings.interval and call('LLEN', JOBS) > 0 then
      offer_place(settings, false)
      wait = math.min(wait or math.huge, fleet.next_start('*', settings.interval, fleet.startable('*', settings.interval)))
    end
    if not wait then return nil end
    local pacer = redis.pcall('HGET', PREFIX .. KEY.starts, 'pacer')
    local due, other = string.match(type(pacer) == 'string' and pacer or '', '^(%d+) (.+)$')
    if due and other ~= worker and tonumber(due) > now then return nil end
    wait = math.max(50, math.min(wait, 1000))
    redis.pcall('HSET', PREFIX .. KEY.starts, 'pacer', whole(now + wait + 250) .. ' ' .. worker)
    return wait
  end
end

-- Called by one worker, between the ticks, while jobs wait for a start.
--
-- ARGV: nonce, worker, instance
-- Returns in how many ms it is to call again; '' if it need not.
define('pace', { 'allow-oom' }, function()
  local settings = touch(ARGV[2])
  local wait = fleet.pace(settings, ARGV[3], fleet.bring_back_all(500))
  return publish(wait and whole(wait) or '')
end)
