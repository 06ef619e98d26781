-- Writes the reports of a few runs, and does nothing else for the queue. It is used for the calls between the first and
-- the last call of a tick, and for a report that cannot wait for the next tick.
--
-- ARGV: nonce, worker, lease (ms), number of runs, then for each: id, token, a report (report.lua)
-- Returns names and values, as tick.lua does: fenced, operations.
-- Writes what extend_runs() writes.
define('report', { 'allow-oom' }, function()
  local tick = { worker = ARGV[2], lease = tonumber(ARGV[3]), fenced = {}, operations = {} }
  extend_runs(tick, 4)
  return publish(named { fenced = tick.fenced, operations = tick.operations })
end)
