-- Fair turns: groups of jobs, such as the tenants of a service, take turns for slots, however many elements one of them
-- has pushed. A job is in the group that its field `group` names. All jobs without one are one more group, whose name
-- is ''.
--
-- Producers push every element onto `jobs`. As long as the queue uses groups, each claim and each tick first sorts the
-- next elements of `jobs` into a list for each group, `deferred_group:<group>`, in their order. Then a claim takes the
-- next element of the group whose turn it is: the group with the fewest running jobs, and among those the one that has
-- had the least time in slots. So shares of slots are equal, however long the jobs of a group take.
--
-- The sorted set `deferred_groups` has the groups with such a list. A score below LIMITED is a group's turn, and the
-- lowest is next: RUNNING for each running job, and ms in slots. A group comes in with the time of the group whose turn
-- is next, so an idle group saves no time up. A score of LIMITED and more is a group that has reached a limit, and the
-- time (ms) of the next check: from LIMITED on a limit of starts, from 2 * LIMITED on a limit of running jobs. An entry
-- may be left whose list is empty. The set `busy_group:<group>` has the ids of a group's running jobs.
--
-- A worker waits in BLMOVE for an element in `jobs`. So a call that leaves a group with a turn puts the next element
-- back to the front of `jobs`. The string `groups` remembers it: its list and, behind a blank, the element. It also
-- separates what was pushed to the front of `jobs` since, which goes to the front of its group, from what was pushed to
-- the end. The key exists for a day after the last use of groups, so that other queues sort nothing.
--
-- The list of the name * has elements that have had their turn, and were deferred for their host then. They come first.
--
-- Uses: Defaults, Hosts, Isolation, Raw, Starts.
-- Calls ahead: Rechecks.
-- Writes: jobs, groups, deferred_groups, deferred_group:<group>, busy_group:<group>.
do
  local RUNNING, LIMITED, RETURNED = 2 ^ 40, 1e17, '*'
  local KEPT_MS, MAX_NAME = '86400000', 128
  -- The group that was the last one to start nothing, by queue: since when, and when last (ms).
  local idle = {}
  -- How much one call sorts, in units of what a small element costs. A claim also does other things. Elements are read
  -- in pages of at most PAGE elements and, judging by the last page, PAGE_BYTES. A group whose elements start nothing keeps
  -- its turn for idle_ms.
  local MOST = { claim = 160, tick = 350, idle_ms = 200 }
  local FIRST_PAGE, PAGE, PAGE_BYTES = 8, 40, 32768
  -- How many elements that start nothing one call does.
  local MOST_DONE = 5
  -- What sorting costs: an element whose group is found at once, one that has to be searched, a group, and bytes for each
  -- further unit of such elements. A unit counts 8 bytes in the budget of a claim (claims.lua).
  local COST = { element = 1, search = 2, group = 4, bytes = 400, bytes_of_search = 64, in_claim = 8 }

  local function score_text(score) return string.format('%.0f', score) end

  local function turns_of(c) return c.PREFIX .. KEY.deferredGroups end

  local function list_of(c, group) return c.PREFIX .. KEY.deferredGroup .. group end

  -- Whether elements are sorted by their groups. It is read once in a call.
  function Groups.are_used(c)
    if c.are_groups_used == nil then
      local index = turns_of(c)
      -- A key of another type turns groups off, because without it no worker would find the lists of the groups.
      c.are_groups_used = Defaults.or_limits_exist(c) and call('EXISTS', c.PREFIX .. KEY.groups, index) > 0
        and type(try('ZCARD', index)) == 'number'
    end
    return c.are_groups_used
  end

  local function remember(c, offered)
    c.offered = offered
    call('SET', c.PREFIX .. KEY.groups, offered, 'PX', KEPT_MS)
  end

  -- Begins to sort the queue's elements, unless that is done already.
  local function begin_use(c)
    if Groups.are_used(c) then return end
    c.are_groups_used, c.has_defaults_or_limits = nil, true
    remember(c, '')
  end

  -- The element that is at the front of `jobs` as its group's next one: its list and its text, or ''.
  local function offered(c)
    if c.offered == nil then
      local text = try('GET', c.PREFIX .. KEY.groups)
      c.offered = type(text) == 'string' and text or ''
    end
    return c.offered
  end

  -- The limits of a group, nil if it has none. They are read once in a call.
  local function rule_of(c, group)
    if c.group_rules == nil then
      c.group_rules = Defaults.or_limits_exist(c) and call('EXISTS', c.PREFIX .. KEY.limits) == 1 and {}
    end
    if not c.group_rules or group == '' then return nil end
    if c.group_rules[group] == nil then c.group_rules[group] = Hosts.rule_of_group(c, group) or false end
    return c.group_rules[group] or nil
  end

  local function running(c, group)
    local count = try('SCARD', c.PREFIX .. KEY.busyGroup .. group)
    return type(count) == 'number' and count or 0
  end

  -- The score of a group that has reached a limit, nil if it may have a turn.
  local function limited_score(c, group)
    local rule = rule_of(c, group)
    if not rule then return nil end
    if rule.running and running(c, group) >= rule.running then return 2 * LIMITED + c.now + 1000 end
    if rule.interval and Starts.available(c, rule.host, rule.interval) == 0 then
      -- The limit may be raised meanwhile.
      return LIMITED + c.now + math.min(5000, Starts.next_in(c, rule.host, rule.interval, 0))
    end
  end

  -- The time that a group comes in with.
  local function least_time(c)
    local first = call('ZRANGEBYSCORE', turns_of(c), 0, '(' .. score_text(LIMITED), 'LIMIT', 0, 1, 'WITHSCORES')
    return first[1] and math.max(0, tonumber(first[2]) - RUNNING * running(c, first[1])) or 0
  end

  -- Sets the score of a group that has a list. was: its score before, or nil.
  local function place(c, group, was)
    local score = limited_score(c, group)
    if not score then
      if was and was < LIMITED then return end
      score = RUNNING * running(c, group) + least_time(c)
    end
    call('ZADD', turns_of(c), score_text(score), group)
  end

  local function score_of(c, group)
    local score = try('ZSCORE', turns_of(c), group)
    return type(score) == 'string' and tonumber(score) or nil
  end

  -- Adds elements to a group's list. command: RPUSH for its front.
  local function add(c, group, command, elements)
    local list = list_of(c, group)
    if type(try(command, list, unpack(elements))) ~= 'number' then
      -- No other program may write this key.
      call('DEL', list)
      call(command, list, unpack(elements))
    end
    if group == RETURNED then call('ZADD', turns_of(c), '-1', RETURNED)
    elseif not score_of(c, group) then place(c, group) end
  end

  local function name_in(raw)
    local name = raw and match(raw, '^"([%w._:-]+)"$')
    return name and #name <= MAX_NAME and name or nil
  end

  -- The group of an element, '' if it has none, and what it costs to find it. The element is not read, which would take
  -- ten times as long.
  local function group_of(c, element)
    local cost = COST.element + #element / COST.bytes
    if #element > LARGEST.element then return '', cost end
    if find(element, '"group"', 1, true) then
      -- In an object of texts and numbers the name is the object's own. In others it may belong to an inner object.
      if not (find(element, '{', 2, true) or find(element, '[', 1, true) or find(element, '\\', 1, true)) then
        return name_in(match(element, '"group"%s*:%s*("[^"]*")')) or '', cost
      end
      local fine, raw = pcall(Raw.member, element, 'group')
      return fine and name_in(raw) or '', cost + COST.search + #element / COST.bytes_of_search
    end
    if find(element, '"url', 1, true) then return '', cost end
    -- A continuation is in the group of its job.
    local fine, raw = pcall(Raw.member, element, 'id')
    local id = fine and name_in(raw)
    local group = id and try('HGET', c.JOB .. id, 'group')
    return type(group) == 'string' and is_id(group) and group or '', cost + COST.search + #element / COST.bytes_of_search
  end

  -- Whether an element names a group. element: a text, or false.
  local function names_group(c, element)
    return element and find(element, '"group"', 1, true) and (group_of(c, element)) ~= ''
  end

  -- Whether the elements of a group may wait for a limit.
  function Groups.has_limit(c, group)
    local rule = rule_of(c, group)
    return rule ~= nil and (rule.running or rule.interval) ~= nil
  end

  -- Reads the next elements of `jobs`. Returns them, the group of each, the number of the one that was offered, or 0, and
  -- the numbers of those that may start nothing, in groups that may have to wait.
  local function read(c, max)
    local list, element = match(offered(c), '^(%S*) (.*)$')
    local elements, groups, known, suspects, place_of_offered, spent, size = {}, {}, {}, {}, 0, 0, FIRST_PAGE
    -- The first element is known, and it may be long.
    if c.front then size = math.max(1, math.min(size, floor(PAGE_BYTES / #c.front))) end
    while spent < max do
      local page, bytes = call('LRANGE', c.JOBS, -#elements - size, -#elements - 1), 0
      for n = #page, 1, -1 do
        local at, next = #elements + 1, page[n]
        local group, cost = list, COST.element
        if place_of_offered == 0 and next == element then place_of_offered = at else group, cost = group_of(c, next) end
        elements[at], groups[at], bytes = next, group, bytes + #next
        if not known[group] then known[group], cost = true, cost + COST.group end
        if group ~= RETURNED and Groups.has_limit(c, group) then
          local may_be, cost_of_check = Rechecks.may_be_done(c, next)
          suspects[at], cost = may_be or nil, cost + cost_of_check
        end
        spent = spent + cost
        if spent >= max then break end
      end
      if #page < size then break end
      size = math.max(2, math.min(PAGE, floor(PAGE_BYTES * size / (bytes + 1))))
    end
    c.produced = c.produced + spent * COST.in_claim
    return elements, groups, place_of_offered, suspects
  end

  -- Does those of `elements` that start nothing: a cancel does not wait for the limit of a group. suspects: their numbers.
  -- Returns the numbers of those that are done, and an error that every other element would meet, too. A round of
  -- rechecks does what is too much for this call.
  local function apply_suspects(c, elements, suspects)
    local done, count, caught = {}, 0, nil
    for n = 1, #elements do
      if suspects[n] and count < MOST_DONE and not caught then
        local has_run, fine, is_done = pcall(Isolation.run, c, Rechecks.apply_push, c, elements[n])
        if not has_run then caught = fine
        elseif fine and is_done then done[n], count = true, count + 1 end
      end
    end
    if count == MOST_DONE then Rechecks.request(c) end
    return done, caught
  end

  -- Moves the next elements of `jobs` to the lists of their groups. Elements before the one that was offered were pushed
  -- to the front since, and go to the front of their groups, each of them in their order. Returns whether `jobs` has more.
  local function sort(c, max)
    c.are_groups_sorted = true
    local elements, groups, place_of_offered, suspects = read(c, max)
    if #elements > 0 then call('LTRIM', c.JOBS, 0, -1 - #elements) end
    local done, caught = apply_suspects(c, elements, suspects)
    local names, parts = {}, {}
    local function put(n, command)
      local part = parts[groups[n] .. command]
      if not part then
        part = { group = groups[n], command = command }
        parts[groups[n] .. command], names[#names + 1] = part, part
      end
      part[#part + 1] = elements[n]
    end
    for n = place_of_offered, 1, -1 do if not done[n] then put(n, 'RPUSH') end end
    for n = place_of_offered + 1, #elements do if not done[n] then put(n, 'LPUSH') end end
    for _, part in ipairs(names) do add(c, part.group, part.command, part) end
    if caught then Isolation.raise(caught) end
    -- If it was not among them, another worker holds it, and will return it.
    c.is_offer_spent, c.offered = offered(c) ~= '', ''
    c.is_queue_sorted = call('LLEN', c.JOBS) == 0
    if not c.is_queue_sorted then c.next_due = math.min(c.next_due or math.huge, c.now + 1) end
    return not c.is_queue_sorted
  end

  -- Whether the elements of a group start nothing for so long that others come before it. Until then the group keeps its
  -- turn, because these elements take no slot.
  local function is_idle_for_long(c, group)
    local known = idle[c.PREFIX]
    if not known or known.group ~= group or c.now > known.last + MOST.idle_ms then
      known = { group = group, since = c.now }
      idle[c.PREFIX] = known
    end
    known.last = c.now
    return c.now > known.since + MOST.idle_ms
  end

  -- Takes the element of the next group that has a turn. Returns the element and the key of its list, or nil.
  function Groups.take(c)
    if not c.are_groups_sorted then sort(c, MOST.claim) end
    if c.turn and c.turn ~= RETURNED and is_idle_for_long(c, c.turn) then c.idle_turns = (c.idle_turns or 0) + 1 end
    c.turn = nil
    local rank, index = c.idle_turns or 0, turns_of(c)
    for _ = 1, 100 do
      local next = call('ZRANGE', index, rank, rank, 'WITHSCORES')
      if next[1] and tonumber(next[2]) < LIMITED then
        local list = list_of(c, next[1])
        local element = try('RPOP', list)
        if type(element) == 'string' then
          c.turn = next[1]
          return element, list
        end
        if element and element.err then call('DEL', list) end
        call('ZREM', index, next[1])
      elseif rank == 0 then return nil
      else rank, c.idle_turns = 0, nil end
    end
    -- All of these groups were empty, and are gone from the index. Others may wait behind them.
    c.has_more_groups = true
  end

  -- The end of a call: puts the element of the next group to the front of `jobs`, where workers wait.
  function Groups.offer(c)
    if not Groups.are_used(c) or offered(c) ~= '' then return end
    c.are_groups_sorted, c.turn, c.idle_turns = true, nil, nil
    local element = Groups.take(c)
    if element then
      call('RPUSH', c.JOBS, element)
      remember(c, #element <= LARGEST.element and c.turn .. ' ' .. element or '')
    elseif c.is_offer_spent then remember(c, '') end
    c.turn = nil
  end

  -- Puts a ticket into the list of its job's group. Returns false if the caller has to put it into `jobs`. front: whether it is the
  -- next one of its group.
  function Groups.enqueue(c, group, element, front)
    if not Groups.are_used(c) then return false end
    -- In front of the element that was offered, it is sorted as what producers push to the front.
    if front and offered(c) ~= '' then return false end
    add(c, group or '', front and 'RPUSH' or 'LPUSH', { element })
    return true
  end

  -- Puts elements that were deferred for their host before all others, in their order, the last one first.
  function Groups.return_first(c, elements)
    if Groups.are_used(c) then add(c, RETURNED, 'RPUSH', elements) else call('RPUSH', c.JOBS, unpack(elements)) end
  end

  -- The next one of these elements; nil if there is none.
  function Groups.first_returned(c)
    local element = Groups.are_used(c) and try('LINDEX', list_of(c, RETURNED), -1)
    return type(element) == 'string' and element or nil
  end

  -- Whether a job of a group may start. If not, its element is now the next one of its group.
  function Groups.admits(c, group, element)
    local score = group and limited_score(c, group)
    if not score then return true end
    begin_use(c)
    if not Groups.are_used(c) then return true end
    -- Elements that came back from a host keep their order, if one call takes them.
    c.put_back = c.put_back or {}
    local earlier, list = c.turn == RETURNED and c.put_back[group] or 0, list_of(c, group)
    local first = earlier > 0 and call('LRANGE', list, -earlier, -1) or {}
    if earlier > 0 then call('LTRIM', list, 0, -1 - earlier) end
    table.insert(first, 1, element)
    add(c, group, 'RPUSH', first)
    if c.turn == RETURNED then c.put_back[group] = earlier + 1 end
    call('ZADD', turns_of(c), score_text(score), group)
    return false
  end

  -- Counts that a job starts. group: nil for a job without a group.
  function Groups.count_start(c, id, group)
    if group then begin_use(c) elseif not Groups.are_used(c) then return end
    group = group or ''
    try('SADD', c.PREFIX .. KEY.busyGroup .. group, id)
    if c.turn == group then c.turn, idle[c.PREFIX] = nil, nil end
    local rule = rule_of(c, group)
    if rule and rule.interval then
      Starts.record(c, rule.host, rule.interval)
      -- The next one is due then, which no other call may notice before the next tick.
      c.next_due = math.min(c.next_due or math.huge, c.now + Starts.next_after(c, rule))
    end
    local score = score_of(c, group)
    if not score then return end
    if score < LIMITED then call('ZADD', turns_of(c), score_text(score + RUNNING + 1), group) end
    if rule then place(c, group, score) end
  end

  -- Counts that a job's run has ended.
  function Groups.release(c, id, group)
    if not group and not Groups.are_used(c) then return end
    group = group or ''
    if try('SREM', c.PREFIX .. KEY.busyGroup .. group, id) ~= 1 then return end
    local score = score_of(c, group)
    if not score then return end
    if score >= LIMITED then return place(c, group, score) end
    local started = tonumber(number(try('HGET', c.JOB .. id, 'started'))) or c.now
    call('ZADD', turns_of(c), score_text(math.max(0, score - RUNNING + math.max(0, c.now - started))), group)
  end

  -- The limits of a job's run that its group has, by name; nil if there are none.
  function Groups.run_limits(c, group) return group and rule_of(c, group) end

  -- Removes jobs without a lease from the count of a group. They stay there if another client has written over a job's
  -- keys, or if the queue has stopped to use groups meanwhile.
  local function remove_ended_jobs(c, group)
    local busy = c.PREFIX .. KEY.busyGroup .. group
    local some = try('SRANDMEMBER', busy, 8)
    if some.err then return end
    for _, id in ipairs(some) do
      if not call('ZSCORE', c.LEASES, id) and call('SREM', busy, id) == 1 then
        local score = score_of(c, group)
        if score and score >= RUNNING and score < LIMITED then
          call('ZADD', turns_of(c), score_text(score - RUNNING), group)
        end
      end
    end
  end

  -- Checks the groups that have reached a limit, 50 at a time. Returns in how many ms the next one may start a job; nil if
  -- none waits for that.
  local function check_limited(c)
    local index, wait = turns_of(c), nil
    for band = 1, 2 do
      local due = call('ZRANGEBYSCORE', index, score_text(band * LIMITED), score_text(band * LIMITED + c.now), 'LIMIT', 0, 50, 'WITHSCORES')
      for n = 1, #due, 2 do
        if try('LLEN', list_of(c, due[n])) == 0 then call('ZREM', index, due[n])
        else
          remove_ended_jobs(c, due[n])
          place(c, due[n], tonumber(due[n + 1]))
          local rule = rule_of(c, due[n])
          if rule and rule.interval then wait = math.min(wait or math.huge, Starts.next_after(c, rule)) end
        end
      end
    end
    local next = call('ZRANGEBYSCORE', index, score_text(LIMITED), '(' .. score_text(2 * LIMITED), 'LIMIT', 0, 1, 'WITHSCORES')
    if next[1] then wait = math.min(wait or math.huge, math.max(0, tonumber(next[2]) - LIMITED - c.now)) end
    return wait
  end

  -- A task of the tick, and part of pace(): sorts the next elements, and gives groups a turn that no limit stops any
  -- more. Returns whether `jobs` has more elements to sort, and in how many ms a limit of starts lets the next job start.
  function Groups.maintain(c, is_tick, front)
    if not Groups.are_used(c) and is_tick and (names_group(c, front) or names_group(c, call('LINDEX', c.JOBS, 0))) then
      begin_use(c)
    end
    if not Groups.are_used(c) then return false, nil end
    local has_more = sort(c, MOST.tick)
    if is_tick then
      local index = turns_of(c)
      local first = floor(c.now / 1000) * 4 % math.max(1, call('ZCARD', index))
      for _, group in ipairs(call('ZRANGE', index, first, first + 3)) do remove_ended_jobs(c, group) end
    end
    return has_more, check_limited(c)
  end
end
