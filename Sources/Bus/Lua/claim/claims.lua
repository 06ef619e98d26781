-- Claims the next elements: those that this worker holds, else those of the queue. A settle does the same (settles.lua).
--
-- Uses: Batches, Call, Defaults, Deletions, Envelopes, Events, Groups, History, Hosts, Isolation, Jobs, Kinds, Order,
-- Permits, Pushes, Rejections, Settings, States.
-- Calls ahead: Workers.
-- Writes: job:<id>, jobs, held:<worker>, worker:<worker>, leases, want.
do
  -- How much one call does, in bytes, since what an element costs Redis grows with what is read and written for it. An
  -- element, the start of its job, a control operation that waits for its job, and its end each have a cost of their
  -- own. A job that ran before may hold a large response, which is read but seldom changed: bytes_of_read of its bytes
  -- count as one.
  local COST = { max = 8192, element = 60, start = 150, operation = 500, job_end = 600, bytes_of_read = 16 }

  -- Whether spec:<id> has the job of a push, if that matters for Pushes.verdict().
  function Claims.has_spec(c, job, push)
    return job.state and (push.what ~= 'job' or job.state == 'paused') and call('HEXISTS', c.SPEC .. push.id, 'spec') == 1
  end

  -- Counts what a call has read of a job, as much as it costs beside an element of the same length.
  local function count_read(c, pairs_of_hash)
    local bytes = 0
    for n = 2, #pairs_of_hash, 2 do bytes = bytes + #pairs_of_hash[n] end
    c.produced = c.produced + bytes / COST.bytes_of_read
  end

  -- The state of a job before a push, packed. If the worker cannot read the push, it returns this value, and the job
  -- becomes what it was (settles.lua). '' for a job that was not known or is queued.
  local function remember(c, id, job)
    if not job.state or job.state == 'queued' then return '' end
    local hash = call('HGETALL', c.JOB .. id)
    count_read(c, hash)
    return cmsgpack.pack({ hash = hash, spec = call('HGETALL', c.SPEC .. id), ttl = call('PTTL', c.JOB .. id),
      score = c.INDEX[job.state] and call('ZSCORE', c.INDEX[job.state], id) })
  end

  -- Starts a run under `token`, and returns the claim, if the job is to run now. Otherwise returns nil: the job is
  -- postponed, overdue, stopped by a control operation that waited for it, or waits for its host. is_begun: whether the
  -- job runs as it is pushed here. lease: when it ends (ms, as text). Claims.claim() writes the leases and tokens.
  function Claims.start(c, job, push, is_begun, worker, token, lease)
    local id, previous = push.id, job.state
    local job_key = c.JOB .. id
    local due = push.delay and Pushes.due(c, push, push.delay) or 0
    local had_operation = job.want or job.want_next
    local stop = Order.blocking_operation(job, push.at)
    if not stop and push.batch and (is_begun or not Batches.has(job.batch, push.batch)) then
      stop = Batches.stop(c, job, push, push.batch)
      if stop then job.want, job.want_at = stop, c.NOW end
    end
    if is_begun then Pushes.set_deadline(c, job, push) end
    local is_late = not stop and job.deadline and tonumber(job.deadline) <= c.now
    local runs = not stop and not is_late and due <= c.now
    local rule, group
    if is_begun then group = push.group else group = job.group end
    if runs then
      if not Groups.admits(c, group, push.element) then return end
      local admitted
      admitted, rule = Hosts.admits(c, push)
      if not admitted then return end
    end
    local before = runs and remember(c, id, job) or ''
    local fields, set = Pushes.record(c, job, push, is_begun)
    if push.what ~= 'ticket' then
      -- A push without `at` that an operation has stopped counts as not newer than it.
      local timestamp = stop and not push.at and job.want_at or Pushes.timestamp_of(c, push.at)
      if tonumber(timestamp) > tonumber(job.pushed or 0) then set('pushed', timestamp) end
      if push.at and push.at > c.now then set('ahead', integer_text(push.at)) end
    end
    if had_operation and not stop then call('HDEL', job_key, 'want', 'want_at', 'want_next') end
    if not runs then
      if #fields > 0 then call('HSET', job_key, unpack(fields)) end
      if is_late then return States.fail_overdue(c, id, job) end
      if not stop then return States.postpone(c, id, job, due - c.now) end
      States.settle_until(c, id, job.want_at)
      if stop == 'paused' and job.state == 'paused' then return end
      if stop ~= 'paused' and job.state then Deletions.schedule(c, id) end
      if stop == 'paused' then States.pause(c, id, job) else States.finish(c, id, job, 'cancelled', '') end
      return
    end
    States.leave_state(c, id, job)
    History.count(c, 'claimed')
    local is_limited = Hosts.count_start(c, id, rule)
    Groups.count_start(c, id, group)
    if is_limited then set('host', rule.host) end
    call('HSET', job_key, 'state', 'running', 'token', token, 'worker', worker, 'started', c.NOW, 'updated', c.NOW, unpack(fields))
    if job.ticket or job.waiting then call('HDEL', job_key, 'ticket', 'waiting') end
    local leases, claimed = c.leases, c.claimed
    leases[#leases + 1], leases[#leases + 2] = lease, id
    -- A tombstone may name a file that has to be deleted (`pending_deletion`).
    local known = (previous or job.is_known) and call('HGETALL', job_key) or job.deadline and { 'deadline_at', job.deadline } or {}
    if known[1] then count_read(c, known) end
    local pushed = is_begun and { push.element } or call('HMGET', c.SPEC .. id, 'spec', 'renewed')
    local claim = { 'answer', 'job', 'id', id, 'token', token, 'now', c.NOW }
    local function add(name, value)
      if value and #value > 0 then claim[#claim + 1], claim[#claim + 2] = name, value end
    end
    add('spec', pushed[1]) add('renewed', pushed[2]) add('hash', known) add('limits', Hosts.limits_of_run(c, rule, Groups.run_limits(c, group)))
    add('defaults', Defaults.as_list(c))
    if is_limited then add('is_limited', '1') end
    if previous then
      add('previous', previous) add('before', before) add('offsets', call('HGETALL', c.OFFSETS .. id))
    end
    -- Last, because no worker gets the token if a command above fails.
    claimed[#claimed + 1], claimed[#claimed + 2] = token, id
    return claim
  end

  -- Returns the job after the control operation that waits for it in `want`, if any. exists: whether its hash exists.
  function Claims.known(c, id, exists, has_operations)
    local value = has_operations and Order.waiting(c, id)
    if value then
      call('HDEL', c.WANT, id)
      c.produced = c.produced + COST.operation
      Order.apply(c, id, value, Order.last_applied(c))
    elseif not exists then
      return { crashes = 0, attempt = 0, seq = 0 }
    end
    local job = Jobs.read(c, id)
    job.is_known = true
    return job
  end

  -- Does what an element asks for. Returns a claim if this worker is to run the job. has_operations: whether any control
  -- operations wait.
  local function claim_element(c, element, has_operations, worker, token, lease)
    if element == VOID then return end
    local push, reason = Envelopes.read(c, element)
    -- A later version may know this kind of job.
    if reason and push and push.kind and not KIND.rules[push.kind] then return Kinds.defer(c, push) end
    if reason then return Rejections.add_element(c, element, reason, push and push.id, push) end
    local id = push.id
    -- Most jobs are new and have no hash, so nothing has to be read.
    local fields = Jobs.size(c.JOB .. id)
    local wrong = fields ~= 0 and Jobs.wrong_type(c, id)
    if wrong then return Rejections.add_element(c, element, wrong, id, push) end
    Envelopes.complete(c, push)
    local job = Claims.known(c, id, fields > 0, has_operations)
    local verdict, why, threshold = Pushes.verdict(job, push, Claims.has_spec(c, job, push))
    local handler = Pushes.not_started[verdict]
    if handler then
      handler(c, job, push, why, threshold)
      return Hosts.pass_on(c, push)
    end
    local kind = (verdict == 'begin' and push.kind or verdict ~= 'begin' and job.kind) or 'download'
    if not Kinds.does(c, kind) then return Kinds.defer(c, push, kind, element) end
    local claim = Claims.start(c, job, push, verdict == 'begin', worker, token, lease)
    if not claim then Hosts.pass_on(c, push) end
    return claim
  end

  -- Rejects an element that caused an error. wrong: the text of the error.
  local function isolate_element(c, element, wrong)
    local push, reason = Envelopes.read(c, element)
    local id = not reason and push.id or nil
    if id then reason = Jobs.wrong_type(c, id) end
    Rejections.add_element(c, element, reason or 'element: cannot be claimed: ' .. wrong, id, push)
  end

  -- Takes the next element from its list. Returns it and the key of the list; nil if none waits. held, waiting: see
  -- claim_jobs().
  local function take_element(c, held, waiting)
    if Groups.are_used(c) then
      local element, list = Groups.take(c)
      if element then return element, list end
      return Kinds.claim_deferred(c)
    end
    local list, element = held and c.HELD or c.JOBS, held or waiting
    if element == nil then element = call('RPOP', list)
    -- RPOP would copy a large element once more, into its reply.
    elseif element and #element > 4096 then call('LTRIM', list, 0, -2)
    elseif element then call('RPOP', list) end
    if element then return element, list end
    return Kinds.claim_deferred(c)
  end

  -- Claims jobs as Claims.claim() does. turn: while an element is being done, its `element` and `list` are that element
  -- and the list from which it was taken.
  local function claim_jobs(c, worker, tokens, turn, lease, held, waiting)
    local claims, token = {}, tokens[1]
    local function ended(how)
      local claim = { 'answer', how }
      if c.next_due and c.next_due < c.now + 1000 then claim[3], claim[4] = 'due_in', integer_text(c.next_due - c.now) end
      claims[#claims + 1] = claim
      return claims
    end
    -- The events of a settle in the same call do not count. The jobs that it has ended do.
    local bytes, has_operations = -c.produced, call('HLEN', c.WANT) > 0
    while bytes + c.produced + c.ended_count * COST.job_end < COST.max do
      -- No round of this loop leaves more in the `held` list than it found.
      if held == nil then held = call('LINDEX', c.HELD, -1) end
      if held and Groups.are_used(c) then
        -- It is sorted with the others.
        States.return_elements(c, c.HELD, 1000)
        held = false
      end
      local closed = c.settings.is_quiet and 'quiet' or Permits.closed_by(c)
      if closed then
        if not held then return ended(closed) end
        call('RPUSH', c.JOBS, held)
        call('RPOP', c.HELD)
      else
        local element, list = take_element(c, held, waiting)
        if not element then return ended((c.is_queue_sorted == false or c.has_more_groups) and 'more' or 'empty') end
        turn.element, turn.list = element, list
        bytes = bytes + #element + COST.element
        local fine, claim = Isolation.run(c, claim_element, c, element, has_operations, worker, token, lease)
        if not fine then
          local is_rejected, caught = pcall(isolate_element, c, element, claim)
          if not is_rejected then
            -- Jobs that were claimed so far stay claimed. The next call raises the error.
            if #claims > 0 then return ended('more') end
            Isolation.raise(caught)
          end
        end
        turn.element = nil
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

  -- Claims the next jobs for `worker`, one for each of `tokens`. lease: in ms. held, waiting: the results of
  -- Settings.read(), or nil if the lists have changed since. Returns the claims (see the function below). If there are
  -- fewer than tokens, the last entry says why. It is 'more' once COST.max of elements and of what they have produced
  -- are counted, because Redis serves no other client meanwhile.
  --
  -- The leases and tokens of all jobs are written with one command each. They are written even if an error ends the
  -- claim, and the element that has caused the error returns to its list.
  function Claims.claim(c, worker, tokens, lease, held, waiting)
    local turn, leases, claimed = {}, {}, {}
    c.leases, c.claimed = leases, claimed
    local fine, claims = pcall(claim_jobs, c, worker, tokens, turn, integer_text(c.now + lease), held, waiting)
    c.leases = nil
    if turn.element then call('RPUSH', turn.list, turn.element) end
    if #leases > 0 then call('ZADD', c.LEASES, unpack(leases)) end
    if #claimed > 0 then call('HSET', c.WORKER, unpack(claimed)) end
    if not fine then Isolation.raise(claims) end
    return claims
  end

  -- Whether the first of these claims is a job.
  local function has_job(claims)
    for n = 1, #claims[1], 2 do
      if claims[1][n] == 'answer' then return claims[1][n + 1] == 'job' end
    end
  end

  -- Claims the next jobs for a worker with free slots. A worker that waits sends it immediately after its BLMOVE or
  -- BLPOP.
  --
  -- ARGV: nonce, worker, session (Workers.is_current()), lease (ms), retention of completed, failed and cancelled jobs
  -- (ms), a token for each job that is wanted
  -- Returns a list of entries. Each is a list of names and values; empty values are left out. For each job:
  --       answer      'job'
  --       id, token
  --       spec        the element as it was pushed
  --       renewed     a newer push, whose URLs and headers are used
  --       previous    the state before; absent for a job that was not known
  --       now         ms
  --       hash        the job's fields, as pairs
  --       offsets     as pairs
  --       before      the state of the job before the push, for a settle as `rejected`
  --       is_limited  '1' if the fleet limits the job's connections (hosts.lua)
  --       limits      of the run, by the settings and the host's limits, as pairs (hosts.lua)
  --       defaults    the queue's, as pairs of a field and its JSON (defaults.lua)
  -- If there are fewer jobs than tokens, a last entry has one of these answers: 'empty', 'paused', 'full' (at
  -- max_running, or no start is left), 'quiet' (this worker claims no more jobs), 'more' (call again), 'stale' (the
  -- worker has registered again since, or is not known). If this call has scheduled a job that is due within a second,
  -- the entry says in how many ms: `due_in`.
  Call.define('claim', {}, function(c)
    local ARGV = c.ARGV
    local held, waiting = Settings.read(c, ARGV[2], 5)
    if not Workers.is_current(c, ARGV[3]) then
      -- The BLMOVE before this call may have moved elements.
      States.return_elements(c, c.HELD, 1000)
      if Permits.are_limited(c) then Permits.offer(c, true) end
      return { { 'answer', 'stale' } }
    end
    local claims = Claims.claim(c, ARGV[2], { unpack(ARGV, 8) }, tonumber(ARGV[4]), held, waiting)
    Groups.offer(c)
    -- If this worker was the only one that waited at the queue, another one has to wait there now.
    if Permits.are_limited(c) then Permits.offer(c, has_job(claims) or c.settings.is_quiet) end
    return Events.publish(c, claims)
  end)
end
