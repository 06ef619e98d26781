-- Ends runs, and claims the next jobs in the same round trip.
--
-- ARGV: nonce, worker, session (Workers.is_current()), lease (ms), retention of completed, failed, cancelled jobs (ms),
-- number of runs, then for each: id, token, outcome, argument, members of the event, a report (reports.lua), the number of
-- elements that follow the end (steps.lua) and these; then a token for each next job
-- The outcomes and their arguments:
--       completed                  'replicas' if the event waits until replicas have the job (announcements.lua)
--       failed, cancelled, paused  ''
--       retry, carry-on            delay (ms), and 'asked' if the host asked for a pause of that time
--       parked                     delay (ms), then what the job waits for: 'disk' or 'store'
--       released                   why
--       rejected                   reason; its members are the claim's `before`, or ''
-- Returns names and values: `ends`, with 'done', 'fenced' or an error for each run, and `claims` (claims.lua). A settle
-- that is sent again returns 'done' again. An error concerns one run; the other runs are settled. If `ends` has fewer
-- entries than there are runs, the last runs are not settled yet, and nothing is claimed.
--
-- Uses: Batches, Call, Claims, Events, Groups, Hosts, Isolation, Jobs, Order, Permits, Rejections, Replies, Reports,
-- Responses, Settings, States, UrlIndex.
-- Calls ahead: Workers.
-- Writes: job:<id>, spec:<id>, offsets:<id>, worker:<worker>, leases, deadlines, scheduled, paused, completed, failed,
-- cancelled.
do
  -- Undoes the push for which a job was claimed, because its worker cannot read the job: the push is rejected, and the
  -- job is what it was before. A job that was not known or was queued before fails. before: what remember() returned.
  local function undo_push(c, id, token, reason, before)
    call('LLEN', c.PREFIX .. KEY.rejected)
    local job, was = Jobs.read(c, id), before ~= '' and cmsgpack.unpack(before)
    -- The failure of a job goes to all its reply lists. A job that is restored would never notify those that joined
    -- with this push or later, so they get the rejection.
    local joined
    if was then
      local waited = {}
      for n = 1, #was.hash, 2 do waited[was.hash[n]] = was.hash[n + 1] end
      local _, new = Replies.join(waited.reply_to, job.reply_to)
      joined = new
    end
    Rejections.add(c, try('HGET', c.SPEC .. id, 'spec'), reason, id, joined, job.meta)
    call('HSET', c.JOB .. id, 'settled', token)
    if not was then
      return States.fail(c, id, job, 'bad_job', 'what was pushed cannot be read: ' .. reason .. '; push the job again', false)
    end
    local kept = States.take_pending(c, id, job)
    States.leave_state(c, id, job)
    -- The numbers of its events continue.
    local epoch = call('HGET', c.JOB .. id, 'epoch') or '0'
    call('DEL', c.JOB .. id, c.SPEC .. id)
    call('HSET', c.JOB .. id, unpack(was.hash))
    UrlIndex.forget(c, { id, job.url_digests })
    Responses.keep(c, id, was.hash)
    call('HSET', c.JOB .. id, 'settled', token, 'seq', job.seq, 'epoch', epoch)
    -- The claim has already published that the job was completed.
    if call('HDEL', c.JOB .. id, 'unannounced') == 1 then call('HDEL', c.JOB .. id, 'waiting') end
    if #was.spec > 0 then call('HSET', c.SPEC .. id, unpack(was.spec)) end
    local restored = Jobs.read(c, id)
    if restored.url_digests then UrlIndex.enter(c, id, restored.url_digests) end
    if was.score then call('ZADD', c.INDEX[restored.state], was.score, id) end
    if not restored.deadline then call('ZREM', c.DEADLINES, id) end
    if was.ttl > 0 then
      for _, name in ipairs({ c.JOB .. id, c.SPEC .. id, c.OFFSETS .. id }) do call('PEXPIRE', name, was.ttl) end
    end
    Batches.restore(c, id, job.batch, restored)
    -- An operation that waited for the run is for the job that is there now.
    if job.want then Order.apply(c, id, job.want .. ' ' .. job.want_at, 0) end
    if kept then Order.follow(c, id, kept, true) end
  end

  -- How many batches the runs of one call may be in, since the end of a batch takes Redis some 25 µs. One run may be in
  -- 16 of them.
  local MAX_BATCHES = 32

  -- What each outcome does. run: one entry of the call, with the job as Jobs.read_end() returned it.
  local OUTCOMES = {}

  -- The run has completed or failed its job.
  local function end_job(c, run, worker)
    local fields, n = run.report.fields, #run.report.fields
    fields[n + 1], fields[n + 2] = 'settled_until', States.settled_by_end(c, run.job.pushed)
    if run.outcome == 'failed' then Reports.write_offsets(c, run.id, run.report) end
    Reports.emit(c, run.id, run.job, run.report, worker)
    States.finish_run(c, run.id, run.job, run.outcome, run.members, worker, fields,
      run.outcome == 'completed' and run.argument == 'replicas')
  end
  OUTCOMES.completed, OUTCOMES.failed = end_job, end_job

  function OUTCOMES.rejected(c, run)
    undo_push(c, run.id, run.token, run.argument, run.members)
  end

  -- Writes the report of a run whose job does not end with it. Returns the job.
  local function record_report(c, run, worker)
    local job, fields = Jobs.read(c, run.id), run.report.fields
    fields[#fields + 1], fields[#fields + 2] = 'settled', run.token
    States.write_fields(c, run.id, fields)
    Reports.write_offsets(c, run.id, run.report)
    Reports.emit(c, run.id, job, run.report, worker)
    return job
  end

  function OUTCOMES.cancelled(c, run, worker)
    local job = record_report(c, run, worker)
    States.settle_until(c, run.id, job.want_at, job)
    States.finish(c, run.id, job, 'cancelled', run.members, worker)
  end

  function OUTCOMES.paused(c, run, worker)
    local job = record_report(c, run, worker)
    if job.want == 'paused' then
      States.settle_until(c, run.id, job.want_at, job)
      return States.pause(c, run.id, job, worker)
    end
    -- The pause was revoked, so the job resumes.
    if not States.ends_job(job.want) then job.want = nil end
    States.requeue(c, run.id, job, true, 'resumed')
  end

  function OUTCOMES.released(c, run, worker)
    States.requeue(c, run.id, record_report(c, run, worker), true, run.argument)
  end

  -- Postpones the job for another attempt. event: the name of the event. A control operation that came meanwhile is
  -- done at once.
  local function postpone_run(c, run, worker, event, waiting)
    local job = record_report(c, run, worker)
    local delay, asked, mirror = match(run.argument, '^(%d+) ?(%a*) ?(%S*)$')
    if asked == 'asked' then Hosts.back_off(c, run.id, tonumber(delay), mirror) end
    if job.want then return States.requeue(c, run.id, job, true, 'wanted') end
    if run.outcome == 'retry' then call('HSET', c.JOB .. run.id, 'attempt', job.attempt + 1) end
    if run.outcome == 'carry-on' then call('HDEL', c.JOB .. run.id, 'attempt') end
    States.postpone(c, run.id, job, tonumber(delay), waiting)
    Events.emit(c, run.id, job, event, run.members, worker)
  end

  function OUTCOMES.retry(c, run, worker) postpone_run(c, run, worker, 'retrying') end
  OUTCOMES['carry-on'] = OUTCOMES.retry
  function OUTCOMES.parked(c, run, worker)
    -- A worker of an earlier version gives the delay alone.
    postpone_run(c, run, worker, 'waiting', match(run.argument, '%a+$') or 'disk')
  end

  local function end_run(c, worker, run)
    if not run.is_ours then
      -- 'done' if the run has settled before. A run that another call has ended has lost its token, and is fenced.
      local job = run.job
      return job and (job.token == run.token or call('HGET', c.JOB .. run.id, 'settled') == run.token) and 'done' or 'fenced'
    end
    OUTCOMES[run.outcome](c, run, worker)
    -- Its events are published before the next run is settled, because that may fail.
    return Events.publish(c, 'done')
  end

  local function settle(c)
    local ARGV = c.ARGV
    local held, waiting = Settings.read(c, ARGV[2], 5)
    local worker, lease = ARGV[2], tonumber(ARGV[4])
    local left = Permits.left(c)
    local may_claim = Workers.is_current(c, ARGV[3])
    local runs, ids, tokens, replies, next_argument, batch_count = {}, {}, {}, {}, 9, 0
    for n = 1, tonumber(ARGV[8]) do
      local id, token, outcome, argument, members = unpack(ARGV, next_argument, next_argument + 4)
      local after, report = Reports.read(c, next_argument + 5)
      local job, step_count = Jobs.read_end(c, id), tonumber(ARGV[after])
      runs[n] = { id = id, token = token, outcome = outcome, argument = argument, members = members, report = report, job = job,
        is_ours = job and job.token == token and job.state == 'running' }
      -- Every other outcome may change the queue, and so may the push or operation that waits behind this run.
      if outcome ~= 'completed' or step_count > 0 or job and (job.next_push or job.want_next) then held, waiting = nil, nil end
      next_argument = after + 1 + step_count
      if job and step_count > 0 then job.steps = { unpack(ARGV, after + 1, after + step_count) } end
    end
    for n, run in ipairs(runs) do
      if run.job and run.job.batch then batch_count = batch_count + select(2, gsub(run.job.batch, '%S+', '')) end
      if n > 1 and batch_count > MAX_BATCHES then break end
      local fine, reply = pcall(end_run, c, worker, run)
      -- The worker logs that an event was not published, and sends the settle again, which then was done before.
      replies[n] = fine and (c.refused and { err = c.refused } or reply) or { err = Isolation.text_of(reply) }
      c.refused = nil
      -- The events of the failed run are dropped: the worker settles that run again.
      if not fine then c.outbox, c.seqs = {}, {} end
      if fine and run.is_ours then ids[#ids + 1], tokens[#tokens + 1] = run.id, run.token end
    end
    if #ids > 0 then
      call('HDEL', c.WORKER, unpack(tokens))
      call('ZREM', c.LEASES, unpack(ids))
    end
    if c.has_returned_elements then held, waiting = nil, nil end
    local claims = {}
    if next_argument <= #ARGV then
      claims = not may_claim and { { 'answer', 'stale' } } or #replies < #runs and { { 'answer', 'more' } }
        or Claims.claim(c, worker, { unpack(ARGV, next_argument) }, lease, held, waiting)
    end
    Groups.offer(c)
    if Permits.are_limited(c) then Permits.offer(c, left and left <= 0) end
    return Events.publish(c, Call.named { ends = replies, claims = claims })
  end
  -- While Redis is out of memory, runs may end, but no job begins.
  Call.define('settle', { 'allow-oom' }, settle)
  Call.define('settle_and_claim', {}, settle)
end
