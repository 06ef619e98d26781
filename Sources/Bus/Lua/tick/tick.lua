-- The tick: what every worker does once a second. Its tasks are in the other files of this folder.
--
-- Uses: Announcements, Call, Colocated, Control, Defaults, Deletions, Disconnected, Due, Events, Groups, History, Hosts,
-- Kinds, Losses, Pacer, Permits, Rechecks, Replies, ReplyBytes, Responses, Runs, Schedules, Settings, Steps, Workers.
do
  -- The names of limits among the settings that have invalid values, and so no effect. The worker itself reads `rate`.
  local function ignored(c)
    local settings, names = c.settings, {}
    local function add(name, value) if settings.texts[name] and not value then names[#names + 1] = name end end
    add('max_running', settings.max_running)
    add('host_connections', c.max_connections)
    add('starts', settings.interval)
    for _, name in ipairs(Hosts.run_limit_names) do add(name, settings.run_limits[name]) end
    return names
  end

  -- Maintains the queue. Each worker calls it once a second. It extends the worker's leases, writes progress and
  -- offsets, does control operations, requeues the jobs of lost workers, promotes scheduled jobs that are due, and
  -- trims old entries.
  --
  -- A worker reports a few runs with each call (Tick.swift). The first and the last call of a tick run this function,
  -- the calls between them runs.lua. Only the last call does what is not about this worker.
  --
  -- ARGV: nonce, worker, instance, lease (ms), retention of completed, failed, cancelled jobs (ms), crash limit, store,
  -- '1' if the worker waits for a permit under max_running, its host identity and its process (colocated.lua), '1' if
  -- with this call all its runs are reported, number of workers whose processes have ended, then for each: worker,
  -- process (colocated.lua), number of the worker's own fields, pairs of them, number of runs, then for each: id,
  -- token, a report (reports.lua)
  -- Returns names and values, without lists that are empty:
  --       fenced          tokens
  --       operations      token, control operation, …
  --       gate            'quiet', 'paused', 'full' or 'open'
  --       more            '1' if there is more to do than one call does
  --       now             the time (ms)
  --       rate            the setting `rate`, which the worker reads (rates.lua)
  --       pace            in how many ms this worker has to call pace() (pacer.lua)
  --       limits          '1' if hosts have limits of their own, which the worker has to read
  --       ignored         names of limits among the settings whose values are invalid
  --       unapplied       '1' if more control operations wait in `want`
  --       dropped         id, store, file, generation, inode, entry, … for each file that this worker has to unlink: the
  --                       partial file of a generation, or the finished file with this inode, size and time. Then it
  --                       removes the entry from `deleting`
  --       deferred_kinds  kinds of jobs that wait and that this worker does not do (kinds.lua)
  --       owed_steps      entry, value, … (steps.lua)
  --       silent          worker, process, … (colocated.lua)
  --       schedules       those that are due (schedules.lua)
  --       refused         the error with which Redis has refused to publish an event
  Call.define('tick', { 'allow-oom' }, function(c)
    local ARGV = c.ARGV
    local known, received, connected = unpack(call('HMGET', c.WORKER, 'instance', 'received', 'connected'))
    local _, front = Settings.read(c, ARGV[2], 5)
    local tick = { worker = ARGV[2], instance = ARGV[3], lease = tonumber(ARGV[4]),
      crash_limit = tonumber(ARGV[8]), store = ARGV[9],
      host_identity = ARGV[11], process = ARGV[12],
      is_known = not known or known == ARGV[3], received = received, connected = connected, fenced = {}, operations = {}, more = false,
      dropped = {}, silent = {}, owed = {}, deferred_kinds = {} }
    local gone = 14
    local own = gone + 2 * tonumber(ARGV[gone]) + 1
    local runs = own + 2 * tonumber(ARGV[own]) + 1
    -- The jobs that all tasks of this call may handle together, because canceling one costs Redis some 80 µs. A report
    -- of a run costs a quarter of that.
    tick.left = 20 - floor(tonumber(ARGV[runs]) / 4)
    Workers.heartbeat(c, tick, own)
    Losses.begin_tick(c, tick)
    -- A new epoch begins here even if this call emits no event.
    Call.epoch(c)
    Control.apply_operations(c, tick)
    Runs.extend(c, tick, runs)
    -- All of this worker's leases are extended by now, so none of its own runs is reaped.
    if ARGV[13] == '1' then
      tick.missed = Losses.missed_workers(c)
      Colocated.reap_gone(c, tick, gone)
      Disconnected.reap(c, tick)
      Losses.reap_jobs(c, tick)
      Losses.reap_elements(c, tick)
      Due.promote(c, tick)
      Announcements.announce_overdue(c, tick)
      Due.expire(c, tick)
      Due.trim(c, tick)
      Deletions.claim(c, tick)
      -- Most queues have none of these keys, which one command finds out.
      local prefix = c.PREFIX
      if call('EXISTS', prefix .. KEY.recheck, prefix .. KEY.deferredKinds, prefix .. KEY.responseBytes,
        prefix .. KEY.replyBytes, prefix .. KEY.undeliveredReplies, prefix .. KEY.owedSteps, prefix .. KEY.schedules,
        prefix .. KEY.scheduleDue) > 0 then
        Rechecks.advance(c, tick)
        Kinds.return_deferred(c, tick)
        Responses.bound(c, tick)
        ReplyBytes.measure(c, 8)
        Replies.deliver(c, tick)
        Steps.hand_out(c, tick)
        tick.schedules = Schedules.find(c, true)
      end
      local wait = Hosts.return_startable(c, 500)
      local has_unsorted, group_wait = Groups.maintain(c, true, front)
      tick.more = tick.more or has_unsorted
      -- The pacer is appointed if an element waits in `jobs`.
      Groups.offer(c)
      tick.pace = Pacer.appoint(c, tick.instance, group_wait and math.min(wait or group_wait, group_wait) or wait)
      -- If the limit was removed, nothing else wakes the workers that waited for a permit under it.
      if Permits.are_limited(c) or ARGV[10] == '1' then Permits.offer(c, true) end
      Colocated.register(c, tick)
      Disconnected.record(c, tick)
    end
    Groups.offer(c)
    local has_limits = Defaults.or_limits_exist(c) and call('EXISTS', c.PREFIX .. KEY.limits) == 1
    local gate = c.settings.is_quiet and 'quiet' or Permits.closed_by(c) or 'open'
    Events.publish(c)
    local reply = Call.named { gate = gate, more = tick.more and '1', rate = c.settings.texts.rate, now = c.NOW,
      pace = tick.pace and integer_text(tick.pace), limits = has_limits and '1', ignored = ignored(c),
      unapplied = tick.has_unapplied and '1', fenced = tick.fenced, operations = tick.operations, dropped = tick.dropped,
      owed_steps = tick.owed, silent = tick.silent, deferred_kinds = tick.deferred_kinds,
      schedules = tick.schedules, refused = c.refused }
    -- After Events.publish(), so that this call's own events are counted.
    if ARGV[13] == '1' then History.keep(c) end
    return reply
  end)
end
