-- Returns the elements that an unknown worker holds to the front of the queue.
--
-- ARGV: nonce, worker
-- Returns '1' if the worker holds nothing now, '0' if it may hold more, '-' if the worker is known: then ticks return
-- its elements. Writes held:<worker>, jobs.
define('recover', { 'allow-oom' }, function()
  touch()
  if call('ZSCORE', WORKERS, ARGV[2]) then return '-' end
  return return_elements(HELD, 1000) and '1' or '0'
end)
