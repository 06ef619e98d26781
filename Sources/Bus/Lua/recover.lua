-- Puts what a worker that nobody knows holds back to the front of the line.
--
-- ARGV: nonce, worker
-- Returns '1' if it is empty now, '0' if there may be more, '-' if the worker is known: then a tick sees to it.
define('recover', { 'allow-oom' }, function()
  touch()
  if call('ZSCORE', WORKERS, ARGV[2]) then return '-' end
  return give_back(HELD, 1000) and '1' or '0'
end)
