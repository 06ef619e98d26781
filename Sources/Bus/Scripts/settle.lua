-- Ends a run, and takes the next job in the same round trip.
--
-- ARGV: nonce, worker, next token ('' for none), lease (ms), retention completed, failed, cancelled (ms),
--       id, token, outcome, argument, members of the outcome's event, then a report (report.lua)
-- outcome: completed | failed | cancelled | paused | retry (argument: delay ms) | parked (argument: delay ms) |
--          released (argument: why) | rejected (argument: reason)
-- Returns {'done' | 'fenced', the next claim as of claim.lua or {}}. A settle sent again answers 'done' again.
touch()
local worker, lease = ARGV[2], tonumber(ARGV[4])
local retention = { completed = ARGV[5], failed = ARGV[6], cancelled = ARGV[7] }
local id, token, outcome, argument, members = ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12]
local _, r = read_report(13)
local j = job(id)
local answer = 'done'
if j.token ~= token or j.state ~= 'running' then
  if call('HGET', key(id), 'settled') ~= token then answer = 'fenced' end
else
  write_report(id, r)
  call('HSET', key(id), 'settled', token)
  emit_report(id, r, worker)
  if outcome == 'completed' or outcome == 'failed' then
    as_of(id)
    finish(id, j, outcome, retention, members, worker)
  elseif outcome == 'cancelled' then
    as_of(id, j.wantat)
    finish(id, j, 'cancelled', retention, members, worker)
  elseif outcome == 'paused' then
    if j.want == 'paused' then
      as_of(id, j.wantat)
      pause(id, j, worker)
    else
      requeue(id, j, true, 'resumed', retention)
    end
  elseif outcome == 'retry' or outcome == 'parked' then
    if j.want then
      requeue(id, j, true, 'wanted', retention)
    else
      if outcome == 'retry' then call('HINCRBY', key(id), 'attempt', 1) end
      postpone(id, j, tonumber(argument), outcome == 'parked' and 'disk' or nil)
      emit(id, outcome == 'retry' and 'retrying' or 'waiting', members, worker)
    end
  elseif outcome == 'rejected' then
    local spec = call('HGET', key(id), 'spec')
    leave(id, j)
    call('DEL', key(id), offsets(id))
    call('ZREM', DEADLINES, id)
    reject(spec, argument, id)
  else
    requeue(id, j, true, argument, retention)
  end
end
if ARGV[3] == '' then return { answer, {} } end
return { answer, take(worker, ARGV[3], lease, retention) }
