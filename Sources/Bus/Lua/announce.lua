-- Publishes `completed` for jobs that enough replicas have by now. Jobs that were published before, or that run again,
-- are skipped.
--
-- ARGV: nonce, ids
-- Returns 'ok'. Writes unannounced, and what announce() writes.
define('announce', { 'allow-oom' }, function()
  touch()
  for n = 2, #ARGV do announce(ARGV[n], '') end
  return publish('ok')
end)
