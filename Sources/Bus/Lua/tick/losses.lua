-- Lost workers: their runs end, and what they hold returns to the queue. Only a tick finds them, and only if there was
-- always a worker that maintained the queue.
--
-- Uses: Budget, Events, History, Isolation, Jobs, Rates, States.
-- Writes: job:<id>, leases, tick, workers, worker:<worker>, settings.
do
  -- A task of the tick: records that a worker maintains the queue. If there was no tick for max(1 s, min(2.5 s, half a
  -- lease)), Redis has stalled or restarted, or no worker was there. Live workers may then have been unable to extend
  -- their leases, so that nothing is reaped until another lease has passed (tick.grace). A shorter gap harms no live
  -- worker, because each ticks four times in a lease, and at least once a second.
  --
  -- The key `tick` has three numbers (ms): the last tick, until when nothing is reaped, and the last tick that left no
  -- control operation.
  function Losses.begin_tick(c, tick)
    local last, grace, applied_until = match(call('GET', c.PREFIX .. KEY.tick) or '', '^(%d+) (%d+) ?(%d*)$')
    last, grace = tonumber(last or c.now), tonumber(grace or 0)
    if c.now - last > math.max(1000, math.min(2500, tick.lease / 2)) then grace = c.now + tick.lease end
    tick.grace, tick.applied_until = grace, tonumber(applied_until) or last
    tick.operation_count = call('HLEN', c.WANT)
    tick.has_unapplied = tick.operation_count > Budget.of(tick)
    local applied = tick.has_unapplied and tick.applied_until or c.now
    call('SET', c.PREFIX .. KEY.tick, c.NOW .. ' ' .. integer_text(grace) .. ' ' .. integer_text(applied))
  end

  -- Adds a crash to the attempts that failed (PastFailures.swift). Any client may have written the field.
  local function record_crash(c, id, job)
    local failures, started = unpack(call('HMGET', c.JOB .. id, 'failures', 'started'))
    local known = failures and #failures < 16384 and match(failures, '^(%[.+)%]$')
    call('HSET', c.JOB .. id, 'failures', (known and known .. ',' or '[') .. '{"started":' .. (number(started) or c.NOW)
      .. ',"ended":' .. c.NOW .. ',"worker":' .. Events.quoted(job.worker or '') .. ',"message":"its worker was lost"}]')
  end

  -- Ends a run that was lost with its worker: the job returns to the front of the queue, or fails as crash_loop. The
  -- loss counts as a crash if the worker had reported that the run was active. A claim whose reply was lost never ran,
  -- and a job that waits for its host crashes no worker. In these cases `crashes` is written unchanged: a worker that
  -- claims a job with this field reports that the run is active before it begins. crash_limit: after more crashes the
  -- job fails, unless a control operation that waits ends it.
  function Losses.end_run(c, id, job, crash_limit)
    History.count(c, 'lost')
    States.record_lost(c, id, call('HGET', c.JOB .. id, 'lost'), { job.token })
    if not job.active_token or job.active_token ~= job.token then
      call('HSET', c.JOB .. id, 'crashes', job.crashes)
      return States.requeue(c, id, job, true, 'worker lost')
    end
    record_crash(c, id, job)
    job.crashes = job.crashes + 1
    call('HSET', c.JOB .. id, 'crashes', job.crashes)
    if job.crashes > crash_limit and not States.ends_job(job.want) then
      return States.fail_lost(c, id, job, 'crash_loop', 'the job was lost with its worker ' .. job.crashes .. ' times in a row',
        '; see what kills the workers, then retry it')
    end
    States.requeue(c, id, job, true, 'worker lost')
  end

  -- The workers that have missed a tick and may have died: those that were silent for 1.3 s to a minute. One tick looks at
  -- 50 of them.
  function Losses.missed_workers(c)
    local from, to = integer_text(c.now - 60000), integer_text(c.now - 1300)
    local count = call('ZCOUNT', c.WORKERS, from, to)
    local first = count > 50 and floor(c.now / 1000) * 50 % count or 0
    return count > 0 and call('ZRANGEBYSCORE', c.WORKERS, from, to, 'LIMIT', first, 50) or {}
  end

  -- Whether this call ends the runs of no further worker, because it has done enough. The next one goes on.
  function Losses.has_done_enough(tick)
    if tick.left > 0 then return false end
    tick.more = true
    return true
  end

  -- Ends the runs of a worker whose process has ended, and returns the elements that it holds. Returns whether that was
  -- all; if not, the next call goes on. spares_sent: whether runs that have sent what must not be sent twice are left
  -- until their leases end.
  function Losses.end_worker(c, tick, worker, instance, spares_sent)
    local hash = c.PREFIX .. KEY.worker .. worker
    -- The hash has fewer than 20 fields besides the claims.
    local max, tokens, held, spared = Budget.of(tick), {}, {}, 0
    local claims = call('HRANDFIELD', hash, max + 20, 'WITHVALUES')
    for n = 1, #claims, 2 do
      local token, id = claims[n], claims[n + 1]
      if #held < max and #token == 32 and find(token, '^%x+$') then
        if spares_sent and try('HGET', c.JOB .. id, 'sent') == token then spared = spared + 1
        else
          held[#held + 1], tokens[id] = id, token
          call('HDEL', hash, token)
        end
      end
    end
    -- A job that causes an error here is reaped when its lease ends.
    Isolation.each(c, held, function(id)
      local job = Jobs.find(c, id)
      if job.state == 'running' and job.token == tokens[id] then Losses.end_run(c, id, job, tick.crash_limit) end
    end, function() end)
    Budget.spend(tick, #held, max)
    -- If all that were drawn are spared, the leases decide about the rest.
    local is_all = States.return_elements(c, c.PREFIX .. KEY.held .. worker, 50) and (#held == 0 or #held + spared < max)
    if is_all then tick.left = tick.left - math.ceil(Rates.end_leases(c, instance) / 25) else tick.more = true end
    return is_all
  end

  -- Ends the runs of workers that are lost, because their leases have ended.
  function Losses.reap_jobs(c, tick)
    if c.now < tick.grace then return end
    local max = Budget.of(tick)
    local lost = call('ZRANGEBYSCORE', c.LEASES, '-inf', c.NOW, 'LIMIT', 0, max)
    Isolation.each(c, lost, function(id)
      local job = Jobs.find(c, id)
      if job.state ~= 'running' then call('ZREM', c.LEASES, id) else Losses.end_run(c, id, job, tick.crash_limit) end
    end, function(id) call('ZREM', c.LEASES, id) end)
    Budget.spend(tick, #lost, max)
  end

  -- Returns elements that lost workers have moved to their `held` lists and not claimed. The BLMOVE of a frozen worker
  -- may still move one, so each worker is checked for a day after it was last seen. One tick checks 200 of them.
  function Losses.reap_elements(c, tick)
    if c.now < tick.grace then return end
    local absent = call('ZCOUNT', c.WORKERS, '-inf', integer_text(c.now - tick.lease))
    local first = absent > 200 and floor(c.now / 1000) * 200 % absent or 0
    local names = call('ZRANGEBYSCORE', c.WORKERS, '-inf', integer_text(c.now - tick.lease), 'WITHSCORES', 'LIMIT', first, 200)
    local left = 50
    for n = 1, #names, 2 do
      local is_empty, moved = States.return_elements(c, c.PREFIX .. KEY.held .. names[n], left)
      left = left - moved
      -- After this no tick checks the worker's `held` list again.
      if is_empty and tonumber(names[n + 1]) < c.now - 86400000 then
        call('ZREM', c.WORKERS, names[n])
        call('HDEL', c.SETTINGS, 'quiet:' .. names[n])
      end
      if left == 0 then
        tick.more = true
        return
      end
    end
  end
end
