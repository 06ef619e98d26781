-- Ends runs, and claims the next jobs in the same round trip.
--
-- ARGV: nonce, worker, session (is_current()), lease (ms), retention of completed, failed, cancelled jobs (ms), number
-- of runs, then for each: id, token, outcome, argument, members of the event, a report (report.lua); then a token for
-- each next job
-- The outcomes and their arguments:
--       completed                  'replicas' if the event waits until replicas have the job (announce.lua)
--       failed, cancelled, paused  ''
--       retry, carry-on            delay (ms), and 'asked' if the host asked for a pause of that time
--       parked                     delay (ms), then what the job waits for: 'disk' or 'store'
--       released                   why
--       rejected                   reason; its members are the claim's `before`, or ''
-- Returns names and values: `ends`, with 'done', 'fenced' or an error for each run, and `claims` (claiming.lua). A
-- settle that is sent again returns 'done' again. An error concerns one run; the other runs are settled. Writes the
-- keys of the jobs and their indexes (states.lua), worker:<worker>, leases, permits, and what claim_elements() writes.

do
  -- Undoes the push for which a job was claimed, because its worker cannot read the job: the push is rejected, and the
  -- job is what it was before. A job that was not known or was queued before fails. before: what remember() returned.
  local function return_job(id, token, reason, before, retention)
    call('LLEN', REJECTED)
    local job, was = read_job(id), before ~= '' and cmsgpack.unpack(before)
    -- The failure of a job goes to all its reply lists. A job that is restored would never notify those that joined
    -- with this push or later, so they get the rejection.
    local joined
    if was then
      local waited = {}
      for n = 1, #was.hash, 2 do waited[was.hash[n]] = was.hash[n + 1] end
      local _, new = join(waited.reply_to, job.reply_to)
      joined = new
    end
    reject(redis.pcall('HGET', spec(id), 'spec'), reason, id, joined, job.meta)
    call('HSET', key(id), 'settled', token)
    if not was then
      return fail(id, job, 'bad_job', 'what was pushed cannot be read: ' .. reason .. '; push the job again', false, retention)
    end
    local kept = take_pending(id, job)
    leave_state(id, job)
    -- The numbers of its events continue.
    local since = call('HGET', key(id), 'epoch') or '0'
    call('DEL', key(id), spec(id))
    call('HSET', key(id), unpack(was.hash))
    responses.keep(id, was.hash)
    call('HSET', key(id), 'settled', token, 'seq', job.seq, 'epoch', since)
    -- The claim has already published that the job was completed.
    if call('HDEL', key(id), 'unannounced') == 1 then call('HDEL', key(id), 'waiting') end
    if #was.spec > 0 then call('HSET', spec(id), unpack(was.spec)) end
    local restored = read_job(id)
    if was.score then call('ZADD', INDEX[restored.state], was.score, id) end
    if not restored.deadline then call('ZREM', DEADLINES, id) end
    if was.ttl > 0 then
      for _, name in ipairs({ key(id), spec(id), offsets(id) }) do call('PEXPIRE', name, was.ttl) end
    end
    batches.restore(id, job.batch, restored)
    if kept then apply_pending(id, kept, retention) end
  end

  -- What each outcome does. run: one entry of the call, with the job as ending() returned it.
  local OUTCOMES = {}

  -- The run has completed or failed its job.
  local function end_job(run, retention, worker)
    local fields, n = run.report.fields, #run.report.fields
    fields[n + 1], fields[n + 2] = 'settled_until', NOW
    if run.outcome == 'failed' then write_offsets(run.id, run.report) end
    emit_report(run.id, run.job, run.report, worker)
    finish_run(run.id, run.job, run.outcome, retention, run.members, worker, fields,
      run.outcome == 'completed' and run.argument == 'replicas')
  end
  OUTCOMES.completed, OUTCOMES.failed = end_job, end_job

  function OUTCOMES.rejected(run, retention)
    return_job(run.id, run.token, run.argument, run.members, retention)
  end

  -- Writes the report of a run whose job does not end with it. Returns the job.
  local function record_report(run, worker)
    local job, fields = read_job(run.id), run.report.fields
    fields[#fields + 1], fields[#fields + 2] = 'settled', run.token
    write_fields(run.id, fields)
    write_offsets(run.id, run.report)
    emit_report(run.id, job, run.report, worker)
    return job
  end

  function OUTCOMES.cancelled(run, retention, worker)
    local job = record_report(run, worker)
    settled_until(run.id, job.want_at, job)
    finish(run.id, job, 'cancelled', retention, run.members, worker)
  end

  function OUTCOMES.paused(run, retention, worker)
    local job = record_report(run, worker)
    if job.want == 'paused' then
      settled_until(run.id, job.want_at, job)
      return pause(run.id, job, retention, worker)
    end
    -- The pause was revoked, so the job resumes.
    if not ends_job(job.want) then job.want = nil end
    requeue(run.id, job, true, 'resumed', retention)
  end

  function OUTCOMES.released(run, retention, worker)
    requeue(run.id, record_report(run, worker), true, run.argument, retention)
  end

  -- Postpones the job for another attempt. event: the name of the event. A control operation that came meanwhile is
  -- done at once.
  local function postpone_run(run, retention, worker, event, waiting)
    local job = record_report(run, worker)
    local delay, asked = string.match(run.argument, '^(%d+) ?(%a*)$')
    if asked == 'asked' then hosts.back_off(run.id, tonumber(delay)) end
    if job.want then return requeue(run.id, job, true, 'wanted', retention) end
    if run.outcome == 'retry' then call('HSET', key(run.id), 'attempt', job.attempt + 1) end
    if run.outcome == 'carry-on' then call('HDEL', key(run.id), 'attempt') end
    postpone(run.id, job, tonumber(delay), waiting)
    emit(run.id, job, event, run.members, worker)
  end

  function OUTCOMES.retry(run, retention, worker) postpone_run(run, retention, worker, 'retrying') end
  OUTCOMES['carry-on'] = OUTCOMES.retry
  function OUTCOMES.parked(run, retention, worker)
    -- A worker of an earlier version gives the delay alone.
    postpone_run(run, retention, worker, 'waiting', string.match(run.argument, '%a+$') or 'disk')
  end

  local function end_run(worker, retention, run)
    if not run.is_ours then
      -- 'done' if the run has settled before. A run that another call has ended has lost its token, and is fenced.
      local job = run.job
      return job and (job.token == run.token or call('HGET', key(run.id), 'settled') == run.token) and 'done' or 'fenced'
    end
    OUTCOMES[run.outcome](run, retention, worker)
    -- Its events are published before the next run is settled, because that may fail.
    return publish('done')
  end

  define('settle', { 'allow-oom' }, function()
    local settings, held, waiting = touch(ARGV[2])
    local worker, lease = ARGV[2], tonumber(ARGV[4])
    local retention = retention_of(settings, 5)
    local left = permits_left(settings)
    local may_claim = is_current(ARGV[3])
    local runs, ids, tokens, replies, next_argument = {}, {}, {}, {}, 9
    for n = 1, tonumber(ARGV[8]) do
      local id, token, outcome, argument, members = unpack(ARGV, next_argument, next_argument + 4)
      local after, report = read_report(next_argument + 5)
      local job = ending(id)
      runs[n] = { id = id, token = token, outcome = outcome, argument = argument, members = members, report = report, job = job,
        is_ours = job and job.token == token and job.state == 'running' }
      -- Every other outcome may change the queue, and so may the push or operation that waits behind this run.
      if outcome ~= 'completed' or job and (job.next_push or job.want_next) then held, waiting = nil, nil end
      next_argument = after
    end
    for n, run in ipairs(runs) do
      local fine, reply = pcall(end_run, worker, retention, run)
      replies[n] = fine and reply or { err = text_of(reply) }
      -- The events of the failed run are dropped: the worker settles that run again.
      if not fine then outbox, seqs = {}, {} end
      if fine and run.is_ours then ids[#ids + 1], tokens[#tokens + 1] = run.id, run.token end
    end
    if #ids > 0 then
      call('HDEL', WORKER, unpack(tokens))
      call('ZREM', LEASES, unpack(ids))
    end
    if hosts.has_returned then held, waiting = nil, nil end
    local claims = {}
    if next_argument <= #ARGV then
      claims = may_claim and claim_elements(worker, { unpack(ARGV, next_argument) }, lease, retention, settings, held, waiting) or { { 'answer', 'stale' } }
    end
    if has_permits(settings) then offer_permit(settings, left and left <= 0) end
    return publish(named { ends = replies, claims = claims })
  end)
end
