-- Claims the next elements: those that this worker holds, else those of the queue. Used by claim.lua and settle.lua.

-- How much one call does, in bytes, since what an element costs Redis grows with what is read and written for it. An
-- element, the start of its job, a control operation that waits for its job, and its end each have a cost of their own.
local COST = { max = 8192, element = 60, start = 150, operation = 500, job_end = 600 }

-- Reads an element. Returns its table, the id of its job, a reason if it is not a valid push, and the element with its
-- `url` made absolute. The rule for the id is that of Queue+Producing.swift.
local function identify(element)
  local parsed, reason = read(element)
  -- Nothing but the URL is checked again.
  local absolute = reason and string.find(reason, '^url: ') and defaults.with_absolute_url(element, parsed)
  if absolute then
    element = absolute
    reason = #element > LARGEST.element and 'element: ' .. LARGEST.element_rule or fault(parsed, element)
  end
  local id = parsed and parsed.id
  if reason or id then return parsed, id, reason, element end
  if parsed.method ~= nil or parsed.headers ~= nil or parsed.urls ~= nil or parsed.kind ~= nil and parsed.kind ~= 'download' then id = redis.sha1hex(element)
  else id = redis.sha1hex(parsed.url .. '\n' .. (parsed.path or '')) end
  return parsed, string.sub(id, 1, 16), nil, element
end

-- What verdict() needs to know of an element.
local function push_of(id, job, parsed)
  local kind = (parsed.url or parsed.urls) and 'job' or parsed.t and 'ticket' or 'continuation'
  local asks = job.state and (kind ~= 'job' or job.state == 'paused')
  return { kind = kind, at = parsed.at, ticket = parsed.t, has_spec = asks and call('HEXISTS', spec(id), 'spec') == 1 }
end

-- The state of a job before a push, packed. If the worker cannot read the push, it returns this value, and the job
-- becomes what it was (settle.lua). '' for a job that was not known or is queued.
local function remember(id, job)
  if not job.state or job.state == 'queued' then return '' end
  return cmsgpack.pack({ hash = call('HGETALL', key(id)), spec = call('HGETALL', spec(id)), ttl = call('PTTL', key(id)),
    score = INDEX[job.state] and call('ZSCORE', INDEX[job.state], id) })
end

-- Starts a run under `token`, and returns the claim, if the job is to run now. Otherwise returns nil: the job is
-- postponed, overdue, stopped by a control operation that waited for it, or waits for its host. is_begun: whether the
-- job runs as it is pushed here.
local function start(id, job, parsed, element, is_begun, worker, token, lease, retention)
  local job_key, previous = key(id), job.state
  local due = (parsed.url or parsed.urls) and parsed.delay and after_push(parsed, parsed.delay) or 0
  local had_operation = job.want or job.want_next
  local stop = blocking_operation(job, parsed.at)
  if not stop and is_begun and parsed.batch then
    stop = batches.stop(id, job, parsed)
    if stop then job.want, job.want_at = stop, NOW end
  end
  if is_begun then set_deadline(job, parsed) end
  local is_late = not stop and job.deadline and tonumber(job.deadline) <= now
  local runs = not stop and not is_late and due <= now
  local rule
  if runs then
    local admitted
    admitted, rule = hosts.admits(id, parsed, element)
    if not admitted then return end
    -- The first write of a start: a key of another type raises its error here.
    call('HSET', WORKER, token, id)
  end
  local before = runs and remember(id, job) or ''
  local fields, set = record_push(id, job, parsed, element, is_begun)
  if parsed.url or parsed.urls or not parsed.t then
    -- A push without `at` that an operation has stopped counts as not newer than it.
    local timestamp = stop and not parsed.at and job.want_at or timestamp_of(parsed.at)
    if tonumber(timestamp) > tonumber(job.pushed or 0) then set('pushed', timestamp) end
    if parsed.at and parsed.at > now then set('ahead', integer_text(parsed.at)) end
  end
  if had_operation and not stop then call('HDEL', job_key, 'want', 'want_at', 'want_next') end
  if not runs then
    if #fields > 0 then call('HSET', job_key, unpack(fields)) end
    if is_late then return overdue(id, job, retention) end
    if not stop then return postpone(id, job, due - now) end
    settled_until(id, job.want_at)
    if stop == 'paused' then pause(id, job, retention) else finish(id, job, 'cancelled', retention, '') end
    return
  end
  leave_state(id, job)
  history.count('claimed')
  local is_limited = hosts.count_start(id, rule)
  if is_limited then set('host', rule.host) end
  local n = #fields
  fields[n + 1], fields[n + 2], fields[n + 3], fields[n + 4] = 'state', 'running', 'token', token
  fields[n + 5], fields[n + 6], fields[n + 7], fields[n + 8] = 'worker', worker, 'started', NOW
  fields[n + 9], fields[n + 10] = 'updated', NOW
  call('HSET', job_key, unpack(fields))
  if job.ticket or job.waiting then call('HDEL', job_key, 'ticket', 'waiting') end
  call('ZADD', LEASES, integer_text(now + lease), id)
  if not previous then
    -- A tombstone may name a file that has to be deleted (`pending_deletion`).
    local known = job.is_known and call('HGETALL', job_key) or job.deadline and { 'deadline_at', job.deadline } or {}
    return named { answer = 'job', id = id, token = token, spec = element, now = NOW, hash = known, defaults = defaults.as_list(),
      is_limited = is_limited and '1', limits = hosts.limits_of_run(rule) }
  end
  local pushed = is_begun and { element } or call('HMGET', spec(id), 'spec', 'renewed')
  return named { answer = 'job', id = id, token = token, spec = pushed[1], renewed = pushed[2], previous = previous, now = NOW,
    hash = call('HGETALL', job_key), offsets = call('HGETALL', offsets(id)), before = before, defaults = defaults.as_list(),
    is_limited = is_limited and '1', limits = hosts.limits_of_run(rule) }
end

-- Returns the job after the control operation that waits for it in `want`, if any. exists: whether its hash exists.
-- turn: see claim_element().
local function known(id, exists, turn, retention)
  local value = turn.has_operations and call('HGET', WANT, id)
  if value then
    -- The operation may put the job at the front of the queue, where its element is. So the element is moved away
    -- first.
    if turn.list == JOBS then
      call('LMOVE', JOBS, HELD, 'RIGHT', 'LEFT')
      turn.list = HELD
    end
    call('HDEL', WANT, id)
    produced = produced + COST.operation
    apply_operation(id, value, retention, last_applied())
  elseif not exists then
    return { crashes = 0, attempt = 0, seq = 0 }
  end
  local job = read_job(id)
  job.is_known = true
  return job
end

-- Does what an element asks for. Returns a claim if this worker is to run the job. turn: `list`, the key of the list
-- that has the element, and `has_operations`, whether any control operations wait.
local function claim_element(element, turn, worker, token, lease, retention)
  if element == VOID then return end
  local parsed, id, reason, full_element = identify(element)
  -- A later version may know this kind of job.
  local kind = reason and kinds.named(parsed)
  if kind and not kinds.rules[kind] then return kinds.defer(element, kind, parsed) end
  -- Most jobs are new and have no hash, so nothing has to be read.
  local fields = not reason and size(key(id))
  if not reason and fields ~= 0 then reason = wrong_type(id) end
  if reason then
    return reject_element(element, reason, is_id(id) and id or nil, parsed)
  end
  defaults.complete(parsed)
  local job = known(id, fields > 0, turn, retention)
  local word, reason, since = verdict(job, push_of(id, job, parsed))
  local handler = NOT_STARTED[word]
  if handler then return handler(id, job, parsed, full_element, retention, reason, since) end
  kind = (word == 'begin' and parsed.kind or word ~= 'begin' and job.kind) or 'download'
  if not kinds.does(kind) then return kinds.defer(element, kind, parsed) end
  return start(id, job, parsed, full_element, word == 'begin', worker, token, lease, retention)
end

-- Rejects an element that caused an error. wrong: the text of the error.
local function isolate_element(element, token, wrong)
  local parsed, id, reason = identify(element)
  local is_invalid = reason ~= nil
  if not is_invalid then reason = wrong_type(id) end
  call('HDEL', WORKER, token)
  reject_element(element, reason or 'element: cannot be claimed: ' .. wrong, not is_invalid and id or nil, parsed)
end

-- Claims the next jobs for `worker`, one for each of `tokens`. lease: in ms. settings, held, waiting: the results of
-- touch(); `held` and `waiting` are nil if the lists have changed since.
-- Returns the claims (claim.lua). If there are fewer than tokens, the last entry says why. It is 'more' once COST.max
-- of elements and of what they have produced are counted, because Redis serves no other client meanwhile.
-- Writes jobs, held:<worker>, worker:<worker>, leases, want, job:<id>, spec:<id>, and what the elements do.
local function claim_elements(worker, tokens, lease, retention, settings, held, waiting)
  local claims, token = {}, tokens[1]
  local function ended(how)
    claims[#claims + 1] = { 'answer', how }
    return claims
  end
  -- The events of a settle in the same call do not count. The jobs that it has ended do.
  local bytes, turn = -produced, { has_operations = call('HLEN', WANT) > 0 }
  while bytes + produced + ended_count * COST.job_end < COST.max do
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
        element = kinds.claim_deferred()
        if not element then return ended('empty') end
        turn.list = HELD
      end
      bytes = bytes + #element + COST.element
      local fine, claim = isolated(claim_element, element, turn, worker, token, lease, retention)
      if not fine then
        local is_rejected, caught = pcall(isolate_element, element, token, claim)
        -- Jobs that were claimed so far stay claimed. The next call raises the error.
        if not is_rejected and #claims > 0 then return ended('more') end
        if not is_rejected then raise(caught) end
      end
      -- RPOP would copy a large element once more, into its reply.
      if #element > 4096 then call('LTRIM', turn.list, 0, -2) else call('RPOP', turn.list) end
      if fine and claim then
        bytes = bytes + COST.start
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
