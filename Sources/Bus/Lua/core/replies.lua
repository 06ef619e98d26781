-- Who is answered: docs/reference/events.md. `reply_to` of a job's hash has the names of the reply lists that get its
-- final event, with blanks between them.
--
-- Uses: Events.
-- Calls ahead: ReplyBytes.
-- Writes: job:<id>, reply:<name>, undelivered_replies.
do
  local MAX_NAMES = 64
  -- How much one call pushes: onto a list some 5 µs of Redis' time, and a MiB of events 2 ms.
  local CALL_LIMITS = { lists = 128, bytes = 524288 }

  -- Joins two texts of names with blanks between them; each may be nil. Returns all names, at most 64; those of `more`
  -- that are new; and those of the new ones that were too many. Each is a text, or nil if it is empty.
  function Replies.join(names, more)
    local known, all, new, left = {}, {}, {}, {}
    for name in gmatch(names or '', '%S+') do
      known[name] = true
      all[#all + 1] = name
    end
    for name in gmatch(more or '', '%S+') do
      if not known[name] then
        known[name] = true
        new[#new + 1] = name
        local list = #all < MAX_NAMES and all or left
        list[#list + 1] = name
      end
    end
    local function text(list) return #list > 0 and table.concat(list, ' ') or nil end
    return text(all), text(new), text(left)
  end

  -- The members of the event that reported a job's end, rebuilt from its hash, and the worker that it names. state:
  -- completed, failed or cancelled.
  local function end_of(c, id, state)
    -- A large body is not even read.
    local is_large = call('HSTRLEN', c.JOB .. id, 'body') + call('HSTRLEN', c.JOB .. id, 'body_base64') > LARGEST.published
    local file, bytes, elapsed, checksum, etag, unchanged, code, message, retryable, worker, status, headers, body,
      body_base64, files, response_dropped = unpack(call('HMGET', c.JOB .. id, 'file', 'received', 'seconds', 'checksum',
        'etag', 'unchanged', 'error', 'message', 'retryable', 'worker', 'status', 'headers', is_large and '-' or 'body',
        is_large and '-' or 'body_base64', 'files', 'response_dropped'))
    local function text(name, value) return value and value ~= '' and ',"' .. name .. '":' .. Events.quoted(value) or '' end
    local received = number(bytes)
    -- The server's response: Contract/StoredResponse.swift.
    status = number(status)
    local response = status and ',"status":' .. status or ''
    if status and (is_large or response_dropped and response_dropped ~= '') then response = response .. ',"response_dropped":true'
    elseif status then
      response = response .. (headers and headers ~= '' and ',"headers":' .. headers or '')
        .. (body_base64 and body_base64 ~= '' and text('body_base64', body_base64) or ',"body":' .. Events.quoted(body or ''))
    end
    if files and files ~= '' then response = response .. ',"files":' .. files end
    if state == 'completed' then
      local seconds = tonumber(elapsed or nil)
      seconds = seconds and seconds >= 0 and seconds < 1e12 and string.format('%.3f', seconds)
      return text('file', file) .. (received and ',"bytes":' .. received or '')
        .. (seconds and ',"seconds":' .. seconds or '') .. text('checksum', checksum) .. text('etag', etag)
        .. (unchanged == '1' and ',"unchanged":true' or '') .. response, worker
    elseif state == 'failed' then
      return text('error', code) .. text('message', message) .. ',"retryable":' .. tostring(retryable == '1')
        .. (received and ',"received":' .. received or '') .. response, worker
    end
    return '', nil
  end

  -- The members of a `duplicate` event. why: `reason`, `made` (the push's `at`) and `since` (the timestamp that `at`
  -- would have to exceed).
  function Replies.duplicate(job, why)
    local function timestamp(name, value) return value and ',"' .. name .. '":' .. integer_text(tonumber(value)) or '' end
    return ',"state":"' .. (job.state or 'removed') .. '","reason":"' .. why.reason .. '"' .. timestamp('made', why.made)
      .. timestamp('since', why.since)
  end

  -- Answers reply lists that were too many for a job. left: their names, or nil.
  function Replies.refuse(c, id, job, left)
    if left then Events.emit(c, id, job, 'duplicate', Replies.duplicate(job, { reason = 'crowded' }), nil, left, true) end
  end

  -- Adds reply lists to a job. Each new name is answered once: at once if the job has ended, else at its end. more:
  -- names with blanks between them, or nil.
  function Replies.await_end(c, id, job, more)
    local names, new, left = Replies.join(job.reply_to, more)
    if not new then return end
    if names ~= job.reply_to then
      call('HSET', c.JOB .. id, 'reply_to', names)
      job.reply_to = names
    end
    if not job.state then
      Events.emit(c, id, job, 'duplicate', Replies.duplicate(job, { reason = 'settled' }), nil, new, true)
    elseif IS_FINAL[job.state] and job.waiting ~= 'replicas' then
      local members, worker = end_of(c, id, job.state)
      Events.emit(c, id, job, job.state, members, worker, new, true)
    else Replies.refuse(c, id, job, left) end
  end

  local function undelivered(c) return c.PREFIX .. KEY.undeliveredReplies end

  -- Whether events wait for a tick. It is read once in a call.
  local function has_undelivered(c)
    if c.has_undelivered == nil then
      local count = try('LLEN', undelivered(c))
      c.has_undelivered = type(count) == 'number' and count > 0
    end
    return c.has_undelivered
  end

  -- Pushes an event onto as many lists as this call still may. reply: `names` of the lists; `event`; `brief`, the event
  -- without its response, '' if it has none; `left`, how many bytes of the event with its response the lists may still
  -- get. Changes `reply` to what is left. Returns whether anything is left.
  local function push(c, reply)
    local position = 1
    while c.replies_left > 0 and c.reply_bytes_left > 0 do
      local first, last = find(reply.names, '%S+', position)
      if not first then return false end
      local name, text, has_response = sub(reply.names, first, last), reply.event, reply.brief ~= ''
      if has_response then
        reply.left = reply.left - #text
        if not ReplyBytes.allow(c, #text) then text, has_response = reply.brief, false end
      end
      c.replies_left, c.reply_bytes_left = c.replies_left - 1, c.reply_bytes_left - #text
      position = last + 1
      if reply.brief ~= '' and reply.left < #reply.event then reply.event, reply.brief = reply.brief, '' end
      -- A producer may have put a key of another type there. Then only this list gets no event.
      local list = c.PREFIX .. KEY.reply .. name
      local length = try('LPUSH', list, text)
      if type(length) == 'number' then
        if length > 1000 then call('LTRIM', list, 0, 999) end
        call('PEXPIRE', list, 86400000)
        if has_response then ReplyBytes.count(c, name, #text) end
      end
    end
    reply.names = match(reply.names, '%S.*', position)
    return reply.names ~= nil
  end

  local function begin(c)
    if not c.replies_left then c.replies_left, c.reply_bytes_left = CALL_LIMITS.lists, CALL_LIMITS.bytes end
  end

  -- Pushes an event (JSON) onto reply lists. names: their names, with blanks between them. brief: the event without its
  -- response, or nil if it has none. A list gets the brief event if the bytes of all replies are at their limit
  -- (responses.lua). Ticks push what is too much for one call. Meanwhile later events wait, too, because a list gets
  -- its events in their order.
  function Replies.send(c, names, event, brief)
    if not names then return end
    begin(c)
    if brief and #event > LARGEST.replies then event, brief = brief, nil end
    local reply = { names = names, event = event, brief = brief or '', left = LARGEST.replies }
    if not has_undelivered(c) and not push(c, reply) then return end
    local count = try('LPUSH', undelivered(c), cmsgpack.pack(reply))
    c.has_undelivered = type(count) == 'number'
    if c.has_undelivered then return end
    -- The key has another type, so nothing can wait.
    c.replies_left, c.reply_bytes_left = math.huge, math.huge
    push(c, reply)
  end

  -- A task of the tick: pushes events that were too many for the calls that made them.
  function Replies.deliver(c, tick)
    begin(c)
    local waiting = undelivered(c)
    while c.replies_left > 0 and c.reply_bytes_left > 0 do
      local entry = try('LINDEX', waiting, -1)
      -- None is left, or the key has another type.
      if type(entry) ~= 'string' then
        c.has_undelivered = false
        return
      end
      local is_packed, reply = pcall(cmsgpack.unpack, entry)
      -- An entry that another client has put there is dropped.
      local is_ours = is_packed and type(reply) == 'table' and type(reply.names) == 'string'
        and type(reply.event) == 'string' and type(reply.brief) == 'string' and type(reply.left) == 'number'
      if is_ours and push(c, reply) then call('LSET', waiting, -1, cmsgpack.pack(reply))
      else call('LTRIM', waiting, 0, -2) end
    end
    if call('LLEN', waiting) > 0 then tick.more = true end
  end
end
