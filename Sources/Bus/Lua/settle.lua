-- Ends a run, and takes the next job in the same round trip.
--
-- ARGV: nonce, worker, next token ('' for none), lease (ms), retention completed, failed, cancelled (ms),
--       id, token, outcome, argument, members of the outcome's event, then a report (report.lua)
-- outcome: completed | failed | cancelled | paused | retry (argument: delay ms) | parked (argument: delay ms) |
--          released (argument: why) | rejected (argument: reason)
-- Returns {'done' | 'fenced', the next claim as of claim.lua or {}}. A settle sent again answers 'done' again.
define('settle', { 'allow-oom' }, function()
  local settings, held, waiting = touch()
  local worker, lease = ARGV[2], tonumber(ARGV[4])
  local retention = { completed = ARGV[5], failed = ARGV[6], cancelled = ARGV[7] }
  local id, token, outcome, argument, members = ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12]
  local _, r = read_report(13)
  local j = ending(id)
  local answer = 'done'
  local isOurs = j.token == token and j.state == 'running'
  if isOurs then
    if outcome == 'rejected' then call('LLEN', REJECTED) end
    call('HDEL', WORKER, token)
  end
  if not isOurs then
    -- Not of a run that somebody else ended: that takes its token away.
    if j.token ~= token and call('HGET', key(id), 'settled') ~= token then answer = 'fenced' end
  elseif outcome == 'completed' or outcome == 'failed' then
    local fields = r.fields
    local n = #fields
    fields[n + 1], fields[n + 2] = 'asof', NOW
    if outcome == 'failed' then write_offsets(id, r) end
    emit_report(id, j, r, worker)
    finish(id, j, outcome, retention, members, worker, fields)
  elseif outcome == 'rejected' then
    reject(call('HGET', spec(id), 'spec') or '', argument, id)
    leave(id, j)
    call('DEL', key(id), spec(id), offsets(id))
    call('ZREM', DEADLINES, id)
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
      pause(id, j, worker)
    elseif (outcome == 'retry' or outcome == 'parked') and not j.want then
      if outcome == 'retry' then call('HINCRBY', key(id), 'attempt', 1) end
      postpone(id, j, tonumber(argument), outcome == 'parked' and 'disk' or nil)
      emit(id, j, outcome == 'retry' and 'retrying' or 'waiting', members, worker)
    else
      -- Back in line; a request that came meanwhile is applied by it. A pause that was taken back is a resume.
      local why = outcome == 'released' and argument or outcome == 'paused' and 'resumed' or 'wanted'
      if outcome == 'paused' and not ends(j.want) then j.want = nil end
      requeue(id, j, true, why, retention)
    end
  end
  -- All others may have changed the line.
  if outcome ~= 'completed' then held = nil end
  -- What is settled is told before the next job is looked at, whatever is wrong with that.
  publish()
  return publish({ answer, ARGV[3] ~= '' and take(worker, ARGV[3], lease, retention, settings, held, waiting) or {} })
end)
