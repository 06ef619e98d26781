-- Kinds of jobs that not every worker does. A worker names its kinds when it registers. An element of another kind is
-- deferred, unchanged, in the list `deferred_kind:<kind>`. A worker that does this kind claims the element from there,
-- or returns it to the queue with its tick. So an old worker defers new kinds to newer workers.
--
-- A kind that this library does not know may be a later version's, or a mistake. So that mistakes cannot fill Redis, at
-- most 64 unknown kinds wait at a time, and of each at most 1000 elements, for a week. More are rejected.
--
-- The hash `deferred_kinds` has the kinds with deferred elements, and when the last one was deferred (ms).
--
-- Uses: Jobs, Rejections.
-- Calls ahead: Batches, Rechecks.
-- Writes: deferred_kind:<kind>, deferred_kinds, held:<worker>, jobs.
do
  local MAX_UNKNOWN, MAX_ELEMENTS, KEPT_UNKNOWN = 64, 1000, 604800000

  local function index_of(c) return c.PREFIX .. KEY.deferredKinds end

  -- Whether this worker does jobs of a kind. Workers.is_current() must have set c.kinds. A kind that this library does
  -- not know cannot be done.
  function Kinds.does(c, kind)
    return KIND.rules[kind] ~= nil and (c.kinds == KIND.all or find(' ' .. c.kinds .. ' ', ' ' .. kind .. ' ', 1, true) ~= nil)
  end

  -- Returns `kind` if it may be the name of a kind, else nil.
  function Kinds.named(kind)
    return type(kind) == 'string' and #kind <= 32 and find(kind, '^[a-z][a-z_]*$') and kind or nil
  end

  -- Why an element of a kind that this library does not know cannot be deferred; nil if it can.
  local function why_full(c, kind)
    local is_listed = try('HEXISTS', index_of(c), kind) == 1
    local count = not is_listed and Jobs.size(index_of(c))
    if count and count >= MAX_UNKNOWN then
      return 'kind: no worker does ' .. kind .. ', and ' .. count .. ' other kinds wait already; see haul stats'
    end
    if call('LLEN', c.PREFIX .. KEY.deferredKind .. kind) >= MAX_ELEMENTS then
      return 'kind: no worker does ' .. kind .. ', and ' .. MAX_ELEMENTS .. ' elements of it wait already'
    end
  end

  -- Defers an element. The caller removes it from the list that it was in. An element of an unknown kind is rejected if
  -- too many wait. kind and element: instead of those of the push, if they are given.
  function Kinds.defer(c, push, kind, element)
    kind, element = kind or push.kind, element or push.element
    local list, is_unknown = c.PREFIX .. KEY.deferredKind .. kind, not KIND.rules[kind]
    local wrong = is_unknown and why_full(c, kind)
    if wrong then return Rejections.add_element(c, element, wrong, push.id, push) end
    call('LPUSH', list, element)
    if is_unknown then call('PEXPIRE', list, KEPT_UNKNOWN) else call('PERSIST', list) end
    try('HSET', index_of(c), kind, c.NOW)
    -- A control operation for the job, or for its batch, may have come before its element. Of most jobs with a state it
    -- is done, but a push of an unknown kind may repeat one that was cancelled.
    local job = push.id and c.JOB .. push.id
    if job and push.batch and Batches.stop(c, {}, push, push.batch)
      or job and try('EXISTS', job) == 1 and (is_unknown or not try('HGET', job, 'state') or try('HGET', job, 'want')) then Rechecks.request(c) end
  end

  -- The kinds with deferred elements.
  function Kinds.deferred_kinds(c)
    -- If the key has another type, there are none. An earlier version may have deferred any number of kinds.
    local many = (Jobs.size(index_of(c)) or 0) > 2 * MAX_UNKNOWN
    local names, all = {}, many and try('HRANDFIELD', index_of(c), MAX_UNKNOWN, 'WITHVALUES')
      or try('HGETALL', index_of(c))
    for n = 1, #all, 2 do
      local count = try('LLEN', c.PREFIX .. KEY.deferredKind .. all[n])
      if count == 0 then call('HDEL', index_of(c), all[n])
      elseif type(count) == 'number' then names[#names + 1] = all[n] end
    end
    return names
  end

  -- Takes the next deferred element that this worker can do. Returns it and the key of its list, or nil.
  function Kinds.claim_deferred(c)
    if call('EXISTS', index_of(c)) == 0 then return nil end
    for kind in gmatch(c.kinds, '%S+') do
      local list = c.PREFIX .. KEY.deferredKind .. kind
      local element = KIND.rules[kind] and call('RPOP', list)
      if element then return element, list end
      try('HDEL', index_of(c), kind)
    end
  end

  -- A task of the tick: puts the kinds that this worker does not do into tick.deferred_kinds, for its log. While the
  -- queue has elements, no claim reads the deferred ones, so 16 elements of each other kind return to the front of the
  -- queue.
  function Kinds.return_deferred(c, tick)
    local names = Kinds.deferred_kinds(c)
    if #names == 0 then return end
    c.kinds = call('HGET', c.WORKER, 'kinds') or KIND.all
    local is_busy = call('LLEN', c.JOBS) > 0
    for _, kind in ipairs(names) do
      if not Kinds.does(c, kind) then
        tick.deferred_kinds[#tick.deferred_kinds + 1] = kind
      elseif is_busy then
        local list = c.PREFIX .. KEY.deferredKind .. kind
        local elements = call('LRANGE', list, -16, -1)
        call('RPUSH', c.JOBS, unpack(elements))
        call('LTRIM', list, 0, -1 - #elements)
      end
    end
  end
end
