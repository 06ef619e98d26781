-- What became of jobs. It is counted as it happens (prelude.lua), and written here by the last call of a tick, and by a worker that leaves.

do
  -- What is kept of each minute. The totals have all.
  local IN_MINUTES = { completed = true, failed = true, cancelled = true, retrying = true, duplicate = true, rejected = true,
    received = true }
  -- In ms: an hour's key outlives its hour by two days.
  local LIFE = 49 * 3600000

  -- A worker tells how many bytes it has received in all; `before` is what it had told before.
  function history.receive(told, before)
    local more = (tonumber(number(told)) or 0) - (tonumber(number(before)) or 0)
    if more > 0 then history.count('received', more) end
  end

  function history.keep()
    local counts = history.counts[PREFIX]
    if not counts then return end
    history.counts[PREFIX] = nil
    local minute = math.floor(now / 60000)
    local hour, is_kept = PREFIX .. KEY.history .. whole(math.floor(minute / 60)), false
    for what, more in pairs(counts) do
      -- Into a key of another type nothing is counted, and no job is the worse for it.
      redis.pcall('HINCRBY', PREFIX .. KEY.totals, what, whole(more))
      if IN_MINUTES[what] then
        redis.pcall('HINCRBY', hour, whole(minute % 60) .. ' ' .. what, whole(more))
        is_kept = true
      end
    end
    if is_kept then redis.pcall('PEXPIRE', hour, LIFE) end
  end
end
