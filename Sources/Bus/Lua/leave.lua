-- Forgets a worker that ends, and returns the elements that it holds to the queue.
--
-- ARGV: nonce, worker, instance, host identity (colocated.lua), bytes that the worker has received since it began
-- Returns nothing. Does nothing if another process has the name. Writes worker:<worker>, held:<worker>, jobs, settings,
-- host:<identity>, workers, totals, history:<hour>, and what hosts.end_rate_leases() writes.
define('leave', { 'allow-oom' }, function()
  touch()
  local known, received = unpack(call('HMGET', WORKER, 'instance', 'received'))
  if (known or ARGV[3]) ~= ARGV[3] then return end
  -- If the call is sent again, the hash is gone, and nothing is counted twice.
  if known then history.receive(ARGV[5], received) end
  return_elements(HELD, 1000)
  call('DEL', WORKER)
  hosts.end_rate_leases(ARGV[3])
  call('HDEL', SETTINGS, 'quiet:' .. ARGV[2])
  call('HDEL', PREFIX .. KEY.host .. ARGV[4], ARGV[2])
  -- The server may still have a BLMOVE of a lost connection, which can move an element. So ticks check this worker's
  -- `held` list for another 15 s.
  call('ZADD', WORKERS, integer_text(now - 86400000 + 15000), ARGV[2])
  -- There may be no other worker whose tick writes the counts.
  history.keep()
end)
