-- Names of limits among the settings whose values are none, and so have no effect.
local function ignored(settings)
  local texts, names = settings.texts, {}
  if texts[2] and not settings.max_running then names[#names + 1] = 'max_running' end
  if texts[7] and not fleet.most then names[#names + 1] = 'host_connections' end
  if texts[8] and not settings.has_rate then names[#names + 1] = 'rate' end
  if texts[10] and not settings.interval then names[#names + 1] = 'starts' end
  return names
end

-- Looks after the queue, once a second from every worker: extends this worker's leases, writes progress and offsets,
-- hands out requests, takes back the jobs of lost workers, promotes what is due, trims what is old.
--
-- A worker tells of a few runs at a time (Tick.swift). The first call and the last one are ticks, those between are
-- reports (report_runs.lua). Only the last one sees to what is nobody's own.
--
-- ARGV: nonce, worker, instance, lease (ms), retention completed, failed, cancelled (ms), crash limit, store,
--       '1' if it waits for a place under max_running, the machine it is on, its process,
--       '1' if this worker has told of all its runs, with those of this call, count of workers that are gone, then
--       for each: worker, process (neighbours.lua), n pairs of the worker's own fields, count of runs, then for each: id, token,
--       a report (report.lua)
-- Returns names and values; a list that is empty has no name:
--       fenced    tokens
--       requests  token, request, …
--       gate      'quiet', 'paused', 'full' or 'open'
--       more      '1' if there is more to do than one call does
--       rate      '1' if the queue has a limit of rate (shares.lua)
--       pace      in how many ms this worker is to call pace() (starts.lua)
--       limits    '1' if hosts have limits of their own, which the worker is to read
--       ignored   names of limits among the settings that are none
--       unheard   '1' if requests are left that nobody has heard
--       dropped   id, store, file, generation, inode, entry, … of what a worker of that store is to unlink: the partial file of a
--                 generation, or the finished file with this inode, size and time; then it takes the entry out of `dropping`
--       aside     kinds of jobs that wait for a worker that does them; this one does not (kinds.lua)
--       silent    worker, process, … (neighbours.lua)
define('tick', { 'allow-oom' }, function()
  local known, received = unpack(call('HMGET', WORKER, 'instance', 'received'))
  local settings = touch(ARGV[2])
  local tick = { worker = ARGV[2], instance = ARGV[3], lease = tonumber(ARGV[4]),
    retention = retention_of(settings, 5), crash_limit = tonumber(ARGV[8]), store = ARGV[9],
    place = ARGV[11], process = ARGV[12],
    is_known = not known or known == ARGV[3], received = received, fenced = {}, requests = {}, more = false, dropped = {}, silent = {},
      aside = {} }
  local gone = 14
  local own = gone + 2 * tonumber(ARGV[gone]) + 1
  local runs = own + 2 * tonumber(ARGV[own]) + 1
  -- Jobs that all duties together may see to. To tell of a run takes half as long.
  tick.left = 40 - math.floor(tonumber(ARGV[runs]) / 2)
  heartbeat(tick, own)
  watch(tick)
  -- Before there is an event: whoever serves the queue from now on is known.
  reign()
  hear_requests(tick)
  extend_runs(tick, runs)
  -- Before anything is reaped: a worker extends its own leases first.
  if ARGV[13] == '1' then
    reap_gone(tick, gone)
    reap_jobs(tick)
    reap_elements(tick)
    promote(tick)
    tell_overdue(tick)
    expire(tick)
    trim(tick)
    take_drops(tick)
    kinds.look_aside(tick)
    tick.pace = fleet.pace(settings, tick.instance, fleet.bring_back_all(500))
    fleet.bound_responses(tick)
    -- Without a limit nobody else wakes those that waited under one.
    if has_places(settings) or ARGV[10] == '1' then offer_place(settings, true) end
    meet_neighbours(tick)
  end
  local has_limits = fleet.is_used() and call('EXISTS', PREFIX .. KEY.limits) == 1
  local reply = publish(named { gate = settings.is_quiet and 'quiet' or closed_by(settings) or 'open', more = tick.more and '1',
    rate = settings.has_rate and '1', pace = tick.pace and whole(tick.pace), limits = has_limits and '1',
    ignored = ignored(settings), unheard = tick.are_many and '1',
    fenced = tick.fenced, requests = tick.requests, dropped = tick.dropped, silent = tick.silent, aside = tick.aside })
  -- With what this call has told.
  if ARGV[13] == '1' then history.keep() end
  return reply
end)
