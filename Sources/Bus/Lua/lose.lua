-- Ends a run that was lost with its worker: the job goes back to the front of the line, or fails as crash_loop. The
-- loss counts as a crash if the worker had reported that the run was at work. A claim whose reply was lost never ran,
-- and a job that waits for its host crashes no worker. Even if it does not count, `crashes` is written: then the next
-- worker reports that it has begun before it does anything else.
-- crash_limit: how many crashes are forgiven. Writes job:<id>, and what fail() or requeue() writes.
local function lose(id, j, crash_limit, retention)
  history.count('lost')
  note_lost(id, call('HGET', key(id), 'lost'), { j.token })
  if not j.begun or j.begun ~= j.token then
    call('HSET', key(id), 'crashes', j.crashes)
  elseif j.crashes >= crash_limit then
    return fail(id, j, 'crash_loop', 'the job was lost with its worker ' .. (j.crashes + 1)
      .. ' times in a row; see what kills the workers, then retry it', true, retention)
  else
    call('HSET', key(id), 'crashes', j.crashes + 1)
  end
  requeue(id, j, true, 'worker lost', retention)
end
