-- Tasks of the tick for entries of sorted sets whose time has come.
--
-- Uses: Budget, Events, Isolation, Jobs, Responses, States, UrlIndex.
-- Writes: job:<id>, spec:<id>, offsets:<id>, scheduled, completed, failed, cancelled, deadlines.
do
  -- A task of the tick: puts scheduled jobs that are due at the end of the queue, and records when the next one is due.
  function Due.promote(c, tick)
    local max = Budget.of(tick)
    local next, due = call('ZRANGE', c.INDEX.scheduled, 0, max, 'WITHSCORES'), {}
    for n = 1, #next, 2 do
      local time = tonumber(next[n + 1])
      if time > c.now or #due == max then
        c.next_due = time
        break
      end
      due[#due + 1] = next[n]
    end
    Isolation.each(c, due, function(id)
      call('ZREM', c.INDEX.scheduled, id)
      local job = Jobs.find(c, id)
      if job.state == 'scheduled' then
        call('HSET', c.JOB .. id, 'state', 'queued', 'updated', c.NOW)
        call('HDEL', c.JOB .. id, 'waiting')
        States.enqueue(c, id, false, job.group)
        Events.emit(c, id, job, 'queued', '')
      end
    end, function() end)
    Budget.spend(tick, #due, max)
  end

  -- A task of the tick: fails queued, scheduled and paused jobs whose deadline has passed.
  --
  -- A running job is ended by its worker, and stays at the head of `deadlines` until then. So if there are many
  -- entries, each second checks the next 100 of them, and running jobs do not block the others.
  function Due.expire(c, tick)
    local count = call('ZCOUNT', c.DEADLINES, '-inf', c.NOW)
    if count == 0 then return end
    local first = count > 100 and floor(c.now / 1000) * 100 % count or 0
    local max, ids, ended = Budget.of(tick), {}, 0
    for _, id in ipairs(call('ZRANGEBYSCORE', c.DEADLINES, '-inf', c.NOW, 'LIMIT', first, 100)) do
      if #ids < max and not call('ZSCORE', c.LEASES, id) then ids[#ids + 1] = id end
    end
    local function remove(id)
      call('ZREM', c.DEADLINES, id)
      ended = ended + 1
    end
    Isolation.each(c, ids, function(id)
      local job = Jobs.find(c, id)
      if job.state == 'queued' or job.state == 'scheduled' or job.state == 'paused' then
        States.fail_overdue(c, id, job)
        ended = ended + 1
      elseif job.state ~= 'running' then
        remove(id)
      end
    end, remove)
    Budget.spend(tick, ended, max)
    if count > 100 and ended > 0 then tick.more = true end
  end

  -- Those of `ids` whose event does not wait for replicas.
  local function without_unannounced(c, ids)
    if #ids == 0 or call('EXISTS', c.UNANNOUNCED) == 0 then return ids end
    local announced = {}
    for _, id in ipairs(ids) do
      if not call('ZSCORE', c.UNANNOUNCED, id) then announced[#announced + 1] = id end
    end
    return announced
  end

  -- An ended job whose id is the name of a schedule is kept: the next run has to know which file is the job's own,
  -- whenever that is. A month, so that it outlives a fleet that is stopped.
  -- A hash without a state keeps an operation for a job that has not been pushed, which lapses after its time.
  local function extend(c, id)
    if not Jobs.find(c, id).state then return end
    for _, key in ipairs({ c.JOB, c.SPEC, c.OFFSETS }) do call('PEXPIRE', key .. id, 2592000000, 'GT') end
  end

  -- Returns true, and nil for other jobs.
  local function keep(c, id, state)
    if try('HEXISTS', c.PREFIX .. KEY.schedules, id) ~= 1 then return end
    call('ZADD', c.INDEX[state], c.NOW, id)
    extend(c, id)
    return true
  end

  -- In which five minutes the jobs of a queue's schedules were last kept.
  local kept = {}

  -- A task of the tick: deletes ended jobs and their index entries. The hashes expire by themselves 10 s later,
  -- because they say where the index of URLs has the job. If a setting has made the time longer, the hashes of older
  -- jobs expire before their entries are due. A completed job stays until it is announced (announcements.lua).
  function Due.trim(c, tick)
    local part = floor(c.now / 300000)
    if kept[c.PREFIX] ~= part then
      -- No tick may come when they would be trimmed.
      kept[c.PREFIX] = part
      for _, id in ipairs(try('HRANDFIELD', c.PREFIX .. KEY.schedules, 200)) do extend(c, id) end
    end
    for state, ms in pairs(c.retention) do
      local latest = integer_text(c.now - tonumber(ms))
      local found = call('ZRANGEBYSCORE', c.INDEX[state], '-inf', latest, 'LIMIT', 0, 50)
      local ended, old, indexed = state == 'completed' and without_unannounced(c, found) or found, {}, {}
      local has_schedules = #ended > 0 and call('EXISTS', c.PREFIX .. KEY.schedules) == 1
      for _, id in ipairs(ended) do
        local values = try('HMGET', c.JOB .. id, 'state', 'url_digests')
        local is_own = values[1] == state
        if not (is_own and has_schedules and keep(c, id, state)) then
          old[#old + 1] = id
          if is_own then
            call('DEL', c.JOB .. id, c.SPEC .. id, c.OFFSETS .. id)
            -- Of an event of this call: Events.publish() would make the hash anew.
            c.seqs[id] = nil
            if values[2] then indexed[#indexed + 1], indexed[#indexed + 2] = id, values[2] end
          end
        end
      end
      if #old > 0 then
        call('ZREM', c.INDEX[state], unpack(old))
        Responses.forget(c, old)
        UrlIndex.forget(c, indexed)
      end
      if #found == 50 then tick.more = true end
      -- The oldest job expires first, unless the time was changed.
      local oldest = call('ZRANGE', c.INDEX[state], 0, 0)[1]
      if oldest and Jobs.size(c.JOB .. oldest) == 0 then
        call('ZREM', c.INDEX[state], oldest)
        Responses.forget(c, { oldest })
        tick.more = true
      end
    end
    UrlIndex.sweep(c)
  end
end
