-- Who is answered: docs/reference/events.md. `reply_to` of a job's hash has the names of the reply lists that get its
-- final event, with blanks between them.
--
-- Uses: Events.
-- Calls ahead: ReplyBytes.
-- Writes: job:<id>, reply:<name>.
do
  local MAX_NAMES = 64

  -- Joins two texts of names with blanks between them; each may be nil. Returns all names, at most 64; those of `more`
  -- that are new; and those of the new ones that were too many. Each is a text, or nil if it is empty.
  function Replies.join(names, more)
    local known, all, new, left = {}, {}, {}, {}
    for name in string.gmatch(names or '', '%S+') do
      known[name] = true
      all[#all + 1] = name
    end
    for name in string.gmatch(more or '', '%S+') do
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
    elseif left then
      Events.emit(c, id, job, 'duplicate', Replies.duplicate(job, { reason = 'crowded' }), nil, left, true)
    end
  end

  -- Pushes an event (JSON) onto reply lists. names: their names, with blanks between them. brief: the event without its
  -- response, or nil if it has none. A list gets the brief event if the bytes of all replies are at their limit
  -- (responses.lua).
  function Replies.send(c, names, event, brief)
    local bytes_left = LARGEST.replies
    for name in string.gmatch(names or '', '%S+') do
      local list, text = c.PREFIX .. KEY.reply .. name, event
      if brief then
        bytes_left = bytes_left - #event
        if bytes_left < 0 or not ReplyBytes.allow(c, #event) then text = brief end
      end
      -- A producer may have put a key of another type there. Then only this list gets no event.
      if type(try('LPUSH', list, text)) == 'number' then
        call('LTRIM', list, 0, 999)
        call('PEXPIRE', list, 86400000)
        if brief and text == event then ReplyBytes.count(c, name, #event) end
      end
    end
  end
end
