-- The moves of a job from one state to another, with the indexes, times to live and events that belong to them.

-- Settles all pushes up to `timestamp` (ms; now if nil) and all that were claimed: a push that is not newer is a
-- duplicate. timestamp: when the control operation was made that settles them. It must not wait for a host or for a
-- worker of a kind. job: if it is given, it was read in this call, and neither field has been written since. That saves
-- a command. Writes job:<id> (settled_until), recheck.
local function settled_until(id, timestamp, job)
  if timestamp then rechecks.request() end
  local settled, pushed
  if job then settled, pushed = job.settled_until, job.pushed
  else settled, pushed = unpack(call('HMGET', key(id), 'settled_until', 'pushed')) end
  call('HSET', key(id), 'settled_until', integer_text(math.max(tonumber(timestamp or NOW), tonumber(number(settled) or 0), tonumber(number(pushed) or 0))))
end

-- Puts a continuation into the queue. It counts only while its ticket is the job's current one. front: whether it is
-- claimed next. Writes job:<id> (ticket), jobs.
local function enqueue_continuation(id, front)
  ticket_count = ticket_count + 1
  local ticket = NONCE .. ticket_count
  call('HSET', key(id), 'ticket', ticket)
  call(front and 'RPUSH' or 'LPUSH', JOBS, '{"id":"' .. id .. '","t":"' .. ticket .. '"}')
end

-- Returns elements that a worker holds and did not claim to the front of the queue, in their order. held: the key of
-- the list. max: how many at most. Returns whether the list is empty now or of another type, and how many were moved.
-- Writes held:<worker>, jobs.
local function return_elements(held, max)
  for n = 1, max do
    local moved = redis.pcall('LMOVE', held, JOBS, 'LEFT', 'RIGHT')
    if not moved or type(moved) == 'table' then return true, n - 1 end
  end
  return false, max
end

-- A member of `completed` if too few replicas have confirmed that they have the job.
local UNREPLICATED = ',"unreplicated":true'

-- Emits the `completed` event of a job that waited for replicas. Does nothing if the job does not wait. more: further
-- members of the event, or ''. Writes unannounced, job:<id>, and batches.move().
local function announce(id, more)
  call('ZREM', UNANNOUNCED, id)
  local job = not wrong_type(id) and read_job(id) or {}
  local members = job.state == 'completed' and call('HGET', key(id), 'unannounced')
  if not members then return end
  call('HDEL', key(id), 'unannounced', 'waiting')
  emit(id, job, 'completed', members .. more, job.worker, job.reply_to)
  if job.batch then batches.move(id, job.batch, 'completed') end
end

-- Removes a job from its state: from its index, the leases, its worker's claims, its host's count. A job that had
-- ended loses its times to live, and is pending again in its batches. The caller writes the new state.
-- Writes job:<id>, spec:<id> and offsets:<id> (times to live), the index, leases, worker:<worker>, hosts.release(),
-- announce(), batches.move().
local function leave_state(id, job)
  -- A tombstone has a time to live. A removal leaves it, or a control operation that came before its job.
  if not job.state and job.is_known then call('PERSIST', key(id)) end
  if job.state and INDEX[job.state] then call('ZREM', INDEX[job.state], id) end
  if job.state == 'running' then
    call('ZREM', LEASES, id)
    -- The worker's hash may be of another type. That worker's own calls report it.
    if job.token and job.worker then redis.pcall('HDEL', PREFIX .. KEY.worker .. job.worker, job.token) end
    if job.host then hosts.release(id, job.host) end
  end
  if job.state == 'completed' or job.state == 'failed' or job.state == 'cancelled' then
    -- The event of the job's end must come before the events of what follows.
    if job.state == 'completed' and call('ZSCORE', UNANNOUNCED, id) then announce(id, UNREPLICATED) end
    call('PERSIST', key(id)) call('PERSIST', spec(id)) call('PERSIST', offsets(id))
    -- Its worker may send the settle again. Because of `settled` the reply is 'done' once more.
    if job.token then call('HSET', key(id), 'settled', job.token) end
    if job.batch then batches.move(id, job.batch, 'pending') end
  end
end

-- Control operations that end a job. `removed` and `deleted` also forget the job, and `deleted` also deletes its
-- finished file.
local function ends_job(want) return want == 'cancelled' or want == 'removed' or want == 'deleted' end
local function removes_job(want) return want == 'removed' or want == 'deleted' end

-- Records runs that may have left partial files. A run names its partial file by its token and reports the file only
-- later. Workers remove such files when no job needs them (Orphans.swift). known: the old value of the field. tokens: a
-- list. The newest ten tokens are kept. Writes job:<id> (lost).
local function record_lost(id, known, tokens)
  local lost = table.concat(tokens, ' ')
  call('HSET', key(id), 'lost', string.sub(known and known .. ' ' .. lost or lost, -329))
end

-- Lists a removed job for an hour, the life of its tombstone. Meanwhile workers search for its partial files. Writes
-- removed.
local function record_removed(id)
  local removed = PREFIX .. KEY.removed
  -- A key of another type does not stop the removal.
  if type(redis.pcall('ZADD', removed, NOW, id)) ~= 'number' then return end
  call('PEXPIRE', removed, 3600000)
  local old = call('ZRANGEBYSCORE', removed, '-inf', integer_text(now - 3600000), 'LIMIT', 0, 2)
  if #old > 0 then call('ZREM', removed, unpack(old)) end
end

-- Deletes a job and leaves a tombstone for an hour, so that a producer's repeat starts nothing. timestamp: when the
-- control operation that forgets the job was made, in ms. A waiting push that is newer is still done, even if a run's
-- end has settled it, because that end is forgotten with the job. Writes job:<id>, removed, recheck; deletes spec:<id>,
-- offsets:<id> and the job's entries in all indexes and in deadlines.
local function forget(id, timestamp)
  rechecks.request()
  if call('ZSCORE', UNANNOUNCED, id) then announce(id, UNREPLICATED) end
  local job_key = key(id)
  local settled_at, pushed, ahead, token, settled_token, seq, epoch_of_seq, pending_deletion, finished, state, reply_to, status, generation,
    lost = unpack(call('HMGET', job_key, 'settled_until', 'pushed', 'ahead', 'token', 'settled', 'seq', 'epoch', 'pending_deletion', 'finished',
      'state', 'reply_to', 'status', 'generation', 'lost'))
  if settled_at == finished and (state == 'completed' or state == 'failed') then settled_at = nil end
  for _, index in pairs(INDEX) do call('ZREM', index, id) end
  call('ZREM', DEADLINES, id)
  call('DEL', job_key, spec(id), offsets(id))
  call('HSET', job_key, 'settled_until', integer_text(math.max(timestamp or 0, tonumber(number(settled_at) or 0), tonumber(number(pushed) or 0))))
  if ahead then call('HSET', job_key, 'ahead', ahead) end
  if token or settled_token then call('HSET', job_key, 'settled', token or settled_token) end
  -- The numbers of its events continue.
  if seqs[id] or seq then
    call('HSET', job_key, 'seq', seqs[id] or seq, 'epoch', seqs[id] and current_epoch() or epoch_of_seq or '0')
  end
  if pending_deletion and pending_deletion ~= '' then call('HSET', job_key, 'pending_deletion', pending_deletion) end
  -- These reply lists have got their event, and get no second one.
  if reply_to then call('HSET', job_key, 'reply_to', reply_to) end
  if status then responses.forget({ id }) end
  local runs = {}
  for _, run in ipairs({ string.match(generation or '', '^%x+') or '', token or '', settled_token or '' }) do
    if run ~= '' then runs[#runs + 1] = run end
  end
  if lost or #runs > 0 then
    record_lost(id, lost, runs)
    record_removed(id)
  end
  call('PEXPIRE', job_key, 3600000)
  seqs[id] = nil
end

-- Removes the push and the control operation that wait behind the one that is done now. Returns them as apply_pending()
-- needs them; nil if nothing waits. Writes spec:<id> (deletes the `next_push` fields).
local function take_pending(id, job)
  if not (job.next_push or job.want_next) then return nil end
  local element, renewed, reply_to, batch = unpack(call('HMGET', spec(id), 'next_push', 'next_push_renewed', 'next_push_reply_to',
    'next_push_batch'))
  call('HDEL', spec(id), 'next_push', 'next_push_has_url', 'next_push_renewed', 'next_push_reply_to', 'next_push_batch')
  return { element = job.next_push and element, timestamp = job.next_push, renewed = renewed, reply_to = reply_to or nil,
    batch = batch or nil, want_next = job.want_next, want = job.want }
end

-- Writes pairs into a job's hash. An empty value deletes its field, because readers treat a field that exists as a
-- value. Writes job:<id>.
local function write_fields(id, fields)
  local kept, gone = {}, {}
  for n = 1, #fields, 2 do
    if fields[n + 1] == '' then gone[#gone + 1] = fields[n]
    else kept[#kept + 1], kept[#kept + 2] = fields[n], fields[n + 1] end
  end
  if #kept > 0 then call('HSET', key(id), unpack(kept)) end
  if #gone > 0 then call('HDEL', key(id), unpack(gone)) end
end

-- Writes a final state and `fields`, a list of pairs. Writes job:<id>, the index of the state, deadlines.
local function write_end(id, job, state, fields)
  local n = #fields
  fields[n + 1], fields[n + 2], fields[n + 3], fields[n + 4] = 'state', state, 'finished', NOW
  fields[n + 5], fields[n + 6], fields[n + 7], fields[n + 8] = 'updated', NOW, 'seq', seqs[id] or job.seq
  fields[n + 9], fields[n + 10] = 'epoch', current_epoch()
  write_fields(id, fields)
  seqs[id] = nil
  call('ZADD', INDEX[state], NOW, id)
  if job.deadline then call('ZREM', DEADLINES, id) end
end

-- Deletes the fields of an ended job that belong to its run or to pending control operations, and further
-- fields, if given.
local function clear_run(id, ...)
  call('HDEL', key(id), 'want', 'want_at', 'next_push', 'want_next', 'waiting', 'speed', 'active_token', 'deadline_at', ...)
end

-- Sets the times to live of an ended job's keys. A failed job keeps spec:<id> and offsets:<id> for a retry. Otherwise
-- both are deleted, and with them header values, credentials and query strings.
local function expire_keys(id, state, retention)
  call('PEXPIRE', key(id), retention[state])
  if state == 'failed' then
    call('PEXPIRE', spec(id), retention[state]) call('PEXPIRE', offsets(id), retention[state])
  else
    call('DEL', spec(id), offsets(id))
  end
end

-- Does what waited for the end of a job: a control operation that forgets the job, then what waited behind it. kept:
-- the result of take_pending().
local function follow_end(id, job, state, kept, retention)
  if removes_job(job.want) then
    -- The run ended before its worker learned of the control operation, so its files still exist.
    if state ~= 'cancelled' then schedule_deletion(id, job.want == 'deleted' and state == 'completed') end
    forget(id, tonumber(job.want_at))
  end
  if kept then apply_pending(id, kept, retention) end
end

-- Ends a job as cancelled, or as failed outside of a run. extra: the members of its event. worker: the worker that the
-- event names, or nil.
-- Writes job:<id>, spec:<id>, offsets:<id>, the indexes, leases, deadlines, and what leave_state() and follow_end()
-- write.
local function finish(id, job, state, retention, extra, worker)
  if job.state == 'queued' then rechecks.request() end
  ended_count = ended_count + 1
  local kept = take_pending(id, job)
  leave_state(id, job)
  emit(id, job, state, extra, worker, job.reply_to)
  write_end(id, job, state, {})
  if job.batch then batches.move(id, job.batch, state) end
  clear_run(id, 'token', 'worker', 'ticket')
  expire_keys(id, state, retention)
  follow_end(id, job, state, kept, retention)
end

-- Ends a job that its own run has completed or failed. extra: the members of its event. fields: pairs for its hash.
-- is_withheld: the event waits until replicas have the job (announce.lua). `token` and `worker` stay, so that a settle
-- that is sent again is recognised. The caller (settle.lua) deletes the leases of all runs at once. Writes job:<id>,
-- spec:<id>, offsets:<id>, the index, unannounced, deadlines, responses, hosts.release(), and what follow_end() writes.
local function finish_run(id, job, state, retention, extra, worker, fields, is_withheld)
  local brief = #extra > 4096 and without_response(extra)
  if brief and responses.is_out_of_memory() then
    extra, fields = brief, responses.drop(id, fields)
  end
  local kept = take_pending(id, job)
  if not is_withheld then emit(id, job, state, extra, worker, job.reply_to) end
  write_end(id, job, state, fields)
  if job.host then hosts.release(id, job.host) end
  -- Most runs have none of these fields, so the command is saved.
  if job.speed or job.want or job.next_push or job.want_next or job.deadline then clear_run(id) end
  if is_withheld then
    call('HSET', key(id), 'unannounced', extra, 'waiting', 'replicas')
    call('ZADD', UNANNOUNCED, NOW, id)
  elseif job.batch then batches.move(id, job.batch, state) end
  expire_keys(id, state, retention)
  responses.keep(id, fields)
  follow_end(id, job, state, kept, retention)
end

-- Fails a job that no worker runs, whose worker is lost, or that no worker can read. code, message, retryable: the
-- error. Writes job:<id>, and what finish() writes.
local function fail(id, job, code, message, retryable, retention)
  settled_until(id)
  call('HSET', key(id), 'error', code, 'message', message, 'retryable', retryable and '1' or '0')
  finish(id, job, 'failed', retention, ',"error":"' .. code .. '","retryable":' .. tostring(retryable) .. ',"message":'
    .. quoted(message))
end

-- Fails a job whose deadline has passed. Writes what fail() writes.
local function overdue(id, job, retention)
  fail(id, job, 'deadline', 'the deadline passed before the job could end', false, retention)
end

-- Makes a job `paused`, then does what waited behind the pause. worker: the worker that the event names, or nil. Writes
-- job:<id>, spec:<id>, paused, and what leave_state() and apply_pending() write.
local function pause(id, job, retention, worker)
  local job_key, kept = key(id), take_pending(id, job)
  leave_state(id, job)
  call('HSET', job_key, 'state', 'paused', 'updated', NOW)
  call('HDEL', job_key, 'token', 'worker', 'ticket', 'want', 'want_at', 'next_push', 'want_next', 'waiting', 'speed', 'active_token')
  call('ZADD', INDEX.paused, NOW, id)
  emit(id, job, 'paused', '', worker)
  if kept then apply_pending(id, kept, retention) end
end

-- Puts a job into the queue, unless a pending control operation (job.want) cancels or pauses it. front: whether it is
-- claimed next. why: a member of the event. Writes job:<id>, jobs, and what leave_state(), or finish() or pause(),
-- writes.
local function requeue(id, job, front, why, retention)
  local job_key = key(id)
  if ends_job(job.want) then
    settled_until(id, job.want_at)
    schedule_deletion(id)
    return finish(id, job, 'cancelled', retention, '')
  elseif job.want == 'paused' then
    settled_until(id, job.want_at)
    return pause(id, job, retention)
  end
  leave_state(id, job)
  call('HSET', job_key, 'state', 'queued', 'updated', NOW)
  call('HDEL', job_key, 'token', 'worker', 'want', 'want_at', 'waiting', 'speed', 'active_token')
  enqueue_continuation(id, front)
  emit(id, job, 'requeued', ',"why":"' .. why .. '"')
end

-- Makes a job `scheduled`, due in `delay` ms. waiting: the value of the field `waiting`, or nil. Writes job:<id>,
-- scheduled, and what leave_state() writes.
local function postpone(id, job, delay, waiting)
  leave_state(id, job)
  call('HSET', key(id), 'state', 'scheduled', 'updated', NOW)
  call('HDEL', key(id), 'token', 'worker', 'ticket', 'speed', 'active_token')
  if waiting then call('HSET', key(id), 'waiting', waiting) else call('HDEL', key(id), 'waiting') end
  call('ZADD', SCHEDULED, integer_text(now + delay), id)
end
