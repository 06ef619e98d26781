-- Sets of jobs that are counted together: docs/guides/batches.md.
--
-- The hash `members:<name>` has the state in which each member is counted. `batch:<name>` has the number of members in
-- each state. Only move() writes these, and it compares first: a member is counted once, however often its state is
-- reported. At the end of a call batches.update() decides whether the batches that the call has changed have ended.
--
-- A job's hash names its batches in `batch`, with blanks between them. `names` is such a text below.
do
  -- States in which a member is counted. A `rejected` member has never been a job.
  local STATES = { 'pending', 'completed', 'failed', 'cancelled', 'rejected' }
  local IS_STATE = { pending = true, completed = true, failed = true, cancelled = true, rejected = true }
  -- The maximum number of batches of one job.
  local MAX_PER_JOB = 16

  local function hash_of(name) return PREFIX .. KEY.batch .. name end
  local function members_of(name) return PREFIX .. KEY.members .. name end

  -- The name, or names, of a push's batch, and the rest of what it says: a table with `size` and `reply_to`, or nil.
  local function read_batch(batch)
    if type(batch) ~= 'table' then return batch, nil end
    return batch.name, batch
  end

  -- The state in which a job is counted. A completed job that waits for replicas is pending.
  local function counted(job) return IS_FINAL[job.state] and job.waiting ~= 'replicas' and job.state or 'pending' end

  local function has(names, name) return string.find(' ' .. (names or '') .. ' ', ' ' .. name .. ' ', 1, true) ~= nil end

  -- Marks a batch as changed, for batches.update() at the end of this call.
  local function touch_batch(name)
    batches.touched = batches.touched or {}
    local touched = batches.touched[name] or {}
    batches.touched[name] = touched
    return touched
  end

  -- Records the `size` and `reply_to` that a push gives for a batch. known: what the batch has already, if that was
  -- read.
  local function learn(name, about, known)
    if not about or not (about.size or about.reply_to) then return end
    if known and (not about.size or known.size == integer_text(about.size)) and (not about.reply_to or has(known.reply_to, about.reply_to)) then
      return
    end
    local touched = touch_batch(name)
    touched.size, touched.reply_to = about.size or touched.size, about.reply_to or touched.reply_to
  end

  -- Counts a job in a state. If a key has another type, nothing is counted, and the job continues. Writes
  -- members:<name>, batch:<name>.
  local function move(id, name, state)
    local members = members_of(name)
    local before = redis.pcall('HGET', members, id)
    if before == state or type(before) == 'table' then return end
    if not before and call('HLEN', members) >= LARGEST.batch then return end
    local hash = hash_of(name)
    local left = before and IS_STATE[before] and redis.pcall('HINCRBY', hash, before, -1)
    local count = type(left) ~= 'table' and redis.pcall('HINCRBY', hash, state, 1)
    if type(count) ~= 'number' then return end
    call('HSET', members, id, state)
    -- While other members are pending, the batch cannot have ended.
    local is_pending = state == 'pending' and count > 1 or before == 'pending' and left > 0
    if not is_pending then touch_batch(name).is_changed = true end
  end

  -- Counts a job in all batches of `names`. state: one of STATES. Writes members:<name>, batch:<name>.
  function batches.move(id, names, state)
    for name in string.gmatch(names, '%S+') do move(id, name, state) end
  end

  -- Counts a job that begins or continues in the batches of its push. A job that begins after its end is only in the
  -- batches of the new push. is_begun: whether the job runs as it is pushed here. set: adds a pair for job:<id>. Sets
  -- job.batch. Writes job:<id> (batch), members:<name>, batch:<name>.
  function batches.begin(id, job, parsed, is_begun, set)
    local has_new_job = is_begun and (not job.state or IS_FINAL[job.state])
    if not parsed.batch and not (has_new_job and job.batch) then return end
    local names, about = read_batch(parsed.batch)
    learn(names, about, job.of_batch)
    if not has_new_job then return batches.enter(id, job, names) end
    if not names then call('HDEL', key(id), 'batch') elseif names ~= job.batch then set('batch', names) end
    job.batch = names
    if names then batches.move(id, names, 'pending') end
  end

  -- Enters a job into the batch of a push that begins nothing. The job is counted in its current state, a job that was
  -- forgotten as cancelled. batch: as in the element, or a text of names. Sets job.batch. Writes job:<id> (batch),
  -- members:<name>, batch:<name>.
  function batches.enter(id, job, batch)
    local names, about = read_batch(batch)
    learn(names, about)
    for name in string.gmatch(names or '', '%S+') do
      local is_in, is_full = has(job.batch, name), select(2, string.gsub(job.batch or '', '%S+', '')) >= MAX_PER_JOB
      if job.state and not is_in and not is_full then
        job.batch = (job.batch and job.batch .. ' ' or '') .. name
        call('HSET', key(id), 'batch', job.batch)
        is_in = true
      end
      if is_in then move(id, name, counted(job))
      elseif not redis.pcall('HGET', members_of(name), id) then move(id, name, job.state and 'rejected' or 'cancelled') end
    end
  end

  -- Counts a push that waits behind a control operation as pending in its batch. names: the batches of pushes that wait
  -- already.
  -- Returns these names with the new one. Writes members:<name>, batch:<name>.
  function batches.await(id, names, batch)
    local name, about = read_batch(batch)
    learn(name, about)
    batches.move(id, name, 'pending')
    return (join(names, name))
  end

  -- Ends the wait of pushes that were counted by batches.await(). A push that started nothing counts as cancelled.
  -- Writes members:<name>, batch:<name>.
  function batches.release(id, names)
    local state, own = unpack(call('HMGET', key(id), 'state', 'batch'))
    for name in string.gmatch(names, '%S+') do
      local is_member = state and has(own or '', name)
      if not is_member and redis.pcall('HGET', members_of(name), id) == 'pending' then move(id, name, 'cancelled') end
    end
  end

  -- Counts a rejected element in its batch, so that the batch can end. id: nil for an element without a valid id,
  -- which is then identified by its bytes. Writes members:<name>, batch:<name>.
  function batches.refuse(id, parsed, element)
    if parsed.batch == nil or not CHECKS.batch(parsed.batch) then return end
    local name, about = read_batch(parsed.batch)
    id = id or string.sub(redis.sha1hex(element), 1, 16)
    learn(name, about)
    if not redis.pcall('HGET', members_of(name), id) then move(id, name, 'rejected') end
  end

  -- Counts a job again after its last push was undone (settle.lua). names: the batches it was in until now. job: the
  -- restored job. In batches of the undone push it counts as rejected. Writes members:<name>, batch:<name>.
  function batches.restore(id, names, job)
    for name in string.gmatch(names or '', '%S+') do move(id, name, has(job.batch, name) and counted(job) or 'rejected') end
  end

  -- The control operation for a batch that stops a job which joins it: 'paused', 'cancelled' or nil. Sets job.of_batch,
  -- what is known of the batch. Writes no key.
  function batches.stop(id, job, parsed)
    local name = read_batch(parsed.batch)
    local values = redis.pcall('HMGET', hash_of(name), 'want', 'want_at', 'size', 'reply_to')
    if values.err then return nil end
    local want, want_at, size, reply_to = unpack(values)
    job.of_batch = { size = size, reply_to = reply_to or nil }
    if not want then return nil end
    local before = redis.pcall('HGET', members_of(name), id)
    if before and before ~= 'rejected' then return nil end
    if want == 'cancelled' and parsed.at and parsed.at > (tonumber(number(want_at)) or 0) then return nil end
    return want
  end

  -- Lists a new batch, and removes a few listed ones that no longer exist, so that the list does not grow forever.
  -- Writes batches.
  local function list(name)
    local index = PREFIX .. KEY.batches
    if type(redis.pcall('ZADD', index, NOW, name)) == 'table' then return end
    local first = now % call('ZCARD', index)
    for _, other in ipairs(call('ZRANGE', index, first, first + 3)) do
      if call('EXISTS', hash_of(other)) == 0 then call('ZREM', index, other) end
    end
  end

  -- Puts the event `batch_ended` into the outbox. names: the reply lists that get it. is_private: whether only they get
  -- it. fields: gets the pairs `seq` and `epoch` for the batch's hash.
  local function announce_end(name, batch, names, is_private, fields)
    local seq = math.max(batch.seq, now) + 1
    fields[#fields + 1], fields[#fields + 2], fields[#fields + 3], fields[#fields + 4] = 'seq', integer_text(seq), 'epoch', current_epoch()
    local counts = ''
    for n = 2, #STATES do counts = counts .. ',"' .. STATES[n] .. '":' .. batch[STATES[n]] end
    local json = '{"v":1,"event":"batch_ended","batch":"' .. name .. '","queue":"' .. QUEUE
      .. '","epoch":' .. current_epoch() .. ',"seq":' .. integer_text(seq) .. ',"at":' .. NOW .. ',"round":' .. batch.round .. ',"size":' .. batch.size
      .. counts .. '}'
    outbox[#outbox + 1] = { id = 'batch/' .. name, published = json, reply_to = names, is_private = is_private, event = 'batch_ended',
      json = json }
  end

  -- A batch without pending members is kept as long as a failed job is. Writes the times to live of batch:<name>,
  -- members:<name>.
  local function keep(name, is_pending)
    for _, batch_key in ipairs({ hash_of(name), members_of(name) }) do
      if is_pending then call('PERSIST', batch_key) else call('PEXPIRE', batch_key, batches.kept or 604800000) end
    end
  end

  -- Writes what has changed of a batch, and ends a round if all its members have ended. Writes batch:<name>, batches.
  local function update_batch(name, touched)
    local hash = hash_of(name)
    local values = redis.pcall('HMGET', hash, 'size', 'round', 'seq', 'finished', 'reply_to', 'created', unpack(STATES))
    if values.err then return end
    local size, round, seq, finished, reply_to, created = unpack(values, 1, 6)
    local batch = { size = tonumber(number(size)), round = tonumber(number(round)) or 0, seq = tonumber(number(seq)) or 0 }
    local ended, fields = 0, {}
    local function set(field, value) fields[#fields + 1], fields[#fields + 2] = field, value end
    for n, state in ipairs(STATES) do
      batch[state] = tonumber(number(values[6 + n])) or 0
      if n > 1 then ended = ended + batch[state] end
      if not values[6 + n] then set(state, 0) end
    end
    if not created then
      set('created', NOW)
      list(name)
    end
    if touched.size and touched.size ~= batch.size then
      batch.size = touched.size
      set('size', integer_text(batch.size))
    end
    local names, new = join(reply_to or nil, touched.reply_to)
    if new then set('reply_to', names) end
    local has_ended = batch.pending == 0 and batch.size and ended >= batch.size
    if has_ended and (touched.is_changed or not finished) then
      batch.round = batch.round + 1
      set('finished', NOW) set('round', batch.round)
      announce_end(name, batch, names, false, fields)
      call('HDEL', hash, 'want', 'want_at')
    elseif has_ended and new then
      announce_end(name, batch, new, true, fields)
    elseif not has_ended and finished then
      call('HDEL', hash, 'finished')
    end
    if #fields > 0 then call('HSET', hash, unpack(fields)) end
    keep(name, batch.pending > 0)
  end

  -- Updates all batches that this call has changed. publish() calls it. Writes batch:<name>, members:<name>, batches;
  -- emits `batch_ended`.
  function batches.update()
    local touched = batches.touched
    batches.touched = nil
    for name, what in pairs(touched) do update_batch(name, what) end
  end

  -- Control operations for a batch, and to which members they apply: `counted_as` is the state in which the member is
  -- counted, `state` and `want` are of its job.
  local OPERATIONS = {
    paused = function(counted_as) return counted_as == 'pending' end,
    cancelled = function(counted_as) return counted_as == 'pending' end,
    running = function(counted_as, state, want) return counted_as == 'pending' and (state == 'paused' or want == 'paused') end,
    retried = function(counted_as, state) return counted_as == 'failed' and state == 'failed' end,
  }

  -- Hands an operation to about 50 members: writes it into `want` for each. An operation that a member has there is
  -- done first, since it may be newer. cursor: where to continue. Returns the next cursor, '0' at the end. Writes want,
  -- and what apply_operation() writes.
  local function apply_to_members(name, want, operation_at, cursor, tick)
    local reply = redis.pcall('HSCAN', members_of(name), string.match(cursor, '^%d+'), 'COUNT', 50)
    if reply.err then return '0' end
    local operation = (want == 'retried' and 'running' or want) .. ' ' .. operation_at
    local pairs_of, first, next_cursor = reply[2], 1, reply[1]
    local count = #pairs_of / 2
    -- Redis returns a small hash at once: up to 512 members. They are handed out from the last one on, because a member
    -- that is deleted meanwhile moves only those behind it.
    if string.sub(cursor, 1, 1) == '0' and next_cursor == '0' then
      count = math.min(count, tonumber(string.match(cursor, '^0%.(%d+)$') or count))
      if count > 50 then first, next_cursor = 2 * (count - 50) + 1, '0.' .. integer_text(count - 50) end
    end
    tick.handed = tick.handed + count - (first - 1) / 2
    for n = first, 2 * count, 2 do
      local id, counted_as = pairs_of[n], pairs_of[n + 1]
      if counted_as == 'pending' or counted_as == 'failed' then
        local values = redis.pcall('HMGET', key(id), 'state', 'want', 'batch')
        local state, known_want, names = unpack(values)
        if not values.err and has(names or '', name) and OPERATIONS[want](counted_as, state, known_want) then
          local waiting = call('HGET', WANT, id)
          if waiting then
            call('HDEL', WANT, id)
            isolated(apply_operation, id, waiting, tick.retention, tick.applied_until)
          end
          call('HSET', WANT, id, operation)
        end
      end
    end
    return next_cursor
  end

  -- Records an operation that is in force for members that join later. Returns false if a newer operation is in force,
  -- or if there is no batch to which it could apply. Writes batch:<name>.
  local function record_operation(name, want, operation_at)
    local values = redis.pcall('HMGET', hash_of(name), 'want_at', 'created')
    local want_at, created = unpack(values)
    if values.err or operation_at < (tonumber(number(want_at)) or 0) then return false end
    if want == 'retried' then return true end
    local stops = want ~= 'running'
    if not created and not stops then return false end
    call('HSET', hash_of(name), 'want_at', integer_text(operation_at))
    if stops then call('HSET', hash_of(name), 'want', want) else call('HDEL', hash_of(name), 'want') end
    -- An operation for an unknown batch waits an hour for the first member.
    if not created then call('PEXPIRE', hash_of(name), 3600000) end
    return true
  end

  -- The name of the batch that a field of `want` is for; nil for a job's id, which has no slash.
  function batches.named(field) return string.match(field, '^batch/(.*)$') end

  -- Does a control operation for a batch. value: from `want`. The operation stays in `want`, with the cursor that was
  -- reached, until all members have it. Another server instance cannot use the cursor, and restarts. Writes want,
  -- batch:<name>, rejected, and what apply_operation() writes.
  function batches.apply_operation(name, value, tick)
    local want, time, rest = string.match(value, '^(%a+) ?(%d*)(.*)$')
    if not is_id(name) or not OPERATIONS[want] then
      return reject(value, 'want: for a batch it must be paused, cancelled, running or retried, and perhaps unix ms behind a space; '
        .. 'the field is batch/ and the name')
    end
    if time ~= '' and (tonumber(time) < TIMESTAMPS.min or tonumber(time) > TIMESTAMPS.max) then
      return reject(value, 'want: the time ' .. TIMESTAMPS.rule)
    end
    local operation_at = integer_text(math.min(tonumber(time) or now, now))
    local cursor, run = string.match(rest, '^ @(%d+%.?%d*) (%x+)$')
    if not cursor then
      if not record_operation(name, want, tonumber(operation_at)) then return end
      cursor = '0'
    elseif run ~= identity() then cursor = '0' end
    -- The members' operations must not delay those for single jobs. Ticks do 150 in a fraction of a second. If more
    -- wait, and this call has found an operation for a single job among those that it picked at random, there may be
    -- many of them. A call hands operations to some 50 members, however many batches have one.
    if tick.handed < 50 and (tick.wanted < 150 or not tick.has_single) then
      cursor = apply_to_members(name, want, operation_at, cursor, tick)
      if cursor == '0' then return end
    end
    call('HSET', WANT, 'batch/' .. name, want .. ' ' .. operation_at .. ' @' .. cursor .. ' ' .. identity())
    tick.more = true
  end
end
