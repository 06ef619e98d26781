-- Every move of a job from one state to another, and what goes with it: indexes, times to live, events.

-- Pushes in line that are not newer than `moment`, or than those that were taken, are duplicates of what is settled now.
local function as_of(id, moment)
  local v = call('HMGET', key(id), 'asof', 'pushed')
  call('HSET', key(id), 'asof', whole(math.max(tonumber(moment or NOW), tonumber(number(v[1]) or 0), tonumber(number(v[2]) or 0))))
end

-- Puts a continuation in line that only counts while its ticket is the job's current one.
local function line_up(id, front)
  tickets = tickets + 1
  local ticket = NONCE .. tickets
  call('HSET', key(id), 'ticket', ticket)
  call(front and 'RPUSH' or 'LPUSH', JOBS, '{"id":"' .. id .. '","t":"' .. ticket .. '"}')
end

-- Puts what a worker took and never claimed back to the front of the line, in its order, at most `most` elements.
-- Whether nothing is left that could be put back, and how many were; a key of another type stops nothing else.
local function give_back(held, most)
  for n = 1, most do
    local moved = redis.pcall('LMOVE', held, JOBS, 'LEFT', 'RIGHT')
    if not moved or type(moved) == 'table' then return true, n - 1 end
  end
  return false, most
end

-- What is told of a job whose replicas have not said that they have it.
local UNREPLICATED = ',"unreplicated":true'

-- Tells at last that a job is completed. `more` are further members of the event.
local function tell(id, more)
  call('ZREM', UNTOLD, id)
  local j = not is_strange(id) and job(id) or {}
  local members = j.state == 'completed' and call('HGET', key(id), 'untold')
  if not members then return end
  call('HDEL', key(id), 'untold', 'waiting')
  emit(id, j, 'completed', members .. more, j.worker, j.reply_to)
  if j.batch then batches.move(id, j.batch, 'completed') end
end

local function leave(id, j)
  -- A stub that a request made before its job came.
  if not j.state and j.is_known then call('PERSIST', key(id)) end
  if j.state and INDEX[j.state] then call('ZREM', INDEX[j.state], id) end
  if j.state == 'running' then
    call('ZREM', LEASES, id)
    -- Another worker's hash may have been replaced by a key of another type: that is for its own calls to tell.
    if j.token and j.worker then redis.pcall('HDEL', PREFIX .. KEY.worker .. j.worker, j.token) end
    if j.host then fleet.free(id, j.host) end
  end
  if j.state == 'completed' or j.state == 'failed' or j.state == 'cancelled' then
    -- What it is asked for now comes after its end.
    if j.state == 'completed' and call('ZSCORE', UNTOLD, id) then tell(id, UNREPLICATED) end
    call('PERSIST', key(id)) call('PERSIST', spec(id)) call('PERSIST', offsets(id))
    -- Whoever ended it may yet ask again whether that was heard.
    if j.token then call('HSET', key(id), 'settled', j.token) end
    if j.batch then batches.move(id, j.batch, 'pending') end
  end
end

-- Requests that end a job: `removed` and `deleted` forget it as well, `deleted` with its finished file.
local function ends(want) return want == 'cancelled' or want == 'removed' or want == 'deleted' end
local function forgets(want) return want == 'removed' or want == 'deleted' end

-- Writes which runs may have left partial files that no other field tells of: a run names its partial file by its token, and tells
-- of the file later. Workers remove those when nobody wants them any more (Orphans.swift). The newest ten are kept.
local function note_lost(id, known, tokens)
  local lost = table.concat(tokens, ' ')
  call('HSET', key(id), 'lost', string.sub(known and known .. ' ' .. lost or lost, -329))
end

-- For as long as its stub is there, workers look for what a removed job has left.
local function note_removed(id)
  local removed = PREFIX .. KEY.removed
  -- A key of another type stops no removal.
  if type(redis.pcall('ZADD', removed, NOW, id)) ~= 'number' then return end
  call('PEXPIRE', removed, 3600000)
  local old = call('ZRANGEBYSCORE', removed, '-inf', whole(now - 3600000), 'LIMIT', 0, 2)
  if #old > 0 then call('ZREM', removed, unpack(old)) end
end

-- For an hour a stub tells what was pushed before it was forgotten, so that a producer's repeat starts nothing. `moment` is that of
-- what forgets it: a push that is newer and waits is done. The end of a run settled that push, too, but only as long as
-- somebody knows of that end.
local function forget(id, moment)
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
  -- Its events go on where they are.
  if numbers[id] or v[6] then call('HSET', k, 'seq', numbers[id] or v[6], 'epoch', numbers[id] and reign() or v[7] or '0') end
  if v[8] and v[8] ~= '' then call('HSET', k, 'doomed', v[8]) end
  -- They have been answered.
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

-- What came behind the request that ends now; nil if nothing did.
local function kept_of(id, j)
  if not (j.again or j.behind) then return nil end
  local v = call('HMGET', spec(id), 'again', 'again_renewed', 'again_reply_to', 'again_batch')
  call('HDEL', spec(id), 'again', 'again_has_url', 'again_renewed', 'again_reply_to', 'again_batch')
  return { element = j.again and v[1], moment = j.again, renewed = v[2], reply_to = v[3] or nil, batch = v[4] or nil,
    behind = j.behind, want = j.want }
end

-- Writes that a job is completed, failed or cancelled, and what else is given as pairs.
local function write_end(id, j, state, fields)
  local n = #fields
  fields[n + 1], fields[n + 2], fields[n + 3], fields[n + 4] = 'state', state, 'finished', NOW
  fields[n + 5], fields[n + 6], fields[n + 7], fields[n + 8] = 'updated', NOW, 'seq', numbers[id] or j.seq
  fields[n + 9], fields[n + 10] = 'epoch', reign()
  call('HSET', key(id), unpack(fields))
  numbers[id] = nil
  call('ZADD', INDEX[state], NOW, id)
  if j.deadline then call('ZREM', DEADLINES, id) end
end

-- Of an ended job: takes away what was for its run, and for requests that waited.
local function clear_run(id)
  call('HDEL', key(id), 'want', 'wantat', 'again', 'behind', 'waiting', 'speed', 'begun', 'deadline_at')
end

-- Gives the keys of an ended job their time to live. Header values, credentials and query strings leave with the work; a failed
-- job keeps them for its retry.
local function expire_keys(id, state, retention)
  call('PEXPIRE', key(id), retention[state])
  if state == 'failed' then
    call('PEXPIRE', spec(id), retention[state]) call('PEXPIRE', offsets(id), retention[state])
  else
    call('DEL', spec(id), offsets(id))
  end
end

-- Does what waited for the end of the job: a request to forget it, and then what came behind that request (kept_of).
local function follow_end(id, j, state, kept, retention)
  if forgets(j.want) then
    -- A run may end well before it hears of the request.
    if state ~= 'cancelled' then drop(id, j.want == 'deleted' and state == 'completed') end
    forget(id, tonumber(j.wantat))
  end
  if kept then follow(id, kept, retention) end
end

-- Ends a job from outside of a run: it is cancelled or failed. `extra` are the members of its event.
local function finish(id, j, state, retention, extra, worker)
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

-- Ends a job whose own run is completed or failed, with `fields` for its hash. The token and the worker stay, to know a settle that
-- is sent again. The lease goes with those of the other runs (settle.lua). `is_withheld`: it is told when replicas have it.
local function finish_run(id, j, state, retention, extra, worker, fields, is_withheld)
  local kept = kept_of(id, j)
  if not is_withheld then emit(id, j, state, extra, worker, j.reply_to) end
  write_end(id, j, state, fields)
  if j.host then fleet.free(id, j.host) end
  -- Most runs have none of these.
  if j.speed or j.want or j.again or j.behind or j.deadline then clear_run(id) end
  if is_withheld then
    call('HSET', key(id), 'untold', extra, 'waiting', 'replicas')
    call('ZADD', UNTOLD, NOW, id)
  elseif j.batch then batches.move(id, j.batch, state) end
  expire_keys(id, state, retention)
  fleet.keep_response(id, fields)
  follow_end(id, j, state, kept, retention)
end

-- Ends a job that nobody runs, whose worker is lost, or that no worker can read.
local function fail(id, j, code, message, retryable, retention)
  as_of(id)
  call('HSET', key(id), 'error', code, 'message', message, 'retryable', retryable and '1' or '0')
  finish(id, j, 'failed', retention, ',"error":"' .. code .. '","retryable":' .. tostring(retryable) .. ',"message":'
    .. quoted(message))
end

-- One whose deadline has passed before it was done.
local function overdue(id, j, retention)
  fail(id, j, 'deadline', 'the deadline passed before the download could end', false, retention)
end

local function pause(id, j, retention, worker)
  local k, kept = key(id), kept_of(id, j)
  leave(id, j)
  call('HSET', k, 'state', 'paused', 'updated', NOW)
  call('HDEL', k, 'token', 'worker', 'ticket', 'want', 'wantat', 'again', 'behind', 'waiting', 'speed', 'begun')
  call('ZADD', INDEX.paused, NOW, id)
  emit(id, j, 'paused', '', worker)
  if kept then follow(id, kept, retention) end
end

-- Back in line, or where a pending request wants it.
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

-- Out of the running into `scheduled`, due in `delay` ms.
local function postpone(id, j, delay, waiting)
  leave(id, j)
  call('HSET', key(id), 'state', 'scheduled', 'updated', NOW)
  call('HDEL', key(id), 'token', 'worker', 'ticket', 'speed', 'begun')
  if waiting then call('HSET', key(id), 'waiting', waiting) else call('HDEL', key(id), 'waiting') end
  call('ZADD', SCHEDULED, whole(now + delay), id)
end
