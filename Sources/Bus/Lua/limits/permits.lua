-- Permits of running jobs under `max_running`, and whether a job may start.
--
-- A worker with a free slot waits at the queue. If `max_running` leaves no permit, the worker waits at the list
-- `permits` instead. A call that frees a permit without using it pushes one wake-up there, so that Redis wakes only the
-- worker that has waited longest. A wake-up is a hint: the worker that gets it still has to claim. It may be lost with
-- a connection, which is why ticks offer another one.
--
-- Calls ahead: Starts.
-- Writes: permits.
do
  -- Whether a limit may make workers wait in `permits`.
  function Permits.are_limited(c) return c.settings.max_running or c.settings.interval end

  -- How many more jobs may run; nil without `max_running`.
  function Permits.left(c)
    local max = c.settings.max_running
    -- A claim writes the leases of its jobs at its end.
    return max and max - call('ZCARD', c.LEASES) - (c.leases and #c.leases / 2 or 0)
  end

  -- Why no job may start: 'paused', or 'full' if `max_running` or the queue's limit of starts leaves nothing. nil if a
  -- job may start.
  function Permits.closed_by(c)
    local settings = c.settings
    if settings.is_paused then return 'paused' end
    local left = Permits.left(c)
    if left and left <= 0 then return 'full' end
    if settings.interval and Starts.available(c, '*', settings.interval) == 0 then return 'full' end
  end

  -- Wakes one worker that waits for a permit, if a permit is free and jobs wait. even_if_empty: wakes one even if
  -- no job waits, since some worker must wait at the queue for the next job.
  function Permits.offer(c, even_if_empty)
    if Permits.closed_by(c) or not (even_if_empty or call('LLEN', c.JOBS) > 0) then return end
    local wake_ups = try('LLEN', c.PREFIX .. KEY.permits)
    if wake_ups == 0 then
      call('LPUSH', c.PREFIX .. KEY.permits, '1')
      call('PEXPIRE', c.PREFIX .. KEY.permits, 60000)
    elseif type(wake_ups) == 'table' then
      -- No other program may write this key.
      call('DEL', c.PREFIX .. KEY.permits)
    end
  end
end
