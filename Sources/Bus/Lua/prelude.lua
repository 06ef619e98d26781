-- What all functions share: the call's keys and clock, settings, events, and reading a job. states.lua moves jobs.
--
-- KEYS of every function: 1 jobs  2 held:<worker>  3 worker:<worker>. All others follow from the first, and are in the same
-- slot by the queue's hash tag.
--
-- Redis keeps these functions loaded, so they are defined once, and not at each call: what belongs to one call is in
-- variables that begin() sets.
--
-- Functions are not transactions: an error in the middle keeps what was done. So touch() meets the keys that may be
-- written, before the first write; a key of a wrong type fails there, with nothing changed. Jobs' own keys are met by
-- job(), or by is_strange(); what they miss stops no other job (isolate.lua). The worker's hash and the rejected list are met
-- first where touch() does not meet them.
local call, ARGV, NONCE
local JOBS, HELD, WANT, TICK, LEASES, SCHEDULED, REJECTED, WORKERS, WORKER, SETTINGS, DEADLINES, PLACES
local INDEX, PREFIX, QUEUE, EPOCH, UNTOLD
local now, NOW
local ID = '^[A-Za-z0-9._:-]+$'
-- Fields of a job's hash that tell of its end.
local OF_END = { 'error', 'message', 'retryable', 'finished', 'seconds', 'unchanged', 'sent' }
-- And of what came of it: a job of another kind has none of it.
kinds.results = { 'file', 'inode', 'mtime', 'checksum', 'validated', 'source', 'bytes', 'received', 'total', 'etag', 'last_modified',
  'digest', 'resource', 'landing', 'generation', 'status', 'headers', 'body', 'body_base64', 'question', 'method', 'files',
  'response_dropped' }
local outbox, numbers, tickets, epoch
-- Sets of jobs (batches.lua). `touched`: what this call has touched. `kept`: for how long they are kept, in ms.
local batches = {}
-- order.lua and drop.lua have them: moving a job leads to both.
local follow, drop

-- Numbers of 14 digits must not become 1.7e+12.
local function whole(number) return string.format('%d', number) end
-- Milliseconds, as text.
local function clock()
  local time = call('TIME')
  return time[1] .. string.sub('00000' .. time[2], -6, -4)
end

-- Which run of which server this is. It stays what it is for as long as these functions are loaded.
local server
local function identity()
  server = server or string.match(call('INFO', 'server'), 'run_id:(%x+)')
  return server
end

local function begin(keys, args)
  call, ARGV, NONCE = redis.call, args, args[1]
  if keys[1] ~= JOBS then
    JOBS = keys[1]
    PREFIX = string.sub(JOBS, 1, -5)
    QUEUE = string.sub(PREFIX, 7, -3)
    EPOCH, UNTOLD, kinds.key = PREFIX .. KEY.epoch, PREFIX .. KEY.untold, PREFIX .. KEY.kinds
    WANT, TICK, LEASES, SCHEDULED, DEADLINES = PREFIX .. KEY.want, PREFIX .. KEY.tick, PREFIX .. KEY.leases, PREFIX .. KEY.scheduled, PREFIX .. KEY.deadlines
    REJECTED, WORKERS, SETTINGS, PLACES = PREFIX .. KEY.rejected, PREFIX .. KEY.workers, PREFIX .. KEY.settings, PREFIX .. KEY.places
    INDEX = { scheduled = SCHEDULED, paused = PREFIX .. KEY.paused, completed = PREFIX .. KEY.completed, failed = PREFIX .. KEY.failed,
      cancelled = PREFIX .. KEY.cancelled }
  end
  HELD, WORKER = keys[2], keys[3]
  outbox, numbers, tickets, epoch = {}, {}, 0, nil
  batches.touched, batches.kept = nil, nil
  fleet.known, fleet.most, fleet.limited, fleet.used, fleet.moved, fleet.full, fleet.buckets = nil, nil, nil, nil, false, {}, {}
  fleet.between = nil
  -- The time as a number, and as the text that is written: Redis would format a number at every call.
  NOW = clock()
  now = tonumber(NOW)
end

-- Makes a function known to Redis; `run` is called with all of the above set.
local function define(name, flags, run)
  redis.register_function {
    function_name = LIBRARY .. '_' .. name, flags = flags,
    callback = function(keys, args)
      begin(keys, args)
      return run()
    end }
end

local function key(id) return PREFIX .. KEY.job .. id end
local function offsets(id) return PREFIX .. KEY.offsets .. id end
-- What producers wrote, secrets and all: apart from the job's hash, so that who may read that need not see them.
local function spec(id) return PREFIX .. KEY.spec .. id end

-- The elements that are to be taken next, from what this worker holds and from the line; false where there is none.
local function look() return call('LINDEX', HELD, -1), call('LINDEX', JOBS, -1) end

-- Whether a call is of this worker's last registration. What was sent over a connection that the worker has lost since may
-- still come: nobody would hear of a job that it took.
local function is_current(session)
  local known = call('HMGET', WORKER, 'instance', 'session', 'kinds')
  kinds.done = known[3] or kinds.all
  return known[1] and known[2] and known[1] .. ' ' .. known[2] == session
end

-- A whole number that a hash holds, as its text: nil for what is none, since anybody may write into a hash. With more digits
-- Lua would write another number.
local function number(text) return type(text) == 'string' and #text <= 14 and string.find(text, '^%d+$') and text or nil end

-- Whether a switch among the settings is on.
local function is_on(value) return value == '1' or value == 'true' end

-- Returns the queue's settings, by name, and what look() saw. `worker` is who calls, where that is a worker.
local function touch(worker)
  -- One call meets all sorted sets: it looks at the type of each, and ends at the first, which is never there.
  call('ZINTER', 9, PREFIX .. 'none', UNTOLD, LEASES, SCHEDULED, INDEX.paused, INDEX.completed, INDEX.failed, INDEX.cancelled, DEADLINES)
  local v = call('HMGET', SETTINGS, 'paused', 'max_running', 'keep_completed', 'keep_failed', 'keep_cancelled',
    'quiet:' .. (worker or ''), 'host_connections', 'rate', 'max_responses_bytes', 'starts')
  fleet.most = tonumber(number(v[7])) or false
  fleet.most_bytes = tonumber(number(v[9])) or KEPT.responses
  -- Between the starts of any two jobs.
  fleet.between = v[10] and fleet.interval(v[10])
  return { is_paused = is_on(v[1]), max_running = tonumber(number(v[2])), keep_completed = v[3], keep_failed = v[4],
    keep_cancelled = v[5], is_quiet = is_on(v[6]),
    has_rate = (tonumber(number(v[8])) or 0) > 0, interval = fleet.between, texts = v }, look()
end

-- For how long ended jobs are kept, in ms by state: as the settings say in seconds, or else the worker, from ARGV[first].
local function retention_of(settings, first)
  local function kept(value, otherwise)
    local seconds = tonumber(number(value))
    return seconds and seconds >= KEPT.least and seconds <= KEPT.most and whole(seconds * 1000) or otherwise
  end
  local retention = { completed = kept(settings.keep_completed, ARGV[first]), failed = kept(settings.keep_failed, ARGV[first + 1]),
    cancelled = kept(settings.keep_cancelled, ARGV[first + 2]) }
  batches.kept = retention.failed
  return retention
end

-- A quoted JSON string.
local escapes
local function quoted(text)
  if not escapes then
    escapes = {}
    for code = 0, 127 do escapes[string.char(code)] = string.format('\\u%04x', code) end
  end
  return '"' .. string.gsub(text, '[%c"\\\127]', escapes) .. '"'
end

-- The epoch of events. A new one begins when another run of a server serves the queue: after a failover or a restart, with which
-- data may have been lost, so that a job's events may have the same numbers again. It is the time at which it began, and later
-- than any that is known: what is lost with the data is in the past.
local function reign()
  if epoch then return epoch end
  local kept = redis.pcall('GET', EPOCH)
  local known, run = string.match(type(kept) == 'string' and kept or '', '^(%d+) (%x+)$')
  if run ~= identity() then
    known = whole(math.max(now, tonumber(known or 0) + 1))
    call('SET', EPOCH, known .. ' ' .. identity())
  end
  epoch = known
  return epoch
end

-- What has happened since the last tick, by queue and by what it is. It is kept here, so that to count costs no command: a tick writes it
-- (history.lua). A restart of Redis loses it.
local history = { counts = {} }

function history.count(what, more)
  local counts = history.counts[PREFIX]
  if not counts then
    counts = {}
    history.counts[PREFIX] = counts
  end
  counts[what] = (counts[what] or 0) + (more or 1)
end

-- Puts an event into the outbox: what is published when all else is written, and pushed onto the lists that `reply_to` names.
-- `extra` is JSON members with a leading comma, or ''. `is_private`: it is for these lists alone.
local function emit(id, j, event, extra, worker, reply_to, is_private)
  local meta = event ~= 'progress' and j.meta
  local before = numbers[id]
  -- The first number is a time: whoever saw the events of a job that was forgotten since, or whose hash has expired, sees
  -- greater ones.
  local seq = (before or j.seq > 0 and j.seq or now) + 1
  numbers[id] = seq
  outbox[#outbox + 1] = { id, '{"v":1,"event":"' .. event .. '","id":"' .. id .. '","queue":"' .. QUEUE .. '","epoch":' .. reign()
    .. ',"seq":' .. seq .. ',"at":' .. NOW .. (worker and worker ~= '' and ',"worker":"' .. worker .. '"' or '')
    .. (meta and ',"meta":' .. meta or '') .. extra .. '}', reply_to or false, before, is_private, event,
    event == 'failed' and string.match(extra, '"error":"([%w_]+)"') }
end

-- Pushes an event onto the reply lists of these names.
local function reply(names, event)
  for name in string.gmatch(names or '', '%S+') do
    local list = PREFIX .. KEY.reply .. name
    -- A key of another type in its place is the producer's own doing, and keeps nothing from others.
    if type(redis.pcall('LPUSH', list, event)) == 'number' then
      call('LTRIM', list, 0, 999)
      call('PEXPIRE', list, 86400000)
    end
  end
end

-- The last act of every function, and of settling before the next job is looked at.
local function publish(result)
  if batches.touched then batches.look() end
  for id, seq in pairs(numbers) do call('HSET', key(id), 'seq', seq, 'epoch', reign()) end
  for _, e in ipairs(outbox) do
    if not e[5] then
      call('PUBLISH', PREFIX .. KEY.events .. e[1], e[2])
      if e[6] ~= 'progress' then history.count(e[6]) end
      if e[7] then history.count('failed ' .. e[7]) end
    end
    if e[3] then reply(e[3], e[2]) end
  end
  outbox, numbers = {}, {}
  return result
end

-- A reply of names and values, without those that are false and the lists that are empty.
local function named(values)
  local reply = {}
  for name, value in pairs(values) do
    if value and #value > 0 then reply[#reply + 1], reply[#reply + 2] = name, value end
  end
  return reply
end

-- What decides about the end of a run, and what its events need: of all that job() reads, as little as does. nil for a key of
-- another type.
local function ending(id)
  local v = redis.pcall('HMGET', key(id), 'state', 'token', 'want', 'again', 'speed', 'meta', 'reply_to', 'deadline_at', 'seq',
    'behind', 'wantat', 'host', 'batch')
  if v.err then return nil end
  return { state = v[1] or nil, token = v[2] or nil, want = v[3] or nil, again = v[4] or nil, speed = v[5] or nil,
    meta = v[6] or nil, reply_to = v[7] or nil, deadline = number(v[8]), seq = tonumber(number(v[9])) or 0,
    behind = v[10] or nil, wantat = number(v[11]), host = v[12] or nil,
    batch = v[13] or nil }
end

-- Reads the fields that decide what may happen to a job, and those that its events need.
local function job(id)
  local v = call('HMGET', key(id), 'state', 'want', 'wantat', 'ticket', 'asof', 'token', 'again', 'worker', 'crashes', 'attempt',
    'meta', 'reply_to', 'deadline_at', 'waiting', 'seq', 'pushed', 'begun', 'ahead', 'behind', 'resumed', 'kind', 'host', 'batch')
  return { state = v[1] or nil, want = v[2] or nil, wantat = number(v[3]), ticket = v[4] or nil, asof = number(v[5]),
    token = v[6] or nil, again = number(v[7]), worker = v[8] or nil, crashes = tonumber(number(v[9])) or 0,
    attempt = tonumber(number(v[10])) or 0, meta = v[11] or nil, reply_to = v[12] or nil, deadline = number(v[13]), waiting = v[14] or nil,
    seq = tonumber(number(v[15])) or 0, pushed = number(v[16]), begun = v[17] or nil, ahead = number(v[18]), behind = v[19] or nil,
    resumed = number(v[20]), kind = v[21] or nil, host = v[22] or nil, batch = v[23] or nil }
end

local function is_id(text) return type(text) == 'string' and #text <= 128 and string.find(text, ID) ~= nil end

-- How many fields a hash has; nil for a key of another type.
local function size(name)
  local count = redis.pcall('HLEN', name)
  return type(count) == 'number' and count or nil
end

-- Whether somebody has put something else in the place of the job's hashes: it is left alone then, and stops no other.
local function is_strange(id) return not (size(key(id)) and size(spec(id)) and size(offsets(id))) end

local function strange(id)
  return 'id: a key of job ' .. id .. ' holds no hash; see what haul check says of it, then push the job again'
end
