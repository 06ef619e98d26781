-- Counts what happens to jobs: in memory, so that counting costs no command. The last call of a tick writes the counts
-- to Redis, and so does a worker that leaves. A restart of Redis loses what was not written.
--
-- Writes: totals, history:<hour>.
do
  -- What has happened since the last tick, by queue and by name.
  local counts_of = {}
  -- What is kept for each minute. The totals have everything.
  local IN_MINUTES = { completed = true, failed = true, cancelled = true, retrying = true, duplicate = true, rejected = true,
    received = true }
  -- In ms: an hour's key is kept for two days after the hour.
  local LIFE = 49 * 3600000

  -- Adds `more` (1 if nil) to a count. what: the name of an event, 'claimed', 'lost', 'failed <code>' or 'received'.
  function History.count(c, what, more)
    local counts = counts_of[c.PREFIX]
    if not counts then
      counts = {}
      counts_of[c.PREFIX] = counts
    end
    counts[what] = (counts[what] or 0) + (more or 1)
  end

  -- Counts received bytes. reported: how many bytes the worker has received since it began. before: what it reported
  -- last. Both are texts, or nil or false.
  function History.receive(c, reported, before)
    local more = to_integer(reported) - to_integer(before)
    if more > 0 then History.count(c, 'received', more) end
  end

  -- Writes the counts of this queue, and sets them to 0.
  function History.keep(c)
    local counts = counts_of[c.PREFIX]
    if not counts then return end
    counts_of[c.PREFIX] = nil
    local minute = floor(c.now / 60000)
    local hour, is_kept = c.PREFIX .. KEY.history .. integer_text(floor(minute / 60)), false
    for what, more in pairs(counts) do
      -- If a key has another type, the counts are lost. No job is affected.
      try('HINCRBY', c.PREFIX .. KEY.totals, what, integer_text(more))
      if IN_MINUTES[what] then
        try('HINCRBY', hour, integer_text(minute % 60) .. ' ' .. what, integer_text(more))
        is_kept = true
      end
    end
    if is_kept then try('PEXPIRE', hour, LIFE) end
  end
end
