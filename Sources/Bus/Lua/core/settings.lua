-- The queue's settings.
--
-- Calls ahead: Starts.
do
  local function is_on(text) return text == '1' or text == 'true' end

  local function positive(text)
    local value = tonumber(number(text))
    return value and value > 0 and value or nil
  end

  -- For how long ended jobs are kept: ms as text. The setting (in seconds) comes before the worker's value.
  local function kept(setting, otherwise)
    local seconds = tonumber(number(setting))
    return seconds and seconds >= KEPT.min and seconds <= KEPT.max and integer_text(seconds * 1000) or otherwise
  end

  -- The settings of a queue that has set none, like most queues. They are made once, because each call needs them.
  local NONE = { is_paused = false, is_quiet = false, max_responses_bytes = KEPT.responses,
    max_replies_bytes = KEPT.replies, run_limits = {}, texts = {} }

  -- Sets c.settings and c.max_connections. values: of the hash `settings`, in the order in which Settings.read() asks.
  local function set(c, values)
    local is_any_set = false
    for n = 1, 12 do is_any_set = is_any_set or values[n] end
    if not is_any_set then
      c.settings, c.max_connections = NONE, false
      return
    end
    local paused, max_running, quiet, host_connections, rate, max_responses_bytes, starts, max_replies_bytes, max_seconds,
      min_speed, max_bytes, event_stream = unpack(values)
    c.max_connections = tonumber(number(host_connections)) or false
    c.settings = { is_paused = is_on(paused), max_running = tonumber(number(max_running)),
      is_quiet = is_on(quiet),
      -- Milliseconds between the starts of any two jobs of the queue; nil without such a limit.
      interval = starts and Starts.interval(starts),
      max_responses_bytes = tonumber(number(max_responses_bytes)) or KEPT.responses,
      max_replies_bytes = tonumber(number(max_replies_bytes)) or KEPT.replies,
      -- How many events the stream keeps; nil for no stream.
      event_stream = positive(event_stream),
      run_limits = { max_seconds = positive(max_seconds), min_speed = positive(min_speed), max_bytes = positive(max_bytes) },
      texts = { max_running = max_running, host_connections = host_connections, rate = rate, starts = starts,
        max_seconds = max_seconds, min_speed = min_speed, max_bytes = max_bytes } }
  end

  -- Reads the queue's settings, and accesses the keys that the call may write (call.lua). worker: the caller's name, if
  -- the caller is a worker. first: where its values for c.retention begin in ARGV; nil for a call that can end
  -- neither a job nor a batch. Sets c.settings, c.max_connections, and c.retention, the ms for which ended jobs are kept
  -- by their states. Returns the next elements of this worker's `held` list and of the queue, which stay there; false
  -- for an empty list.
  function Settings.read(c, worker, first)
    local index, ARGV = c.INDEX, c.ARGV
    -- ZINTER checks the type of each key. The first key never exists, so there is nothing to compute.
    call('ZINTER', 9, c.PREFIX .. 'none', c.UNANNOUNCED, c.LEASES, index.scheduled, index.paused, index.completed,
      index.failed, index.cancelled, c.DEADLINES)
    local values = call('HMGET', c.SETTINGS, 'paused', 'max_running', 'quiet:' .. (worker or ''), 'host_connections', 'rate',
      'max_responses_bytes', 'starts', 'max_replies_bytes', 'max_seconds', 'min_speed', 'max_bytes', 'event_stream', 'keep_completed',
      'keep_failed', 'keep_cancelled')
    set(c, values)
    c.retention = first and { completed = kept(values[13], ARGV[first]), failed = kept(values[14], ARGV[first + 1]),
      cancelled = kept(values[15], ARGV[first + 2]) }
    c.front = call('LINDEX', c.JOBS, -1)
    return call('LINDEX', c.HELD, -1), c.front
  end
end
