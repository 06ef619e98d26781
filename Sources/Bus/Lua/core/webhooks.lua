-- Webhooks: requests with the event of an end (docs/guides/webhooks.md). They are jobs of the kind `request` that the
-- call of the end pushes. The worker that sends one signs it.
--
-- `notify` of a job's hash names the events that are reported. The beginning of the element, with the URL, is in
-- spec:<id>, because a URL may be secret.
--
-- Uses: Events, History.
-- Calls ahead: Defaults, Json, Urls.
-- Writes: job:<id>, spec:<id>, jobs.
do
  -- In bytes: the most of an event in an element, besides the URL.
  local MAX_EVENT = 12288
  -- A webhook fails if its server has not accepted it within a day.
  local TEXT = '"kind":"request","method":"POST","url":%s,"webhook":"%s","deadline":86400,"max_response":16384,"json":'

  local MEMBERS = {
    url = function(url) return Urls.is_url(url) and #url <= KIND.notify.max_url end,
    secret = is_id,
    events = function(events)
      if type(events) ~= 'table' or #events < 1 or #events > #KIND.notify.events then return false end
      local count = 0
      for index, event in pairs(events) do
        count = count + 1
        if type(index) ~= 'number' or type(event) ~= 'string' or not KIND.notify.is_event[event] then return false end
      end
      return count == #events
    end,
  }

  -- Whether a job's field `notify` may have this value.
  function Webhooks.accepts(notify)
    if notify == false then return true end
    if type(notify) ~= 'table' then return false end
    for name, value in pairs(notify) do
      if not (MEMBERS[name] and MEMBERS[name](value)) then return false end
    end
    return notify.url ~= nil and notify.secret ~= nil
  end

  -- The names of the events, with blanks between them.
  local function names_of(notify) return table.concat(notify.events or KIND.notify.events, ' ') end

  local function has(names, event) return find(' ' .. names .. ' ', ' ' .. event .. ' ', 1, true) ~= nil end

  local function beginning_of(notify)
    return string.format(TEXT, Events.quoted(notify.url), notify.secret)
  end

  -- Records what a push that begins its job says. set: adds a pair for the job's hash.
  function Webhooks.record(c, job, push, set)
    local notify = push.notify
    if notify then
      set('notify', names_of(notify))
      call('HSET', c.SPEC .. push.id, 'notify', beginning_of(notify))
    elseif job.notify then
      call('HDEL', c.JOB .. push.id, 'notify')
      call('HDEL', c.SPEC .. push.id, 'notify')
    end
    job.notify = notify and names_of(notify) or nil
  end

  local function push(c, subject, event, json, beginning)
    local epoch, seq = match(json, '"epoch":(%d+),"seq":(%d+)')
    local name = #subject <= 64 and subject or redis.sha1hex(subject)
    local id = name .. '.' .. event .. '-' .. epoch .. '-' .. seq
    call('LPUSH', c.JOBS, '{"id":"' .. id .. '",' .. beginning .. json .. '}')
    History.count(c, 'webhooks')
    c.produced = c.produced + #json + #beginning
    c.has_returned_elements = true
  end

  -- Whether an element with this event is nested too deep: the event's `meta` is one level deeper than in the element of
  -- the job. Few have so many brackets that it has to be read.
  local function is_too_deep(json, meta)
    return Json.count(meta, '[%[{]') > LARGEST.depth - 3 and not pcall(Json.decode, '[' .. json .. ']')
  end

  -- Pushes the webhook of a job's end, if the job has one for it. The caller has just written the end. entry: the event,
  -- as Events.emit() returns it.
  function Webhooks.report(c, id, job, entry)
    if not has(job.notify, entry.event) then return end
    local beginning = try('HGET', c.SPEC .. id, 'notify')
    if type(beginning) ~= 'string' then return end
    local json = entry.brief or entry.json
    -- A path, a message and a `meta` of the greatest length are together longer than an element may be.
    if #json > MAX_EVENT or job.meta and is_too_deep(json, job.meta) then
      json = Events.json(c, entry.event, '"id":"' .. id .. '"', match(json, '"seq":(%d+)'), '', ',"cut":true')
    end
    push(c, id, entry.event, json, beginning)
  end

  -- Keeps the beginning of the element while the event waits for replicas, although the rest of spec:<id> is deleted.
  function Webhooks.keep(c, id, ms)
    local beginning = call('HGET', c.SPEC .. id, 'notify')
    call('DEL', c.SPEC .. id)
    if beginning then
      call('HSET', c.SPEC .. id, 'notify', beginning)
      call('PEXPIRE', c.SPEC .. id, ms)
    end
  end

  -- Pushes the webhook of the end of a batch, if the queue's defaults have one for it.
  function Webhooks.report_batch(c, name, json)
    local notify = Defaults.value(c, 'notify')
    if not notify or not Webhooks.accepts(notify) then return end
    if not has(names_of(notify), 'batch_ended') then return end
    push(c, 'batch:' .. name, 'ended', json, beginning_of(notify))
  end
end
