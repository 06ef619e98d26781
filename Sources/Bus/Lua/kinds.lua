-- Kinds of jobs that not every worker does. A worker names its kinds when it registers. An element of another kind is
-- deferred, unchanged, in the list `deferred_kind:<kind>`. A worker that does this kind claims the element from there,
-- or returns it to the queue with its tick. So an old worker defers new kinds to newer workers.
--
-- A kind that this library does not know may be a later version's, or a mistake. So that mistakes cannot fill Redis, at
-- most 64 unknown kinds wait at a time, and of each at most 1000 elements, for a week. More are rejected.
--
-- The hash `deferred_kinds` has the kinds with deferred elements, and when the last one was deferred (ms).
kinds.max_unknown, kinds.max_elements, kinds.kept = 64, 1000, 604800000

-- Whether this worker does jobs of a kind. is_current() must have set kinds.done. A kind that this library does not
-- know cannot be done.
function kinds.does(kind) return kinds.rules[kind] ~= nil and string.find(' ' .. kinds.done .. ' ', ' ' .. kind .. ' ', 1, true) ~= nil end

-- The kind that an element names; nil if it names none, or if the name is not valid. parsed: the element as a table, or
-- nil.
function kinds.named(parsed)
  local kind = parsed and parsed.kind
  return type(kind) == 'string' and #kind <= 32 and string.find(kind, '^[a-z][a-z_]*$') and kind or nil
end

-- Why an element of a kind that this library does not know cannot be deferred; nil if it can. Writes no key.
local function why_full(kind)
  local is_listed = redis.pcall('HEXISTS', kinds.key, kind) == 1
  local count = not is_listed and size(kinds.key)
  if count and count >= kinds.max_unknown then
    return 'kind: no worker does ' .. kind .. ', and ' .. count .. ' other kinds wait already; see haul stats'
  end
  if call('LLEN', PREFIX .. KEY.deferredKind .. kind) >= kinds.max_elements then
    return 'kind: no worker does ' .. kind .. ', and ' .. kinds.max_elements .. ' elements of it wait already'
  end
end

-- Defers an element. The caller removes it from the list that it was in. An element of an unknown kind is rejected if
-- too many wait. parsed: the element as a table, or nil. Writes deferred_kind:<kind>, deferred_kinds, and what
-- reject_element() writes.
function kinds.defer(element, kind, parsed)
  local list, is_unknown = PREFIX .. KEY.deferredKind .. kind, not kinds.rules[kind]
  local wrong = is_unknown and why_full(kind)
  if wrong then return reject_element(element, wrong, parsed and is_id(parsed.id) and parsed.id or nil, parsed) end
  call('LPUSH', list, element)
  if is_unknown then call('PEXPIRE', list, kinds.kept) else call('PERSIST', list) end
  redis.pcall('HSET', kinds.key, kind, NOW)
  -- A control operation for the job may have come before its element.
  if parsed and is_id(parsed.id) and redis.pcall('EXISTS', key(parsed.id)) == 1 then rechecks.request() end
end

-- The kinds with deferred elements. Writes deferred_kinds (deletes others).
function kinds.deferred_kinds()
  -- If the key has another type, there are none. An earlier version may have deferred any number of kinds.
  local many = (size(kinds.key) or 0) > 2 * kinds.max_unknown
  local names, all = {}, many and redis.pcall('HRANDFIELD', kinds.key, kinds.max_unknown, 'WITHVALUES') or redis.pcall('HGETALL', kinds.key)
  for n = 1, #all, 2 do
    local count = redis.pcall('LLEN', PREFIX .. KEY.deferredKind .. all[n])
    if count == 0 then call('HDEL', kinds.key, all[n]) elseif type(count) == 'number' then names[#names + 1] = all[n] end
  end
  return names
end

-- Moves the next deferred element that this worker can do into its `held` list. Returns the element, or nil.
-- Writes deferred_kind:<kind>, deferred_kinds, held:<worker>.
function kinds.claim_deferred()
  if call('EXISTS', kinds.key) == 0 then return nil end
  for kind in string.gmatch(kinds.done, '%S+') do
    local element = kinds.rules[kind] and call('LMOVE', PREFIX .. KEY.deferredKind .. kind, HELD, 'RIGHT', 'RIGHT')
    if element then return element end
    redis.pcall('HDEL', kinds.key, kind)
  end
end

-- A task of the tick: puts the kinds that this worker does not do into tick.deferred_kinds, for its log. While the
-- queue has elements, no claim reads the deferred ones, so 16 elements of each other kind return to the front of the
-- queue. Writes deferred_kind:<kind>, deferred_kinds, jobs.
function kinds.return_deferred(tick)
  local names = kinds.deferred_kinds()
  if #names == 0 then return end
  kinds.done = call('HGET', WORKER, 'kinds') or kinds.all
  local is_busy = call('LLEN', JOBS) > 0
  for _, kind in ipairs(names) do
    if not kinds.does(kind) then
      tick.deferred_kinds[#tick.deferred_kinds + 1] = kind
    elseif is_busy then
      for _ = 1, 16 do
        if not call('LMOVE', PREFIX .. KEY.deferredKind .. kind, JOBS, 'RIGHT', 'RIGHT') then break end
      end
    end
  end
end
