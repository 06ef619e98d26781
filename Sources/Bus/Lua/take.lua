-- Takes the next elements: from what this worker holds, else from the line. Used by claim.lua and settle.lua.

-- How much one call does, in bytes, since what an element costs Redis grows with what is read and written for it. An
-- element, the start of its job, a request that waits for its job, and its end each cost something of their own.
local MOST_BYTES, BYTES_OF_ELEMENT, BYTES_OF_START, BYTES_OF_REQUEST, BYTES_OF_END = 8192, 60, 150, 500, 600

-- Reads an element. Returns its table, the id of its job, a reason if it is no valid push, and the element with its
-- `url` made absolute. The rule for the id is that of Queue+Producing.swift.
local function identify(element)
  local j, reason = read(element)
  -- Nothing but the URL is checked again.
  local whole = reason and string.find(reason, '^url: ') and fleet.based(element, j)
  if whole then
    element = whole
    reason = #element > LARGEST.element and 'element: ' .. LARGEST.element_rule or fault(j, element)
  end
  local id = j and j.id
  if reason or id then return j, id, reason, element end
  if j.method ~= nil or j.headers ~= nil or j.urls ~= nil or j.kind ~= nil and j.kind ~= 'download' then id = redis.sha1hex(element)
  else id = redis.sha1hex(j.url .. '\n' .. (j.path or '')) end
  return j, string.sub(id, 1, 16), nil, element
end

-- What verdict() needs to know of an element.
local function push_of(id, h, j)
  local kind = (j.url or j.urls) and 'job' or j.t and 'ticket' or 'continuation'
  local asks = h.state and (kind ~= 'job' or h.state == 'paused')
  return { kind = kind, at = j.at, ticket = j.t, has_spec = asks and call('HEXISTS', spec(id), 'spec') == 1 }
end

-- The state of a job before a push, packed. If the worker cannot read the push, it returns this value, and the job
-- becomes what it was (settle.lua). '' for a job that was not known or is queued.
local function remember(id, h)
  if not h.state or h.state == 'queued' then return '' end
  return cmsgpack.pack({ hash = call('HGETALL', key(id)), spec = call('HGETALL', spec(id)), ttl = call('PTTL', key(id)),
    score = INDEX[h.state] and call('ZSCORE', INDEX[h.state], id) })
end

-- Starts a run under `token`, and returns the claim, if the job is to run now. Otherwise returns nil: the job is
-- postponed, overdue, stopped by a request that waited for it, or waits for its host. begins: whether the job runs as
-- it is pushed here.
local function start(id, h, j, element, begins, worker, token, lease, retention)
  local k, st = key(id), h.state
  local due = (j.url or j.urls) and j.delay and after_push(j, j.delay) or 0
  local had_request = h.want or h.behind
  local stop = awaits(h, j.at)
  if not stop and begins and j.batch then
    stop = batches.stop(id, h, j)
    if stop then h.want, h.wantat = stop, NOW end
  end
  if begins then set_deadline(h, j) end
  local is_late = not stop and h.deadline and tonumber(h.deadline) <= now
  local runs = not stop and not is_late and due <= now
  local rule
  if runs then
    local admitted
    admitted, rule = fleet.admits(id, j, element)
    if not admitted then return end
    -- The first write of a start: a key of another type raises its error here.
    call('HSET', WORKER, token, id)
  end
  local before = runs and remember(id, h) or ''
  local fields, set = note(id, h, j, element, begins)
  if j.url or j.urls or not j.t then
    -- A push without `at` that a request has stopped counts as no newer than the request.
    local moment = stop and not j.at and h.wantat or moment_of(j.at)
    if tonumber(moment) > tonumber(h.pushed or 0) then set('pushed', moment) end
    if j.at and j.at > now then set('ahead', whole(j.at)) end
  end
  if had_request and not stop then call('HDEL', k, 'want', 'wantat', 'behind') end
  if not runs then
    if #fields > 0 then call('HSET', k, unpack(fields)) end
    if is_late then return overdue(id, h, retention) end
    if not stop then return postpone(id, h, due - now) end
    as_of(id, h.wantat)
    if stop == 'paused' then pause(id, h, retention) else finish(id, h, 'cancelled', retention, '') end
    return
  end
  leave(id, h)
  history.count('claimed')
  local is_limited = fleet.begin(id, rule)
  if is_limited then set('host', rule.host) end
  local n = #fields
  fields[n + 1], fields[n + 2], fields[n + 3], fields[n + 4] = 'state', 'running', 'token', token
  fields[n + 5], fields[n + 6], fields[n + 7], fields[n + 8] = 'worker', worker, 'started', NOW
  fields[n + 9], fields[n + 10] = 'updated', NOW
  call('HSET', k, unpack(fields))
  if h.ticket or h.waiting then call('HDEL', k, 'ticket', 'waiting') end
  call('ZADD', LEASES, whole(now + lease), id)
  if not st then
    -- A stub may name a file that has to be deleted (`doomed`).
    local known = h.is_known and call('HGETALL', k) or h.deadline and { 'deadline_at', h.deadline } or {}
    return named { answer = 'job', id = id, token = token, spec = element, now = NOW, hash = known, defaults = fleet.told(),
      is_limited = is_limited and '1' }
  end
  local pushed = begins and { element } or call('HMGET', spec(id), 'spec', 'renewed')
  return named { answer = 'job', id = id, token = token, spec = pushed[1], renewed = pushed[2], previous = st, now = NOW,
    hash = call('HGETALL', k), offsets = call('HGETALL', offsets(id)), before = before, defaults = fleet.told(),
    is_limited = is_limited and '1' }
end

-- Returns the job after the request that waits for it in `want`, if any. exists: whether its hash exists. turn: see
-- accept().
local function known(id, exists, turn, retention)
  local value = turn.are_wanted and call('HGET', WANT, id)
  if value then
    -- The request may put the job at the front of the line, where its element is. So the element is moved away first.
    if turn.list == JOBS then
      call('LMOVE', JOBS, HELD, 'RIGHT', 'LEFT')
      turn.list = HELD
    end
    call('HDEL', WANT, id)
    produced = produced + BYTES_OF_REQUEST
    hear(id, value, retention, last_heard())
  elseif not exists then
    return { crashes = 0, attempt = 0, seq = 0 }
  end
  local h = job(id)
  h.is_known = true
  return h
end

-- Does what an element asks for. Returns a claim if this worker is to run the job. turn: `list`, the key of the list
-- that has the element, and `are_wanted`, whether any requests wait.
local function accept(element, turn, worker, token, lease, retention)
  if element == VOID then return end
  local j, id, reason, whole = identify(element)
  -- A later version may know this kind of job.
  local kind = reason and kinds.named(j)
  if kind and not kinds.rules[kind] then return kinds.set_aside(element, kind, j) end
  -- Most jobs are new and have no hash, so nothing has to be read.
  local fields = not reason and size(key(id))
  if not reason and fields ~= 0 and is_strange(id) then reason = strange(id) end
  if reason then
    return reject_element(element, reason, is_id(id) and id or nil, j)
  end
  fleet.complete(j)
  local h = known(id, fields > 0, turn, retention)
  local word, reason, since = verdict(h, push_of(id, h, j))
  local instead = INSTEAD[word]
  if instead then return instead(id, h, j, whole, retention, reason, since) end
  kind = (word == 'begin' and j.kind or word ~= 'begin' and h.kind) or 'download'
  if not kinds.does(kind) then return kinds.set_aside(element, kind, j) end
  return start(id, h, j, whole, word == 'begin', worker, token, lease, retention)
end

-- Rejects an element that caused an error. wrong: the text of the error.
local function put_aside(element, token, wrong)
  local j, id, reason = identify(element)
  local isInvalid = reason ~= nil
  if not isInvalid and is_strange(id) then reason = strange(id) end
  call('HDEL', WORKER, token)
  reject_element(element, reason or 'element: cannot be taken: ' .. wrong, not isInvalid and id or nil, j)
end

-- Takes the next jobs for `worker`, one for each of `tokens`. lease: in ms. settings, held, waiting: the results of
-- touch(); `held` and `waiting` are nil if the lists have changed since.
-- Returns the claims (claim.lua). If there are fewer than tokens, the last entry says why. It is 'more' once MOST_BYTES
-- of elements and of what they have produced are counted, because Redis serves nobody else meanwhile.
-- Writes jobs, held:<worker>, worker:<worker>, leases, want, job:<id>, spec:<id>, and what the elements do.
local function take(worker, tokens, lease, retention, settings, held, waiting)
  local claims, token = {}, tokens[1]
  local function ended(how)
    claims[#claims + 1] = { 'answer', how }
    return claims
  end
  -- The events of a settle before this do not count. The jobs that it has ended do.
  local bytes, turn = -produced, { are_wanted = call('HLEN', WANT) > 0 }
  while bytes + produced + fleet.ended * BYTES_OF_END < MOST_BYTES do
    -- No round of this loop leaves more in the `held` list than it found.
    if held == nil then held = call('LINDEX', HELD, -1) end
    if waiting == nil and not held then waiting = call('LINDEX', JOBS, -1) end
    local closed = settings.is_quiet and 'quiet' or closed_by(settings)
    if closed then
      if not held then return ended(closed) end
      call('RPUSH', JOBS, held)
      call('RPOP', HELD)
    else
      local element = held or waiting
      turn.list = held and HELD or JOBS
      if not element then
        element = kinds.take_aside()
        if not element then return ended('empty') end
        turn.list = HELD
      end
      bytes = bytes + #element + BYTES_OF_ELEMENT
      local fine, claim = isolated(accept, element, turn, worker, token, lease, retention)
      if not fine then
        local isAside, e = pcall(put_aside, element, token, claim)
        -- Jobs that were claimed so far stay claimed. The next call raises the error.
        if not isAside and #claims > 0 then return ended('more') end
        if not isAside then raise(e) end
      end
      -- RPOP would copy a large element once more, into its reply.
      if #element > 4096 then call('LTRIM', turn.list, 0, -2) else call('RPOP', turn.list) end
      if fine and claim then
        bytes = bytes + BYTES_OF_START
        claims[#claims + 1] = claim
        token = tokens[#claims + 1]
        if not token then return claims end
      end
    end
    held, waiting = held and nil, nil
  end
  return ended('more')
end

-- Whether the first of these claims is a job.
local function has_job(claims)
  for n = 1, #claims[1], 2 do
    if claims[1][n] == 'answer' then return claims[1][n + 1] == 'job' end
  end
end
