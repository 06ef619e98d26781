-- Ends runs, and takes as many next jobs as are asked for, in the same round trip.
--
-- ARGV: nonce, worker, session, lease (ms), retention completed, failed, cancelled (ms),
--       n runs, each: id, token, outcome, argument, members of the outcome's event, a report (report.lua); next tokens …
-- outcome: completed (argument: 'replicas' if that is told only when replicas have it: tell.lua) | failed | cancelled | paused |
--          retry (argument: delay ms) | carry-on (argument: delay ms) | parked (argument: delay ms) | released (argument: why) |
--          rejected (argument: reason; members: what the claim told of the job before, or '')
-- Returns {of each run 'done', 'fenced', or an error}, {the next claims, and what ended them (take.lua)}. A settle sent again
-- answers 'done' again. An error is one run's own: the others are settled.
-- A job whose spec its worker cannot read is again what it was before the push that it was claimed for, and that push is rejected.
-- One that was not known before, or was in line already, fails.
local function give_back_job(id, token, reason, before, retention)
  call('LLEN', REJECTED)
  local j, was = job(id), before ~= '' and cmsgpack.unpack(before)
  -- A job that fails tells all who wait. Where it goes back, those have no answer who joined with this push or behind it.
  local unanswered
  if was then
    local waited = {}
    for n = 1, #was.hash, 2 do waited[was.hash[n]] = was.hash[n + 1] end
    local _, new = join(waited.reply_to, j.reply_to)
    unanswered = new
  end
  reject(redis.pcall('HGET', spec(id), 'spec'), reason, id, unanswered, j.meta)
  call('HSET', key(id), 'settled', token)
  if not was then
    return fail(id, j, 'bad_job', 'what was pushed cannot be read: ' .. reason .. '; push the job again', false, retention)
  end
  local kept = kept_of(id, j)
  leave(id, j)
  -- Its events go on where they are.
  local since = call('HGET', key(id), 'epoch') or '0'
  call('DEL', key(id), spec(id))
  call('HSET', key(id), unpack(was.hash))
  call('HSET', key(id), 'settled', token, 'seq', j.seq, 'epoch', since)
  -- That it was completed has been told by now.
  if call('HDEL', key(id), 'untold') == 1 then call('HDEL', key(id), 'waiting') end
  if #was.spec > 0 then call('HSET', spec(id), unpack(was.spec)) end
  local h = job(id)
  if was.score then call('ZADD', INDEX[h.state], was.score, id) end
  if not h.deadline then call('ZREM', DEADLINES, id) end
  if was.ttl > 0 then
    for _, name in ipairs({ key(id), spec(id), offsets(id) }) do call('PEXPIRE', name, was.ttl) end
  end
  if kept then follow(id, kept, retention) end
end

local function end_run(worker, retention, run)
  local id, token, j, r = run.id, run.token, run.j, run.report
  local outcome, argument, members = run.outcome, run.argument, run.members
  if not run.is_ours then
    -- Not of a run that somebody else ended: that takes its token away.
    return j and (j.token == token or call('HGET', key(id), 'settled') == token) and 'done' or 'fenced'
  end
  if outcome == 'completed' or outcome == 'failed' then
    -- Its lease and its token go with those of the others.
    j.state = nil
    j.is_withheld = outcome == 'completed' and argument == 'replicas'
    local fields = r.fields
    local n = #fields
    fields[n + 1], fields[n + 2] = 'asof', NOW
    if outcome == 'failed' then write_offsets(id, r) end
    emit_report(id, j, r, worker)
    finish(id, j, outcome, retention, members, worker, fields)
  elseif outcome == 'rejected' then
    give_back_job(id, token, argument, members, retention)
  else
    j = job(id)
    call('HSET', key(id), 'settled', token, unpack(r.fields))
    write_offsets(id, r)
    emit_report(id, j, r, worker)
    if outcome == 'cancelled' then
      as_of(id, j.wantat)
      finish(id, j, 'cancelled', retention, members, worker)
    elseif outcome == 'paused' and j.want == 'paused' then
      as_of(id, j.wantat)
      pause(id, j, retention, worker)
    elseif (outcome == 'retry' or outcome == 'carry-on' or outcome == 'parked') and not j.want then
      if outcome == 'retry' then call('HSET', key(id), 'attempt', j.attempt + 1) end
      if outcome == 'carry-on' then call('HDEL', key(id), 'attempt') end
      postpone(id, j, tonumber(argument), outcome == 'parked' and 'disk' or nil)
      emit(id, j, outcome == 'parked' and 'waiting' or 'retrying', members, worker)
    else
      -- Back in line; a request that came meanwhile is applied by it. A pause that was taken back is a resume.
      local why = outcome == 'released' and argument or outcome == 'paused' and 'resumed' or 'wanted'
      if outcome == 'paused' and not ends(j.want) then j.want = nil end
      requeue(id, j, true, why, retention)
    end
  end
  -- It is told before anything else is looked at, whatever is wrong with that.
  return publish('done')
end

define('settle', { 'allow-oom' }, function()
  local settings, held, waiting = touch(ARGV[2])
  local worker, lease = ARGV[2], tonumber(ARGV[4])
  local retention = retention_of(settings, 5)
  local left = places_left(settings)
  local may_claim = is_current(ARGV[3])
  local runs, ids, tokens, answers, i = {}, {}, {}, {}, 9
  for n = 1, tonumber(ARGV[8]) do
    local id, token, outcome, argument, members = unpack(ARGV, i, i + 4)
    local after, report = read_report(i + 5)
    local j = ending(id)
    runs[n] = { id = id, token = token, outcome = outcome, argument = argument, members = members, report = report, j = j,
      is_ours = j and j.token == token and j.state == 'running' }
    -- All others may change the line, and so does what is done behind a request.
    if outcome ~= 'completed' or j and (j.again or j.behind) then held, waiting = nil, nil end
    i = after
  end
  for n, run in ipairs(runs) do
    local fine, answer = pcall(end_run, worker, retention, run)
    answers[n] = fine and answer or { err = told(answer) }
    -- What it had to tell is not for another run to tell: it is settled again.
    if not fine then outbox, numbers = {}, {} end
    if fine and run.is_ours then ids[#ids + 1], tokens[#tokens + 1] = run.id, run.token end
  end
  if #ids > 0 then
    call('HDEL', WORKER, unpack(tokens))
    call('ZREM', LEASES, unpack(ids))
  end
  local claims = {}
  if i <= #ARGV then
    claims = may_claim and take(worker, { unpack(ARGV, i) }, lease, retention, settings, held, waiting) or { { 'stale' } }
  end
  if left then offer_place(settings, left <= 0) end
  return publish({ answers, claims })
end)
