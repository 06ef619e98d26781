-- What a push does to its job: docs/reference/ordering.md.

-- The first 4096 bytes of an element. Bytes that are not UTF-8 are replaced, because the whole entry would be invalid
-- JSON.
local function excerpt(element)
  local shown = string.sub(element, 1, 4096)
  if is_ascii(shown) then return shown end
  -- Without the first bytes of a character that is cut off.
  if #element > 4096 then shown = string.gsub(shown, '[\192-\255][\128-\191]*$', '') end
  return is_utf8(shown) and shown or (string.gsub(shown, '[\128-\255]', '?'))
end

-- Rejects an element or a control operation: lists it in `rejected` and publishes the event at once. reason: a
-- sentence. id: the job's, or nil. names: reply lists, with blanks between them, or nil. meta: the element's JSON, or
-- nil. Writes rejected, reply:<name>; publishes on events:<id>.
local function reject(element, reason, id, names, meta)
  local shown = type(element) == 'string' and excerpt(element) or ''
  local entry = '{"at":' .. NOW .. ',"reason":' .. quoted(reason) .. ',"element":' .. quoted(shown) .. '}'
  call('LPUSH', REJECTED, entry)
  call('LTRIM', REJECTED, 0, 999)
  -- Elements hold secrets.
  call('PEXPIRE', REJECTED, 86400000)
  id = id or 'unknown'
  local event = '{"v":1,"event":"rejected","id":"' .. id .. '","queue":"' .. QUEUE .. '","at":' .. NOW
    .. (meta and ',"meta":' .. meta or '') .. ',"reason":' .. quoted(reason) .. '}'
  call('PUBLISH', PREFIX .. KEY.events .. id, event)
  produced = produced + #entry + #event
  history.count('rejected')
  reply(names, event)
end

-- Rejects an element. parsed: the element as a table, as far as it could be read, or nil. The rejection counts in its
-- batch, and goes to its `reply_to`. Writes what reject() and batches.refuse() write.
local function reject_element(element, reason, id, parsed)
  if parsed then batches.refuse(id, parsed, element) end
  local meta = parsed and parsed.meta ~= nil and raw_member(element, 'meta')
  reject(element, reason, id, parsed and is_id(parsed.reply_to) and parsed.reply_to or nil, meta and #meta <= 4096 and meta or nil)
end

-- When a push was made, in ms as text. No clock is ahead of Redis' own. at: its time, or nil.
local function timestamp_of(at) return integer_text(math.min(at or now, now)) end

-- When `seconds` after a push have passed, in ms. Writes no key.
local function after_push(parsed, seconds) return math.min(parsed.at or now, now) + seconds * 1000 end

-- What an element does, by the job's state: the element may be a job or a continuation.
--   begin: it runs, as it was pushed               go on: it runs, from its offsets
--   refresh: its URLs and headers are newer        next_push: it is done after the pending control operation
--   unknown, spent, gone: it cannot run            stale: its ticket is no longer the current one
local VERDICTS = {
  [false] = { job = 'begin', continuation = 'unknown' },
  queued = { job = 'refresh', continuation = 'duplicate' },
  scheduled = { job = 'refresh', continuation = 'go on' },
  running = { job = 'refresh', continuation = 'duplicate' },
  paused = { job = 'go on', continuation = 'go on' },
  failed = { job = 'begin', continuation = 'go on' },
  completed = { job = 'begin', continuation = 'spent' },
  cancelled = { job = 'begin', continuation = 'spent' },
}

-- Whether a push of `at` (ms, or nil) is a repeat: not newer than what was settled, or the last push of a clock that is
-- ahead.
local function is_repeat(job, at)
  return at and (at <= tonumber(job.settled_until or 0) or at == tonumber(job.ahead))
end

-- What a push does: a word of VERDICTS, or 'next_push', 'stale', 'gone', 'duplicate'. push: its `kind` ('job',
-- 'continuation', 'ticket'), `at`, `ticket`, and `has_spec`, whether spec:<id> has the job. For a duplicate also
-- returns the reason, and the timestamp that its `at` would have to exceed. Writes no key.
local function verdict(job, push)
  local state, kind, at = job.state, push.kind, push.at
  if kind == 'ticket' then
    if state ~= 'queued' or job.ticket ~= push.ticket then return 'stale' end
    return push.has_spec and 'go on' or 'gone'
  end
  if is_repeat(job, at) then
    local is_settled = at <= tonumber(job.settled_until or 0)
    return 'duplicate', is_settled and 'settled' or 'repeated', is_settled and job.settled_until or job.ahead
  end
  if state == 'running' and job.want and (not at or at > tonumber(job.want_at or 0)) then return 'next_push' end
  -- An unknown state counts as `paused`: nothing happens to such a job by itself.
  local word = (VERDICTS[state or false] or VERDICTS.paused)[kind]
  if word == 'refresh' and at and at < tonumber(job.pushed or 0) then return 'duplicate', 'older', job.pushed end
  if word == 'go on' and not push.has_spec then return kind == 'job' and 'begin' or 'spent' end
  return word, 'active'
end

-- Sets job.deadline (ms, as text) if the element has a deadline. Writes no key.
local function set_deadline(job, parsed)
  if parsed.deadline then job.deadline = integer_text(after_push(parsed, parsed.deadline)) end
end

-- Records which reply lists get the end of a job that begins or continues. If the job begins after an end, only the new
-- names get its next end, because the others got that one. set: adds a pair for the job's hash.
local function record_reply_lists(id, job, parsed, is_begun, set)
  local waiting, left = job.reply_to, nil
  if is_begun and (not job.state or IS_FINAL[job.state]) then
    job.reply_to = parsed.reply_to
  else
    local names, _, rest = join(job.reply_to, parsed.reply_to)
    job.reply_to, left = names, rest
  end
  if job.reply_to and job.reply_to ~= waiting then set('reply_to', job.reply_to) end
  if waiting and not job.reply_to then call('HDEL', key(id), 'reply_to') end
  if left then emit(id, job, 'duplicate', duplicate(job, { reason = 'crowded' }), nil, left, true) end
end

-- Records what a push says of a job that begins or continues. is_begun: all fields are those of the push; otherwise
-- only its URLs and headers are used. Sets the fields of `job` that events need. Returns the pairs for job:<id>, which
-- the caller writes, and a function that adds a pair. Writes spec:<id>, deadlines, batches.begin(); deletes old fields
-- of job:<id>. Emits `completed` if the job waited for replicas.
local function record_push(id, job, parsed, element, is_begun)
  local job_key, spec_key, fields = key(id), spec(id), {}
  -- Now, while `reply_to` still has the names that waited for this end.
  if job.state == 'completed' and call('ZSCORE', UNANNOUNCED, id) then announce(id, UNREPLICATED) end
  local function set(name, value) fields[#fields + 1] = name fields[#fields + 1] = value end
  record_reply_lists(id, job, parsed, is_begun, set)
  batches.begin(id, job, parsed, is_begun, set)
  if parsed.url or parsed.urls then
    set('url', mask(parsed.url or parsed.urls[1]))
    if is_begun then
      call('HSET', spec_key, 'spec', element)
      job.meta = parsed.meta ~= nil and defaults.meta(element) or nil
      set('created', NOW)
      if parsed.path then set('path', parsed.path) end
      local kind = parsed.kind ~= 'download' and parsed.kind or nil
      if kind ~= job.kind then
        if job.state then call('HDEL', job_key, 'kind', unpack(kinds.results)) end
        if job.kind then responses.forget({ id }) end
        if kind then set('kind', kind) end
        job.kind = kind
      end
      if job.meta then set('meta', job.meta) end
      if parsed.deadline then
        set_deadline(job, parsed)
        set('deadline_at', job.deadline)
        call('ZADD', DEADLINES, job.deadline, id)
      end
    else
      call('HSET', spec_key, 'renewed', element)
    end
  end
  if IS_FINAL[job.state] then
    job.crashes, job.attempt = 0, 0
    -- From now on `received` counts bytes of another file. `bytes` keeps the size of the finished one.
    local bytes = job.state == 'completed' and call('HGET', job_key, 'received')
    if bytes then set('bytes', bytes) end
    call('HDEL', job_key, 'crashes', 'attempt', unpack(END_FIELDS))
    if is_begun then
      call('HDEL', spec_key, 'renewed')
      call('HDEL', job_key, not parsed.path and 'path' or '-', not job.meta and 'meta' or '-')
    end
  end
  return fields, set
end

-- Renews the URLs and headers of an unfinished job by those of a newer push: signed URLs expire. timestamp: when the
-- push was made (ms, as text). Its reply lists and batches wait for the same end. Writes spec:<id>, job:<id>,
-- batches.enter().
local function renew(id, job, parsed, element, timestamp)
  local job_key = key(id)
  call('HSET', spec(id), 'renewed', element)
  call('HSET', job_key, 'url', mask(parsed.url or parsed.urls[1]))
  if tonumber(timestamp) > tonumber(job.pushed or 0) then call('HSET', job_key, 'pushed', timestamp) end
  emit(id, job, 'duplicate', duplicate(job, { reason = 'active', made = parsed.at }))
  await_end(id, job, parsed.reply_to)
  if parsed.batch then batches.enter(id, job, parsed.batch) end
end

-- Records a time that is ahead of Redis' clock. A later push with the same time is a repeat. Writes job:<id> (ahead).
local function record_future_push(id, at)
  if at and at > now then call('HSET', key(id), 'ahead', integer_text(at)) end
end

-- What a push does that starts nothing, by the word of verdict(). order.lua adds `next_push`.
local NOT_STARTED = {
  stale = function() end,
  unknown = function(id, job, parsed, element) reject_element(element, 'id: no job ' .. id .. ' is known; push it with its url', id, parsed) end,
  spent = function(id, job, parsed, element)
    reject_element(element, 'id: job ' .. id .. ' is ' .. job.state .. ' and its url is no longer kept; push it with its url', id, parsed)
  end,
  gone = function(id, job, parsed, element, retention)
    fail(id, job, 'bad_job', 'what was pushed is gone from Redis; push the job again with its url', false, retention)
  end,
  refresh = function(id, job, parsed, element)
    renew(id, job, parsed, element, timestamp_of(parsed.at))
    record_future_push(id, parsed.at)
  end,
  duplicate = function(id, job, parsed, element, retention, reason, since)
    -- `pushed` records that the push was claimed. So an operation without a time that is applied later counts as newer,
    -- and a repeat is recognised even after the job was forgotten.
    local is_known = not parsed.at or not job.state or parsed.at == tonumber(job.ahead)
    record_future_push(id, parsed.at)
    if not is_known and tonumber(timestamp_of(parsed.at)) > tonumber(job.pushed or 0) then
      call('HSET', key(id), 'pushed', timestamp_of(parsed.at))
    end
    -- The push revokes a pause that was made earlier and is applied later, as operations for a batch may be.
    if not parsed.at and job.state and not IS_FINAL[job.state] then call('HSET', key(id), 'resumed', NOW) end
    emit(id, job, 'duplicate', duplicate(job, { reason = reason, made = parsed.at, since = since }))
    await_end(id, job, parsed.reply_to)
    if parsed.batch then batches.enter(id, job, parsed.batch) end
  end,
}
