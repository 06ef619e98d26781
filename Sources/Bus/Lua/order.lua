-- The one order of pushes and requests: docs/bus.md, "The order of pushes and requests".
--
-- Each has a moment. That of a push is its `at`, or where it has none or one that is ahead, when it is taken. That of a request
-- is its time; one that has none was made after the last look that left no request, and after what has been taken of its job.
-- A request is heard by the tick, or by whoever takes an element of its job.

local last_heard, awaits, ask, hear

do
  -- By when a request without a time was not yet made.
  function last_heard()
    local look, heard = string.match(call('GET', TICK) or '', '^(%d+) %d+ ?(%d*)$')
    return tonumber(heard) or tonumber(look) or now
  end

  -- Whether a push of `at`, nil without one, is newer than a request of `moment`.
  local function is_newer(at, moment) return not at or at > tonumber(moment) end

  -- A request that came behind a cancel which a run has not heard of, as it was written.
  local function behind_of(h)
    local want, moment = string.match(h.behind or '', '^(%a+) (%d+)$')
    return want, moment
  end

  -- The request that waits for a push: any for a job that is not known, a pause for one that has ended. nil where the push is
  -- newer. Requests that the push is newer than are taken out of `h`.
  function awaits(h, at)
    if h.state and not IS_FINAL[h.state] then return nil end
    local function stops(moment) return at and not is_newer(at, moment) or not at and not h.state end
    if h.want and stops(h.wantat) then return h.want end
    h.want, h.wantat = behind_of(h)
    h.behind = nil
    if h.want and stops(h.wantat) then return h.want end
    h.want, h.wantat = nil, nil
    return nil
  end

  -- A push that came behind a request which a run has not heard of is kept until the run has.
  function INSTEAD.again(id, h, j, element)
    local k, s = key(id), spec(id)
    local is_job = (j.url or j.urls) and true
    if j.batch then call('HSET', s, 'again_batch', batches.await(id, call('HGET', s, 'again_batch') or nil, j.batch)) end
    if j.reply_to then call('HSET', s, 'again_reply_to', (join(call('HGET', s, 'again_reply_to') or nil, j.reply_to))) end
    -- When the push was made that is kept, and the one that renews it: a continuation has nothing to begin with.
    local has_url = h.again and call('HGET', s, 'again_has_url')
    local newest = is_job and (has_url and string.match(has_url, '%d+$') or '0') or h.again
    if j.at and tonumber(newest or 0) > j.at then return end
    local made = moment_of(j.at)
    if is_job and has_url and ends(h.want) then
      call('HSET', s, 'again_renewed', element, 'again_has_url', string.match(has_url, '^%d+') .. ' ' .. made)
    elseif is_job or not has_url then
      call('HSET', s, 'again', element)
      if is_job then call('HSET', s, 'again_has_url', made) end
    end
    call('HSET', k, 'again', whole(math.max(tonumber(made), tonumber(h.again or 0))))
    note_ahead(id, j.at)
    local _, moment = behind_of(h)
    -- To continue what was cancelled before it means nothing.
    if moment and is_job and is_newer(j.at, moment) then call('HDEL', k, 'behind') end
  end

  -- What was kept is not done after all: a request that came behind it has the last word. Only its URLs and headers stay,
  -- unless the job ends.
  local function forgo(id, h, ending)
    local v = call('HMGET', spec(id), 'again', 'again_reply_to', 'again_batch')
    local kept = h.again and v[1]
    call('HDEL', key(id), 'again')
    call('HDEL', spec(id), 'again', 'again_has_url', 'again_renewed', 'again_reply_to', 'again_batch')
    await_end(id, h, v[2] or nil)
    if v[3] then batches.enter(id, h, v[3]) end
    local j = kept and not ending and read(kept)
    if j and (j.url or j.urls) then renew(id, h, j, kept, h.again) end
  end

  -- Whether what ends a job ends the push that is kept, though something newer came behind that: a continuation brings nothing back,
  -- and a newer push begins anew.
  local function ends_kept(id, made)
    local first, newest = string.match(call('HGET', spec(id), 'again_has_url') or '', '^(%d+) ?(%d*)$')
    if not first or tonumber(first) < MOMENTS.least or tonumber(first) > made then return false end
    if newest == '' or tonumber(newest) <= made then return true end
    call('HSET', spec(id), 'again', call('HGET', spec(id), 'again_renewed') or '', 'again_has_url', newest)
    call('HDEL', spec(id), 'again_renewed')
    return false
  end

  -- Notes a request that waits: for a run to hear of it, or for a job to come. It may be older than one that waits already: what ends
  -- the job is one request, with a pause behind it if that is newer.
  function ask(id, h, want, made)
    local k, waits, since = key(id), h.want, tonumber(h.wantat or 0)
    local _, moment = behind_of(h)
    if want == 'paused' then
      -- What ends a job is not taken back, and a pause of before it is done by it.
      if ends(waits) then
        if made > tonumber(moment or 0) then call('HSET', k, 'behind', 'paused ' .. whole(made)) end
        return
      end
      if made < since then return end
    elseif waits == 'paused' and since > made and (h.state or not forgets(want)) then
      call('HSET', k, 'behind', 'paused ' .. whole(since), 'want', want, 'wantat', whole(made))
      return
    end
    local is_kept = h.again and (tonumber(h.again) <= made or ends(want) and ends_kept(id, made))
    if h.state then
      -- What forgets the job has the last word, unless the job was pushed again since: to continue what was forgotten means nothing.
      local is_anew = is_kept and call('HEXISTS', spec(id), 'again_has_url') == 1
      if forgets(waits) and want ~= 'deleted' and not is_anew then want = waits end
      -- It stops the pushes of before the newer one of the two.
      if ends(waits) then made = math.max(made, since) end
    elseif waits then
      -- Nobody knows the job: what forgets it is done for the pushes of before it, and the newer of the two waits.
      local older = made < since and { want, made } or { waits, since }
      if forgets(older[1]) then call('HSET', k, 'asof', whole(math.max(older[2], tonumber(h.asof or 0)))) end
      if older[2] == made and older[1] == want then return end
    end
    call('HSET', k, 'want', want, 'wantat', whole(made))
    if moment and tonumber(moment) <= made then call('HDEL', k, 'behind') end
    if is_kept then forgo(id, h, ends(want)) end
  end

  -- `running` as a request for a running job, or one that is not known: takes back a pause that waits.
  local function take_back(id, h)
    -- A cancel may have been heard already, and cannot be taken back.
    if h.behind then call('HDEL', key(id), 'behind')
    elseif h.want == 'paused' then
      call('HDEL', key(id), 'want', 'wantat')
      if h.again then forgo(id, h, false) end
    end
  end

  -- A request for a job that has ended.
  local function hear_final(id, h, want, made, retention)
    local k = key(id)
    if want == 'running' then
      if h.want then call('HDEL', k, 'want', 'wantat') end
      if h.behind then call('HDEL', k, 'behind') end
      if call('HEXISTS', spec(id), 'spec') == 1 then
        h.want = nil
        call('HDEL', k, 'crashes', 'attempt', unpack(OF_END))
        requeue(id, h, true, 'resumed', retention)
      end
    elseif forgets(want) then
      drop(id, want == 'deleted')
      forget(id, made)
    elseif made > tonumber(h.asof or 0) then
      -- For a push of before it that still waits.
      if want == 'cancelled' then
        as_of(id, whole(made))
        if h.want then call('HDEL', k, 'want', 'wantat') end
      else call('HSET', k, 'want', want, 'wantat', whole(made)) end
    end
  end

  -- Does what a request asks for. `heard`: by when one without a time was not yet made.
  function hear(id, value, retention, heard)
    local want, time = string.match(value, '^(%a+) ?(%d*)$')
    if not (want == 'running' or want == 'paused' or ends(want)) then
      return reject(value, 'want: must be paused, cancelled, running, removed or deleted, and perhaps unix ms behind a space',
        is_id(id) and id or nil)
    end
    if time ~= '' and (tonumber(time) < MOMENTS.least or tonumber(time) > MOMENTS.most) then
      return reject(value, 'want: the time ' .. MOMENTS.rule, is_id(id) and id or nil)
    end
    if not is_id(id) then return reject(value, 'want: "' .. string.sub(id, 1, 128) .. '" is no id of a job') end
    if is_strange(id) then return reject(value, strange(id), id) end
    local h, k = job(id), key(id)
    local st, pushed = h.state, tonumber(h.pushed or 0)
    local settled = math.max(tonumber(h.wantat or 0), tonumber(h.asof or 0))
    -- No clock is ahead of Redis' own. One without a time was made after what was taken, and what it can not undo.
    local given = time ~= '' and math.min(tonumber(time), now)
    local seen = math.max(heard, pushed, tonumber(h.wantat or 0), tonumber(h.again or 0), tonumber(h.resumed or 0))
    local made = given or math.max(seen, settled)
    -- What it was for has been asked for anew, and that has been taken already.
    if pushed > made then return end
    -- It was made before what it would undo.
    if want == 'running' and made < settled then return end
    if want == 'paused' and made < tonumber(h.resumed or 0) then return end
    if want == 'running' and st and not IS_FINAL[st] then call('HSET', k, 'resumed', whole(made)) end
    if not st then
      if want == 'running' then
        take_back(id, h)
      elseif made >= tonumber(h.asof or 0) then
        -- A request may come before its job: a stub waits for it.
        ask(id, h, want, made)
        call('PEXPIRE', k, 3600000)
      end
    elseif st == 'running' then
      if want == 'running' then take_back(id, h) else ask(id, h, want, made) end
    elseif IS_FINAL[st] then hear_final(id, h, want, given or seen, retention)
    elseif want == 'running' then
      if st ~= 'queued' then requeue(id, h, true, 'resumed', retention) end
    elseif want == 'paused' then
      as_of(id, whole(made))
      if st ~= 'paused' then pause(id, h, retention) end
    else
      -- A pause that was heard already, and is newer, is for what is pushed between the two.
      local later = st == 'paused' and settled > made and settled
      if later then call('HSET', k, 'asof', whole(math.max(made, pushed))) else as_of(id, whole(made)) end
      drop(id)
      h.want, h.wantat = want, whole(made)
      finish(id, h, 'cancelled', retention, '')
      if later then hear(id, 'paused ' .. whole(later), retention, heard) end
    end
  end

  -- What came behind a request is done when that is: a push, and then a request behind it.
  follow = function(id, kept, retention)
    if kept.element then
      local j, h = read(kept.element), job(id)
      h.is_known = true
      -- It is newer than what has just been settled.
      local word, reason = verdict(h, { kind = (j.url or j.urls) and 'job' or 'continuation', has_spec = call('HEXISTS', spec(id), 'spec') == 1 })
      -- The run ended before it heard of the pause: nothing is to be continued.
      if h.state == 'completed' and not ends(kept.want) then word, reason = 'duplicate', 'done' end
      fleet.complete(j)
      j.reply_to, j.batch = kept.reply_to, kept.batch
      local instead = INSTEAD[word]
      if instead then instead(id, h, j, kept.element, retention, reason)
      else
        local fields, set = note(id, h, j, kept.element, word == 'begin')
        if tonumber(kept.moment) > tonumber(h.pushed or 0) then set('pushed', kept.moment) end
        if #fields > 0 then call('HSET', key(id), unpack(fields)) end
        if kept.renewed then call('HSET', spec(id), 'renewed', kept.renewed) end
        local due = j.delay and ((j.at or now) + j.delay * 1000) or 0
        h.want = nil
        if due > now then postpone(id, h, due - now) else requeue(id, h, true, 'wanted', retention) end
      end
    end
    if kept.batch then batches.release(id, kept.batch) end
    if kept.behind then hear(id, kept.behind, retention, 0) end
  end
end
