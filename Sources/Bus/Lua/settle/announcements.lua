-- The event `completed` of jobs that wait for replicas.
--
-- Uses: Batches, Call, Events, Isolation, Jobs, Settings, Webhooks.
-- Calls ahead: Budget.
-- Writes: job:<id>, spec:<id>, unannounced.
do
  -- How much one call of announce() does: jobs, and bytes of their events for all that get them.
  local MOST = { jobs = 24, bytes = 131072 }
  -- A member of `completed` if too few replicas have confirmed that they have the job.
  local UNREPLICATED = ',"unreplicated":true'

  -- Emits the `completed` event of a job that waited for replicas. Does nothing if the job does not wait. more: further
  -- members of the event, or ''.
  local function announce(c, id, more)
    call('ZREM', c.UNANNOUNCED, id)
    local job = Jobs.find(c, id)
    local members = job.state == 'completed' and call('HGET', c.JOB .. id, 'unannounced')
    if not members then return end
    call('HDEL', c.JOB .. id, 'unannounced', 'waiting')
    local event = Events.emit(c, id, job, 'completed', members .. more, job.worker, job.reply_to)
    if job.notify then
      Webhooks.report(c, id, job, event)
      call('DEL', c.SPEC .. id)
    end
    if job.batch then Batches.move(c, id, job.batch, 'completed') end
  end

  -- Emits the `completed` event of a job now, if it still waits for replicas: what follows in the same call must come
  -- after it.
  function Announcements.announce_early(c, id)
    if call('ZSCORE', c.UNANNOUNCED, id) then announce(c, id, UNREPLICATED) end
  end

  -- A task of the tick: publishes `completed` for jobs that have waited for replicas for a minute. Their producers wait
  -- for it, and their worker may have ended.
  function Announcements.announce_overdue(c, tick)
    local max = Budget.of(tick)
    local overdue = call('ZRANGEBYSCORE', c.UNANNOUNCED, '-inf', c.now - 60000, 'LIMIT', 0, max)
    Isolation.each(c, overdue, function(id) announce(c, id, UNREPLICATED) end, function(id) call('ZREM', c.UNANNOUNCED, id) end)
    Budget.spend(tick, #overdue, max)
  end

  -- Publishes `completed` for jobs that enough replicas have by now. Jobs that were published before, or that have run
  -- again, are skipped.
  --
  -- ARGV: nonce, retention of completed, failed and cancelled jobs (ms), then of each job its id and its score in
  -- `unannounced`
  -- Returns how many of the jobs are done, at least one. The others have to be sent again: what one call publishes is
  -- bounded, because Redis serves no other client meanwhile.
  Call.define('announce', { 'allow-oom' }, function(c)
    Settings.read(c, nil, 2)
    local done = 0
    while done < (#c.ARGV - 4) / 2 and done < MOST.jobs and c.produced < MOST.bytes do
      done = done + 1
      local id, score = c.ARGV[3 + 2 * done], c.ARGV[4 + 2 * done]
      if call('ZSCORE', c.UNANNOUNCED, id) == score then announce(c, id, '') end
    end
    return Events.publish(c, integer_text(done))
  end)
end
