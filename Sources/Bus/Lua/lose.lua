-- A run that was lost with its worker: back to the front of the line, or crash_loop. It counts if its worker had told that it
-- was at work on it: a claim whose reply was lost never ran, and a job that waits for its host kills nobody. Of a job that was
-- lost before, counted or not, the next worker tells that before it begins.
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
