-- The moves of a job from one state to another, with the indexes, times to live and events that go with them. `j` is
-- the job here.

-- Settles all pushes up to `moment` (ms; now if nil) and all that were taken: a push that is no newer is a duplicate.
-- moment: when the request was made that settles them, which must not wait for a host or for a worker of a kind.
-- Writes job:<id> (asof), recheck.
local function as_of(id, moment)
  if moment then fleet.recheck_soon() end
  local v = call('HMGET', key(id), 'asof', 'pushed')
  call('HSET', key(id), 'asof', whole(math.max(tonumber(moment or NOW), tonumber(number(v[1]) or 0), tonumber(number(v[2]) or 0))))
end

-- Puts a continuation into the line. It counts only while its ticket is the job's current one. front: whether it is
-- taken next. Writes job:<id> (ticket), jobs.
local function line_up(id, front)
  tickets = tickets + 1
  local ticket = NONCE .. tickets
  call('HSET', key(id), 'ticket', ticket)
  call(front and 'RPUSH' or 'LPUSH', JOBS, '{"id":"' .. id .. '","t":"' .. ticket .. '"}')
end

-- Puts elements that a worker took and did not claim back to the front of the line, in their order. held: the key of
-- the list. most: how many at most. Returns whether the list is empty now or of another type, and how many were moved.
-- Writes held:<worker>, jobs.
local function give_back(held, most)
  for n = 1, most do
    local moved = redis.pcall('LMOVE', held, JOBS, 'LEFT', 'RIGHT')
    if not moved or type(moved) == 'table' then return true, n - 1 end
  end
  return false, most
end

-- A member of `completed` if too few replicas have confirmed that they have the job.
local UNREPLICATED = ',"unreplicated":true'

-- Emits the `completed` event of a job that waited for replicas. Does nothing if the job does not wait. more: further
-- members of the event, or ''. Writes untold, job:<id>, and batches.move().
local function tell(id, more)
  call('ZREM', UNTOLD, id)
  local j = not is_strange(id) and job(id) or {}
  local members = j.state == 'completed' and call('HGET', key(id), 'untold')
  if not members then return end
  call('HDEL', key(id), 'untold', 'waiting')
  emit(id, j, 'completed', members .. more, j.worker, j.reply_to)
  if j.batch then batches.move(id, j.batch, 'completed') end
end

-- Takes a job out of its state: out of its index, the leases, its worker's claims, its host's count. A job that had
-- ended loses its times to live, and is pending again in its batches. The caller writes the new state.
-- Writes job:<id>, spec:<id> and offsets:<id> (times to live), the index, leases, worker:<worker>, fleet.free(),
-- tell(), batches.move().
local function leave(id, j)
  -- A stub has a time to live. It is what a removal leaves, or a request that came before its job.
  if not j.state and j.is_known then call('PERSIST', key(id)) end
  if j.state and INDEX[j.state] then call('ZREM', INDEX[j.state], id) end
  if j.state == 'running' then
    call('ZREM', LEASES, id)
    -- The worker's hash may be of another type. That worker's own calls report it.
    if j.token and j.worker then redis.pcall('HDEL', PREFIX .. KEY.worker .. j.worker, j.token) end
    if j.host then fleet.free(id, j.host) end
  end
  if j.state == 'completed' or j.state == 'failed' or j.state == 'cancelled' then
    -- The event of the job's end must come before the events of what follows.
    if j.state == 'completed' and call('ZSCORE', UNTOLD, id) then tell(id, UNREPLICATED) end
    call('PERSIST', key(id)) call('PERSIST', spec(id)) call('PERSIST', offsets(id))
    -- Its worker may send the settle again. `settled` lets Redis answer 'done' once more.
    if j.token then call('HSET', key(id), 'settled', j.token) end
    if j.batch then batches.move(id, j.batch, 'pending') end
  end
end

-- Requests that end a job. `removed` and `deleted` also forget the job, and `deleted` also deletes its finished file.
local function ends(want) return want == 'cancelled' or want == 'removed' or want == 'deleted' end
local function forgets(want) return want == 'removed' or want == 'deleted' end

-- Notes runs that may have left partial files. A run names its partial file by its token and reports the file only
-- later. Workers remove such files when no job needs them (Orphans.swift). known: the old value of the field. tokens: a
-- list. The newest ten tokens are kept. Writes job:<id> (lost).
local function note_lost(id, known, tokens)
  local lost = table.concat(tokens, ' ')
  call('HSET', key(id), 'lost', string.sub(known and known .. ' ' .. lost or lost, -329))
end

-- Lists a removed job for an hour, the life of its stub. Meanwhile workers search for its partial files. Writes
-- removed.
local function note_removed(id)
  local removed = PREFIX .. KEY.removed
  -- A key of another type does not stop the removal.
  if type(redis.pcall('ZADD', removed, NOW, id)) ~= 'number' then return end
  call('PEXPIRE', removed, 3600000)
  local old = call('ZRANGEBYSCORE', removed, '-inf', whole(now - 3600000), 'LIMIT', 0, 2)
  if #old > 0 then call('ZREM', removed, unpack(old)) end
end

-- Deletes a job and leaves a stub for an hour, so that a producer's repeat starts nothing. moment: when the request
-- that forgets the job was made, in ms. A waiting push that is newer is still done, even if a run's end has settled
-- it: that end is forgotten with the job.
-- Writes job:<id>, removed, recheck; deletes spec:<id>, offsets:<id> and the job's entries in all indexes and in
-- deadlines.
local function forget(id, moment)
  fleet.recheck_soon()
  if call('ZSCORE', UNTOLD, id) then tell(id, UNREPLICATED) end
  local k = key(id)
  local v = call('HMGET', k, 'asof', 'pushed', 'ahead', 'token', 'settled', 'seq', 'epoch', 'doomed', 'finished', 'state', 'reply_to',
    'status', 'generation', 'lost')
  if v[1] == v[9] and (v[10] == 'completed' or v[10] == 'failed') then v[1] = nil end
  for _, index in pairs(INDEX) do call('ZREM', index, id) end
  call('ZREM', DEADLINES, id)
  call('DEL', k, spec(id), offsets(id))
  call('HSET', k, 'asof', whole(math.max(moment or 0, tonumber(number(v[1]) or 0), tonumber(number(v[2]) or 0))))
  if v[3] then call('HSET', k, 'ahead', v[3]) end
  if v[4] or v[5] then call('HSET', k, 'settled', v[4] or v[5]) end
  -- The numbers of its events continue.
  if numbers[id] or v[6] then call('HSET', k, 'seq', numbers[id] or v[6], 'epoch', numbers[id] and reign() or v[7] or '0') end
  if v[8] and v[8] ~= '' then call('HSET', k, 'doomed', v[8]) end
  -- These reply lists have been answered, and are not answered again.
  if v[11] then call('HSET', k, 'reply_to', v[11]) end
  if v[12] then fleet.forget_responses({ id }) end
  local runs = {}
  for _, run in ipairs({ string.match(v[13] or '', '^%x+') or '', v[4] or '', v[5] or '' }) do
    if run ~= '' then runs[#runs + 1] = run end
  end
  if v[14] or #runs > 0 then
    note_lost(id, v[14], runs)
    note_removed(id)
  end
  call('PEXPIRE', k, 3600000)
  numbers[id] = nil
end

-- Takes out the push and the request that wait behind the request which is done now. Returns them as follow() needs
-- them; nil if nothing waits. Writes spec:<id> (deletes the `again` fields).
local function kept_of(id, j)
  if not (j.again or j.behind) then return nil end
  local v = call('HMGET', spec(id), 'again', 'again_renewed', 'again_reply_to', 'again_batch')
  call('HDEL', spec(id), 'again', 'again_has_url', 'again_renewed', 'again_reply_to', 'again_batch')
  return { element = j.again and v[1], moment = j.again, renewed = v[2], reply_to = v[3] or nil, batch = v[4] or nil,
    behind = j.behind, want = j.want }
end

-- Writes pairs into a job's hash. An empty value deletes its field, because readers take a field that is there for a
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
local function write_end(id, j, state, fields)
  local n = #fields
  fields[n + 1], fields[n + 2], fields[n + 3], fields[n + 4] = 'state', state, 'finished', NOW
  fields[n + 5], fields[n + 6], fields[n + 7], fields[n + 8] = 'updated', NOW, 'seq', numbers[id] or j.seq
  fields[n + 9], fields[n + 10] = 'epoch', reign()
  write_fields(id, fields)
  numbers[id] = nil
  call('ZADD', INDEX[state], NOW, id)
  if j.deadline then call('ZREM', DEADLINES, id) end
end

-- Deletes the fields of an ended job that belong to its run or to pending requests.
local function clear_run(id)
  call('HDEL', key(id), 'want', 'wantat', 'again', 'behind', 'waiting', 'speed', 'begun', 'deadline_at')
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

-- Does what waited for the end of a job: a request that forgets the job, then what waited behind that request. kept:
-- the result of kept_of().
local function follow_end(id, j, state, kept, retention)
  if forgets(j.want) then
    -- The run ended before its worker learned of the request, so its files are still there.
    if state ~= 'cancelled' then drop(id, j.want == 'deleted' and state == 'completed') end
    forget(id, tonumber(j.wantat))
  end
  if kept then follow(id, kept, retention) end
end

-- Ends a job as cancelled, or as failed outside of a run. extra: the members of its event. worker: the worker that the
-- event names, or nil.
-- Writes job:<id>, spec:<id>, offsets:<id>, the indexes, leases, deadlines, and what leave() and follow_end() write.
local function finish(id, j, state, retention, extra, worker)
  if j.state == 'queued' then fleet.recheck_soon() end
  fleet.ended = fleet.ended + 1
  local kept = kept_of(id, j)
  leave(id, j)
  emit(id, j, state, extra, worker, j.reply_to)
  write_end(id, j, state, {})
  if j.batch then batches.move(id, j.batch, state) end
  call('HDEL', key(id), 'token', 'worker', 'ticket')
  clear_run(id)
  expire_keys(id, state, retention)
  follow_end(id, j, state, kept, retention)
end

-- Ends a job that its own run has completed or failed. extra: the members of its event. fields: pairs for its hash.
-- is_withheld: the event waits until replicas have the job (tell.lua). `token` and `worker` stay, so that a settle that
-- is sent again is recognised. The caller (settle.lua) deletes the leases of all runs at once.
-- Writes job:<id>, spec:<id>, offsets:<id>, the index, untold, deadlines, responses, fleet.free(), and what
-- follow_end() writes.
local function finish_run(id, j, state, retention, extra, worker, fields, is_withheld)
  local brief = #extra > 4096 and without_response(extra)
  if brief and fleet.is_out_of_memory() then
    extra, fields = brief, fleet.drop_response(id, fields)
  end
  local kept = kept_of(id, j)
  if not is_withheld then emit(id, j, state, extra, worker, j.reply_to) end
  write_end(id, j, state, fields)
  if j.host then fleet.free(id, j.host) end
  -- Most runs have none of these fields, and save the command.
  if j.speed or j.want or j.again or j.behind or j.deadline then clear_run(id) end
  if is_withheld then
    call('HSET', key(id), 'untold', extra, 'waiting', 'replicas')
    call('ZADD', UNTOLD, NOW, id)
  elseif j.batch then batches.move(id, j.batch, state) end
  expire_keys(id, state, retention)
  fleet.keep_response(id, fields)
  follow_end(id, j, state, kept, retention)
end

-- Fails a job that nobody runs, whose worker is lost, or that no worker can read. code, message, retryable: the error.
-- Writes job:<id>, and what finish() writes.
local function fail(id, j, code, message, retryable, retention)
  as_of(id)
  call('HSET', key(id), 'error', code, 'message', message, 'retryable', retryable and '1' or '0')
  finish(id, j, 'failed', retention, ',"error":"' .. code .. '","retryable":' .. tostring(retryable) .. ',"message":'
    .. quoted(message))
end

-- Fails a job whose deadline has passed. Writes what fail() writes.
local function overdue(id, j, retention)
  fail(id, j, 'deadline', 'the deadline passed before the job could end', false, retention)
end

-- Makes a job `paused`, then does what waited behind the pause. worker: the worker that the event names, or nil. Writes
-- job:<id>, spec:<id>, paused, and what leave() and follow() write.
local function pause(id, j, retention, worker)
  local k, kept = key(id), kept_of(id, j)
  leave(id, j)
  call('HSET', k, 'state', 'paused', 'updated', NOW)
  call('HDEL', k, 'token', 'worker', 'ticket', 'want', 'wantat', 'again', 'behind', 'waiting', 'speed', 'begun')
  call('ZADD', INDEX.paused, NOW, id)
  emit(id, j, 'paused', '', worker)
  if kept then follow(id, kept, retention) end
end

-- Puts a job into the line, unless a pending request (j.want) cancels or pauses it. front: whether it is taken next.
-- why: a member of the event. Writes job:<id>, jobs, and what leave(), or finish() or pause(), writes.
local function requeue(id, j, front, why, retention)
  local k = key(id)
  if ends(j.want) then
    as_of(id, j.wantat)
    drop(id)
    return finish(id, j, 'cancelled', retention, '')
  elseif j.want == 'paused' then
    as_of(id, j.wantat)
    return pause(id, j, retention)
  end
  leave(id, j)
  call('HSET', k, 'state', 'queued', 'updated', NOW)
  call('HDEL', k, 'token', 'worker', 'want', 'wantat', 'waiting', 'speed', 'begun')
  line_up(id, front)
  emit(id, j, 'requeued', ',"why":"' .. why .. '"')
end

-- Makes a job `scheduled`, due in `delay` ms. waiting: the value of the field `waiting`, or nil. Writes job:<id>,
-- scheduled, and what leave() writes.
local function postpone(id, j, delay, waiting)
  leave(id, j)
  call('HSET', key(id), 'state', 'scheduled', 'updated', NOW)
  call('HDEL', key(id), 'token', 'worker', 'ticket', 'speed', 'begun')
  if waiting then call('HSET', key(id), 'waiting', waiting) else call('HDEL', key(id), 'waiting') end
  call('ZADD', SCHEDULED, whole(now + delay), id)
end
