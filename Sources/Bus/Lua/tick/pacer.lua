-- Between two ticks: promotes delayed jobs that are due, finds schedules that are due, lets jobs start that wait for a
-- limit of starts, and sorts the queue by groups. One worker of the fleet is appointed for it, the pacer, so that the
-- others make no calls.
--
-- The key `pacer` says until when (ms) the others rely on its process: LATE ms after its next call. Then it expires.
--
-- Uses: Call, Due, Events, Groups, Hosts, Permits, Schedules, Settings, Starts.
-- Writes: pacer.
do
  local LATE = 250

  -- Wakes a worker if jobs wait for a start of the queue and one is free. host_wait: in how many ms the next job of a
  -- host may start, or nil. worker: the instance of the caller. Returns in how many ms the caller has to call pace();
  -- nil if no job waits for a start or is due within a second, or if another worker calls pace() in time.
  function Pacer.appoint(c, worker, host_wait)
    local wait, interval = host_wait, c.settings.interval
    if interval and call('LLEN', c.JOBS) > 0 then
      Permits.offer(c, false)
      wait = math.min(wait or math.huge, Starts.next_in(c, '*', interval, Starts.available(c, '*', interval)))
    end
    wait = wait and math.max(50, math.min(wait, 1000))
    -- At least 5 ms, so that jobs which are due one after the other share a call.
    local due_wait = c.next_due and math.max(5, math.ceil(c.next_due - c.now))
    if due_wait and due_wait <= (wait or 1000) then wait = due_wait end
    if not wait then return nil end
    local pacer = try('GET', c.PREFIX .. KEY.pacer)
    local due, other = match(type(pacer) == 'string' and pacer or '', '^(%d+) (.+)$')
    due = tonumber(due)
    -- Another worker that is only a little later is early enough.
    if due and other ~= worker and due > c.now and due <= c.now + wait + LATE + 20 then return nil end
    call('SET', c.PREFIX .. KEY.pacer, integer_text(c.now + wait + LATE) .. ' ' .. worker, 'PX', integer_text(wait + LATE))
    return wait
  end

  -- ARGV: nonce, worker, instance, retention of completed, failed and cancelled jobs (ms)
  -- Returns in how many ms it has to be called again; '' if it need not be. If schedules are due, that and the result of
  -- Schedules.find().
  Call.define('pace', { 'allow-oom' }, function(c)
    Settings.read(c, c.ARGV[2], 4)
    Due.promote(c, { left = 20 })
    local schedules = Schedules.find(c, false)
    local host_wait = Hosts.return_startable(c, 500)
    local _, group_wait = Groups.maintain(c, false)
    Groups.offer(c)
    local wait = Pacer.appoint(c, c.ARGV[3], group_wait and math.min(host_wait or group_wait, group_wait) or host_wait)
    local reply = wait and integer_text(wait) or ''
    return Events.publish(c, #schedules > 0 and { reply, schedules } or reply)
  end)
end
