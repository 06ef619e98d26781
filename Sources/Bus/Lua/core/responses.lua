-- Bounds the bytes of responses that a queue keeps: the header fields and bodies in all jobs' hashes have at most
-- `max_responses_bytes`. Beyond that the oldest responses are dropped. Their jobs stay.
--
-- The sorted set `responses` has the jobs that hold a response, by when it came. The hash `response_bytes` has the
-- bytes of each, and under SUM, which is not a valid id, their sum. Both are written by the call that writes the job's
-- hash. A job without a response is in neither, and costs no command.
--
-- Calls ahead: Budget.
-- Writes: job:<id>, responses, response_bytes.
do
  local SUM = 'in all'
  local PARTS = { headers = true, body = true, body_base64 = true }
  -- How many responses are dropped at most when one comes. Ticks drop the rest.
  local MAX_DROPPED = 8

  local function sizes(c) return c.PREFIX .. KEY.responseBytes end
  local function by_age(c) return c.PREFIX .. KEY.responses end

  local function set_sum(c, bytes)
    if bytes > 0 then call('HSET', sizes(c), SUM, integer_text(bytes)) else call('HDEL', sizes(c), SUM) end
  end

  -- The counted bytes of a job's response: 0 if it has none, nil if the two keys disagree, false if one of them has
  -- another type.
  function Responses.size_of(c, id)
    local bytes, arrival = try('HGET', sizes(c), id), try('ZSCORE', by_age(c), id)
    if type(bytes) == 'table' or type(arrival) == 'table' then return false end
    if not bytes ~= not arrival then return nil end
    return to_integer(bytes)
  end

  -- Counts that a job's response has `bytes` bytes now, 0 if it has none. Returns the sum, or 0 if a key has another
  -- type: then nothing is counted.
  function Responses.count(c, id, bytes)
    local known = try('HMGET', sizes(c), SUM, id)
    local changed = not known.err and try(bytes > 0 and 'ZADD' or 'ZREM', by_age(c), unpack(bytes > 0 and { c.NOW, id } or { id }))
    if type(changed) ~= 'number' then return 0 end
    local sum = to_integer(known[1]) + bytes - to_integer(known[2])
    if bytes > 0 then call('HSET', sizes(c), id, bytes) else call('HDEL', sizes(c), id) end
    set_sum(c, sum)
    return sum
  end

  -- Drops the oldest responses until the rest fits, at most `max` of them. Returns how many.
  local function drop_oldest(c, max)
    local oldest = try('ZRANGE', by_age(c), 0, max - 1)
    local known = not oldest.err and try('HMGET', sizes(c), SUM, unpack(oldest))
    if not known or known.err then return 0 end
    local sum, gone = to_integer(known[1]), {}
    for n, id in ipairs(oldest) do
      if sum <= c.settings.max_responses_bytes then break end
      sum, gone[n] = sum - to_integer(known[n + 1]), id
      -- The hash may have expired.
      if try('HEXISTS', c.JOB .. id, 'headers') == 1 then
        -- Without `request_digest` this response is not reused for a later request.
        call('HDEL', c.JOB .. id, 'headers', 'body', 'body_base64', 'request_digest')
        call('HSET', c.JOB .. id, 'response_dropped', c.NOW)
      end
    end
    if #gone == 0 then return 0 end
    call('ZREM', by_age(c), unpack(gone))
    call('HDEL', sizes(c), unpack(gone))
    set_sum(c, sum)
    return #gone
  end

  -- Counts the response in `fields`, pairs that were written into a job's hash, if there is one. Drops older responses
  -- if the sum is too large.
  function Responses.keep(c, id, fields)
    local bytes
    for n = 1, #fields, 2 do
      if PARTS[fields[n]] then bytes = (bytes or 0) + #fields[n + 1] end
    end
    if bytes and Responses.count(c, id, bytes) > c.settings.max_responses_bytes then drop_oldest(c, MAX_DROPPED) end
  end

  -- Whether Redis has reached its `maxmemory`. It is read once in a call. A settle may still write, so that runs can
  -- end, but then without responses.
  function Responses.is_out_of_memory(c)
    if c.is_out_of_memory == nil then
      local info = call('INFO', 'memory')
      local max = tonumber(match(info, '\nmaxmemory:(%d+)')) or 0
      c.is_out_of_memory = max > 0 and tonumber(match(info, '\nused_memory:(%d+)')) >= max
    end
    return c.is_out_of_memory
  end

  -- Returns `fields`, pairs for a job's hash, with the time at which the response was dropped instead of the response.
  function Responses.drop(c, id, fields)
    local kept = { 'response_dropped', c.NOW }
    for n = 1, #fields, 2 do
      if not PARTS[fields[n]] and fields[n] ~= 'request_digest' and fields[n] ~= 'response_dropped' then
        kept[#kept + 1], kept[#kept + 2] = fields[n], fields[n + 1]
      end
    end
    if call('HDEL', c.JOB .. id, 'headers', 'body', 'body_base64', 'request_digest') > 0 then Responses.forget(c, { id }) end
    return kept
  end

  -- Removes those of `ids` from the count whose hashes no longer hold a response.
  function Responses.forget(c, ids)
    local known = try('HMGET', sizes(c), SUM, unpack(ids))
    if known.err or not known[1] then return end
    for n, id in ipairs(ids) do
      if known[n + 1] and try('HEXISTS', c.JOB .. id, 'headers') ~= 1 then Responses.count(c, id, 0) end
    end
  end

  -- A task of the tick: drops responses if the sum is too large, because one large response came, or because the
  -- setting was made smaller.
  function Responses.bound(c, tick)
    local sum = try('HGET', sizes(c), SUM)
    if type(sum) ~= 'string' or to_integer(sum) <= c.settings.max_responses_bytes then return end
    local max = Budget.of(tick)
    Budget.spend(tick, drop_oldest(c, max), max)
  end
end
