-- Events: docs/reference/events.md. A call collects them in c.outbox, and publishes them after all other writes. If the
-- queue has the setting event_stream, each event but `progress` is also added to the stream `log`.
--
-- Uses: Call, History.
-- Calls ahead: Batches, Replies.
-- Writes: job:<id>, events:<id>, log.
do
  -- A text as a JSON string, with its quotes. cjson is five times as fast as gsub. It also writes \/ for each slash,
  -- which is valid everywhere, and is undone in short texts because people read them.
  function Events.quoted(text)
    local json = cjson.encode(text)
    if #json <= 16384 and find(json, '/', 1, true) then json = gsub(json, '\\/', '/') end
    return json
  end

  -- An event as JSON. subject: its member `id` or `batch`. seq: its number; nil for an event without one, which has no
  -- epoch either. about and members: further members, each with a leading comma, or ''.
  function Events.json(c, event, subject, seq, about, members)
    return '{"v":1,"event":"' .. event .. '",' .. subject .. ',"queue":"' .. c.QUEUE
      .. (seq and '","epoch":' .. Call.epoch(c) .. ',"seq":' .. seq .. ',"at":' or '","at":') .. c.NOW .. about .. members .. '}'
  end

  -- The queues whose streams have no entry since their events are not kept, so that most events cost no command. A restart
  -- of Redis forgets it.
  local is_emptied = {}

  -- Adds a published event to the queue's stream, if it has one. id: the job's, or batch/<name>. brief: the event without
  -- the response that it has, or nil. A stream keeps whole events, so large responses are left out of it.
  function Events.keep(c, event, id, json, brief)
    local max = c.settings and c.settings.event_stream
    if not c.settings then max = tonumber(number(call('HGET', c.SETTINGS, 'event_stream'))) end
    local log = c.PREFIX .. KEY.log
    -- The stream has every event since its oldest one. An event that is not added ends that, so the older ones are
    -- dropped: their readers find a gap. Groups of consumers stay, because XADD keeps the empty key.
    if not max or max < 1 or max > KEPT.events then
      c.keeps_no_events = true
      if is_emptied[c.PREFIX] then return end
      is_emptied[c.PREFIX] = true
      return try('XLEN', log) ~= 0 and try('XADD', log, 'MAXLEN', 0, '*', 'id', '')
    end
    is_emptied[c.PREFIX] = nil
    -- If the key has another type, the event is only published.
    try('XADD', log, 'MAXLEN', '~', integer_text(max), '*', 'event', event, 'id', id,
      'data', brief and #json > LARGEST.logged and brief or json)
  end

  -- The members of an event without the response that they have, whose header fields begin it; nil if they have none.
  function Events.without_response(members)
    local at = find(members, ',"headers":', 1, true)
    return at and sub(members, 1, at - 1) .. ',"response_dropped":true'
  end

  -- Puts an event of a job into the outbox. Sets c.seqs[id], the event's `seq`. job: the job, for `meta` and `seq`.
  -- members: further JSON members with a leading comma, or ''. worker: a name, or nil. reply_to: names of reply lists
  -- with blanks between them, or nil. is_private: the event goes only to those lists. An event with a large response is
  -- published without it. Returns the event, with `event`, its `json` and, if it has a response, `brief` without that.
  function Events.emit(c, id, job, event, members, worker, reply_to, is_private)
    local meta = event ~= 'progress' and job.meta
    local seqs, outbox = c.seqs, c.outbox
    local before = seqs[id]
    -- The first number is a time. So it is greater than the numbers of an earlier job of this id that was forgotten or
    -- has expired.
    local seq = (before or job.seq > 0 and job.seq or c.now) + 1
    seqs[id] = seq
    local subject = '"id":"' .. id .. '"'
    local about = worker and worker ~= '' and ',"worker":"' .. worker .. '"' or ''
    if meta then about = about .. ',"meta":' .. meta end
    local json = Events.json(c, event, subject, seq, about, members)
    -- Most events have no other members, and each one costs even if it is nil.
    local entry = { id = id, event = event, json = json, published = json }
    if before then entry.before = before end
    if is_private then entry.is_private = true end
    if event == 'failed' then entry.error_code = match(members, '"error":"([%w_]+)"') end
    local brief = Events.without_response(members)
    if brief then
      entry.brief = Events.json(c, event, subject, seq, about, brief)
      if #members > LARGEST.published then entry.published = entry.brief end
    end
    local copies = 1
    if reply_to then
      entry.reply_to = reply_to
      copies = 1 + select(2, gsub(reply_to, '%S+', ''))
    end
    outbox[#outbox + 1] = entry
    c.produced = c.produced + #json * copies
    return entry
  end

  -- Publishes an event. id: the job's, or batch/<name>. If Redis refuses that, c.refused is set to the error: whoever
  -- calls has changed other keys by then.
  function Events.send(c, id, json)
    local received = try('PUBLISH', c.PREFIX .. KEY.events .. id, json)
    if type(received) == 'table' then c.refused = c.refused or received.err end
  end

  -- Ends a call that may have emitted events; a settle calls it after each run as well. Ends batches whose members have
  -- all ended, writes the last `seq` and `epoch` of each job, and sends the outbox. Returns `result`. If Redis refuses to
  -- publish an event, all else is done: the end of a job is written by now, so that no later call would send its
  -- replies.
  function Events.publish(c, result)
    if c.touched_batches then Batches.update(c) end
    local seqs, outbox = c.seqs, c.outbox
    for id, seq in pairs(seqs) do
      call('HSET', c.JOB .. id, 'seq', seq, 'epoch', Call.epoch(c))
      seqs[id] = nil
    end
    for n, entry in ipairs(outbox) do
      outbox[n] = nil
      if not entry.is_private then
        Events.send(c, entry.id, entry.published)
        if entry.event ~= 'progress' then
          History.count(c, entry.event)
          if not c.keeps_no_events then Events.keep(c, entry.event, entry.id, entry.published, entry.brief) end
        end
        if entry.error_code then History.count(c, 'failed ' .. entry.error_code) end
      end
      if entry.reply_to then Replies.send(c, entry.reply_to, entry.json, entry.brief) end
    end
    return result
  end
end
