-- Claims the next jobs for a worker with free slots. A worker that waits sends it immediately after its BLMOVE or
-- BLPOP.
--
-- ARGV: nonce, worker, session (is_current()), lease (ms), retention of completed, failed and cancelled jobs (ms), a
-- token for each job that is wanted
-- Returns a list of entries. Each is a list of names and values; empty values are left out. For each job:
--       answer      'job'
--       id, token
--       spec        the element as it was pushed
--       renewed     a newer push, whose URLs and headers are used
--       previous    the state before; absent for a job that was not known
--       now         ms
--       hash        the job's fields, as pairs
--       offsets     as pairs
--       before      the state of the job before the push, for a settle as `rejected`
--       is_limited  '1' if the fleet limits the job's connections (hosts.lua)
--       limits      of the run, by the settings and the host's limits, as pairs (hosts.lua)
--       defaults    the queue's, as pairs of a field and its JSON (defaults.lua)
-- If there are fewer jobs than tokens, a last entry has one of these answers: 'empty', 'paused', 'full' (at
-- max_running, or no start is left), 'quiet' (this worker claims no more jobs), 'more' (call again), 'stale' (the
-- worker has registered again since, or is not known). Writes what claim_elements() writes, and permits.
define('claim', {}, function()
  local settings, held, waiting = touch(ARGV[2])
  local retention = retention_of(settings, 5)
  if not is_current(ARGV[3]) then
    -- The BLMOVE before this call may have moved elements.
    return_elements(HELD, 1000)
    if has_permits(settings) then offer_permit(settings, true) end
    return { { 'answer', 'stale' } }
  end
  local claims = claim_elements(ARGV[2], { unpack(ARGV, 8) }, tonumber(ARGV[4]), retention, settings, held, waiting)
  -- If this worker was the only one that waited at the queue, another one has to wait there now.
  if has_permits(settings) then offer_permit(settings, has_job(claims) or settings.is_quiet) end
  return publish(claims)
end)
