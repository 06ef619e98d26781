-- Taking the next element: from what this worker holds, else from the line. Used by claim.lua and settle.lua.

local function reject(element, reason, id)
  local shown = type(element) == 'string' and string.sub(element, 1, 4096) or ''
  call('LPUSH', REJECTED, '{"at":' .. NOW .. ',"reason":' .. quoted(reason) .. ',"element":' .. quoted(shown) .. '}')
  call('LTRIM', REJECTED, 0, 999)
  id = id or 'unknown'
  call('PUBLISH', PREFIX .. 'events:' .. id, '{"v":1,"event":"rejected","id":"' .. id .. '","queue":"' .. QUEUE
    .. '","at":' .. NOW .. ',"reason":' .. quoted(reason) .. '}')
end

-- Whether a push of `at` is no newer than what was settled.
local function is_old(at, asof) return at and asof and tonumber(at) <= tonumber(asof) end

-- When the newest push that was taken was made, if this one is newer. Clocks differ: it was not made after now.
local function newer(at, h)
  local moment = at and math.min(at, now)
  return moment and moment > tonumber(h.pushed or 0) and whole(moment)
end

-- Takes the next jobs for `worker`, one for each of `tokens`. Returns them, {'job', …} each; behind the last one is what ended
-- it before there was a job for each: {'empty'}, {'closed'}, or {'more'} after 100 elements or 64 KiB of them: Redis does
-- nothing else meanwhile. `settings`, `held` and `waiting` are what touch() returned; the latter are nil if the line has changed
-- since.
local function take(worker, tokens, lease, retention, settings, held, waiting)
  local claims, token = {}, tokens[1]
  local function ended(how)
    claims[#claims + 1] = { how }
    return claims
  end
  local elements, bytes = 0, 0
  while elements < 100 and bytes < 65536 do
    elements = elements + 1
    -- Nothing that happens here gives the worker more to hold.
    if held == nil then held = call('LINDEX', HELD, -1) end
    if waiting == nil and not held then waiting = call('LINDEX', JOBS, -1) end
    if is_closed(settings) then
      if not held then return ended('closed') end
      call('RPUSH', JOBS, held)
      call('RPOP', HELD)
    else
      local list, element = held and HELD or JOBS, held or waiting
      if not element then return ended('empty') end
      bytes = bytes + #element
      local j, reason = read(element)
      local id = j and j.id
      if not reason and not id then
        if j.method ~= nil or j.headers ~= nil or j.urls ~= nil then id = string.sub(redis.sha1hex(element), 1, 16)
        else id = string.sub(redis.sha1hex(j.url .. '\n' .. (j.path or '')), 1, 16) end
      end
      -- Most are new, and have nothing to be read.
      local fields = not reason and size(key(id))
      if not reason and fields ~= 0 and is_strange(id) then
        reason = 'id: a key of job ' .. id .. ' holds no hash; delete it (haul check names it) and push the job again'
      end
      if reason then
        reject(element, reason, type(id) == 'string' and string.find(id, ID) and #id <= 128 and id or nil)
        call('RPOP', list)
      else
        local k = key(id)
        local h = fields > 0 and job(id) or { crashes = 0, attempt = 0, seq = 0 }
        local st, verdict = h.state, nil
        local isFinal = st == 'completed' or st == 'failed' or st == 'cancelled'
        if h.want and (isFinal or (j.at and h.asof and not st and j.at > tonumber(h.asof))) then
          call('HDEL', k, 'want', 'wantat')
          h.want = nil
        end
        if j.t and not (j.url or j.urls) then
          if st ~= 'queued' or h.ticket ~= j.t then verdict = 'stale'
          elseif call('HEXISTS', spec(id), 'spec') == 0 then verdict = 'gone' end
        elseif not (j.url or j.urls) then
          if not st then verdict = 'unknown'
          elseif st == 'running' then verdict = h.want == 'paused' and 'again' or 'duplicate'
          elseif st == 'queued' or is_old(j.at, h.asof) then verdict = 'duplicate'
          elseif call('HEXISTS', spec(id), 'spec') == 0 then verdict = 'spent'
          elseif h.want == 'paused' then call('HDEL', k, 'want', 'wantat') h.want = nil end
        elseif st and is_old(j.at, h.asof) then verdict = 'duplicate'
        elseif st == 'running' then
          if h.want and not is_old(j.at, h.wantat) then verdict = 'again' else verdict = 'refresh' end
        elseif st == 'queued' or st == 'scheduled' then verdict = 'refresh' end

        if verdict == 'unknown' then
          reject(element, 'id: no job ' .. id .. ' is known; push it with its url', id)
        elseif verdict == 'spent' then
          reject(element, 'id: job ' .. id .. ' is ' .. st .. ' and its url is no longer kept; push it with its url', id)
        elseif verdict == 'gone' then
          fail(id, h, 'bad_job', 'what was pushed is gone from Redis; push the job again with its url', false, retention)
        elseif verdict == 'again' then
          call('HSET', spec(id), 'again', element)
          call('HSET', k, 'again', '1')
        elseif verdict == 'refresh' then
          -- A newer url and headers replace the old ones: signed URLs expire.
          call('HSET', spec(id), 'spec', element)
          local moment = newer(j.at, h)
          if moment then call('HSET', k, 'pushed', moment) end
          emit(id, h, 'duplicate', ',"state":"' .. st .. '"')
        elseif verdict == 'duplicate' then
          emit(id, h, 'duplicate', ',"state":"' .. st .. '"')
        elseif not verdict then
          local due = (j.url or j.urls) and j.delay and ((j.at or now) + j.delay * 1000) or 0
          if not h.want and due <= now then call('HSET', WORKER, token, id) end
          local fields = {}
          local function set(name, value) fields[#fields + 1] = name fields[#fields + 1] = value end
          if j.url or j.urls then
            call('HSET', spec(id), 'spec', element)
            set('url', mask(j.url or j.urls[1]))
            if j.path then set('path', j.path) end
            if j.meta ~= nil then
              h.meta = RAW(element, 'meta')
              set('meta', h.meta)
            end
            if j.reply_to then
              h.reply_to = j.reply_to
              set('reply_to', j.reply_to)
            end
            if not st or isFinal then
              set('created', NOW)
              if j.deadline then
                h.deadline = whole((j.at or now) + j.deadline * 1000)
                set('deadline_at', h.deadline)
                call('ZADD', DEADLINES, h.deadline, id)
              end
            end
          end
          local moment = newer(j.at, h)
          if moment then set('pushed', moment) end
          if isFinal then
            h.crashes, h.attempt = 0, 0
            call('HDEL', k, 'crashes', 'attempt', 'error', 'message', 'finished')
          end
          if h.want or due > now then
            if #fields > 0 then call('HSET', k, unpack(fields)) end
          end
          if h.want then
            if not st and not h.asof then as_of(id) end
            if h.want == 'paused' then pause(id, h) else finish(id, h, 'cancelled', retention, '') end
          elseif due > now then
            postpone(id, h, due - now)
          else
            leave(id, h)
            set('state', 'running') set('token', token) set('worker', worker)
            set('started', NOW) set('updated', NOW)
            call('HSET', k, unpack(fields))
            if h.ticket or h.again or h.waiting then call('HDEL', k, 'ticket', 'again', 'waiting') end
            call('ZADD', LEASES, whole(now + lease), id)
            claims[#claims + 1] = { 'job', id, token, (j.url or j.urls) and element or call('HGET', spec(id), 'spec'), st or '', NOW,
              st and call('HGETALL', k) or {}, st and call('HGETALL', offsets(id)) or {} }
            token = tokens[#claims + 1]
          end
        end
        call('RPOP', list)
        if not token then return claims end
      end
    end
    held, waiting = held and nil, nil
  end
  return ended('more')
end
