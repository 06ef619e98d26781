-- Shared by all functions: the call's keys and clock, the settings, events, and the reading of a job. states.lua moves
-- jobs.
--
-- KEYS of every function: 1 jobs  2 held:<worker>  3 worker:<worker>. All other names begin with the prefix of the
-- first key. The queue's hash tag puts all of them into one slot.
--
-- Redis keeps this library loaded, so each function is defined once and not at each call. begin() sets the variables of
-- a call.
--
-- Functions are not transactions: an error in the middle keeps the writes before it. So touch() accesses the keys that
-- a call may write before the first write. A key of a wrong type raises its error there, and nothing has changed.
-- read_job() and wrong_type() do this for a job's own keys; a job with such a key stops no other job (isolate.lua).
-- Where touch() does not cover the worker's hash or the list `rejected`, the function accesses them first.
--
-- In all files: the queue is the list `jobs`, and its right end is the front. `job` is a job as read_job() returns it,
-- and `parsed` is an element as read() returns it. `settings` and `retention` come from touch() and retention_of();
-- `tick` is the table that tick.lua makes for its tasks.
local call, ARGV, NONCE
local JOBS, HELD, WANT, TICK, LEASES, SCHEDULED, REJECTED, WORKERS, WORKER, SETTINGS, DEADLINES, PERMITS
local INDEX, PREFIX, QUEUE, EPOCH, UNANNOUNCED
local now, NOW
local ID = '^[A-Za-z0-9._:-]+$'
-- Fields of a job's hash that say how its last run ended.
local END_FIELDS = { 'error', 'message', 'retryable', 'finished', 'seconds', 'unchanged', 'sent' }
-- Fields of a job's hash that hold its result. They are deleted when the id is pushed as a job of another kind.
kinds.results = { 'file', 'inode', 'mtime', 'checksum', 'validated', 'source', 'bytes', 'received', 'total', 'etag', 'last_modified',
  'digest', 'resource', 'final_url', 'generation', 'status', 'headers', 'body', 'body_base64', 'request_digest', 'method', 'files',
  'response_dropped' }
-- An element that is done, until its list is tidied (recheck.lua). No producer writes it.
local VOID = '{"void":true}'
local outbox, seqs, ticket_count, epoch
-- How many bytes of events, replies and entries of `rejected` this call has made so far, which limits what it claims
-- (claiming.lua), and how many jobs it has ended outside of their runs.
local produced, ended_count
-- The functions of hosts.lua, starts.lua, responses.lua and recheck.lua, and what a call has read or set for them.
local hosts, starts, responses, rechecks = {}, {}, {}, {}
-- The functions of batches.lua. `touched`: batches that this call has changed. `kept`: how long a batch is kept once
-- nothing of it is pending, in ms.
local batches = {}
-- Defined in order.lua and deletions.lua. Functions that move jobs call both.
local apply_pending, schedule_deletion

-- A whole number as its digits. Redis may write a number argument as 1.7e+12.
local function integer_text(number) return string.format('%d', number) end
-- Redis' clock in unix ms, as text. A simulation replaces clock() and identity() (Functions.swift).
local function clock()
  local time = call('TIME')
  return time[1] .. string.sub('00000' .. time[2], -6, -4)
end

-- The id of this server instance. It cannot change while this library is loaded.
local server
local function identity()
  server = server or string.match(call('INFO', 'server'), 'run_id:(%x+)')
  return server
end

-- Sets the variables of a call: names of keys, the time, an empty outbox. define() calls it before each function runs.
local function begin(keys, args)
  call, ARGV, NONCE = redis.call, args, args[1]
  if keys[1] ~= JOBS then
    JOBS = keys[1]
    PREFIX = string.sub(JOBS, 1, -5)
    QUEUE = string.sub(PREFIX, 7, -3)
    EPOCH, UNANNOUNCED, kinds.key = PREFIX .. KEY.epoch, PREFIX .. KEY.unannounced, PREFIX .. KEY.deferredKinds
    WANT, TICK, LEASES, SCHEDULED, DEADLINES = PREFIX .. KEY.want, PREFIX .. KEY.tick, PREFIX .. KEY.leases, PREFIX .. KEY.scheduled, PREFIX .. KEY.deadlines
    REJECTED, WORKERS, SETTINGS, PERMITS = PREFIX .. KEY.rejected, PREFIX .. KEY.workers, PREFIX .. KEY.settings, PREFIX .. KEY.permits
    INDEX = { scheduled = SCHEDULED, paused = PREFIX .. KEY.paused, completed = PREFIX .. KEY.completed, failed = PREFIX .. KEY.failed,
      cancelled = PREFIX .. KEY.cancelled }
  end
  HELD, WORKER = keys[2], keys[3]
  outbox, seqs, ticket_count, epoch, produced, ended_count = {}, {}, 0, nil, 0, 0
  batches.touched, batches.kept = nil, nil
  defaults.known, defaults.or_limits_cached = nil, nil
  hosts.max_connections, hosts.limits_exist, hosts.has_returned, hosts.full = nil, nil, false, {}
  starts.queue_interval, starts.buckets = nil, {}
  responses.is_memory_full, rechecks.is_due = nil, nil
  -- The time as a number, and as the text that is written: Redis would format a number for each command.
  NOW = clock()
  now = tonumber(NOW)
end

-- Registers a function with Redis. run() is called after begin(), and returns the reply.
local function define(name, flags, run)
  redis.register_function {
    function_name = LIBRARY .. '_' .. name, flags = flags,
    callback = function(keys, args)
      begin(keys, args)
      return run()
    end }
end

-- The names of a job's keys.
local function key(id) return PREFIX .. KEY.job .. id end
local function offsets(id) return PREFIX .. KEY.offsets .. id end
-- spec:<id> holds the elements as producers wrote them, with secrets. It is a key of its own, so that a reader of the
-- job's hash sees no secrets.
local function spec(id) return PREFIX .. KEY.spec .. id end

-- The next elements of this worker's `held` list and of the queue, which stay there; false for an empty list.
local function next_elements() return call('LINDEX', HELD, -1), call('LINDEX', JOBS, -1) end

-- Whether a call belongs to the worker's last registration. session: the instance and the session number, with a space
-- between them. A call that was sent over a connection lost since may still arrive, and no worker would receive the
-- jobs that it claims. Sets kinds.done, the kinds of jobs that this worker does. Writes no key.
local function is_current(session)
  local instance, known_session, done = unpack(call('HMGET', WORKER, 'instance', 'session', 'kinds'))
  kinds.done = done or kinds.all
  return instance and known_session and instance .. ' ' .. known_session == session
end

-- Returns `text` if it is a whole number, else nil, because any client may write into a hash. Lua writes no more than
-- 14 digits exactly.
local function number(text) return type(text) == 'string' and #text <= 14 and string.find(text, '^%d+$') and text or nil end

-- Whether a setting that is a switch is on.
local function is_on(value) return value == '1' or value == 'true' end

-- Reads the queue's settings, and accesses the keys that the call may write (see above). worker: the caller's name, if
-- the caller is a worker. Returns the settings by name, and the two results of next_elements(). Sets
-- hosts.max_connections, hosts.run_limits, responses.max_bytes and starts.queue_interval. Writes no key.
local function touch(worker)
  -- ZINTER checks the type of each key. The first key never exists, so there is nothing to compute.
  call('ZINTER', 9, PREFIX .. 'none', UNANNOUNCED, LEASES, SCHEDULED, INDEX.paused, INDEX.completed, INDEX.failed, INDEX.cancelled, DEADLINES)
  local paused, max_running, keep_completed, keep_failed, keep_cancelled, quiet, host_connections, rate, max_responses_bytes,
    starts_limit, max_replies_bytes, max_seconds, min_speed, max_bytes = unpack(call('HMGET', SETTINGS, 'paused', 'max_running',
      'keep_completed', 'keep_failed', 'keep_cancelled', 'quiet:' .. (worker or ''), 'host_connections', 'rate', 'max_responses_bytes',
      'starts', 'max_replies_bytes', 'max_seconds', 'min_speed', 'max_bytes'))
  hosts.max_connections = tonumber(number(host_connections)) or false
  responses.max_bytes = tonumber(number(max_responses_bytes)) or KEPT.responses
  responses.max_reply_bytes = tonumber(number(max_replies_bytes)) or KEPT.replies
  -- Milliseconds between the starts of any two jobs of the queue; nil without such a limit.
  starts.queue_interval = starts_limit and starts.interval(starts_limit)
  local function positive(text)
    local value = tonumber(number(text))
    return value and value > 0 and value or nil
  end
  hosts.run_limits = { max_seconds = positive(max_seconds), min_speed = positive(min_speed), max_bytes = positive(max_bytes) }
  return { is_paused = is_on(paused), max_running = tonumber(number(max_running)), keep_completed = keep_completed,
    keep_failed = keep_failed, keep_cancelled = keep_cancelled, is_quiet = is_on(quiet),
    has_rate = (tonumber(number(rate)) or 0) > 0, interval = starts.queue_interval,
    texts = { max_running = max_running, host_connections = host_connections, rate = rate, starts = starts_limit,
      max_seconds = max_seconds, min_speed = min_speed, max_bytes = max_bytes } }, next_elements()
end

-- For how long ended jobs are kept: ms as text, by state. The settings (in seconds) come before the worker's values,
-- which begin at ARGV[first]. Sets batches.kept. Writes no key.
local function retention_of(settings, first)
  local function kept(value, otherwise)
    local seconds = tonumber(number(value))
    return seconds and seconds >= KEPT.min and seconds <= KEPT.max and integer_text(seconds * 1000) or otherwise
  end
  local retention = { completed = kept(settings.keep_completed, ARGV[first]), failed = kept(settings.keep_failed, ARGV[first + 1]),
    cancelled = kept(settings.keep_cancelled, ARGV[first + 2]) }
  batches.kept = retention.failed
  return retention
end

-- A text as a JSON string, with its quotes. cjson is five times as fast as gsub. It also writes \/ for each slash,
-- which is valid everywhere, and is undone in short texts because people read them.
local function quoted(text)
  local json = cjson.encode(text)
  if #json <= 16384 and string.find(json, '/', 1, true) then json = string.gsub(json, '\\/', '/') end
  return json
end

-- The epoch of events, as text. A new epoch begins when another server instance serves the queue, after a failover or a
-- restart. Redis may then have lost writes, and a job's next events may have numbers that were used before. An epoch is
-- the time at which it began (unix ms), and greater than every known one. Writes `epoch` when a new one begins.
local function current_epoch()
  if epoch then return epoch end
  local kept = redis.pcall('GET', EPOCH)
  local known, run = string.match(type(kept) == 'string' and kept or '', '^(%d+) (%x+)$')
  if run ~= identity() then
    known = integer_text(math.max(now, tonumber(known or 0) + 1))
    call('SET', EPOCH, known .. ' ' .. identity())
  end
  epoch = known
  return epoch
end

-- What has happened since the last tick, by queue and by name. It is kept in memory, so that counting costs no command.
-- A tick writes it to Redis (history.lua). A restart of Redis loses it.
local history = { counts = {} }

-- Adds `more` (1 if nil) to a count. what: the name of an event, 'claimed', 'lost', 'failed <code>' or 'received'.
-- Writes no key.
function history.count(what, more)
  local counts = history.counts[PREFIX]
  if not counts then
    counts = {}
    history.counts[PREFIX] = counts
  end
  counts[what] = (counts[what] or 0) + (more or 1)
end

-- The members of an event without the response that they have, whose header fields begin it; nil if they have none.
local function without_response(members)
  local at = string.find(members, ',"headers":', 1, true)
  return at and string.sub(members, 1, at - 1) .. ',"response_dropped":true'
end

-- Puts an event into the outbox, which publish() sends after all other writes. Sets seqs[id], the event's `seq`.
-- job: the job, for `meta` and `seq`. extra: further JSON members with a leading comma, or ''. worker: a name, or nil.
-- reply_to: names of reply lists with blanks between them, or nil. is_private: the event goes only to those lists. An
-- event with a large response is published without it.
local function emit(id, job, event, extra, worker, reply_to, is_private)
  local meta = event ~= 'progress' and job.meta
  local before = seqs[id]
  -- The first number is a time. So it is greater than the numbers of an earlier job of this id that was forgotten or
  -- has expired.
  local seq = (before or job.seq > 0 and job.seq or now) + 1
  seqs[id] = seq
  local head = '{"v":1,"event":"' .. event .. '","id":"' .. id .. '","queue":"' .. QUEUE .. '","epoch":' .. current_epoch()
    .. ',"seq":' .. seq .. ',"at":' .. NOW .. (worker and worker ~= '' and ',"worker":"' .. worker .. '"' or '')
    .. (meta and ',"meta":' .. meta or '')
  local json, brief = head .. extra .. '}', without_response(extra)
  if brief then brief = head .. brief .. '}' end
  outbox[#outbox + 1] = { id = id, published = brief and #extra > LARGEST.published and brief or json, reply_to = reply_to,
    before = before, is_private = is_private, event = event,
    error_code = event == 'failed' and string.match(extra, '"error":"([%w_]+)"'), json = json, brief = brief }
  produced = produced + #json * (1 + (reply_to and select(2, string.gsub(reply_to, '%S+', '')) or 0))
end

-- Pushes an event (JSON) onto reply lists. names: their names, with blanks between them. brief: the event without its
-- response, or nil if it has none. A list gets the brief event if the bytes of all replies are at their limit
-- (responses.lua). Writes reply:<name>, and what responses.count_reply() writes.
local function reply(names, event, brief)
  local bytes_left = LARGEST.replies
  for name in string.gmatch(names or '', '%S+') do
    local list, text = PREFIX .. KEY.reply .. name, event
    if brief then
      bytes_left = bytes_left - #event
      if bytes_left < 0 or not responses.may_be_in_reply(#event) then text = brief end
    end
    -- A producer may have put a key of another type there. Then only this list gets no event.
    if type(redis.pcall('LPUSH', list, text)) == 'number' then
      call('LTRIM', list, 0, 999)
      call('PEXPIRE', list, 86400000)
      if brief and text == event then responses.count_reply(name, #event) end
    end
  end
end

-- Ends a call that may have emitted events; a settle calls it after each run as well. Ends batches whose members have
-- all ended, writes the last `seq` and `epoch` of each job, and sends the outbox. Returns `result`. Writes job:<id>,
-- reply:<name>, batch:<name>, members:<name>, batches; publishes on events:<id>.
local function publish(result)
  if batches.touched then batches.update() end
  for id, seq in pairs(seqs) do call('HSET', key(id), 'seq', seq, 'epoch', current_epoch()) end
  for _, entry in ipairs(outbox) do
    if not entry.is_private then
      call('PUBLISH', PREFIX .. KEY.events .. entry.id, entry.published)
      if entry.event ~= 'progress' then history.count(entry.event) end
      if entry.error_code then history.count('failed ' .. entry.error_code) end
    end
    if entry.reply_to then reply(entry.reply_to, entry.json, entry.brief) end
  end
  outbox, seqs = {}, {}
  return result
end

-- A reply: a list of names and values, without values that are false and without empty lists.
local function named(values)
  local reply = {}
  for name, value in pairs(values) do
    if value and #value > 0 then reply[#reply + 1], reply[#reply + 2] = name, value end
  end
  return reply
end

-- Reads what decides about the end of a run and what its events need, which is less than read_job() reads. Returns nil
-- for a key of another type. Writes no key.
local function ending(id)
  local values = redis.pcall('HMGET', key(id), 'state', 'token', 'want', 'next_push', 'speed', 'meta', 'reply_to', 'deadline_at', 'seq',
    'want_next', 'want_at', 'host', 'batch')
  if values.err then return nil end
  local state, token, want, next_push, speed, meta, reply_to, deadline, seq, want_next, want_at, host, batch = unpack(values)
  return { state = state or nil, token = token or nil, want = want or nil, next_push = next_push or nil, speed = speed or nil,
    meta = meta or nil, reply_to = reply_to or nil, deadline = number(deadline), seq = tonumber(number(seq)) or 0,
    want_next = want_next or nil, want_at = number(want_at), host = host or nil, batch = batch or nil }
end

-- Reads the fields that decide what may happen to a job, and those that its events need. A field that is absent, or
-- that must be a number and is not, is nil; `crashes`, `attempt` and `seq` are 0 then. Raises an error for a key of
-- another type.
local function read_job(id)
  local state, want, want_at, ticket, settled_until, token, next_push, worker, crashes, attempt, meta, reply_to, deadline, waiting, seq,
    pushed, active_token, ahead, want_next, resumed, kind, host, batch, retried = unpack(call('HMGET', key(id), 'state', 'want', 'want_at',
      'ticket', 'settled_until', 'token', 'next_push', 'worker', 'crashes', 'attempt', 'meta', 'reply_to', 'deadline_at', 'waiting', 'seq',
      'pushed', 'active_token', 'ahead', 'want_next', 'resumed', 'kind', 'host', 'batch', 'retried'))
  return { state = state or nil, want = want or nil, want_at = number(want_at), ticket = ticket or nil,
    settled_until = number(settled_until), token = token or nil, next_push = number(next_push), worker = worker or nil,
    crashes = tonumber(number(crashes)) or 0, attempt = tonumber(number(attempt)) or 0, meta = meta or nil, reply_to = reply_to or nil,
    deadline = number(deadline), waiting = waiting or nil, seq = tonumber(number(seq)) or 0, pushed = number(pushed),
    active_token = active_token or nil, ahead = number(ahead), want_next = want_next or nil, resumed = number(resumed), kind = kind or nil,
    host = host or nil, batch = batch or nil, retried = number(retried) }
end

-- Whether a value is a valid id of a job, or name of a batch or a reply list.
local function is_id(text) return type(text) == 'string' and #text <= 128 and string.find(text, ID) ~= nil end

-- How many fields a hash has, 0 if it does not exist; nil for a key of another type.
local function size(name)
  local count = redis.pcall('HLEN', name)
  return type(count) == 'number' and count or nil
end

-- The reason with which an element or a control operation is rejected if one of its job's keys is not a hash, because
-- another client wrote another type. nil if all of them are hashes or do not exist. No call changes a job with such a
-- key.
local function wrong_type(id)
  if size(key(id)) and size(spec(id)) and size(offsets(id)) then return nil end
  return 'id: a key of job ' .. id .. ' is not a hash; run haul check to see which one, then push the job again'
end
