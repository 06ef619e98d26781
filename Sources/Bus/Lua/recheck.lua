-- Checks the elements that wait for a host or for a worker of a kind, after a control operation or a deadline may have
-- ended the wait of some of them. No worker claims these elements before they may start, and a cancel must not wait for
-- that.
--
-- The hash `recheck` has `asked`, when a round was needed last (ms). During a round it also has for each list how many
-- of its elements, counted from its front, are still to be checked. `scan` is the cursor of the next hosts whose lists
-- belong to the round.

do
  -- What one call may cost. Reading an element as JSON costs READ times as much as finding its id.
  local BUDGET, READ, HOSTS = 400, 10, 100

  -- Asks for a round. Writes recheck.
  function rechecks.request()
    -- Nothing waits yet, but this call may still defer an element.
    if rechecks.is_due or call('EXISTS', PREFIX .. KEY.deferredHosts, kinds.key) == 0 then return end
    rechecks.is_due = true
    call('HSET', PREFIX .. KEY.recheck, 'asked', NOW)
  end

  -- Adds a list to the round. Writes recheck.
  local function add(recheck, list)
    local length = redis.pcall('LLEN', PREFIX .. list)
    if type(length) == 'number' and length > 0 then call('HSET', recheck, list, length) end
  end

  -- Adds the lists of the next hosts to the round. cursor: of ZSCAN. Writes recheck.
  local function add_hosts(recheck, cursor)
    local name = PREFIX .. KEY.deferredHosts
    local page = redis.pcall('ZSCAN', name, cursor, 'COUNT', HOSTS)
    -- Roles of an earlier version lack this right. A key of another type has no hosts.
    if page.err then page = { '0', redis.pcall('ZRANGE', name, 0, -1, 'WITHSCORES') } end
    for n = 1, #page[2], 2 do add(recheck, KEY.deferredHost .. page[2][n]) end
    if page[1] == '0' then call('HDEL', recheck, 'scan') else call('HSET', recheck, 'scan', page[1]) end
  end

  -- Begins a round with all lists. Writes recheck.
  local function begin_round(recheck)
    call('DEL', recheck)
    for _, kind in ipairs(kinds.deferred_kinds()) do add(recheck, KEY.deferredKind .. kind) end
    add_hosts(recheck, '0')
  end

  -- Cancels a job of a kind that this library cannot read, if a control operation ends it. Returns whether it did.
  local function cancel_unread(id, job, parsed, retention)
    if job.state or not ends_job(job.want) or not blocking_operation({ want = job.want, want_at = job.want_at }, type(parsed.at) == 'number' and parsed.at or nil) then return false end
    job.reply_to = is_id(parsed.reply_to) and parsed.reply_to or nil
    settled_until(id, job.want_at)
    finish(id, job, 'cancelled', retention, '')
    return true
  end

  -- Applies a push that starts nothing, as a claim would. Returns whether its element is done.
  local function do_push(element, retention)
    local parsed, id, reason, full_element = identify(element)
    id = id or parsed and is_id(parsed.id) and parsed.id
    if not id or size(key(id)) == 0 or wrong_type(id) then return false end
    local job = read_job(id)
    job.is_known = true
    if reason then
      if not kinds.named(parsed) then return false end
      if type(parsed.at) ~= 'number' or not is_repeat(job, parsed.at) then return cancel_unread(id, job, parsed, retention) end
      NOT_STARTED.duplicate(id, job, parsed, element, retention, 'settled', job.settled_until)
      return true
    end
    defaults.complete(parsed)
    local word, why, since = verdict(job, push_of(id, job, parsed))
    local handler = NOT_STARTED[word]
    if handler then
      handler(id, job, parsed, full_element, retention, why, since)
      return true
    end
    if not blocking_operation({ state = job.state, want = job.want, want_at = job.want_at, want_next = job.want_next }, parsed.at) then return false end
    start(id, job, parsed, full_element, word == 'begin', nil, nil, nil, retention)
    return true
  end

  -- Whether an element may be done: its job is known, or only reading it shows its id. Returns also what that costs.
  local function may_be_done(element)
    local id, ticket = string.match(element, '^{"id":"([%w._:-]+)","t":"([^"]*)"}$')
    if id then
      local known = redis.pcall('HMGET', key(id), 'state', 'ticket')
      return not known.err and not (known[1] == 'queued' and known[2] == ticket), 1, true
    end
    if string.find(element, '\\', 1, true) or not string.find(element, '"id"', 1, true) then return true, READ end
    for other in string.gmatch(element, '"id"%s*:%s*"([%w._:-]+)"') do
      if redis.pcall('EXISTS', key(other)) == 1 then return true, READ end
    end
    return false, 1
  end

  -- Checks the next elements of a list. left: how many elements are still to be checked. Returns how many are left
  -- then, and what that has cost. Writes the list, hosts, and what do_push() writes.
  local function scan_list(list, left, retention, budget)
    local name = PREFIX .. list
    local page = redis.pcall('LRANGE', name, -left, -left + math.min(left, budget) - 1)
    if page.err or #page == 0 then return 0, 1 end
    local first, spent, n = math.min(left, call('LLEN', name)), 0, 0
    while n < #page and spent < budget do
      n = n + 1
      local element = page[n]
      local may_be, cost, is_void = may_be_done(element)
      spent = spent + cost + #element / 256
      local fine, is_done = true, is_void
      if may_be and not is_void then fine, is_done = isolated(do_push, element, retention) end
      if may_be and fine and is_done then
        -- Roles of an earlier version may lack these two rights.
        redis.pcall('LSET', name, n - 1 - first, VOID)
        if string.sub(list, 1, #KEY.deferredHost) == KEY.deferredHost and redis.pcall('HINCRBY', PREFIX .. KEY.hosts, 'waiting', -1) == 0 then
          call('HDEL', PREFIX .. KEY.hosts, 'waiting')
        end
        call('HSET', PREFIX .. KEY.recheck, 'done ' .. list, '1')
      end
    end
    return first - n, spent
  end

  -- A task of the tick: continues a round, or begins the next one. Writes recheck, and what scan_list() writes.
  function rechecks.advance(tick)
    local recheck, budget = PREFIX .. KEY.recheck, BUDGET
    local all = redis.pcall('HRANDFIELD', recheck, 16, 'WITHVALUES')
    if all.err or #all == 0 then return end
    -- What this round ends was due before it, so it needs no further round.
    local is_under_way, was_due = false, rechecks.is_due
    rechecks.is_due = true
    for n = 1, #all, 2 do
      local list = all[n]
      if list == 'scan' then is_under_way = true
      elseif budget > 0 and list ~= 'asked' and string.sub(list, 1, 5) ~= 'done ' then
        is_under_way = true
        local left, spent = scan_list(list, tonumber(all[n + 1]) or 0, tick.retention, budget)
        budget = budget - spent
        if left > 0 then call('HSET', recheck, list, left)
        else
          call('HDEL', recheck, list)
          -- Only now, because it takes as long as the list is.
          if call('HDEL', recheck, 'done ' .. list) == 1 then redis.pcall('LREM', PREFIX .. list, 0, VOID) end
        end
      end
    end
    rechecks.is_due = was_due
    local cursor = call('HGET', recheck, 'scan')
    if cursor then add_hosts(recheck, cursor) elseif not is_under_way then begin_round(recheck) end
    if call('EXISTS', recheck) == 1 then tick.more = true end
  end
end
