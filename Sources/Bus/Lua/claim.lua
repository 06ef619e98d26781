-- Takes the next jobs for a worker that has free slots; sent behind the BLMOVE that woke it.
--
-- ARGV: nonce, worker, lease (ms), retention of completed, failed and cancelled jobs (ms), a token for each job that is wanted
-- Returns {'job', id, token, spec, previous state or '', now (ms), hash as pairs, offsets as pairs} for each job, and behind them,
--         if they are fewer, {'empty'}, {'closed'} (the queue is paused or at max_running), or {'more'} (call again).
define('claim', {}, function()
  local retention = { completed = ARGV[4], failed = ARGV[5], cancelled = ARGV[6] }
  return publish(take(ARGV[2], { unpack(ARGV, 7) }, tonumber(ARGV[3]), retention, touch()))
end)
