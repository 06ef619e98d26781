-- The names of limits among the settings that have invalid values, and so no effect.
local function ignored(settings)
  local texts, names = settings.texts, {}
  if texts.max_running and not settings.max_running then names[#names + 1] = 'max_running' end
  if texts.host_connections and not hosts.max_connections then names[#names + 1] = 'host_connections' end
  if texts.rate and not settings.has_rate then names[#names + 1] = 'rate' end
  if texts.starts and not settings.interval then names[#names + 1] = 'starts' end
  for _, name in ipairs(hosts.run_limit_names) do
    if texts[name] and not hosts.run_limits[name] then names[#names + 1] = name end
  end
  return names
end

-- Maintains the queue. Each worker calls it once a second. It extends the worker's leases, writes progress and offsets,
-- does control operations, requeues the jobs of lost workers, promotes scheduled jobs that are due, and trims old
-- entries.
--
-- A worker reports a few runs with each call (Tick.swift). The first and the last call of a tick run this function, the
-- calls between them report_runs.lua. Only the last call does what is not about this worker.
--
-- ARGV: nonce, worker, instance, lease (ms), retention of completed, failed, cancelled jobs (ms), crash limit, store,
-- '1' if the worker waits for a permit under max_running, its host identity and its process (colocated.lua), '1' if
-- with this call all its runs are reported, number of workers whose processes have ended, then for each: worker,
-- process (colocated.lua), number of the worker's own fields, pairs of them, number of runs, then for each: id, token,
-- a report (report.lua) Returns names and values, without lists that are empty: fenced    tokens operations  token,
-- control operation, ... gate      'quiet', 'paused', 'full' or 'open' more      '1' if there is more to do than one
-- call does rate      '1' if the queue has a rate limit (rates.lua) pace      in how many ms this worker has to call
-- pace() (starts.lua) limits    '1' if hosts have limits of their own, which the worker has to read ignored   names of
-- limits among the settings whose values are invalid unapplied '1' if more control operations wait in `want` dropped
-- id, store, file, generation, inode, entry, ... for each file that this worker has to unlink: the partial file of a
-- generation, or the finished file with this inode, size and time. Then it removes the entry from `deleting`
-- deferred_kinds  kinds of jobs that wait and that this worker does not do (kinds.lua) silent    worker, process, ...
-- (colocated.lua)
define('tick', { 'allow-oom' }, function()
  local known, received = unpack(call('HMGET', WORKER, 'instance', 'received'))
  local settings = touch(ARGV[2])
  local tick = { worker = ARGV[2], instance = ARGV[3], lease = tonumber(ARGV[4]),
    retention = retention_of(settings, 5), crash_limit = tonumber(ARGV[8]), store = ARGV[9],
    host_identity = ARGV[11], process = ARGV[12],
    is_known = not known or known == ARGV[3], received = received, fenced = {}, operations = {}, more = false, dropped = {}, silent = {},
    deferred_kinds = {} }
  local gone = 14
  local own = gone + 2 * tonumber(ARGV[gone]) + 1
  local runs = own + 2 * tonumber(ARGV[own]) + 1
  -- The jobs that all tasks of this call may handle together, because canceling one costs Redis some 80 µs. A report of
  -- a run costs a quarter of that.
  tick.left = 20 - math.floor(tonumber(ARGV[runs]) / 4)
  heartbeat(tick, own)
  watch(tick)
  -- A new epoch begins here even if this call emits no event.
  current_epoch()
  apply_operations(tick)
  extend_runs(tick, runs)
  -- All of this worker's leases are extended by now, so none of its own runs is reaped.
  if ARGV[13] == '1' then
    reap_gone(tick, gone)
    reap_jobs(tick)
    reap_elements(tick)
    promote(tick)
    announce_overdue(tick)
    expire(tick)
    trim(tick)
    claim_deletions(tick)
    -- Most queues have none of these keys, which one command finds out.
    if call('EXISTS', PREFIX .. KEY.recheck, kinds.key, PREFIX .. KEY.responseBytes, PREFIX .. KEY.replyBytes) > 0 then
      rechecks.advance(tick)
      kinds.return_deferred(tick)
      responses.bound(tick)
      responses.measure_replies(8)
    end
    tick.pace = starts.pace(settings, tick.instance, hosts.return_startable(500))
    -- If the limit was removed, nothing else wakes the workers that waited for a permit under it.
    if has_permits(settings) or ARGV[10] == '1' then offer_permit(settings, true) end
    register_colocated(tick)
  end
  local has_limits = defaults.or_limits_exist() and call('EXISTS', PREFIX .. KEY.limits) == 1
  local reply = publish(named { gate = settings.is_quiet and 'quiet' or closed_by(settings) or 'open', more = tick.more and '1',
    rate = settings.has_rate and '1', pace = tick.pace and integer_text(tick.pace), limits = has_limits and '1',
    ignored = ignored(settings), unapplied = tick.are_many and '1',
    fenced = tick.fenced, operations = tick.operations, dropped = tick.dropped, silent = tick.silent, deferred_kinds = tick.deferred_kinds })
  -- After publish(), so that this call's own events are counted.
  if ARGV[13] == '1' then history.keep() end
  return reply
end)
