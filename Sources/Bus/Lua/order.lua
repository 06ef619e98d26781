-- The one order of pushes and requests: docs/bus.md, "The order of pushes and requests".
--
-- Each push and each request has a moment. The moment of a push is its `at`. Without `at`, or if `at` is ahead of
-- Redis' clock, it is when a worker takes the element. The moment of a request is its time. A request without a time
-- counts as made after the last tick that left no request in `want`, and after everything that was taken of its job. A
-- tick applies a request, or the call that takes an element of the same job, whichever comes first.

local last_heard, awaits, ask, hear

do
  -- Until when (ms) a request without a time counts as not yet made: the last tick that left no request. Writes no key.
  function last_heard()
    local look, heard = string.match(call('GET', TICK) or '', '^(%d+) %d+ ?(%d*)$')
    return tonumber(heard) or tonumber(look) or now
  end

  -- Whether a push is newer than a request of `moment`. at: ms, or nil for a push without a time, which is newer.
  local function is_newer(at, moment) return not at or at > tonumber(moment) end

  -- The request that waits behind a cancel of which the run does not know yet: its word and its moment. nil if there is
  -- none.
  local function behind_of(h)
    local want, moment = string.match(h.behind or '', '^(%a+) (%d+)$')
    return want, moment
  end

  -- The request that stops a push: any request for a job that is not known, a pause for a job that has ended. nil if
  -- there is none, or if the push is newer. at: the push's moment (ms), or nil. Deletes requests from `h` that the push
  -- is newer than. Writes no key.
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

  -- Keeps a push that came behind a request of which the run does not know yet. follow() does the push once the request
  -- is done. Writes job:<id> (again, ahead, behind), spec:<id> (the `again` fields), and batches.await().
  function INSTEAD.again(id, h, j, element)
    local k, s = key(id), spec(id)
    local is_job = (j.url or j.urls) and true
    if j.batch then call('HSET', s, 'again_batch', batches.await(id, call('HGET', s, 'again_batch') or nil, j.batch)) end
    if j.reply_to then call('HSET', s, 'again_reply_to', (join(call('HGET', s, 'again_reply_to') or nil, j.reply_to))) end
    -- When the kept job was pushed, and when the push that renews its URLs was made. A continuation cannot begin a job.
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
    -- Behind a cancel, a continuation has nothing to continue; only a job takes back the pause.
    if moment and is_job and is_newer(j.at, moment) then call('HDEL', k, 'behind') end
  end

  -- Drops the kept push, because a newer request stops it. ending: whether that request ends the job; if not, the URLs
  -- and headers of the kept push are still used.
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

  -- Whether a request of `made` (ms) that ends the job also ends the kept push, though something newer came behind that
  -- push. A continuation cannot bring an ended job back. A newer job can: it becomes the kept push, and the answer is
  -- false.
  local function ends_kept(id, made)
    local first, newest = string.match(call('HGET', spec(id), 'again_has_url') or '', '^(%d+) ?(%d*)$')
    if not first or tonumber(first) < MOMENTS.least or tonumber(first) > made then return false end
    if newest == '' or tonumber(newest) <= made then return true end
    call('HSET', spec(id), 'again', call('HGET', spec(id), 'again_renewed') or '', 'again_has_url', newest)
    call('HDEL', spec(id), 'again_renewed')
    return false
  end

  -- Notes a request that has to wait, for the run to learn of it or for the job to come. made: its moment (ms). The
  -- request may be older than one that waits already. At most one request that ends the job waits, and behind it a
  -- newer pause.
  function ask(id, h, want, made)
    local k, waits, since = key(id), h.want, tonumber(h.wantat or 0)
    local _, moment = behind_of(h)
    if want == 'paused' then
      -- An ending request cannot be taken back. A pause that is older than it has no effect.
      if ends(waits) then
        if made >= since and made > tonumber(moment or 0) then call('HSET', k, 'behind', 'paused ' .. whole(made)) end
        return
      end
      if made < since then return end
    elseif waits == 'paused' and since > made and (h.state or not forgets(want)) then
      call('HSET', k, 'behind', 'paused ' .. whole(since), 'want', want, 'wantat', whole(made))
      return
    end
    local is_kept = h.again and (tonumber(h.again) <= made or ends(want) and ends_kept(id, made))
    if h.state then
      -- A request that forgets the job wins, unless the job was pushed again since. A forgotten job cannot be
      -- continued.
      local is_anew = is_kept and call('HEXISTS', spec(id), 'again_has_url') == 1
      if forgets(waits) and want ~= 'deleted' and not is_anew then want = waits end
      -- The request stops all pushes up to the newer of the two moments.
      if ends(waits) then made = math.max(made, since) end
    elseif waits then
      -- Nobody knows the job. If the older request forgets, it settles the pushes before it at once; the newer request
      -- waits.
      local older = made < since and { want, made } or { waits, since }
      if forgets(older[1]) then call('HSET', k, 'asof', whole(math.max(older[2], tonumber(h.asof or 0)))) end
      if older[2] == made and older[1] == want then return end
    end
    call('HSET', k, 'want', want, 'wantat', whole(made))
    if moment and tonumber(moment) <= made then call('HDEL', k, 'behind') end
    if is_kept then forgo(id, h, ends(want)) end
  end

  -- Does `running` of `made` (ms), as a request for a running or an unknown job: takes back an older pause that waits.
  local function take_back(id, h, made)
    local _, moment = behind_of(h)
    -- A cancel may have reached the run already, and cannot be taken back.
    if moment then
      if tonumber(moment) <= made then call('HDEL', key(id), 'behind') end
    elseif h.want == 'paused' then
      call('HDEL', key(id), 'want', 'wantat')
      if h.again then forgo(id, h, false) end
    end
  end

  -- Does a request for a job that has ended.
  local function hear_final(id, h, want, made, retention)
    local k = key(id)
    if want == 'running' then
      -- A newer pause is for the job that goes on now.
      if h.want and tonumber(h.wantat) <= made then
        call('HDEL', k, 'want', 'wantat')
        h.want = nil
      end
      if h.behind then call('HDEL', k, 'behind') end
      if call('HEXISTS', spec(id), 'spec') == 1 then
        call('HDEL', k, 'crashes', 'attempt', unpack(OF_END))
        call('HSET', k, 'retried', whole(made))
        requeue(id, h, true, 'resumed', retention)
      end
    elseif forgets(want) then
      drop(id, want == 'deleted')
      forget(id, made)
    elseif made > tonumber(h.asof or 0) then
      -- It is for pushes that are older than it and still wait.
      if want == 'cancelled' then
        as_of(id, whole(made))
        if h.want and tonumber(h.wantat) <= made then call('HDEL', k, 'want', 'wantat') end
      elseif made > tonumber(h.wantat or 0) then call('HSET', k, 'want', want, 'wantat', whole(made)) end
    end
  end

  -- Does a request. value: the text from `want`, a word and perhaps a time (ms). heard: the result of last_heard(), for
  -- a request without a time. An invalid request is rejected.
  -- Writes job:<id>, spec:<id>, rejected, and what drop(), finish(), pause(), requeue() or forget() writes.
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
    -- No clock is ahead of Redis' own. A request without a time was made after everything that was taken of its job,
    -- and after whatever it cannot undo.
    local given = time ~= '' and math.min(tonumber(time), now)
    local seen = math.max(heard, pushed, tonumber(h.wantat or 0), tonumber(h.again or 0), tonumber(h.resumed or 0))
    local made = given or math.max(seen, settled)
    -- The job was pushed again after this request, and that push has been taken.
    if pushed > made then return end
    -- Whatever the job's state, an older push may wait for a host or for a worker of its kind.
    if want ~= 'running' then fleet.recheck_soon() end
    -- A request cannot undo what is newer. A newer pause of a failed job is done after the retry.
    if want == 'running' and made < tonumber(st == 'failed' and h.asof or settled) then return end
    local resumed = tonumber(h.resumed or 0)
    if want == 'paused' and made < resumed then return end
    -- The job had failed when this cancel was made, so the cancel is only for pushes that are older than it.
    if want == 'cancelled' and made < tonumber(h.retried or 0) then return as_of(id, whole(made)) end
    if want == 'running' and st then call('HSET', k, 'resumed', whole(math.max(made, resumed))) end
    if not st then
      if want == 'running' then
        take_back(id, h, made)
      elseif made >= tonumber(h.asof or 0) then
        -- A request may come before its job. A stub keeps it.
        ask(id, h, want, made)
        call('PEXPIRE', k, 3600000)
      end
    elseif st == 'running' then
      if want == 'running' then take_back(id, h, made) else ask(id, h, want, made) end
    elseif IS_FINAL[st] then hear_final(id, h, want, given or seen, retention)
    elseif want == 'running' then
      if st ~= 'queued' then requeue(id, h, true, 'resumed', retention) end
    elseif want == 'paused' then
      as_of(id, whole(made))
      if st ~= 'paused' then pause(id, h, retention) end
    else
      -- The job is paused by a newer pause. That pause stays in force for pushes between the two requests.
      local later = st == 'paused' and settled > made and settled
      if later then call('HSET', k, 'asof', whole(math.max(made, pushed))) else as_of(id, whole(made)) end
      drop(id)
      h.want, h.wantat = want, whole(made)
      finish(id, h, 'cancelled', retention, '')
      if later then hear(id, 'paused ' .. whole(later), retention, heard) end
    end
  end

  -- Does what came behind a request that is done now: the kept push, then the request behind the push. kept: the result
  -- of kept_of(). Writes what the push does (push.lua, requeue(), postpone()), batches.release(), and hear().
  follow = function(id, kept, retention)
    if kept.element then
      local j, h = read(kept.element), job(id)
      h.is_known = true
      -- The push has no `at` here: it is newer than what has just been settled.
      local word, reason = verdict(h, { kind = (j.url or j.urls) and 'job' or 'continuation', has_spec = call('HEXISTS', spec(id), 'spec') == 1 })
      -- The run completed the job before it learned of the pause, so nothing is left to continue.
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
        local due = j.delay and after_push(j, j.delay) or 0
        h.want = nil
        if due > now then postpone(id, h, due - now) else requeue(id, h, true, 'wanted', retention) end
      end
    end
    if kept.batch then batches.release(id, kept.batch) end
    if kept.behind then hear(id, kept.behind, retention, 0) end
  end
end
