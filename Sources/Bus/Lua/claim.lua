-- Takes the next jobs for a worker that has free slots; sent behind the BLMOVE that woke it.
--
-- ARGV: nonce, worker, session, lease (ms), retention of completed, failed and cancelled jobs (ms), a token for each job that is
--       wanted
-- Returns {'job', id, token, spec, previous state or '', now (ms), hash as pairs, offsets as pairs,
--         what the job was before or '', a newer push whose URLs and headers count or ''} for each job, and behind them, if they are fewer, {'empty'}, {'paused'}, {'full'} (at
--         max_running), {'quiet'} (this worker is to take no more), {'more'} (call again), or {'stale'}: the worker has registered anew since, or is not known.
define('claim', {}, function()
  local settings, held, waiting = touch(ARGV[2])
  local retention = retention_of(settings, 5)
  if not is_current(ARGV[3]) then
    -- What the wait before it took.
    give_back(HELD, 1000)
    if settings.max_running then offer_place(settings, true) end
    return { { 'stale' } }
  end
  local claims = take(ARGV[2], { unpack(ARGV, 8) }, tonumber(ARGV[4]), retention, settings, held, waiting)
  -- This worker may have been the one that waited in the line.
  if settings.max_running then offer_place(settings, claims[1][1] == 'job' or settings.is_quiet) end
  return publish(claims)
end)
