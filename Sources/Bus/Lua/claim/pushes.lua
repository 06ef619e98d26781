-- What a push does to its job: docs/reference/ordering.md.
--
-- Uses: Envelopes, Events, Rejections, Replies, Responses, States, UrlIndex, Webhooks.
-- Calls ahead: Announcements, Batches, Order.
-- Writes: job:<id>, spec:<id>, deadlines.
do
  -- Fields of a job's hash that hold its result. They are deleted when the id is pushed as a job of another kind.
  local RESULTS = { 'file', 'inode', 'mtime', 'checksum', 'validated', 'source', 'bytes', 'completed_file', 'received', 'total', 'etag',
    'last_modified', 'digest', 'resource', 'final_url', 'provenance', 'generation', 'status', 'headers', 'body', 'body_base64',
    'request_digest', 'method', 'files', 'response_dropped' }

  -- When a push was made, in ms as text. No clock is ahead of Redis' own. at: its time, or nil.
  function Pushes.timestamp_of(c, at) return integer_text(math.min(at or c.now, c.now)) end

  -- When `delay` ms after a push have passed, in ms.
  function Pushes.due(c, push, delay) return math.min(push.at or c.now, c.now) + delay end

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

  -- Whether a push of `at` (ms, or nil) is a repeat: not newer than what was settled, or the last push of a clock that
  -- is ahead.
  function Pushes.is_repeat(job, at)
    return at and (at <= tonumber(job.settled_until or 0) or at == tonumber(job.ahead))
  end

  -- What a push does: a word of VERDICTS, or 'next_push', 'stale', 'gone', 'duplicate'. push: its `what`,
  -- `at` and `ticket` are used. has_spec: whether spec:<id> has the job. For a duplicate also returns the reason, and the
  -- timestamp that its `at` would have to exceed.
  function Pushes.verdict(job, push, has_spec)
    local state, what, at = job.state, push.what, push.at
    if what == 'ticket' then
      if state ~= 'queued' or job.ticket ~= push.ticket then return 'stale' end
      return has_spec and 'go on' or 'gone'
    end
    if Pushes.is_repeat(job, at) then
      local is_settled = at <= tonumber(job.settled_until or 0)
      return 'duplicate', is_settled and 'settled' or 'repeated', is_settled and job.settled_until or job.ahead
    end
    if state == 'running' and job.want and (not at or at > tonumber(job.want_at or 0)) then return 'next_push' end
    -- An unknown state counts as `paused`: nothing happens to such a job by itself.
    local verdict = (VERDICTS[state or false] or VERDICTS.paused)[what]
    if verdict == 'refresh' and at and at < tonumber(job.pushed or 0) then return 'duplicate', 'older', job.pushed end
    if verdict == 'go on' and not has_spec then return what == 'job' and 'begin' or 'spent' end
    return verdict, 'active'
  end

  -- Sets job.deadline (ms, as text) if the push has a deadline.
  function Pushes.set_deadline(c, job, push)
    if push.deadline then job.deadline = integer_text(Pushes.due(c, push, push.deadline)) end
  end

  -- Sets the deadline of a failed job that is retried. It counts from the retry, because the one of the push may have
  -- passed.
  function Pushes.renew_deadline(c, id, job)
    local push = Envelopes.kept(call('HGET', c.SPEC .. id, 'spec'), id)
    Envelopes.complete(c, push)
    if not push.deadline then return end
    job.deadline = integer_text(c.now + push.deadline)
    call('HSET', c.JOB .. id, 'deadline_at', job.deadline)
    call('ZADD', c.DEADLINES, job.deadline, id)
  end

  -- Records which reply lists get the end of a job that begins or continues. If the job begins after an end, only the
  -- new names get its next end, because the others got that one. set: adds a pair for the job's hash.
  local function record_reply_lists(c, job, push, is_begun, set)
    local id, waiting, left = push.id, job.reply_to, nil
    if is_begun and (not job.state or IS_FINAL[job.state]) then
      job.reply_to = push.reply_to
    else
      local names, _, rest = Replies.join(job.reply_to, push.reply_to)
      job.reply_to, left = names, rest
    end
    if job.reply_to and job.reply_to ~= waiting then set('reply_to', job.reply_to) end
    if waiting and not job.reply_to then call('HDEL', c.JOB .. id, 'reply_to') end
    Replies.refuse(c, id, job, left)
  end

  -- Records what a push says of a job that begins or continues. is_begun: all fields are those of the push; otherwise
  -- only its URLs and headers are used. Sets the fields of `job` that events need. Returns the pairs for job:<id>,
  -- which the caller writes, and a function that adds a pair. Emits `completed` if the job waited for replicas.
  function Pushes.record(c, job, push, is_begun)
    local id, fields = push.id, {}
    local job_key, spec_key = c.JOB .. id, c.SPEC .. id
    -- Now, while `reply_to` still has the names that waited for this end.
    if job.state == 'completed' then Announcements.announce_early(c, id) end
    local function set(name, value) fields[#fields + 1] = name fields[#fields + 1] = value end
    record_reply_lists(c, job, push, is_begun, set)
    Batches.begin(c, job, push, is_begun, set)
    if push.url then
      set('url', push.url)
      UrlIndex.record(c, job, push, set)
      if is_begun then
        call('HSET', spec_key, 'spec', push.element)
        if push.notify or job.notify then Webhooks.record(c, job, push, set) end
        job.meta = push.meta
        set('created', c.NOW)
        if push.path then set('path', push.path) end
        if push.group then set('group', push.group) end
        job.group = push.group
        local kind = push.kind
        if kind ~= job.kind then
          if job.state then call('HDEL', job_key, 'kind', unpack(RESULTS)) end
          if job.kind then Responses.forget(c, { id }) end
          if kind then set('kind', kind) end
          job.kind = kind
        end
        if job.meta then set('meta', job.meta) end
        if push.deadline then
          Pushes.set_deadline(c, job, push)
          set('deadline_at', job.deadline)
          call('ZADD', c.DEADLINES, job.deadline, id)
        end
      else
        call('HSET', spec_key, 'renewed', push.element)
      end
    end
    if IS_FINAL[job.state] then
      if not is_begun then Pushes.renew_deadline(c, id, job) end
      -- What the runs of an earlier push have named without an end is not this push's result.
      local earlier = is_begun and job.state == 'failed' and call('HGET', job_key, 'generation')
      if earlier then set('earlier', earlier) end
      job.crashes, job.attempt = 0, 0
      -- From now on `received`, `file` and `store` are about another file, which may be elsewhere.
      if job.state == 'completed' then
        local bytes, file, store, inode, mtime = unpack(call('HMGET', job_key, 'received', 'file', 'store', 'inode', 'mtime'))
        if bytes then set('bytes', bytes) end
        if file and store and store ~= '' and inode and mtime then
          set('completed_file', inode .. '-' .. mtime .. ' ' .. store .. ' ' .. file)
        end
      end
      States.forget_end(c, id, job)
      call('HDEL', job_key, 'failures')
      -- A worker removes what a cancelled run has left, and an object that still comes. So no run may take that over.
      if job.state == 'cancelled' then call('HDEL', job_key, 'generation', 'store_state') end
      if is_begun then
        call('HDEL', spec_key, 'renewed')
        call('HDEL', job_key, not push.path and 'path' or '-', not job.meta and 'meta' or '-',
          not push.group and 'group' or '-')
      end
    end
    return fields, set
  end

  -- Renews the URLs and headers of an unfinished job by those of a newer push: signed URLs expire. timestamp: when the
  -- push was made (ms, as text). Its reply lists and batches wait for the same end.
  function Pushes.renew(c, job, push, timestamp)
    local id = push.id
    local job_key = c.JOB .. id
    call('HSET', c.SPEC .. id, 'renewed', push.element)
    call('HSET', job_key, 'url', push.url)
    UrlIndex.record(c, job, push, function(name, value) call('HSET', job_key, name, value) end)
    if tonumber(timestamp) > tonumber(job.pushed or 0) then call('HSET', job_key, 'pushed', timestamp) end
    Events.emit(c, id, job, 'duplicate', Replies.duplicate(job, { reason = 'active', made = push.at }))
    Replies.await_end(c, id, job, push.reply_to)
    if push.batch then Batches.enter(c, id, job, push.batch, push) end
  end

  -- Records a time that is ahead of Redis' clock. A later push with the same time is a repeat.
  function Pushes.record_future(c, id, at)
    if at and at > c.now then call('HSET', c.JOB .. id, 'ahead', integer_text(at)) end
  end

  -- What a push does that starts nothing, by the word of Pushes.verdict().
  Pushes.not_started = {
    stale = function() end,
    next_push = function(...) Order.keep_push(...) end,
    unknown = function(c, _, push)
      Rejections.add_element(c, push.element, 'id: no job ' .. push.id .. ' is known; push it with its url', push.id, push)
    end,
    spent = function(c, job, push)
      Rejections.add_element(c, push.element, 'id: job ' .. push.id .. ' is ' .. job.state
        .. ' and its url is no longer kept; push it with its url', push.id, push)
    end,
    gone = function(c, job, push)
      States.fail(c, push.id, job, 'bad_job', 'what was pushed is gone from Redis; push the job again with its url', false)
    end,
    refresh = function(c, job, push)
      Pushes.renew(c, job, push, Pushes.timestamp_of(c, push.at))
      Pushes.record_future(c, push.id, push.at)
    end,
    duplicate = function(c, job, push, reason, threshold)
      local id, at = push.id, push.at
      -- `pushed` records that the push was claimed. So an operation without a time that is applied later counts as
      -- newer, and a repeat is recognized even after the job was forgotten.
      local is_known = not at or not job.state or at == tonumber(job.ahead)
      Pushes.record_future(c, id, at)
      if not is_known and tonumber(Pushes.timestamp_of(c, at)) > tonumber(job.pushed or 0) then
        call('HSET', c.JOB .. id, 'pushed', Pushes.timestamp_of(c, at))
      end
      -- The push revokes a pause that was made earlier and is applied later, as operations for a batch may be.
      if not at and job.state and not IS_FINAL[job.state] then call('HSET', c.JOB .. id, 'resumed', c.NOW) end
      Events.emit(c, id, job, 'duplicate', Replies.duplicate(job, { reason = reason, made = at, since = threshold }))
      Replies.await_end(c, id, job, push.reply_to)
      if push.batch then Batches.enter(c, id, job, push.batch, push) end
    end,
  }
end
