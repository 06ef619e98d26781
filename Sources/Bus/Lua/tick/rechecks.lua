-- Checks the elements that wait for a host, for a worker of a kind or for the limit of a group, after a control operation
-- or a deadline may have ended the wait of some of them. No worker claims these elements before they may start, and a
-- cancel must not wait for that.
--
-- The hash `recheck` has `asked`, when a round was needed last (ms). During a round it also has for each list how many
-- of its elements, counted from its front, are still to be checked. `scan` and `scan groups` are the cursors of the next
-- hosts and groups whose lists belong to the round.
--
-- Uses: Batches, Claims, Envelopes, Groups, Isolation, Jobs, Kinds, Order, Pushes, States.
-- Writes: recheck, hosts, deferred_host:<host>, deferred_kind:<kind>, deferred_group:<group>.
do
  -- What one call may cost. Reading an element as JSON costs READ times as much as finding its id, and doing what it
  -- asks for DONE times as much. PAGE elements are
  -- taken from a list at once, so that a call takes few more of them than it can check, however large they are.
  local BUDGET, READ, DONE, HOSTS, PAGE = 400, 10, 70, 100, 8

  -- Asks for a round.
  function Rechecks.request(c)
    -- Nothing waits yet, but this call may still defer an element.
    if c.is_recheck_requested or call('EXISTS', c.PREFIX .. KEY.deferredHosts, c.PREFIX .. KEY.deferredKinds,
      c.PREFIX .. KEY.deferredGroups) == 0 then return end
    c.is_recheck_requested = true
    call('HSET', c.PREFIX .. KEY.recheck, 'asked', c.NOW)
  end

  -- Adds a list to the round.
  local function add(c, recheck, list)
    local length = try('LLEN', c.PREFIX .. list)
    if type(length) == 'number' and length > 0 then call('HSET', recheck, list, length) end
  end

  -- The indexes of which a round takes the lists: the field of the cursor, the key and the names of the lists. Only
  -- groups with limits belong to it, because the elements of the others come soon.
  local INDEXES = { { 'scan', KEY.deferredHosts, KEY.deferredHost }, { 'scan groups', KEY.deferredGroups, KEY.deferredGroup } }

  -- Adds the next lists of an index to the round. cursor: of ZSCAN.
  local function add_lists(c, recheck, index, cursor)
    local name = c.PREFIX .. index[2]
    local page = try('ZSCAN', name, cursor, 'COUNT', HOSTS)
    -- Roles of an earlier version lack this right. A key of another type has no hosts.
    if page.err then page = { '0', try('ZRANGE', name, 0, -1, 'WITHSCORES') } end
    for n = 1, #page[2], 2 do
      if index[1] == 'scan' or Groups.has_limit(c, page[2][n]) then add(c, recheck, index[3] .. page[2][n]) end
    end
    if page[1] == '0' then call('HDEL', recheck, index[1]) else call('HSET', recheck, index[1], page[1]) end
  end

  -- Begins a round with all lists.
  local function begin_round(c, recheck)
    call('DEL', recheck)
    for _, kind in ipairs(Kinds.deferred_kinds(c)) do add(c, recheck, KEY.deferredKind .. kind) end
    for _, index in ipairs(INDEXES) do add_lists(c, recheck, index, '0') end
  end

  -- Cancels a job of a kind that this library cannot read, if a control operation ends it. Returns whether it did.
  local function cancel_unread(c, job, push)
    if job.state or not States.ends_job(job.want) then return false end
    if not Order.blocking_operation({ want = job.want, want_at = job.want_at }, push.at) then return false end
    job.reply_to = push.reply_to
    if push.batch then Batches.enter(c, push.id, job, push.batch, push) end
    States.settle_until(c, push.id, job.want_at)
    States.finish(c, push.id, job, 'cancelled', '')
    return true
  end

  -- Whether the operation of its batch stops a push.
  local function is_stopped(c, push) return push.batch and Batches.stop(c, {}, push, push.batch) ~= nil end

  -- Applies a push that starts nothing, as a claim would. Returns whether its element may be removed.
  function Rechecks.apply_push(c, element)
    local push, reason = Envelopes.read(c, element)
    local id = push and push.id
    if not id then return false end
    local is_known = Jobs.size(c.JOB .. id) ~= 0
    if is_known and Jobs.wrong_type(c, id) or not is_known and (reason or not is_stopped(c, push)) then return false end
    -- An operation that waits for the job is older than a push without `at`, so it must not find that push done.
    local job = Claims.known(c, id, is_known, is_known)
    job.is_known = is_known
    if reason then
      if not push.kind then return false end
      if not push.at or not Pushes.is_repeat(job, push.at) then return cancel_unread(c, job, push) end
      Pushes.not_started.duplicate(c, job, push, 'settled', job.settled_until)
      return true
    end
    Envelopes.complete(c, push)
    local verdict, why, threshold = Pushes.verdict(job, push, Claims.has_spec(c, job, push))
    local handler = Pushes.not_started[verdict]
    if handler then
      handler(c, job, push, why, threshold)
      return true
    end
    local operations = { state = job.state, want = job.want, want_at = job.want_at, want_next = job.want_next }
    local is_begun = verdict == 'begin'
    if not Order.blocking_operation(operations, push.at) and not (is_begun and is_stopped(c, push)) then return false end
    Claims.start(c, job, push, is_begun)
    return true
  end

  -- Where an element may name its batch. Other objects in it may have the same members, so the first few are looked at.
  local NAMES, MAX_NAMES = { '"batch"%s*:%s*"([%w._:-]+)"', '"batch"%s*:%s*{[^{}]*"name"%s*:%s*"([%w._:-]+)"' }, 8

  -- Whether an element seems to name a batch for which an operation is in force. Each batch is read once in a call.
  local function names_stopped_batch(c, element)
    c.stopped_batches = c.stopped_batches or {}
    local count = 0
    for _, pattern in ipairs(NAMES) do
      for name in gmatch(element, pattern) do
        if c.stopped_batches[name] == nil then
          c.stopped_batches[name] = type(try('HGET', Batches.hash_of(c, name), 'want')) == 'string'
        end
        if c.stopped_batches[name] then return true end
        count = count + 1
        -- Reading it decides.
        if count >= MAX_NAMES then return true end
      end
    end
    return false
  end

  -- Whether an element may be done: its job is known, its batch is stopped, or only reading it shows its id. Returns also
  -- what that costs.
  function Rechecks.may_be_done(c, element)
    local id, ticket = match(element, '^{"id":"([%w._:-]+)","t":"([^"]*)"}$')
    if id then
      local known = try('HMGET', c.JOB .. id, 'state', 'ticket')
      return not known.err and not (known[1] == 'queued' and known[2] == ticket), 1, true
    end
    if find(element, '\\', 1, true) or not find(element, '"id"', 1, true) then return true, READ end
    local n = 0
    for other in gmatch(element, '"id"%s*:%s*"([%w._:-]+)"') do
      n = n + 1
      -- What has many members takes long to read.
      if n > MAX_NAMES or try('EXISTS', c.JOB .. other) == 1 then return true, READ + 9 * n end
    end
    if names_stopped_batch(c, element) then return true, READ end
    return false, 1
  end

  -- Checks the next elements of a list. left: how many elements are still to be checked. Returns how many are left
  -- then, and what that has cost.
  local function scan_list(c, list, left, budget)
    local name = c.PREFIX .. list
    local length = try('LLEN', name)
    if type(length) ~= 'number' or length == 0 then return 0, 1 end
    local first, spent, n, page = math.min(left, length), 0, 0
    -- Counted from the back, because a job that an operation resumes meanwhile gets an element at the front.
    local at = length - first
    while n < first and spent < budget do
      if n % PAGE == 0 then page = call('LRANGE', name, at + n, at + n + PAGE - 1) end
      n = n + 1
      local element = page[(n - 1) % PAGE + 1]
      local may_be, cost, is_void = Rechecks.may_be_done(c, element)
      spent = spent + cost + #element / 256
      local fine, is_done = true, is_void
      if may_be and not is_void then fine, is_done = Isolation.run(c, Rechecks.apply_push, c, element) end
      if may_be and fine and is_done then
        if not is_void then spent = spent + DONE end
        -- Roles of an earlier version may lack these two rights.
        try('LSET', name, at + n - 1, VOID)
        local is_of_host = find(list, KEY.deferredHost, 1, true) == 1
        if is_of_host and try('HINCRBY', c.PREFIX .. KEY.hosts, 'waiting', -1) == 0 then
          call('HDEL', c.PREFIX .. KEY.hosts, 'waiting')
        end
        call('HSET', c.PREFIX .. KEY.recheck, 'done ' .. list, '1')
      end
    end
    return first - n, spent
  end

  -- A task of the tick: continues a round, or begins the next one.
  function Rechecks.advance(c, tick)
    local recheck, budget = c.PREFIX .. KEY.recheck, BUDGET
    local all = try('HRANDFIELD', recheck, 16, 'WITHVALUES')
    if all.err or #all == 0 then return end
    -- What this round ends was due before it, so it needs no further round.
    local is_under_way, was_due = false, c.is_recheck_requested
    c.is_recheck_requested = true
    for n = 1, #all, 2 do
      local list = all[n]
      if list == 'scan' or list == 'scan groups' then is_under_way = true
      elseif budget > 0 and list ~= 'asked' and sub(list, 1, 5) ~= 'done ' then
        is_under_way = true
        local left, spent = scan_list(c, list, tonumber(all[n + 1]) or 0, budget)
        budget = budget - spent
        if left > 0 then call('HSET', recheck, list, left)
        else
          call('HDEL', recheck, list)
          -- Only now, because it takes as long as the list is.
          if call('HDEL', recheck, 'done ' .. list) == 1 then try('LREM', c.PREFIX .. list, 0, VOID) end
        end
      end
    end
    c.is_recheck_requested = was_due
    for _, index in ipairs(INDEXES) do
      local cursor = call('HGET', recheck, index[1])
      if cursor then add_lists(c, recheck, index, cursor) end
    end
    if not is_under_way then begin_round(c, recheck) end
    if call('EXISTS', recheck) == 1 then tick.more = true end
  end
end
