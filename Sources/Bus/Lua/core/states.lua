-- The state transitions of a job, with the indexes, times to live and events that belong to them.
--
-- Uses: Call, Deletions, Events, Responses, UrlIndex, Webhooks.
-- Calls ahead: Announcements, Batches, Groups, Hosts, Order, Rechecks, Steps.
-- Writes: job:<id>, spec:<id>, offsets:<id>, jobs, leases, scheduled, paused, completed, failed, cancelled, deadlines,
-- unannounced, worker:<worker>, held:<worker>, removed.
do
  -- The hash of an ended job expires this many ms after its retention has ended, so that a tick normally deletes it
  -- first and can remove its URLs from the index.
  local EXPIRY_DELAY = 10000

  -- Up to when the end of a run settles pushes: all that were claimed (pushed: the newest of them), and all that are
  -- older than this millisecond. Who learns of the end may push the job again in the same millisecond, and that push is
  -- done.
  function States.settled_by_end(c, pushed)
    if pushed and tonumber(pushed) >= c.now then return pushed end
    c.just_before = c.just_before or integer_text(c.now - 1)
    return c.just_before
  end

  -- Marks all pushes up to `timestamp` (ms; those before an end in this call if nil), and all that were claimed, as
  -- settled: a push that is not newer is a duplicate. timestamp: when the control operation that settles them was made.
  -- Elements that are deferred for a host or a kind are checked again, because they may be settled now. job: if given,
  -- its fields were read in this call and not written since, which saves a command.
  function States.settle_until(c, id, timestamp, job)
    if timestamp then Rechecks.request(c) end
    local settled, pushed
    if job then settled, pushed = job.settled_until, job.pushed
    else settled, pushed = unpack(call('HMGET', c.JOB .. id, 'settled_until', 'pushed')) end
    call('HSET', c.JOB .. id, 'settled_until', integer_text(math.max(
      tonumber(timestamp or States.settled_by_end(c)), to_integer(settled), to_integer(pushed))))
  end

  -- Puts a continuation into the queue. It is valid only while its ticket is the current one of the job. front: whether
  -- it is claimed next. group: the job's, or nil.
  function States.enqueue(c, id, front, group)
    c.ticket_count = (c.ticket_count or 0) + 1
    local ticket = c.NONCE .. c.ticket_count
    call('HSET', c.JOB .. id, 'ticket', ticket)
    local element = '{"id":"' .. id .. '","t":"' .. ticket .. '"}'
    if not Groups.enqueue(c, group, element, front) then call(front and 'RPUSH' or 'LPUSH', c.JOBS, element) end
  end

  -- Moves up to `max` elements that a worker holds and did not claim back to the front of the queue, in their order.
  -- held: the key of the worker's list. Returns whether the list is now empty (or of another type), and how many were
  -- moved.
  function States.return_elements(c, held, max)
    for n = 1, max do
      local moved = try('LMOVE', held, c.JOBS, 'LEFT', 'RIGHT')
      if not moved or type(moved) == 'table' then return true, n - 1 end
    end
    return false, max
  end

  -- Removes a job from everything that belongs to its state: the index, the leases, its worker's claims and the count
  -- of its host. If it had ended, its keys no longer expire, and it is pending again in its batches. The caller writes
  -- the new state.
  function States.leave_state(c, id, job)
    -- A tombstone, which a removal or a control operation for an unknown job leaves, has a time to live.
    if not job.state and job.is_known then call('PERSIST', c.JOB .. id) end
    if job.state and c.INDEX[job.state] then call('ZREM', c.INDEX[job.state], id) end
    if job.state == 'running' then
      call('ZREM', c.LEASES, id)
      -- The worker's hash may be of another type, which the calls of that worker report.
      if job.token and job.worker then try('HDEL', c.PREFIX .. KEY.worker .. job.worker, job.token) end
      if job.host then Hosts.release(c, id, job.host) end
      Groups.release(c, id, job.group)
    end
    if job.state == 'completed' or job.state == 'failed' or job.state == 'cancelled' then
      -- The event of the job's end must come before the events of what follows.
      if job.state == 'completed' then Announcements.announce_early(c, id) end
      call('PERSIST', c.JOB .. id) call('PERSIST', c.SPEC .. id) call('PERSIST', c.OFFSETS .. id)
      -- If its worker sends the settle again, `settled` shows that it was done.
      if job.token then call('HSET', c.JOB .. id, 'settled', job.token) end
      if job.batch then Batches.move(c, id, job.batch, 'pending') end
    end
  end

  -- Control operations that end a job. `removed` and `deleted` also forget the job, and `deleted` also deletes its
  -- finished file.
  function States.ends_job(want) return want == 'cancelled' or want == 'removed' or want == 'deleted' end
  function States.removes_job(want) return want == 'removed' or want == 'deleted' end

  -- Records runs that may have left partial files, because a run reports its file only some time after it has created
  -- it under its token. Workers remove such files when no job needs them (Orphans.swift). known: the old value of the
  -- field. tokens: those to add. The newest ten are kept.
  function States.record_lost(c, id, known, tokens)
    local lost = table.concat(tokens, ' ')
    call('HSET', c.JOB .. id, 'lost', sub(known and known .. ' ' .. lost or lost, -329))
  end

  -- Forgets how a job has ended that goes on. What the end of its run has settled counts only as long as it stays ended:
  -- a removal may be older than that end, and a push newer than the removal. If that run ended less than a minute ago, its
  -- worker may have died before it removed what the run has hidden.
  function States.forget_end(c, id, job)
    local key = c.JOB .. id
    local settled, finished, pushed, token, ended, lost = unpack(call('HMGET', key, 'settled_until', 'finished', 'pushed', 'token',
      'settled', 'lost'))
    if job.state ~= 'cancelled' and to_integer(settled) < to_integer(finished) then
      call('HSET', key, 'settled_until', pushed or '0')
    end
    local last = token or ended
    if last and c.now - to_integer(finished) < 60000 then States.record_lost(c, id, lost, { last }) end
    call('HDEL', key, unpack(END_FIELDS))
  end

  -- Lists a removed job for an hour, as long as its tombstone exists. Meanwhile workers search for its partial files.
  local function record_removed(c, id)
    local removed = c.PREFIX .. KEY.removed
    -- A key of another type does not stop the removal.
    if type(try('ZADD', removed, c.NOW, id)) ~= 'number' then return end
    call('PEXPIRE', removed, 3600000)
    local old = call('ZRANGEBYSCORE', removed, '-inf', integer_text(c.now - 3600000), 'LIMIT', 0, 2)
    if #old > 0 then call('ZREM', removed, unpack(old)) end
  end

  -- Deletes a job and leaves a tombstone for an hour, so that a push that a producer repeats starts no job. timestamp:
  -- when the control operation that removes the job was made, in ms. A newer push that waits is still executed, even if
  -- the end of a run has settled it, because that end is forgotten with the job.
  function States.forget(c, id, timestamp)
    Rechecks.request(c)
    Announcements.announce_early(c, id)
    local job_key = c.JOB .. id
    local settled_at, pushed, ahead, token, settled_token, seq, epoch_of_seq, pending_deletion, finished, state, reply_to, generation,
      lost, digests = unpack(call('HMGET', job_key, 'settled_until', 'pushed', 'ahead', 'token', 'settled', 'seq', 'epoch', 'pending_deletion', 'finished',
        'state', 'reply_to', 'generation', 'lost', 'url_digests'))
    UrlIndex.forget(c, { id, digests or nil })
    -- An operation that came later settles at least until the millisecond of the end.
    if state ~= 'cancelled' and to_integer(settled_at) < to_integer(finished) then settled_at = nil end
    for _, index in pairs(c.INDEX) do call('ZREM', index, id) end
    call('ZREM', c.DEADLINES, id)
    call('DEL', job_key, c.SPEC .. id, c.OFFSETS .. id)
    call('HSET', job_key, 'settled_until', integer_text(math.max(timestamp or 0,
      to_integer(settled_at), to_integer(pushed))))
    if ahead then call('HSET', job_key, 'ahead', ahead) end
    if token or settled_token then call('HSET', job_key, 'settled', token or settled_token) end
    -- If the id is pushed again, the numbers of its events continue.
    if c.seqs[id] or seq then
      call('HSET', job_key, 'seq', c.seqs[id] or seq, 'epoch', c.seqs[id] and Call.epoch(c) or epoch_of_seq or '0')
    end
    if pending_deletion and pending_deletion ~= '' then call('HSET', job_key, 'pending_deletion', pending_deletion) end
    -- These reply lists have received their event, and must not receive another one.
    if reply_to then call('HSET', job_key, 'reply_to', reply_to) end
    -- The hash of an earlier job of this id may have expired while no tick removed what it counts.
    Responses.forget(c, { id })
    local runs = {}
    for _, run in ipairs({ match(generation or '', '^%x+') or '', token or '', settled_token or '' }) do
      if run ~= '' then runs[#runs + 1] = run end
    end
    if lost or #runs > 0 then
      States.record_lost(c, id, lost, runs)
      record_removed(c, id)
    end
    call('PEXPIRE', job_key, 3600000)
    c.seqs[id] = nil
  end

  -- Deletes what is kept of a push that waits until a control operation is done.
  function States.delete_next(c, id)
    call('HDEL', c.SPEC .. id, 'next_push', 'next_push_has_url', 'next_push_renewed', 'next_push_reply_to', 'next_push_batch')
  end

  -- Removes the push and the control operation that wait until the present one is done, and returns them for
  -- Order.follow(); nil if there are none.
  function States.take_pending(c, id, job)
    if not (job.next_push or job.want_next) then return nil end
    local element, renewed, reply_to, batch = unpack(call('HMGET', c.SPEC .. id, 'next_push', 'next_push_renewed', 'next_push_reply_to',
      'next_push_batch'))
    States.delete_next(c, id)
    return { element = job.next_push and element, timestamp = job.next_push, renewed = renewed, reply_to = reply_to or nil,
      batch = batch or nil, want_next = job.want_next, want = job.want }
  end

  -- The pairs for a job's hash whose values are not empty, and the names of the others, nil if there are none. An empty
  -- value deletes its field, because readers treat a field that exists as a value.
  local function without_empty(fields)
    local has_empty = false
    for n = 2, #fields, 2 do has_empty = has_empty or fields[n] == '' end
    if not has_empty then return fields end
    local kept, empty = {}, {}
    for n = 1, #fields, 2 do
      if fields[n + 1] == '' then empty[#empty + 1] = fields[n]
      else kept[#kept + 1], kept[#kept + 2] = fields[n], fields[n + 1] end
    end
    return kept, empty
  end

  -- Sets pairs in a job's hash, or deletes those that are empty.
  function States.write_fields(c, id, fields)
    local kept, empty = without_empty(fields)
    if #kept > 0 then call('HSET', c.JOB .. id, unpack(kept)) end
    if empty then call('HDEL', c.JOB .. id, unpack(empty)) end
  end

  -- Sets a final state and `fields`, a list of pairs.
  local function write_end(c, id, job, state, fields)
    local kept, empty = without_empty(fields)
    call('HSET', c.JOB .. id, 'state', state, 'finished', c.NOW, 'updated', c.NOW, 'seq', c.seqs[id] or job.seq,
      'epoch', Call.epoch(c), unpack(kept))
    if empty then call('HDEL', c.JOB .. id, unpack(empty)) end
    c.seqs[id] = nil
    -- The hash of an earlier job of this id may have expired while no tick removed its entry and what it counts.
    if call('ZADD', c.INDEX[state], c.NOW, id) == 0 then Responses.forget(c, { id }) end
    if job.deadline then call('ZREM', c.DEADLINES, id) end
  end

  -- Deletes the fields of an ended job that belong to its run or to pending control operations, and further fields, if
  -- given.
  local function clear_run(c, id, ...)
    call('HDEL', c.JOB .. id, 'want', 'want_at', 'next_push', 'want_next', 'waiting', 'speed', 'active_token', 'deadline_at', ...)
  end

  -- Sets the times to live of an ended job's keys. A failed job keeps spec:<id> and offsets:<id> for a retry. Otherwise
  -- both are deleted, and with them header values, credentials and query strings. awaits_report: the job's webhook is
  -- pushed later.
  local function expire_keys(c, id, state, awaits_report)
    local ms = integer_text(c.retention[state] + EXPIRY_DELAY)
    call('PEXPIRE', c.JOB .. id, ms)
    if state == 'failed' then
      call('PEXPIRE', c.SPEC .. id, ms) call('PEXPIRE', c.OFFSETS .. id, ms)
    elseif awaits_report then
      Webhooks.keep(c, id, ms)
      call('DEL', c.OFFSETS .. id)
    else
      call('DEL', c.SPEC .. id, c.OFFSETS .. id)
    end
  end

  -- Executes what waited for the end of a job: first a control operation that removes it, then the push or the
  -- operation after that. kept: the result of States.take_pending().
  local function follow_end(c, id, job, state, kept)
    if States.removes_job(job.want) then
      -- The run ended before its worker learned of the control operation, so its files still exist.
      if state ~= 'cancelled' then Deletions.schedule(c, id, job.want == 'deleted' and state == 'completed') end
      States.forget(c, id, tonumber(job.want_at))
    end
    if kept then Order.follow(c, id, kept) end
  end

  -- Ends a job as cancelled, or as failed outside of a run. extra: the members of its event. worker: the worker that
  -- the event names, or nil.
  function States.finish(c, id, job, state, extra, worker)
    if job.state == 'queued' then Rechecks.request(c) end
    c.ended_count = c.ended_count + 1
    local kept = States.take_pending(c, id, job)
    States.leave_state(c, id, job)
    local event = Events.emit(c, id, job, state, extra, worker, job.reply_to)
    write_end(c, id, job, state, {})
    if job.notify then Webhooks.report(c, id, job, event) end
    if job.batch then Batches.move(c, id, job.batch, state) end
    clear_run(c, id, 'token', 'worker', 'ticket')
    expire_keys(c, id, state)
    follow_end(c, id, job, state, kept)
  end

  -- Ends a job that its own run has completed or failed. extra: the members of its event. fields: pairs for its hash.
  -- is_withheld: the event waits until replicas have the job (announcements.lua). job.steps: elements that follow
  -- (steps.lua), or nil. `token` and `worker` stay, so that a
  -- settle that is sent again is recognized. The caller (settles.lua) deletes the leases of all runs at once.
  function States.finish_run(c, id, job, state, extra, worker, fields, is_withheld)
    local brief = #extra > 4096 and Events.without_response(extra)
    if brief and Responses.is_out_of_memory(c) then
      extra, fields = brief, Responses.drop(c, id, fields)
    end
    local kept = States.take_pending(c, id, job)
    local event = not is_withheld and Events.emit(c, id, job, state, extra, worker, job.reply_to)
    write_end(c, id, job, state, fields)
    if event and job.notify then Webhooks.report(c, id, job, event) end
    if job.steps then Steps.push(c, job.steps) end
    if job.host then Hosts.release(c, id, job.host) end
    Groups.release(c, id, job.group)
    -- Most runs have none of these fields, so the command is saved.
    if job.active_token or job.waiting or job.speed or job.want or job.want_next or job.next_push or job.deadline then
      clear_run(c, id)
    end
    if is_withheld then
      call('HSET', c.JOB .. id, 'unannounced', extra, 'waiting', 'replicas')
      call('ZADD', c.UNANNOUNCED, c.NOW, id)
    elseif job.batch then Batches.move(c, id, job.batch, state) end
    expire_keys(c, id, state, is_withheld and job.notify)
    Responses.keep(c, id, fields)
    follow_end(c, id, job, state, kept)
  end

  -- Fails a job that no worker runs, whose worker is lost, or that no worker can read. code, message, retryable: the
  -- error.
  function States.fail(c, id, job, code, message, retryable)
    States.settle_until(c, id)
    Steps.record_owed(c, id, code)
    -- The response to an earlier push does not answer this one.
    if call('HDEL', c.JOB .. id, 'status') == 1 then
      call('HDEL', c.JOB .. id, 'headers', 'body', 'body_base64', 'request_digest', 'method', 'files', 'response_dropped')
      Responses.forget(c, { id })
    end
    call('HSET', c.JOB .. id, 'error', code, 'message', message, 'retryable', retryable and '1' or '0')
    States.finish(c, id, job, 'failed', ',"error":"' .. code .. '","retryable":' .. tostring(retryable) .. ',"message":'
      .. Events.quoted(message))
  end

  -- Fails a job whose run was lost or stopped. `sent` remains of a run that had sent what must not be sent twice. advice:
  -- what to do if nothing was sent; nil if a retry is useless.
  function States.fail_lost(c, id, job, code, cause, advice)
    if not call('HGET', c.JOB .. id, 'sent') then
      return States.fail(c, id, job, code, cause .. (advice or ''), advice ~= nil)
    end
    States.fail(c, id, job, 'outcome_unknown', cause
      .. '; the request was sent, and is not repeated because it is unknown whether the server has executed it', false)
  end

  -- Fails a job whose deadline has passed.
  function States.fail_overdue(c, id, job)
    States.fail_lost(c, id, job, 'deadline', 'the deadline passed before the job could end')
  end

  -- Makes a job `paused`, then executes what waited for the pause. worker: the worker that the event names, or nil.
  function States.pause(c, id, job, worker)
    local job_key, kept = c.JOB .. id, States.take_pending(c, id, job)
    States.leave_state(c, id, job)
    call('HSET', job_key, 'state', 'paused', 'updated', c.NOW)
    call('HDEL', job_key, 'token', 'worker', 'ticket', 'want', 'want_at', 'next_push', 'want_next', 'waiting', 'speed', 'active_token')
    call('ZADD', c.INDEX.paused, c.NOW, id)
    Events.emit(c, id, job, 'paused', '', worker)
    if kept then Order.follow(c, id, kept) end
  end

  -- Puts a job into the queue, unless a pending control operation (job.want) cancels or pauses it. front: whether it is
  -- claimed next. why: a member of the event.
  function States.requeue(c, id, job, front, why)
    local job_key = c.JOB .. id
    if States.ends_job(job.want) then
      States.settle_until(c, id, job.want_at)
      Deletions.schedule(c, id)
      return States.finish(c, id, job, 'cancelled', '')
    elseif job.want == 'paused' then
      States.settle_until(c, id, job.want_at)
      return States.pause(c, id, job)
    end
    States.leave_state(c, id, job)
    call('HSET', job_key, 'state', 'queued', 'updated', c.NOW)
    call('HDEL', job_key, 'token', 'worker', 'want', 'want_at', 'waiting', 'speed', 'active_token')
    States.enqueue(c, id, front, job.group)
    Events.emit(c, id, job, 'requeued', ',"why":"' .. why .. '"')
  end

  -- Makes a job `scheduled`, due in `delay` ms. waiting: the value of the field `waiting`, or nil.
  function States.postpone(c, id, job, delay, waiting)
    States.leave_state(c, id, job)
    call('HSET', c.JOB .. id, 'state', 'scheduled', 'updated', c.NOW)
    call('HDEL', c.JOB .. id, 'token', 'worker', 'ticket', 'speed', 'active_token')
    if waiting then call('HSET', c.JOB .. id, 'waiting', waiting) else call('HDEL', c.JOB .. id, 'waiting') end
    call('ZADD', c.INDEX.scheduled, integer_text(c.now + delay), id)
    c.next_due = math.min(c.next_due or math.huge, c.now + delay)
  end
end
