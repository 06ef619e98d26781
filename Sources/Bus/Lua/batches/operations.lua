-- Control operations for a batch: docs/guides/batches.md.
--
-- Uses: Batches, Call, Isolation, Order, Rejections, States.
-- Calls ahead: Rechecks.
-- Writes: want, batch:<name>.
do
  -- Control operations for a batch, and to which members they apply: `counted_as` is the state in which the member is
  -- counted, `state` and `want` are of its job.
  local OPERATIONS = {
    paused = function(counted_as) return counted_as == 'pending' end,
    cancelled = function(counted_as) return counted_as == 'pending' end,
    running = function(counted_as, state, want) return counted_as == 'pending' and (state == 'paused' or want == 'paused') end,
    retried = function(counted_as, state) return counted_as == 'failed' and state == 'failed' end,
  }

  -- Hands an operation to about 50 members: writes it into `want` for each. An operation that a member has there is
  -- done first, since it may be newer. cursor: where to continue. Returns the next cursor, '0' at the end.
  local function apply_to_members(c, name, want, operation_at, cursor, tick)
    local reply = try('HSCAN', Batches.members_of(c, name), match(cursor, '^%d+'), 'COUNT', 50)
    if reply.err then return '0' end
    local operation = (want == 'retried' and 'running' or want) .. ' ' .. operation_at
    local pairs_of, first, next_cursor = reply[2], 1, reply[1]
    local count = #pairs_of / 2
    -- Redis returns a small hash at once: up to 512 members. They are handed out from the last one on, because a member
    -- that is deleted meanwhile moves only those behind it.
    if sub(cursor, 1, 1) == '0' and next_cursor == '0' then
      count = math.min(count, tonumber(match(cursor, '^0%.(%d+)$') or count))
      if count > 50 then first, next_cursor = 2 * (count - 50) + 1, '0.' .. integer_text(count - 50) end
    end
    tick.handed = tick.handed + count - (first - 1) / 2
    for n = first, 2 * count, 2 do
      local id, counted_as = pairs_of[n], pairs_of[n + 1]
      if counted_as == 'pending' or counted_as == 'failed' then
        local values = try('HMGET', c.JOB .. id, 'state', 'want', 'next_push', 'batch')
        local state, known_want, next_push, names = unpack(values)
        local waiting = Order.waiting(c, id)
        -- A member that is being removed gets nothing, because that would wait for the push after the removal.
        local leaves = States.removes_job(known_want) and not next_push
        -- A pause that was handed to the member, and that no tick has applied yet, is revoked as well.
        if waiting and find(waiting, '^paused') then known_want = 'paused' end
        if not values.err and Batches.has(names or '', name) and OPERATIONS[want](counted_as, state, known_want) then
          if waiting and waiting ~= operation then
            -- The next call begins with this page again, and passes over the members that have the operation by then. '0'
            -- is the end of a scan.
            if tick.left <= 0 then return cursor == '0' and '00' or cursor end
            tick.left = tick.left - 2
            call('HDEL', c.WANT, id)
            Isolation.run(c, Order.apply, c, id, waiting, tick.applied_until)
            state, known_want, next_push = unpack(call('HMGET', c.JOB .. id, 'state', 'want', 'next_push'))
            leaves = not state or States.removes_job(known_want) and not next_push
          end
          if waiting ~= operation and not leaves then call('HSET', c.WANT, id, operation) end
        end
      end
    end
    return next_cursor
  end

  -- Records an operation that is in force for members that join later. Returns false if a newer operation is in force,
  -- or if there is no batch to which it could apply.
  local function record_operation(c, name, want, operation_at)
    local values = try('HMGET', Batches.hash_of(c, name), 'want_at', 'created', 'want')
    local want_at, created, known_want = unpack(values)
    if values.err or operation_at < to_integer(want_at) then return false end
    if want == 'retried' then return true end
    local stops = want ~= 'running'
    -- Before its first member, a batch has only the operation that this one may revoke.
    if not created and not stops and not known_want then return false end
    call('HSET', Batches.hash_of(c, name), 'want_at', integer_text(operation_at))
    if stops then call('HSET', Batches.hash_of(c, name), 'want', want) else call('HDEL', Batches.hash_of(c, name), 'want') end
    -- An operation for an unknown batch waits an hour for the first member.
    if not created then call('PEXPIRE', Batches.hash_of(c, name), 3600000) end
    return true
  end

  -- The name of the batch that a field of `want` is for; nil for a job's id, which has no slash.
  function BatchOperations.named(field) return sub(field, 1, 6) == 'batch/' and sub(field, 7) or nil end

  -- Does a control operation for a batch. value: from `want`. The operation stays in `want`, with the cursor that was
  -- reached, until all members have it. Another server instance cannot use the cursor, and restarts.
  function BatchOperations.apply(c, name, value, tick)
    local want, time, rest = match(value, '^(%a+) ?(%d*)(.*)$')
    if not is_id(name) or not OPERATIONS[want] then
      return Rejections.add(c, value, 'want: for a batch it must be paused, cancelled, running or retried, and perhaps '
        .. 'unix ms behind a space; the field is batch/ and the name')
    end
    if time ~= '' and (tonumber(time) < TIMESTAMPS.min or tonumber(time) > TIMESTAMPS.max) then
      return Rejections.add(c, value, 'want: the time ' .. TIMESTAMPS.rule)
    end
    local operation_at = integer_text(math.min(tonumber(time) or c.now, c.now))
    local cursor, run = match(rest, '^ @(%d+%.?%d*) (%x+)$')
    if not cursor then
      if not record_operation(c, name, want, tonumber(operation_at)) then return end
      cursor = '0'
    elseif run ~= Call.server() then cursor = '0' end
    -- The members' operations must not delay those for single jobs. Ticks do 150 in a fraction of a second. If more
    -- wait, and this call has found an operation for a single job among those that it picked at random, there may be
    -- many of them. A call hands operations to some 50 members, however many batches have one.
    if tick.handed < 50 and (tick.operation_count < 150 or not tick.has_single) then
      cursor = apply_to_members(c, name, want, operation_at, cursor, tick)
      if cursor == '0' then
        -- Elements that no worker has begun may wait for a host, a kind or a group. They are members only then.
        if want == 'paused' or want == 'cancelled' then Rechecks.request(c) end
        return
      end
    end
    call('HSET', c.WANT, 'batch/' .. name, want .. ' ' .. operation_at .. ' @' .. cursor .. ' ' .. Call.server())
    tick.more = true
  end
end
