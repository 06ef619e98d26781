-- The one order of pushes and control operations: docs/reference/ordering.md.
--
-- Each push and each control operation has a timestamp. The timestamp of a push is its `at`. Without `at`, or if `at`
-- is ahead of Redis' clock, it is when a worker claims the element. The timestamp of an operation is its time. An
-- operation without a time counts as made after the last tick that left no operation in `want`, and after everything
-- that was claimed of its job. An operation is applied by a tick, or by the call that claims an element of the same
-- job, whichever comes first.
--
-- Uses: Deletions, Envelopes, Jobs, Pushes, Rejections, Replies, States.
-- Calls ahead: Batches, Rechecks.
-- Writes: job:<id>, spec:<id>, deadlines.
do
  -- Until when (ms) an operation without a time counts as not yet made: the last tick that left no operation.
  function Order.last_applied(c)
    local ticked_at, applied_at = match(call('GET', c.PREFIX .. KEY.tick) or '', '^(%d+) %d+ ?(%d*)$')
    return tonumber(applied_at) or tonumber(ticked_at) or c.now
  end

  -- The operation that waits for a job or a batch in `want`; nil if there is none. field: the job's id, or `batch/` and
  -- the batch's name. No valid operation has more than 128 bytes, so a longer text is not even read, and is rejected.
  function Order.waiting(c, field)
    local length = call('HSTRLEN', c.WANT, field)
    if length > 128 then return '' end
    return length > 0 and call('HGET', c.WANT, field) or nil
  end

  -- Whether a push is newer than an operation of `timestamp`. at: ms, or nil for a push without a time, which is newer.
  local function is_newer(at, timestamp) return not at or at > tonumber(timestamp) end

  -- The operation that waits behind a cancel of which the run does not know yet: its word and its timestamp. nil if
  -- there is none.
  local function next_want(job)
    local want, timestamp = match(job.want_next or '', '^(%a+) (%d+)$')
    return want, timestamp
  end

  -- The operation that stops a push: any operation for a job that is not known, a pause for a job that has ended. nil
  -- if there is none, or if the push is newer. at: the push's timestamp (ms), or nil. Deletes operations from `job`
  -- that the push is newer than.
  function Order.blocking_operation(job, at)
    if job.state and not IS_FINAL[job.state] then return nil end
    local function stops(timestamp) return at and not is_newer(at, timestamp) or not at and not job.state end
    if job.want and stops(job.want_at) then return job.want end
    job.want, job.want_at = next_want(job)
    job.want_next = nil
    if job.want and stops(job.want_at) then return job.want end
    job.want, job.want_at = nil, nil
    return nil
  end

  -- Keeps a push that came behind an operation of which the run does not know yet. Order.follow() does the push once
  -- the operation is done.
  function Order.keep_push(c, job, push)
    local id, is_job = push.id, push.what == 'job'
    local job_key, spec_key = c.JOB .. id, c.SPEC .. id
    if push.batch then
      local names = call('HGET', spec_key, 'next_push_batch') or nil
      call('HSET', spec_key, 'next_push_batch', Batches.await(c, names, push))
    end
    if push.reply_to then
      local names, _, left = Replies.join(call('HGET', spec_key, 'next_push_reply_to') or nil, push.reply_to)
      call('HSET', spec_key, 'next_push_reply_to', names)
      Replies.refuse(c, id, job, left)
    end
    -- When the kept job was pushed, and when the push that renews its URLs was made. A continuation cannot begin a job.
    local has_url = job.next_push and call('HGET', spec_key, 'next_push_has_url')
    local newest = is_job and (has_url and match(has_url, '%d+$') or '0') or job.next_push
    if push.at and tonumber(newest or 0) > push.at then return end
    local pushed_at = Pushes.timestamp_of(c, push.at)
    if is_job and has_url and States.ends_job(job.want) then
      call('HSET', spec_key, 'next_push_renewed', push.element, 'next_push_has_url', match(has_url, '^%d+') .. ' ' .. pushed_at)
    elseif is_job or not has_url then
      call('HSET', spec_key, 'next_push', push.element)
      if is_job then call('HSET', spec_key, 'next_push_has_url', pushed_at) end
    end
    call('HSET', job_key, 'next_push', integer_text(math.max(tonumber(pushed_at), tonumber(job.next_push or 0))))
    Pushes.record_future(c, id, push.at)
    local _, timestamp = next_want(job)
    -- Behind a cancel, a continuation has nothing to continue; only a job revokes the pause.
    if timestamp and is_job and is_newer(push.at, timestamp) then call('HDEL', job_key, 'want_next') end
  end

  -- Drops the kept push, because a newer operation stops it. is_ending: whether that operation ends the job; if not,
  -- the URLs and headers of the kept push are still used.
  local function drop_next_push(c, id, job, is_ending)
    local element, reply_to, batch = unpack(call('HMGET', c.SPEC .. id, 'next_push', 'next_push_reply_to', 'next_push_batch'))
    local kept = job.next_push and element
    call('HDEL', c.JOB .. id, 'next_push')
    States.delete_next(c, id)
    Replies.await_end(c, id, job, reply_to or nil)
    if batch then Batches.enter(c, id, job, batch) end
    local push = kept and not is_ending and Envelopes.kept(kept, id)
    if push and push.url then Pushes.renew(c, job, push, job.next_push) end
  end

  -- Whether an operation of `operation_at` (ms) that ends the job also ends the kept push, although something newer
  -- came behind that push. A continuation cannot restart an ended job. A newer job can: it becomes the kept push, and
  -- the result is false.
  local function ends_next_push(c, id, operation_at)
    local first, newest = match(call('HGET', c.SPEC .. id, 'next_push_has_url') or '', '^(%d+) ?(%d*)$')
    if not first or tonumber(first) < TIMESTAMPS.min or tonumber(first) > operation_at then return false end
    if newest == '' or tonumber(newest) <= operation_at then return true end
    call('HSET', c.SPEC .. id, 'next_push', call('HGET', c.SPEC .. id, 'next_push_renewed') or '', 'next_push_has_url', newest)
    call('HDEL', c.SPEC .. id, 'next_push_renewed')
    return false
  end

  -- Records an operation that has to wait, for the run to learn of it or for the job to come. operation_at: its
  -- timestamp (ms). The operation may be older than one that waits already. At most one operation that ends the job
  -- waits, and behind it a newer pause.
  local function set_want(c, id, job, want, operation_at)
    local job_key, waiting_operation, waiting_at = c.JOB .. id, job.want, tonumber(job.want_at or 0)
    local _, timestamp = next_want(job)
    if want == 'paused' then
      -- An ending operation cannot be revoked. A pause that is older than it has no effect.
      if States.ends_job(waiting_operation) then
        if operation_at >= waiting_at and operation_at > tonumber(timestamp or 0) then
          call('HSET', job_key, 'want_next', 'paused ' .. integer_text(operation_at))
        end
        return
      end
      if operation_at < waiting_at then return end
    elseif waiting_operation == 'paused' and waiting_at > operation_at and (job.state or not States.removes_job(want)) then
      call('HSET', job_key, 'want_next', 'paused ' .. integer_text(waiting_at), 'want', want,
        'want_at', integer_text(operation_at))
      return
    end
    local is_kept = job.next_push
      and (tonumber(job.next_push) <= operation_at or States.ends_job(want) and ends_next_push(c, id, operation_at))
    if job.state then
      -- An operation that forgets the job wins, unless the job was pushed again since. A forgotten job cannot be
      -- continued.
      local has_new_job = is_kept and call('HEXISTS', c.SPEC .. id, 'next_push_has_url') == 1
      if States.removes_job(waiting_operation) and want ~= 'deleted' and not has_new_job then want = waiting_operation end
      -- The operation stops all pushes up to the newer of the two timestamps.
      if States.ends_job(waiting_operation) then operation_at = math.max(operation_at, waiting_at) end
    elseif waiting_operation then
      -- The job is not known. If the older operation forgets, it settles the pushes before it at once; the newer
      -- operation waits.
      local older = operation_at < waiting_at and { want, operation_at } or { waiting_operation, waiting_at }
      if States.removes_job(older[1]) then
        call('HSET', job_key, 'settled_until', integer_text(math.max(older[2], tonumber(job.settled_until or 0))))
      end
      if older[2] == operation_at and older[1] == want then return end
    end
    call('HSET', job_key, 'want', want, 'want_at', integer_text(operation_at))
    if timestamp and tonumber(timestamp) <= operation_at then call('HDEL', job_key, 'want_next') end
    if is_kept then drop_next_push(c, id, job, States.ends_job(want)) end
  end

  -- Does `running` of `operation_at` (ms) for a running or an unknown job: revokes an older pause that waits.
  local function revoke(c, id, job, operation_at)
    local _, timestamp = next_want(job)
    -- A cancel may have reached the run already, so it cannot be revoked.
    if timestamp then
      if tonumber(timestamp) <= operation_at then call('HDEL', c.JOB .. id, 'want_next') end
    elseif job.want == 'paused' then
      call('HDEL', c.JOB .. id, 'want', 'want_at')
      if job.next_push then drop_next_push(c, id, job, false) end
    end
  end

  -- Does an operation for a job that has ended.
  local function apply_to_final(c, id, job, want, operation_at)
    local job_key = c.JOB .. id
    if want == 'running' then
      -- A newer pause is for the job that continues now.
      if job.want and tonumber(job.want_at) <= operation_at then
        call('HDEL', job_key, 'want', 'want_at')
        job.want = nil
      end
      if job.want_next then call('HDEL', job_key, 'want_next') end
      if call('HEXISTS', c.SPEC .. id, 'spec') == 1 then
        Pushes.renew_deadline(c, id, job)
        States.forget_end(c, id, job)
        call('HSET', job_key, 'retried', integer_text(operation_at))
        States.requeue(c, id, job, true, 'resumed')
      end
    elseif States.removes_job(want) then
      Deletions.schedule(c, id, want == 'deleted')
      States.forget(c, id, operation_at)
    elseif operation_at > tonumber(job.settled_until or 0) then
      -- It is for pushes that are older than it and still wait.
      if want == 'cancelled' then
        States.settle_until(c, id, integer_text(operation_at))
        if job.want and tonumber(job.want_at) <= operation_at then call('HDEL', job_key, 'want', 'want_at') end
      elseif operation_at > tonumber(job.want_at or 0) then
        call('HSET', job_key, 'want', want, 'want_at', integer_text(operation_at))
      end
    end
  end

  -- Does a control operation. value: the text from `want`, a word and perhaps a time (ms). applied_until: the result of
  -- Order.last_applied(), for an operation without a time. An invalid operation is rejected.
  function Order.apply(c, id, value, applied_until)
    local want, time = match(value, '^(%a+) ?(%d*)$')
    if not (want == 'running' or want == 'paused' or States.ends_job(want)) then
      local reason = 'want: must be paused, cancelled, running, removed or deleted, and perhaps unix ms behind a space'
      return Rejections.add(c, value, reason, is_id(id) and id or nil)
    end
    if time ~= '' and (tonumber(time) < TIMESTAMPS.min or tonumber(time) > TIMESTAMPS.max) then
      return Rejections.add(c, value, 'want: the time ' .. TIMESTAMPS.rule, is_id(id) and id or nil)
    end
    if not is_id(id) then
      -- The field may have bytes that are not UTF-8.
      return Rejections.add(c, id .. ' ' .. value, 'want: the field is not a valid job id')
    end
    local wrong = Jobs.wrong_type(c, id)
    if wrong then return Rejections.add(c, value, wrong, id) end
    local job, job_key = Jobs.read(c, id), c.JOB .. id
    local state, pushed = job.state, tonumber(job.pushed or 0)
    local settled = math.max(tonumber(job.want_at or 0), tonumber(job.settled_until or 0))
    -- No clock is ahead of Redis' own. An operation without a time was made after everything that was claimed of its
    -- job, and after whatever it cannot undo.
    local given = time ~= '' and math.min(tonumber(time), c.now)
    local after_known = math.max(applied_until, pushed, tonumber(job.want_at or 0), tonumber(job.next_push or 0),
      tonumber(job.resumed or 0))
    local operation_at = given or math.max(after_known, settled)
    -- The job was pushed again after this operation, and that push has been claimed.
    if pushed > operation_at then return end
    -- Whatever the job's state, an older push may wait for a host or for a worker of its kind.
    if want ~= 'running' then Rechecks.request(c) end
    -- An operation cannot undo what is newer. A newer pause of a failed job is done after the retry.
    if want == 'running' and operation_at < tonumber(state == 'failed' and job.settled_until or settled) then return end
    local resumed = tonumber(job.resumed or 0)
    if want == 'paused' and operation_at < resumed then return end
    -- The job had failed when this cancel was made, so the cancel is only for pushes that are older than it.
    if want == 'cancelled' and operation_at < tonumber(job.retried or 0) then
      return States.settle_until(c, id, integer_text(operation_at))
    end
    if want == 'running' and state then call('HSET', job_key, 'resumed', integer_text(math.max(operation_at, resumed))) end
    if not state then
      if want == 'running' then
        revoke(c, id, job, operation_at)
      elseif operation_at >= tonumber(job.settled_until or 0) then
        -- An operation may come before its job, or before a worker takes the job's element. A tombstone keeps it as long
        -- as cancelled jobs are kept, and at least for an hour.
        set_want(c, id, job, want, operation_at)
        call('PEXPIRE', job_key, integer_text(math.max(3600000, tonumber(c.retention.cancelled))))
      end
    elseif state == 'running' then
      if want == 'running' then revoke(c, id, job, operation_at) else set_want(c, id, job, want, operation_at) end
    elseif IS_FINAL[state] then apply_to_final(c, id, job, want, given or after_known)
    elseif want == 'running' then
      if state ~= 'queued' then States.requeue(c, id, job, true, 'resumed') end
    elseif want == 'paused' then
      States.settle_until(c, id, integer_text(operation_at), job)
      if state ~= 'paused' then States.pause(c, id, job) end
    else
      -- The job is paused by a newer pause. That pause stays in force for pushes between the two operations.
      local newer_pause_at = state == 'paused' and settled > operation_at and settled
      if newer_pause_at then call('HSET', job_key, 'settled_until', integer_text(math.max(operation_at, pushed)))
      else States.settle_until(c, id, integer_text(operation_at), job) end
      Deletions.schedule(c, id)
      job.want, job.want_at = want, integer_text(operation_at)
      States.finish(c, id, job, 'cancelled', '')
      if newer_pause_at then Order.apply(c, id, 'paused ' .. integer_text(newer_pause_at), applied_until) end
    end
  end

  -- The control operation for one of a kept push's batches that stops its job: 'cancelled', 'paused' or nil.
  local function stop_of_batches(c, job, push)
    local stop
    for name in gmatch(push.batch or '', '%S+') do
      local want = Batches.stop(c, job, push, name, true)
      if want then stop = stop ~= 'cancelled' and want or stop end
    end
    job.of_batch = nil
    return stop
  end

  -- Does what came behind an operation that is done now: the kept push, then the operation behind the push. kept: the
  -- result of States.take_pending(). is_undone: whether the run has done nothing.
  function Order.follow(c, id, kept, is_undone)
    if kept.element then
      local push, job = Envelopes.kept(kept.element, id), Jobs.read(c, id)
      job.is_known = true
      Envelopes.complete(c, push)
      push.reply_to, push.batch, push.batch_size, push.batch_reply_to = kept.reply_to, kept.batch, nil, nil
      local newer = kept.renewed and Envelopes.kept(kept.renewed, id)
      if newer then push.url, push.url_digests = newer.url, newer.url_digests end
      -- The push has no `at` here: it is newer than what has just been settled.
      local verdict, reason = Pushes.verdict(job, { what = push.what }, call('HEXISTS', c.SPEC .. id, 'spec') == 1)
      -- The run completed the job before it learned of the pause, so nothing is left to continue.
      if job.state == 'completed' and not is_undone and not States.ends_job(kept.want) then verdict, reason = 'duplicate', 'done' end
      local handler = Pushes.not_started[verdict]
      if handler then handler(c, job, push, reason)
      else
        local stop = verdict == 'begin' and stop_of_batches(c, job, push)
        local fields, set = Pushes.record(c, job, push, verdict == 'begin')
        if tonumber(kept.timestamp) > tonumber(job.pushed or 0) then set('pushed', kept.timestamp) end
        if #fields > 0 then call('HSET', c.JOB .. id, unpack(fields)) end
        if kept.renewed then call('HSET', c.SPEC .. id, 'renewed', kept.renewed) end
        local due = push.delay and Pushes.due(c, push, push.delay) or 0
        job.want = nil
        if stop then States.settle_until(c, id, c.NOW) end
        if stop == 'cancelled' then States.finish(c, id, job, 'cancelled', '')
        elseif stop then States.pause(c, id, job)
        elseif due > c.now then States.postpone(c, id, job, due - c.now)
        else States.requeue(c, id, job, true, 'wanted') end
      end
    end
    if kept.batch then Batches.release(c, id, kept.batch) end
    if kept.want_next then Order.apply(c, id, kept.want_next, 0) end
  end
end
