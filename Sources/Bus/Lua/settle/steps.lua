-- What follows a job: the elements of its `then` or `else` (docs/guides/next-steps.md). Workers prepare them. Those of a
-- run come with its settle. If Redis itself fails a job, it keeps the job's element in the hash `owed_steps`, and a
-- worker prepares its steps. The field is the job's id and a token of the end. Who deletes it pushes the steps.
--
-- Uses: Call, History, Permits, Settings.
-- Writes: jobs, job:<id>, owed_steps.
do
  -- How many entries one tick hands out. Each has an element of up to 16 KiB.
  local MAX_ENTRIES = 8

  local function owed_key(c) return c.PREFIX .. KEY.owedSteps end

  -- Puts elements at the end of the queue.
  function Steps.push(c, elements)
    call('LPUSH', c.JOBS, unpack(elements))
    History.count(c, 'steps', #elements)
    for _, element in ipairs(elements) do c.produced = c.produced + #element end
  end

  -- Keeps the element of a job that fails outside of a run, if it may have a field `else`. code: of the error.
  function Steps.record_owed(c, id, code)
    local spec = try('HGET', c.SPEC .. id, 'spec')
    if type(spec) ~= 'string' then return end
    -- The name may be written with escapes.
    if not (find(spec, '"else"', 1, true) or find(spec, '\\u', 1, true)) then return end
    c.owed_count = (c.owed_count or 0) + 1
    -- A key of another type does not stop the end.
    try('HSET', owed_key(c), id .. ' ' .. c.NONCE .. c.owed_count, code .. ' ' .. spec)
  end

  -- A task of the tick: hands some entries to its worker. They stay until their steps are pushed.
  function Steps.hand_out(c, tick)
    local entries = try('HRANDFIELD', owed_key(c), MAX_ENTRIES, 'WITHVALUES')
    if not entries.err then tick.owed = entries end
  end

  -- Pushes the steps of an entry, unless that is done already.
  --
  -- ARGV: nonce, entry, id of the job, ids of the steps with blanks between them, elements
  -- Returns 'ok'.
  Call.define('push_steps', { 'allow-oom' }, function(c)
    local ARGV = c.ARGV
    Settings.read(c)
    local job = c.JOB .. ARGV[3]
    if call('HDEL', owed_key(c), ARGV[2]) == 1 and #ARGV > 4 then
      Steps.push(c, { unpack(ARGV, 5) })
      if try('HGET', job, 'state') == 'failed' then call('HSET', job, 'steps', ARGV[4]) end
      if Permits.are_limited(c) then Permits.offer(c, false) end
    end
    return 'ok'
  end)
end
