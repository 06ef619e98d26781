-- A duty of tick.lua: the requests in `want`.

-- False if the finished file that is to be deleted is on another store: one of its workers will see to it.
local function is_near(tick, id, st, want)
  return want ~= 'deleted' or st ~= 'completed' or call('HGET', key(id), 'store') == tick.store
end

-- Of many requests any are looked at, so that those which have to wait for another store hold up none. One that does not say
-- when it was made is as old as the last look at them.
local function hear_requests(tick)
  local are_many = call('HLEN', WANT) > 200
  local wanted = are_many and call('HRANDFIELD', WANT, 200, 'WITHVALUES') or call('HGETALL', WANT)
  local ids, requests = {}, {}
  for k = 1, #wanted, 2 do
    ids[#ids + 1] = wanted[k]
    requests[wanted[k]] = wanted[k + 1]
  end
  each(ids, function(id)
    local want, made = string.match(requests[id], '^(%a+) ?(%d*)$')
    local isTimed = made and made ~= ''
    -- Clocks differ: it was not there at the last look, and it is there now.
    made = whole(math.max(tick.last, math.min(tonumber(made) or tick.last, now)))
    local known = string.find(id, ID) and #id <= 128 and (want == 'running' or want == 'paused' or ends(want))
      and not is_strange(id)
    local j = known and job(id) or {}
    local st = j.state
    local isFinal = st == 'completed' or st == 'failed' or st == 'cancelled'
    if not known then
      call('HDEL', WANT, id)
    elseif is_near(tick, id, st, want) then
      tick.more = are_many
      call('HDEL', WANT, id)
      if isTimed and want ~= 'running' and tonumber(j.pushed or 0) > tonumber(made) then
        -- What it was for has been asked for anew, and that has been taken already.
      elseif want == 'running' then
        -- A cancel may have been heard already, and cannot be taken back.
        if j.want == 'paused' or not st then call('HDEL', key(id), 'want', 'wantat') end
        if st == 'paused' or st == 'scheduled' then requeue(id, j, true, 'resumed', tick.retention)
        elseif isFinal and call('HEXISTS', spec(id), 'spec') == 1 then
          call('HDEL', key(id), 'crashes', 'attempt', 'error', 'message', 'finished')
          requeue(id, j, true, 'resumed', tick.retention)
        end
      elseif not st then
        -- A request may come before its job: a stub waits for it.
        call('HSET', key(id), 'want', want, 'wantat', made, 'asof', made)
        call('PEXPIRE', key(id), 3600000)
      elseif st == 'running' then
        call('HSET', key(id), 'want', want, 'wantat', made)
      elseif isFinal then
        if forgets(want) then
          drop(tick, id, want == 'deleted')
          forget(id)
        elseif want == 'cancelled' and tonumber(made) > tonumber(j.asof or 0) then
          as_of(id, made)
        end
      elseif ends(want) then
        as_of(id, made)
        drop(tick, id)
        j.want = want
        finish(id, j, 'cancelled', tick.retention, '')
      else
        as_of(id, made)
        if st ~= 'paused' then pause(id, j) end
      end
    end
  end, function(id, wrong)
    call('HDEL', WANT, id)
    reject(requests[id], 'want: job ' .. id .. ' cannot be changed: ' .. wrong, id)
  end)
end
