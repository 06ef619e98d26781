-- Bounds the bytes of responses that a queue keeps: the header fields and bodies in all jobs' hashes have at most
-- `max_responses_bytes`. Beyond that the oldest responses are dropped. Their jobs stay.
--
-- The sorted set `responses` has the jobs that hold a response, by when it came. The hash `response_bytes` has the
-- bytes of each, and under SUM, which is no valid id, their sum. Both are written by the call that writes the job's
-- hash. A job without a response is in neither, and costs no command.

do
  local SUM = 'in all'
  local PARTS = { headers = true, body = true, body_base64 = true }
  -- How many responses are dropped at most when one comes. Ticks drop the rest.
  local AT_ONCE = 8

  local function sizes() return PREFIX .. KEY.responseBytes end
  local function by_age() return PREFIX .. KEY.responses end
  local function bytes_of(text) return tonumber(number(text)) or 0 end

  local function set_sum(bytes)
    if bytes > 0 then call('HSET', sizes(), SUM, integer_text(bytes)) else call('HDEL', sizes(), SUM) end
  end

  -- The counted bytes of a job's response: 0 if it has none, nil if the two keys disagree, false if one of them has
  -- another type. Writes no key.
  function responses.size_of(id)
    local bytes, arrival = redis.pcall('HGET', sizes(), id), redis.pcall('ZSCORE', by_age(), id)
    if type(bytes) == 'table' or type(arrival) == 'table' then return false end
    if not bytes ~= not arrival then return nil end
    return bytes_of(bytes)
  end

  -- Counts that a job's response has `bytes` bytes now, 0 if it has none. Returns the sum, or 0 if a key has another
  -- type: then nothing is counted. Writes responses, response_bytes.
  function responses.count(id, bytes)
    local known = redis.pcall('HMGET', sizes(), SUM, id)
    local changed = not known.err and redis.pcall(bytes > 0 and 'ZADD' or 'ZREM', by_age(), unpack(bytes > 0 and { NOW, id } or { id }))
    if type(changed) ~= 'number' then return 0 end
    local sum = bytes_of(known[1]) + bytes - bytes_of(known[2])
    if bytes > 0 then call('HSET', sizes(), id, bytes) else call('HDEL', sizes(), id) end
    set_sum(sum)
    return sum
  end

  -- Drops the oldest responses until the rest fits, at most `max` of them. Returns how many. Writes job:<id>,
  -- responses, response_bytes.
  local function drop_oldest(max)
    local oldest = redis.pcall('ZRANGE', by_age(), 0, max - 1)
    local known = not oldest.err and redis.pcall('HMGET', sizes(), SUM, unpack(oldest))
    if not known or known.err then return 0 end
    local sum, gone = bytes_of(known[1]), {}
    for n, id in ipairs(oldest) do
      if sum <= responses.max_bytes then break end
      sum, gone[n] = sum - bytes_of(known[n + 1]), id
      -- The hash may have expired.
      if redis.pcall('HEXISTS', key(id), 'headers') == 1 then
        -- Without `request_digest` this response is not reused for a later request.
        call('HDEL', key(id), 'headers', 'body', 'body_base64', 'request_digest')
        call('HSET', key(id), 'response_dropped', NOW)
      end
    end
    if #gone == 0 then return 0 end
    call('ZREM', by_age(), unpack(gone))
    call('HDEL', sizes(), unpack(gone))
    set_sum(sum)
    return #gone
  end

  -- Counts the response in `fields`, pairs that were written into a job's hash, if there is one. Drops older responses
  -- if the sum is too large. Writes responses, response_bytes, job:<id> of other jobs.
  function responses.keep(id, fields)
    local bytes
    for n = 1, #fields, 2 do
      if PARTS[fields[n]] then bytes = (bytes or 0) + #fields[n + 1] end
    end
    if bytes and responses.count(id, bytes) > responses.max_bytes then drop_oldest(AT_ONCE) end
  end

  -- Whether Redis has reached its `maxmemory`. It is read once in a call. A settle may still write, so that runs can
  -- end, but then without responses. Writes no key.
  function responses.is_out_of_memory()
    if responses.is_memory_full == nil then
      local info = call('INFO', 'memory')
      local max = tonumber(string.match(info, '\nmaxmemory:(%d+)')) or 0
      responses.is_memory_full = max > 0 and tonumber(string.match(info, '\nused_memory:(%d+)')) >= max
    end
    return responses.is_memory_full
  end

  -- Returns `fields`, pairs for a job's hash, with the time at which the response was dropped instead of the response.
  -- Writes job:<id>.
  function responses.drop(id, fields)
    local kept = { 'response_dropped', NOW }
    for n = 1, #fields, 2 do
      if not PARTS[fields[n]] and fields[n] ~= 'request_digest' and fields[n] ~= 'response_dropped' then
        kept[#kept + 1], kept[#kept + 2] = fields[n], fields[n + 1]
      end
    end
    if call('HDEL', key(id), 'headers', 'body', 'body_base64', 'request_digest') > 0 then responses.forget({ id }) end
    return kept
  end

  -- Removes those of `ids` from the count whose hashes no longer hold a response. Writes responses, response_bytes.
  function responses.forget(ids)
    local known = redis.pcall('HMGET', sizes(), SUM, unpack(ids))
    if known.err or not known[1] then return end
    for n, id in ipairs(ids) do
      if known[n + 1] and redis.pcall('HEXISTS', key(id), 'headers') ~= 1 then responses.count(id, 0) end
    end
  end

  -- A task of the tick: drops responses if the sum is too large, because one large response came, or because the
  -- setting was made smaller. Writes what drop_oldest() writes.
  function responses.bound(tick)
    local sum = redis.pcall('HGET', sizes(), SUM)
    if type(sum) ~= 'string' or bytes_of(sum) <= responses.max_bytes then return end
    local max = budget(tick)
    spend(tick, drop_oldest(max), max)
  end
end

-- Bounds the bytes of the events with responses that wait in reply lists: `max_replies_bytes`. Beyond that an event has
-- `response_dropped` instead of the response.
--
-- The hash `reply_bytes` has the bytes of such events by the name of the list, and under SUM their sum. Consumers
-- remove events with BRPOP, which Haul does not notice. So the hash is an upper bound, and is corrected all the time:
-- each event, each tick, and each event that would exceed the bound measures a few of the lists again.
do
  local SUM = 'in all'
  local AT_ONCE = 4

  local function sizes() return PREFIX .. KEY.replyBytes end
  local function list(name) return PREFIX .. KEY.reply .. name end
  local function bytes_of(text) return tonumber(number(text)) or 0 end

  -- Sets the bytes of one list. known: its recorded bytes. sum: the recorded sum. Returns the sum. Writes reply_bytes.
  local function set(name, known, sum, bytes)
    sum = math.max(0, sum - known + bytes)
    if bytes > 0 then call('HSET', sizes(), name, integer_text(bytes), SUM, integer_text(sum))
    else
      call('HDEL', sizes(), name)
      call('HSET', sizes(), SUM, integer_text(sum))
    end
    return sum
  end

  -- Measures up to `max` lists that Redis picks at random. Returns the sum; nil if the key has another type. Writes
  -- reply_bytes.
  function responses.measure_replies(max)
    local some = redis.pcall('HRANDFIELD', sizes(), max, 'WITHVALUES')
    if some.err then return nil end
    if #some == 0 then return 0 end
    local sum = bytes_of(call('HGET', sizes(), SUM))
    if call('HLEN', sizes()) == 1 then
      call('DEL', sizes())
      return 0
    end
    for n = 1, #some, 2 do
      local known = bytes_of(some[n + 1])
      -- A list may also have events without responses, which do not count. So the recorded bytes never grow here.
      local bytes = some[n] ~= SUM and (redis.pcall('MEMORY', 'USAGE', list(some[n])) or 0)
      if type(bytes) == 'number' and bytes < known then sum = set(some[n], known, sum, bytes) end
    end
    return sum
  end

  -- Whether an event of `bytes` keeps the sum within the bound. May write reply_bytes.
  function responses.may_be_in_reply(bytes)
    if bytes > 4096 and responses.is_out_of_memory() then return false end
    local sum = redis.pcall('HGET', sizes(), SUM)
    -- A key of another type bounds nothing.
    if type(sum) == 'table' or bytes_of(sum) + bytes <= responses.max_reply_bytes then return true end
    sum = responses.measure_replies(AT_ONCE)
    return sum ~= nil and sum + bytes <= responses.max_reply_bytes
  end

  -- Counts an event that was pushed. Writes reply_bytes.
  function responses.count_reply(name, bytes)
    local values = redis.pcall('HMGET', sizes(), name, SUM)
    if values.err then return end
    local known, sum = unpack(values)
    set(name, bytes_of(known), bytes_of(sum), bytes_of(known) + bytes)
    if sum then responses.measure_replies(2) end
  end
end
