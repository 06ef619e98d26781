-- Takes the next job for a worker that has a free slot; sent behind the BLMOVE that woke it.
--
-- ARGV: nonce, worker, token, lease (ms), retention of completed, failed and cancelled jobs (ms)
-- Returns {'job', id, token, spec, previous state or '', now (ms), hash as pairs, offsets as pairs},
--         {'empty'}, {'closed'} (the queue is paused or at max_running), or {'more'} (call again).
define('claim', {}, function()
  local retention = { completed = ARGV[5], failed = ARGV[6], cancelled = ARGV[7] }
  return publish(take(ARGV[2], { ARGV[3] }, tonumber(ARGV[4]), retention, touch())[1])
end)
