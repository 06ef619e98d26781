-- Looks after the queue, once a second from every worker: extends this worker's leases, writes progress and offsets,
-- hands out requests, takes back the jobs of lost workers, promotes what is due, trims what is old.
--
-- ARGV: nonce, worker, instance, lease (ms), retention completed, failed, cancelled (ms), crash limit, store,
--       n pairs of the worker's own fields, count of runs, then for each: id, token, a report (report.lua)
-- Returns {fenced tokens, {token, request, …}, '1' if the queue is open, '1' if there is more to do,
--          {id, store, file, generation, inode, …} of what a worker of that store is to unlink: the partial file of a
--          generation, or the finished file of an inode}.
define('tick', { 'allow-oom' }, function()
  call('HLEN', WORKER)
  local settings = touch()
  local worker, instance, lease = ARGV[2], ARGV[3], tonumber(ARGV[4])
  local retention = { completed = ARGV[5], failed = ARGV[6], cancelled = ARGV[7] }
  local crash_limit, store = tonumber(ARGV[8]), ARGV[9]
  local fenced, requests, more, dropped = {}, {}, false, {}

  -- Files that nobody wants any more are for a worker of their store to unlink.
  local function drop(id, with_file)
    local place = call('HMGET', key(id), 'store', 'file', 'generation', 'inode')
    if place[1] and place[2] then
      for _, x in ipairs({ id, place[1], place[2], place[3] or '', with_file and place[4] or '' }) do
        dropped[#dropped + 1] = x
      end
    end
  end

  -- False if the finished file that is to be deleted is on another store: one of its workers will see to it.
  local function is_near(id, st, want)
    return want ~= 'deleted' or st ~= 'completed' or call('HGET', key(id), 'store') == store
  end

  -- This worker.
  local n = tonumber(ARGV[10])
  local mine = { 'instance', instance, 'seen', NOW }
  for k = 1, n * 2 do mine[#mine + 1] = ARGV[10 + k] end
  call('ZADD', WORKERS, NOW, worker)
  call('HSET', WORKER, unpack(mine))
  call('PEXPIRE', WORKER, 86400000)

  -- A queue that nobody looked after (a Redis that stalled or restarted) robs no live worker: its leases are young again.
  local last, grace = string.match(call('GET', TICK) or '', '^(%d+) (%d+)$')
  last, grace = tonumber(last or now), tonumber(grace or 0)
  if now - last > 2500 then grace = now + lease end
  call('SET', TICK, NOW .. ' ' .. whole(grace))

  -- Requests; of many any, so that those which have to wait for another store hold up none. One that does not say when it
  -- was made is as old as the last look at them.
  local are_many = call('HLEN', WANT) > 200
  local wanted = are_many and call('HRANDFIELD', WANT, 200, 'WITHVALUES') or call('HGETALL', WANT)
  for k = 1, #wanted, 2 do
    local id = wanted[k]
    local want, made = string.match(wanted[k + 1], '^(%a+) ?(%d*)$')
    local isTimed = made and made ~= ''
    -- Clocks differ: it was not there at the last look, and it is there now.
    made = whole(math.max(last, math.min(tonumber(made) or last, now)))
    local known = string.find(id, ID) and #id <= 128 and (want == 'running' or want == 'paused' or ends(want))
      and not is_strange(id)
    local j = known and job(id) or {}
    local st = j.state
    local isFinal = st == 'completed' or st == 'failed' or st == 'cancelled'
    if not known then
      call('HDEL', WANT, id)
    elseif is_near(id, st, want) then
      more = are_many
      call('HDEL', WANT, id)
      if isTimed and want ~= 'running' and tonumber(j.pushed or 0) > tonumber(made) then
        -- What it was for has been asked for anew, and that has been taken already.
      elseif want == 'running' then
        -- A cancel may have been heard already, and cannot be taken back.
        if j.want == 'paused' or not st then call('HDEL', key(id), 'want', 'wantat') end
        if st == 'paused' or st == 'scheduled' then requeue(id, j, true, 'resumed', retention)
        elseif isFinal and call('HEXISTS', spec(id), 'spec') == 1 then
          call('HDEL', key(id), 'crashes', 'attempt', 'error', 'message', 'finished')
          requeue(id, j, true, 'resumed', retention)
        end
      elseif not st then
        -- A request may come before its job: a stub waits for it.
        call('HSET', key(id), 'want', want, 'wantat', made, 'asof', made)
        call('PEXPIRE', key(id), 3600000)
      elseif st == 'running' then
        call('HSET', key(id), 'want', want, 'wantat', made)
      elseif isFinal then
        if forgets(want) then
          drop(id, want == 'deleted')
          forget(id)
        elseif want == 'cancelled' and tonumber(made) > tonumber(j.asof or 0) then
          as_of(id, made)
        end
      elseif ends(want) then
        as_of(id, made)
        drop(id)
        j.want = want
        finish(id, j, 'cancelled', retention, '')
      else
        as_of(id, made)
        if st ~= 'paused' then pause(id, j) end
      end
    end
  end

  -- Runs, before anything is reaped: a tick extends its own leases first.
  local i = 10 + n * 2 + 1
  local count = tonumber(ARGV[i])
  i = i + 1
  for _ = 1, count do
    local id, token = ARGV[i], ARGV[i + 1]
    local r
    i, r = read_report(i + 2)
    -- There are many of them, so no more is asked than this; offsets are written over whatever is there.
    local isRead, j = pcall(job, id)
    if isRead and j.token == token and j.state == 'running' then
      call('ZADD', LEASES, whole(now + lease), id)
      if #r.fields > 0 then call('HSET', key(id), unpack(r.fields)) end
      write_offsets(id, r)
      emit_report(id, j, r, worker)
      if j.want then requests[#requests + 1] = token requests[#requests + 1] = j.want end
    else
      fenced[#fenced + 1] = token
    end
  end

  -- Lost workers: their jobs, and what they took and never claimed.
  if now >= grace then
    local lost = call('ZRANGEBYSCORE', LEASES, '-inf', now, 'LIMIT', 0, 200)
    for _, id in ipairs(lost) do
      local j = is_strange(id) and {} or job(id)
      if j.state ~= 'running' then call('ZREM', LEASES, id)
      elseif j.crashes >= crash_limit then
        fail(id, j, 'crash_loop', 'the job was lost with its worker ' .. (j.crashes + 1)
          .. ' times in a row; see what kills the workers, then retry it', true, retention)
      else
        call('HINCRBY', key(id), 'crashes', 1)
        if ends(j.want) then drop(id) end
        requeue(id, j, true, 'worker lost', retention)
      end
    end
    if #lost == 200 then more = true end
    -- A frozen worker's wait may still take something, so all are looked at for a day, 200 a second in turn.
    local absent = call('ZCOUNT', WORKERS, '-inf', whole(now - lease))
    local first = absent > 200 and math.floor(now / 1000) * 200 % absent or 0
    local names = call('ZRANGEBYSCORE', WORKERS, '-inf', whole(now - lease), 'WITHSCORES', 'LIMIT', first, 200)
    for k = 1, #names, 2 do
      local isEmpty = give_back(PREFIX .. 'held:' .. names[k], 200)
      -- Nobody looks at what a forgotten worker holds.
      if isEmpty and tonumber(names[k + 1]) < now - 86400000 then call('ZREM', WORKERS, names[k]) end
    end
  end

  -- Due jobs join the end of the line.
  local due = call('ZRANGEBYSCORE', SCHEDULED, '-inf', now, 'LIMIT', 0, 200)
  for _, id in ipairs(due) do
    call('ZREM', SCHEDULED, id)
    local j = is_strange(id) and {} or job(id)
    if j.state == 'scheduled' then
      call('HSET', key(id), 'state', 'queued', 'updated', NOW)
      call('HDEL', key(id), 'waiting')
      line_up(id, false)
      emit(id, j, 'queued', '')
    end
  end
  if #due == 200 then more = true end

  -- Deadlines of jobs that nobody runs; a running one is ended by its worker.
  for _, id in ipairs(call('ZRANGEBYSCORE', DEADLINES, '-inf', now, 'LIMIT', 0, 100)) do
    local j = is_strange(id) and {} or job(id)
    if j.state == 'queued' or j.state == 'scheduled' or j.state == 'paused' then
      fail(id, j, 'deadline', 'the deadline passed before the download could end', false, retention)
    elseif j.state ~= 'running' then
      call('ZREM', DEADLINES, id)
    end
  end

  -- Retention: the hashes expire by themselves, their index entries here.
  for state, ms in pairs(retention) do call('ZREMRANGEBYSCORE', INDEX[state], '-inf', now - tonumber(ms)) end

  return publish({ fenced, requests, is_closed(settings) and '0' or '1', more and '1' or '0', dropped })
end)
