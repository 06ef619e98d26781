-- Writes what was counted of jobs. prelude.lua counts in memory. The last call of a tick writes the counts, and so does
-- a worker that leaves.

do
  -- What is kept for each minute. The totals have everything.
  local IN_MINUTES = { completed = true, failed = true, cancelled = true, retrying = true, duplicate = true, rejected = true,
    received = true }
  -- In ms: an hour's key is kept for two days after the hour.
  local LIFE = 49 * 3600000

  -- Counts received bytes. reported: how many bytes the worker has received since it began. before: what it reported
  -- last. Both are texts, or nil or false. Writes no key.
  function history.receive(reported, before)
    local more = (tonumber(number(reported)) or 0) - (tonumber(number(before)) or 0)
    if more > 0 then history.count('received', more) end
  end

  -- Writes the counts of this queue, and sets them to 0. Writes totals, history:<hour>.
  function history.keep()
    local counts = history.counts[PREFIX]
    if not counts then return end
    history.counts[PREFIX] = nil
    local minute = math.floor(now / 60000)
    local hour, is_kept = PREFIX .. KEY.history .. integer_text(math.floor(minute / 60)), false
    for what, more in pairs(counts) do
      -- If a key has another type, the counts are lost. No job is affected.
      redis.pcall('HINCRBY', PREFIX .. KEY.totals, what, integer_text(more))
      if IN_MINUTES[what] then
        redis.pcall('HINCRBY', hour, integer_text(minute % 60) .. ' ' .. what, integer_text(more))
        is_kept = true
      end
    end
    if is_kept then redis.pcall('PEXPIRE', hour, LIFE) end
  end
end
