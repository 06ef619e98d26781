-- Duties of tick.lua: workers on one machine miss each other before a lease ends. `place` is a machine since it was started, and
-- whose processes can be told by their numbers; '' if that cannot be known. What a worker says of its process is
-- 'instance number start'.

-- Notes in `tick.silent` the worker and process of those at this place that have been silent for longer than a tick: whether their
-- processes are there is for their neighbour to see.
local function meet_neighbours(tick)
  local silent = tick.silent
  if tick.place == '' or not tick.is_known then return end
  local host = PREFIX .. KEY.host .. tick.place
  if call('HGET', host, tick.worker) ~= tick.process then
    call('HSET', host, tick.worker, tick.process)
    call('PEXPIRE', host, 86400000)
  end
  local all = call('HGETALL', host)
  for k = 1, #all, 2 do
    local seen = call('ZSCORE', WORKERS, all[k])
    if not seen then call('HDEL', host, all[k])
    elseif all[k] ~= tick.worker and tonumber(seen) <= now - 1300 then
      silent[#silent + 1], silent[#silent + 2] = all[k], all[k + 1]
    end
  end
end

-- What a worker has whose process is gone, as a neighbour has seen: from ARGV[first]: their count, then worker and
-- process of each.
local function reap_gone(tick, first)
  local last = first + 2 * tonumber(ARGV[first])
  for k = first + 1, last, 2 do
    local worker, process = ARGV[k], ARGV[k + 1]
    local host, hash = PREFIX .. KEY.host .. tick.place, PREFIX .. KEY.worker .. worker
    local instance = redis.pcall('HGET', hash, 'instance')
    -- Not of a process that has taken its name since.
    if call('HGET', host, worker) == process and instance == string.match(process, '^%S+') then
      fleet.end_shares(instance)
      -- Of all that it says of itself there are fewer than 20.
      local most, tokens, held = share(tick), {}, {}
      local claims = call('HRANDFIELD', hash, most + 20, 'WITHVALUES')
      for n = 1, #claims, 2 do
        local token, id = claims[n], claims[n + 1]
        if #held < most and #token == 32 and string.find(token, '^%x+$') then
          held[#held + 1], tokens[id] = id, token
          call('HDEL', hash, token)
        end
      end
      -- What cannot be put back now is left to its lease.
      each(held, function(id)
        local j = not is_strange(id) and job(id) or {}
        if j.state == 'running' and j.token == tokens[id] then reap(tick, id, j) end
      end, function() end)
      spend(tick, #held, most)
      if give_back(PREFIX .. KEY.held .. worker, 50) and #held < most then call('HDEL', host, worker) else tick.more = true end
    end
  end
end
