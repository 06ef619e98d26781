-- Permits of running jobs under `max_running`, and whether a job may start.
--
-- A worker with a free slot waits at the queue. If `max_running` leaves no permit, the worker waits at the list
-- `permits` instead. A call that frees a permit without using it pushes one wake-up there, so that Redis wakes only the
-- worker that has waited longest. A wake-up is a hint: the worker that gets it still has to claim. It may be lost with
-- a connection, which is why ticks offer another one.

-- Whether a limit may make workers wait in `permits`.
local function has_permits(settings) return settings.max_running or settings.interval end

-- How many more jobs may run; nil without `max_running`.
local function permits_left(settings)
  return settings.max_running and settings.max_running - call('ZCARD', LEASES)
end

-- Why no job may start: 'paused', or 'full' if `max_running` or the queue's limit of starts leaves nothing. nil if a
-- job may start. May write starts.
local function closed_by(settings)
  if settings.is_paused then return 'paused' end
  local left = permits_left(settings)
  if left and left <= 0 then return 'full' end
  if settings.interval and starts.available('*', settings.interval) == 0 then return 'full' end
end

-- Wakes one worker that waits for a permit, if a permit is free and jobs wait. is_news: wakes one even if no job waits,
-- since some worker must wait at the queue for the next job. Writes permits.
local function offer_permit(settings, is_news)
  if closed_by(settings) or not (is_news or call('LLEN', JOBS) > 0) then return end
  local wake_ups = redis.pcall('LLEN', PERMITS)
  if wake_ups == 0 then
    call('LPUSH', PERMITS, '1')
    call('PEXPIRE', PERMITS, 60000)
  elseif type(wake_ups) == 'table' then
    -- No other program may write this key.
    call('DEL', PERMITS)
  end
end
