-- Ends a run that was lost with its worker: the job returns to the front of the queue, or fails as crash_loop. The
-- loss counts as a crash if the worker had reported that the run was at work. A claim whose reply was lost never ran,
-- and a job that waits for its host crashes no worker. Even if it does not count, `crashes` is written, so that the
-- next worker reports that it has begun before it does anything else.
-- crash_limit: how many crashes are forgiven. Writes job:<id>, and what fail() or requeue() writes.
local function lose(id, job, crash_limit, retention)
  history.count('lost')
  record_lost(id, call('HGET', key(id), 'lost'), { job.token })
  if not job.active_token or job.active_token ~= job.token then
    call('HSET', key(id), 'crashes', job.crashes)
  elseif job.crashes >= crash_limit then
    return fail(id, job, 'crash_loop', 'the job was lost with its worker ' .. (job.crashes + 1)
      .. ' times in a row; see what kills the workers, then retry it', true, retention)
  else
    call('HSET', key(id), 'crashes', job.crashes + 1)
  end
  requeue(id, job, true, 'worker lost', retention)
end
