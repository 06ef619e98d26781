-- Sets of jobs that are counted together: docs/guides/batches.md.
--
-- The hash `members:<name>` has the state in which each member is counted. `batch:<name>` has the number of members in
-- each state. Only move() writes these, and it compares first: a member is counted once, however often its state is
-- reported. At the end of a call Batches.update() decides whether the batches that the call has changed have ended.
--
-- A job's hash names its batches in `batch`, with blanks between them. `names` is such a text below.
--
-- Uses: Call, Events, Order, Replies, Webhooks.
-- Writes: job:<id>, batch:<name>, members:<name>, batches.
do
  -- States in which a member is counted. A `rejected` member has never been a job.
  local STATES = { 'pending', 'completed', 'failed', 'cancelled', 'rejected' }
  local IS_STATE = { pending = true, completed = true, failed = true, cancelled = true, rejected = true }
  -- The maximum number of batches of one job.
  local MAX_PER_JOB = 16

  function Batches.hash_of(c, name) return c.PREFIX .. KEY.batch .. name end
  function Batches.members_of(c, name) return c.PREFIX .. KEY.members .. name end

  -- The state in which a job is counted. A completed job that waits for replicas is pending.
  local function counted(job) return IS_FINAL[job.state] and job.waiting ~= 'replicas' and job.state or 'pending' end

  function Batches.has(names, name) return find(' ' .. (names or '') .. ' ', ' ' .. name .. ' ', 1, true) ~= nil end

  -- Marks a batch as changed, for Batches.update() at the end of this call.
  local function touch_batch(c, name)
    c.touched_batches = c.touched_batches or {}
    local touched = c.touched_batches[name] or {}
    c.touched_batches[name] = touched
    return touched
  end

  -- Records what a push says of its batch: batch_size and batch_reply_to. known: what the batch has already, if that was
  -- read.
  local function learn(c, push, known)
    local size, reply_to = push.batch_size, push.batch_reply_to
    if not (size or reply_to) then return end
    local has_size = not size or known and known.size == integer_text(size)
    if known and has_size and (not reply_to or Batches.has(known.reply_to, reply_to)) then return end
    local touched = touch_batch(c, push.batch)
    touched.size = size or touched.size
    -- One call may handle several pushes of the batch.
    touched.reply_to = Replies.join(touched.reply_to, reply_to)
  end

  -- Counts a job in a state. If a key has another type, nothing is counted, and the job continues.
  local function move(c, id, name, state)
    local members = Batches.members_of(c, name)
    local before = try('HGET', members, id)
    if before == state or type(before) == 'table' then return end
    if not before and call('HLEN', members) >= LARGEST.batch then return end
    local hash = Batches.hash_of(c, name)
    local left = before and IS_STATE[before] and try('HINCRBY', hash, before, -1)
    local count = type(left) ~= 'table' and try('HINCRBY', hash, state, 1)
    if type(count) ~= 'number' then return end
    call('HSET', members, id, state)
    -- While other members are pending, the batch cannot have ended.
    local is_pending = state == 'pending' and count > 1 or before == 'pending' and left > 0
    if not is_pending then touch_batch(c, name).is_changed = true end
  end

  -- Counts a job in all batches of `names`. state: one of STATES.
  function Batches.move(c, id, names, state)
    for name in gmatch(names, '%S+') do move(c, id, name, state) end
  end

  -- Counts a job that begins or continues in the batches of its push. A job that begins after its end is only in the
  -- batches of the new push. is_begun: whether the job runs as it is pushed here. set: adds a pair for job:<id>. Sets
  -- job.batch.
  function Batches.begin(c, job, push, is_begun, set)
    local id, names = push.id, push.batch
    local has_new_job = is_begun and (not job.state or IS_FINAL[job.state])
    if not names and not (has_new_job and job.batch) then return end
    learn(c, push, job.of_batch)
    if not has_new_job then return Batches.enter(c, id, job, names) end
    if not names then call('HDEL', c.JOB .. id, 'batch') elseif names ~= job.batch then set('batch', names) end
    job.batch = names
    if names then Batches.move(c, id, names, 'pending') end
  end

  -- Whether a job with these batches can be in no further one.
  local function is_full(names) return select(2, gsub(names or '', '%S+', '')) >= MAX_PER_JOB end

  -- Enters a job into the batch of a push that begins nothing. The job is counted in its current state, a job that was
  -- forgotten as cancelled. push: the push, or nil. Sets job.batch.
  function Batches.enter(c, id, job, names, push)
    if push then learn(c, push) end
    local stop, stop_at
    for name in gmatch(names or '', '%S+') do
      local is_in = Batches.has(job.batch, name)
      if job.state and not is_in and not is_full(job.batch) then
        if push and not IS_FINAL[job.state] and stop ~= 'cancelled' then
          local other, other_at = Batches.stop(c, job, push, name, true)
          if other then stop, stop_at = other, other == 'cancelled' and push.at and other_at or c.NOW end
        end
        job.batch = (job.batch and job.batch .. ' ' or '') .. name
        call('HSET', c.JOB .. id, 'batch', job.batch)
        is_in = true
      end
      if is_in then move(c, id, name, counted(job))
      elseif not try('HGET', Batches.members_of(c, name), id) then move(c, id, name, job.state and 'rejected' or 'cancelled') end
    end
    -- The job may run for a push that is newer than the operation.
    if stop then Order.apply(c, id, stop .. ' ' .. stop_at, 0) end
  end

  -- Counts a push that waits behind a control operation as pending in its batch. names: the batches of pushes that wait
  -- already. Returns these names with the new one.
  function Batches.await(c, names, push)
    learn(c, push)
    local name = push.batch
    if Batches.has(names or '', name) then return names end
    if is_full(names) then
      if not try('HGET', Batches.members_of(c, name), push.id) then move(c, push.id, name, 'rejected') end
      return names
    end
    move(c, push.id, name, 'pending')
    return (names and names .. ' ' or '') .. name
  end

  -- Ends the wait of pushes that were counted by Batches.await(). A push that started nothing counts as cancelled.
  function Batches.release(c, id, names)
    local state, own = unpack(call('HMGET', c.JOB .. id, 'state', 'batch'))
    for name in gmatch(names, '%S+') do
      local is_member = state and Batches.has(own or '', name)
      if not is_member and try('HGET', Batches.members_of(c, name), id) == 'pending' then move(c, id, name, 'cancelled') end
    end
  end

  -- Counts a rejected element in its batch, so that the batch can end. id: nil for an element without a valid id, which
  -- is then identified by its bytes.
  function Batches.refuse(c, id, push, element)
    local name = push.batch
    if not name then return end
    id = id or sub(redis.sha1hex(element), 1, 16)
    learn(c, push)
    if not try('HGET', Batches.members_of(c, name), id) then move(c, id, name, 'rejected') end
  end

  -- Counts a job again after its last push was undone (settles.lua). names: the batches it was in until now. job: the
  -- restored job. In batches of the undone push it counts as rejected.
  function Batches.restore(c, id, names, job)
    for name in gmatch(names or '', '%S+') do move(c, id, name, Batches.has(job.batch, name) and counted(job) or 'rejected') end
  end

  -- The control operation for a batch that stops a job which joins it, 'paused', 'cancelled' or nil, and when it was made.
  -- Sets job.of_batch, what is known of the batch. name: a batch of the push. is_awaited: Batches.await() has counted the
  -- push as pending.
  function Batches.stop(c, job, push, name, is_awaited)
    local id = push.id
    local values = try('HMGET', Batches.hash_of(c, name), 'want', 'want_at', 'size', 'reply_to')
    if values.err then return nil end
    local want, want_at, size, reply_to = unpack(values)
    job.of_batch = { size = size, reply_to = reply_to or nil }
    if not want then return nil end
    local before = try('HGET', Batches.members_of(c, name), id)
    if is_awaited and before == 'pending' and not Batches.has(job.batch, name) then before = nil end
    if before and before ~= 'rejected' then return nil end
    if want == 'cancelled' and push.at and push.at > to_integer(want_at) then return nil end
    return want, number(want_at) or c.NOW
  end

  -- Lists a new batch, and removes a few listed ones that no longer exist, so that the list does not grow forever.
  local function list(c, name)
    local index = c.PREFIX .. KEY.batches
    if type(try('ZADD', index, c.NOW, name)) == 'table' then return end
    local first = c.now % call('ZCARD', index)
    for _, other in ipairs(call('ZRANGE', index, first, first + 3)) do
      if call('EXISTS', Batches.hash_of(c, other)) == 0 then call('ZREM', index, other) end
    end
  end

  -- Puts the event `batch_ended` into the outbox. names: the reply lists that get it. is_private: whether only they get
  -- it. fields: gets the pairs `seq` and `epoch` for the batch's hash.
  local function announce_end(c, name, batch, names, is_private, fields)
    local seq = math.max(batch.seq, c.now) + 1
    local n = #fields
    fields[n + 1], fields[n + 2], fields[n + 3], fields[n + 4] = 'seq', integer_text(seq), 'epoch', Call.epoch(c)
    local counts = ''
    for rank = 2, #STATES do counts = counts .. ',"' .. STATES[rank] .. '":' .. batch[STATES[rank]] end
    local json = Events.json(c, 'batch_ended', '"batch":"' .. name .. '"', integer_text(seq),
      ',"round":' .. batch.round .. ',"size":' .. batch.size, counts)
    c.outbox[#c.outbox + 1] = { id = 'batch/' .. name, published = json, reply_to = names, is_private = is_private,
      event = 'batch_ended', json = json }
    if not is_private then Webhooks.report_batch(c, name, json) end
  end

  -- A batch without pending members is kept as long as a failed job is.
  local function keep(c, name, is_pending)
    for _, batch_key in ipairs({ Batches.hash_of(c, name), Batches.members_of(c, name) }) do
      if is_pending then call('PERSIST', batch_key) else call('PEXPIRE', batch_key, c.retention.failed) end
    end
  end

  -- Writes what has changed of a batch, and ends a round if all its members have ended.
  local function update_batch(c, name, touched)
    local hash = Batches.hash_of(c, name)
    local values = try('HMGET', hash, 'size', 'round', 'seq', 'finished', 'reply_to', 'created', unpack(STATES))
    if values.err then return end
    local size, round, seq, finished, reply_to, created = unpack(values, 1, 6)
    local batch = { size = tonumber(number(size)), round = to_integer(round),
      seq = to_integer(seq) }
    local ended, fields = 0, {}
    local function set(field, value) fields[#fields + 1], fields[#fields + 2] = field, value end
    for n, state in ipairs(STATES) do
      batch[state] = to_integer(values[6 + n])
      if n > 1 then ended = ended + batch[state] end
      if not values[6 + n] then set(state, 0) end
    end
    if not created then
      set('created', c.NOW)
      list(c, name)
    end
    if touched.size and touched.size ~= batch.size then
      batch.size = touched.size
      set('size', integer_text(batch.size))
    end
    local names, new = Replies.join(reply_to or nil, touched.reply_to)
    if new then set('reply_to', names) end
    local has_ended = batch.pending == 0 and batch.size and ended >= batch.size
    if has_ended and (touched.is_changed or not finished) then
      batch.round = batch.round + 1
      set('finished', c.NOW) set('round', batch.round)
      announce_end(c, name, batch, names, false, fields)
      call('HDEL', hash, 'want', 'want_at')
    elseif has_ended and new then
      announce_end(c, name, batch, new, true, fields)
    elseif not has_ended and finished then
      call('HDEL', hash, 'finished')
    end
    if #fields > 0 then call('HSET', hash, unpack(fields)) end
    keep(c, name, batch.pending > 0)
  end

  -- Updates all batches that this call has changed. Events.publish() calls it.
  function Batches.update(c)
    local touched = c.touched_batches
    c.touched_batches = nil
    for name, what in pairs(touched) do update_batch(c, name, what) end
  end
end
