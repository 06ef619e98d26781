-- Takes the next jobs for a worker that has free slots; sent behind the BLMOVE that woke it.
--
-- ARGV: nonce, worker, session, lease (ms), retention of completed, failed and cancelled jobs (ms), a token for each job that is
--       wanted
-- Returns {'job', id, token, spec, previous state or '', now (ms), hash as pairs, offsets as pairs} for each job, and behind them,
--         if they are fewer, {'empty'}, {'closed'} (the queue is paused or at max_running), {'more'} (call again), or
--         {'stale'}: the worker has registered anew since, or is not known.
define('claim', {}, function()
  local retention = { completed = ARGV[5], failed = ARGV[6], cancelled = ARGV[7] }
  if not is_current(ARGV[3]) then
    -- What the wait before it took.
    give_back(HELD, 1000)
    return { { 'stale' } }
  end
  return publish(take(ARGV[2], { unpack(ARGV, 8) }, tonumber(ARGV[4]), retention, touch()))
end)
