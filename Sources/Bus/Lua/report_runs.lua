-- Tells of a few runs, and sees to nothing else: the calls between the first and the last of a tick, and what cannot wait for one.
--
-- ARGV: nonce, worker, lease (ms), count of runs, then for each: id, token, a report (report.lua)
-- Returns names and values, as tick.lua does: fenced, requests.
define('report', { 'allow-oom' }, function()
  local tick = { worker = ARGV[2], lease = tonumber(ARGV[3]), fenced = {}, requests = {} }
  extend_runs(tick, 4)
  return publish(named { fenced = tick.fenced, requests = tick.requests })
end)
