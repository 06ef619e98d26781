-- The places of running jobs, and whether one may be taken.
--
-- A worker with a free slot waits in the line. Where `max_running` leaves no place, it waits in the list `places` instead: what
-- frees a place that it does not take itself puts one token there, and Redis wakes the worker that has waited longest, and no
-- other. A token promises nothing: whoever gets it asks for a job. It may be lost with a connection; ticks offer another.

-- Whether workers may have to wait for a place.
local function has_places(settings) return settings.max_running or settings.interval end

-- How many more jobs may run; nil without a limit.
local function places_left(settings)
  return settings.max_running and settings.max_running - call('ZCARD', LEASES)
end

-- Why no job may be started: 'paused' or 'full', also where the queue's limit of starts leaves none; nil if one may.
local function closed_by(settings)
  if settings.is_paused then return 'paused' end
  local left = places_left(settings)
  if left and left <= 0 then return 'full' end
  if settings.interval and fleet.startable('*', settings.interval) == 0 then return 'full' end
end

-- Wakes one worker that waits for a place, if one is free and either jobs wait or `is_news`: somebody must wait in the line for
-- the next job, too.
local function offer_place(settings, is_news)
  if closed_by(settings) or not (is_news or call('LLEN', JOBS) > 0) then return end
  local tokens = redis.pcall('LLEN', PLACES)
  if tokens == 0 then
    call('LPUSH', PLACES, '1')
    call('PEXPIRE', PLACES, 60000)
  elseif type(tokens) == 'table' then
    -- Nothing of anybody's belongs there.
    call('DEL', PLACES)
  end
end
