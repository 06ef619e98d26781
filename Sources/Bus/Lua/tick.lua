-- Looks after the queue, once a second from every worker: extends this worker's leases, writes progress and offsets,
-- hands out requests, takes back the jobs of lost workers, promotes what is due, trims what is old.
--
-- ARGV: nonce, worker, instance, lease (ms), retention completed, failed, cancelled (ms), crash limit, store,
--       '1' if it waits for a place under max_running, the machine it is on, its process, count of workers that are gone, then
--       for each: worker, process (neighbours.lua), n pairs of the worker's own fields, count of runs, then for each: id, token,
--       a report (report.lua)
-- Returns {fenced tokens, {token, request, …}, 'paused', 'full' or 'open', '1' if there is more to do,
--          {id, store, file, generation, inode, …} of what a worker of that store is to unlink: the partial file of a
--          generation, or the finished file of an inode}, {worker, process, …} that are silent (neighbours.lua)}.
define('tick', { 'allow-oom' }, function()
  local known = call('HGET', WORKER, 'instance')
  local settings = touch()
  local tick = { worker = ARGV[2], instance = ARGV[3], lease = tonumber(ARGV[4]),
    retention = { completed = ARGV[5], failed = ARGV[6], cancelled = ARGV[7] }, crash_limit = tonumber(ARGV[8]), store = ARGV[9],
    place = ARGV[11], process = ARGV[12],
    is_known = not known or known == ARGV[3], fenced = {}, requests = {}, more = false, dropped = {} }
  local gone = 13
  local own = gone + 2 * tonumber(ARGV[gone]) + 1
  local runs = heartbeat(tick, own)
  watch(tick)
  -- Before there is an event: whoever serves the queue from now on is known.
  reign()
  hear_requests(tick)
  -- Before anything is reaped: a tick extends its own leases first.
  extend_runs(tick, runs)
  reap_gone(tick, gone)
  reap_jobs(tick)
  reap_elements(tick)
  promote(tick)
  tell_overdue(tick)
  expire(tick)
  trim(tick)
  take_drops(tick)
  -- Without a limit nobody else wakes those that waited under one.
  if settings[2] or ARGV[10] == '1' then offer_place(settings, true) end
  return publish({ tick.fenced, tick.requests, closed_by(settings) or 'open', tick.more and '1' or '0', tick.dropped,
    meet_neighbours(tick) })
end)
