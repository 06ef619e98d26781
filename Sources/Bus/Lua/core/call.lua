-- One call of a function: its keys, its arguments, its time, and what it has done so far.
--
-- KEYS of every function: 1 jobs  2 held:<worker>  3 worker:<worker>. All other names begin with the prefix of the
-- first key. The queue's hash tag puts all of them into one slot.
--
-- Redis keeps this library loaded, so each function is defined once and not at each call. Nothing of a call is left for
-- the next one: each call has an object of its own, `c`, which is the first argument of every function that needs it.
-- A field that nothing has set yet is nil.
--
-- Functions are not transactions: an error in the middle keeps the writes before it. So Settings.read() accesses the
-- keys that a call may write before the first write. A key of a wrong type raises its error there, and nothing has
-- changed. Jobs.read() and Jobs.wrong_type() do this for a job's own keys; a job with such a key stops no other job
-- (isolation.lua). Where Settings.read() does not cover the worker's hash or the list `rejected`, the function accesses
-- them first.
--
-- In all files: the queue is the list `jobs`, and its right end is the front. `job` is a job as Jobs.read() returns it,
-- and `push` is an envelope (envelopes.lua). `tick` is the table that tick.lua makes for its tasks.
--
-- Writes: epoch.
do
  -- What the calls of a queue have in common: the names of its keys. A call object inherits them.
  local function queue_of(jobs)
    local prefix = sub(jobs, 1, -5)
    return { __index = { JOBS = jobs, PREFIX = prefix, QUEUE = sub(prefix, 7, -3),
      -- A job's keys are these with its id. spec:<id> holds the elements as producers wrote them, with secrets. It is a
      -- key of its own, so that a reader of the job's hash sees no secrets.
      JOB = prefix .. KEY.job, SPEC = prefix .. KEY.spec, OFFSETS = prefix .. KEY.offsets,
      WANT = prefix .. KEY.want, LEASES = prefix .. KEY.leases, DEADLINES = prefix .. KEY.deadlines,
      WORKERS = prefix .. KEY.workers, SETTINGS = prefix .. KEY.settings, UNANNOUNCED = prefix .. KEY.unannounced,
      INDEX = { scheduled = prefix .. KEY.scheduled, paused = prefix .. KEY.paused, completed = prefix .. KEY.completed,
        failed = prefix .. KEY.failed, cancelled = prefix .. KEY.cancelled } } }
  end

  -- The queue that was served last.
  local queue = { __index = {} }

  -- Redis' clock in unix ms, as text. A simulation replaces Call.clock() and Call.server() (Functions.swift).
  function Call.clock()
    local time = call('TIME')
    return time[1] .. sub('00000' .. time[2], -6, -4)
  end

  local server
  -- The id of this server instance. It cannot change while this library is loaded.
  function Call.server()
    server = server or match(call('INFO', 'server'), 'run_id:(%x+)')
    return server
  end

  local function begin(keys, args)
    if not call then bind() end
    if keys[1] ~= queue.__index.JOBS then queue = queue_of(keys[1]) end
    local time = Call.clock()
    return setmetatable({ ARGV = args, NONCE = args[1], HELD = keys[2], WORKER = keys[3],
      -- The time as the text that is written, and as a number: Redis would format a number for each command.
      NOW = time, now = tonumber(time),
      -- Events to publish, and the number of the last event of each job: events.lua.
      outbox = {}, seqs = {},
      -- How many bytes of events, replies and entries of `rejected` this call has made so far, which limits what it
      -- claims (claims.lua), and how many jobs it has ended outside of their runs.
      produced = 0, ended_count = 0,
      -- How much this call may still push onto reply lists, and whether events wait for a tick (replies.lua).
      replies_left = nil, reply_bytes_left = nil, has_undelivered = nil,
      -- The fields that most calls set later: settings.lua, events.lua, workers.lua, defaults.lua, hosts.lua. A table
      -- that is made with them need not grow.
      settings = nil, max_connections = nil, retention = nil, epoch = nil, kinds = nil, has_defaults_or_limits = nil,
      defaults = nil, are_hosts_limited = nil }, queue)
  end

  -- Registers a function with Redis. run() gets the call, and returns the reply.
  function Call.define(name, flags, run)
    redis.register_function {
      function_name = LIBRARY .. '_' .. name, flags = flags, callback = function(keys, args) return run(begin(keys, args)) end }
  end

  -- The epoch of events, as text. A new epoch begins when another server instance serves the queue, after a failover or
  -- a restart. Redis may then have lost writes, and a job's next events may have numbers that were used before. An
  -- epoch is the time at which it began (unix ms), and greater than every known one.
  function Call.epoch(c)
    if c.epoch then return c.epoch end
    local kept = try('GET', c.PREFIX .. KEY.epoch)
    local known, run = match(type(kept) == 'string' and kept or '', '^(%d+) (%x+)$')
    if run ~= Call.server() then
      known = integer_text(math.max(c.now, tonumber(known or 0) + 1))
      call('SET', c.PREFIX .. KEY.epoch, known .. ' ' .. Call.server())
    end
    c.epoch = known
    return known
  end

  -- A reply: a list of names and values, without values that are false and without empty lists.
  function Call.named(values)
    local reply = {}
    for name, value in pairs(values) do
      if value and #value > 0 then reply[#reply + 1], reply[#reply + 2] = name, value end
    end
    return reply
  end
end
