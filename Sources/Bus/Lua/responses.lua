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
  local function line() return PREFIX .. KEY.responses end
  local function bytes_of(text) return tonumber(number(text)) or 0 end

  local function set_sum(bytes)
    if bytes > 0 then call('HSET', sizes(), SUM, whole(bytes)) else call('HDEL', sizes(), SUM) end
  end

  -- The counted bytes of a job's response: 0 if it has none, nil if the two keys disagree, false if one of them has
  -- another type. Writes no key.
  function fleet.size_of_response(id)
    local bytes, place = redis.pcall('HGET', sizes(), id), redis.pcall('ZSCORE', line(), id)
    if type(bytes) == 'table' or type(place) == 'table' then return false end
    if not bytes ~= not place then return nil end
    return bytes_of(bytes)
  end

  -- Counts that a job's response has `bytes` bytes now, 0 if it has none. Returns the sum, or 0 if a key has another
  -- type: then nothing is counted. Writes responses, response_bytes.
  function fleet.count_response(id, bytes)
    local known = redis.pcall('HMGET', sizes(), SUM, id)
    local place = not known.err and redis.pcall(bytes > 0 and 'ZADD' or 'ZREM', line(), unpack(bytes > 0 and { NOW, id } or { id }))
    if type(place) ~= 'number' then return 0 end
    local sum = bytes_of(known[1]) + bytes - bytes_of(known[2])
    if bytes > 0 then call('HSET', sizes(), id, bytes) else call('HDEL', sizes(), id) end
    set_sum(sum)
    return sum
  end

  -- Drops the oldest responses until the rest fits, at most `most` of them. Returns how many. Writes job:<id>,
  -- responses, response_bytes.
  local function drop_oldest(most)
    local oldest = redis.pcall('ZRANGE', line(), 0, most - 1)
    local known = not oldest.err and redis.pcall('HMGET', sizes(), SUM, unpack(oldest))
    if not known or known.err then return 0 end
    local sum, gone = bytes_of(known[1]), {}
    for n, id in ipairs(oldest) do
      if sum <= fleet.most_bytes then break end
      sum, gone[n] = sum - bytes_of(known[n + 1]), id
      -- The hash may have expired.
      if redis.pcall('HEXISTS', key(id), 'headers') == 1 then
        -- Without `question` this response answers no later request.
        call('HDEL', key(id), 'headers', 'body', 'body_base64', 'question')
        call('HSET', key(id), 'response_dropped', NOW)
      end
    end
    if #gone == 0 then return 0 end
    call('ZREM', line(), unpack(gone))
    call('HDEL', sizes(), unpack(gone))
    set_sum(sum)
    return #gone
  end

  -- Counts the response in `fields`, pairs that were written into a job's hash, if there is one. Drops older responses
  -- if the sum is too large. Writes responses, response_bytes, job:<id> of other jobs.
  function fleet.keep_response(id, fields)
    local bytes
    for n = 1, #fields, 2 do
      if PARTS[fields[n]] then bytes = (bytes or 0) + #fields[n + 1] end
    end
    if bytes and fleet.count_response(id, bytes) > fleet.most_bytes then drop_oldest(AT_ONCE) end
  end

  -- Removes those of `ids` from the count whose hashes hold no response any more. Writes responses, response_bytes.
  function fleet.forget_responses(ids)
    local known = redis.pcall('HMGET', sizes(), SUM, unpack(ids))
    if known.err or not known[1] then return end
    for n, id in ipairs(ids) do
      if known[n + 1] and redis.pcall('HEXISTS', key(id), 'headers') ~= 1 then fleet.count_response(id, 0) end
    end
  end

  -- A duty of tick.lua: drops responses if the sum is too large, because one large response came, or because the
  -- setting was made smaller. Writes what drop_oldest() writes.
  function fleet.bound_responses(tick)
    local sum = redis.pcall('HGET', sizes(), SUM)
    if type(sum) ~= 'string' or bytes_of(sum) <= fleet.most_bytes then return end
    local most = share(tick)
    spend(tick, drop_oldest(most), most)
  end
end
