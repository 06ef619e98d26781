-- Bounds the bytes of the events with responses that wait in reply lists: `max_replies_bytes`. Beyond that an event has
-- `response_dropped` instead of the response.
--
-- The hash `reply_bytes` has the bytes of such events by the name of the list, and under SUM their sum. Consumers
-- remove events with BRPOP, which Haul does not notice. So the hash is an upper bound, and is corrected all the time:
-- each event, each tick, and each event that would exceed the bound measures a few of the lists again.
--
-- Calls ahead: Responses.
-- Writes: reply_bytes.
do
  local SUM = 'in all'
  local MAX_LISTS = 4

  local function sizes(c) return c.PREFIX .. KEY.replyBytes end
  local function list(c, name) return c.PREFIX .. KEY.reply .. name end

  -- Sets the bytes of one list. known: its recorded bytes. sum: the recorded sum. Returns the sum.
  local function set(c, name, known, sum, bytes)
    sum = math.max(0, sum - known + bytes)
    if bytes > 0 then call('HSET', sizes(c), name, integer_text(bytes), SUM, integer_text(sum))
    else
      call('HDEL', sizes(c), name)
      call('HSET', sizes(c), SUM, integer_text(sum))
    end
    return sum
  end

  -- Measures up to `max` lists that Redis picks at random. Returns the sum; nil if the key has another type.
  function ReplyBytes.measure(c, max)
    local some = try('HRANDFIELD', sizes(c), max, 'WITHVALUES')
    if some.err then return nil end
    if #some == 0 then return 0 end
    local sum = to_integer(call('HGET', sizes(c), SUM))
    if call('HLEN', sizes(c)) == 1 then
      call('DEL', sizes(c))
      return 0
    end
    for n = 1, #some, 2 do
      local known = to_integer(some[n + 1])
      -- A list may also have events without responses, which do not count. So the recorded bytes never grow here. All
      -- elements are measured: the newest few say nothing about the others.
      local bytes = some[n] ~= SUM and (try('MEMORY', 'USAGE', list(c, some[n]), 'SAMPLES', 0) or 0)
      if type(bytes) == 'number' and bytes < known then sum = set(c, some[n], known, sum, bytes) end
    end
    return sum
  end

  -- Whether an event of `bytes` keeps the sum within the bound.
  function ReplyBytes.allow(c, bytes)
    if bytes > 4096 and Responses.is_out_of_memory(c) then return false end
    local sum = try('HGET', sizes(c), SUM)
    -- A key of another type bounds nothing.
    if type(sum) == 'table' or to_integer(sum) + bytes <= c.settings.max_replies_bytes then return true end
    sum = ReplyBytes.measure(c, MAX_LISTS)
    return sum ~= nil and sum + bytes <= c.settings.max_replies_bytes
  end

  -- Counts an event that was pushed.
  function ReplyBytes.count(c, name, bytes)
    local values = try('HMGET', sizes(c), name, SUM)
    if values.err then return end
    local known, sum = unpack(values)
    set(c, name, to_integer(known), to_integer(sum), to_integer(known) + bytes)
    if sum then ReplyBytes.measure(c, 2) end
  end
end
