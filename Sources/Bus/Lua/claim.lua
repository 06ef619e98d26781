-- Takes the next jobs for a worker that has free slots; sent behind the BLMOVE that woke it.
--
-- ARGV: nonce, worker, session, lease (ms), retention of completed, failed and cancelled jobs (ms), a token for each job that is
--       wanted
-- Returns a list of names and values, of which those that are empty are left out. For each job:
--       answer    'job'
--       id, token
--       spec      the element as it was pushed
--       renewed   a newer push, whose URLs and headers count
--       previous  the state before; absent for a job that was not known
--       now       ms
--       hash      the job's fields, as pairs
--       offsets   as pairs
--       before    what the job was before, for a settle as `rejected`
--       is_limited '1' if the fleet counts the job's connections (hosts.lua)
--       defaults  the queue's, as pairs of a field and its JSON (defaults.lua)
-- Behind them, if they are fewer than the tokens, one with the answer 'empty', 'paused', 'full' (at max_running, or no start is left),
-- 'quiet' (this worker is to take no more), 'more' (call again), or 'stale': the worker has registered anew since, or is not known.
define('claim', {}, function()
  local settings, held, waiting = touch(ARGV[2])
  local retention = retention_of(settings, 5)
  if not is_current(ARGV[3]) then
    -- What the wait before it took.
    give_back(HELD, 1000)
    if has_places(settings) then offer_place(settings, true) end
    return { { 'answer', 'stale' } }
  end
  local claims = take(ARGV[2], { unpack(ARGV, 8) }, tonumber(ARGV[4]), retention, settings, held, waiting)
  -- This worker may have been the one that waited in the line.
  if has_places(settings) then offer_place(settings, has_job(claims) or settings.is_quiet) end
  return publish(claims)
end)
