-- A run's report, in the arguments of tick.lua, report_runs.lua and settle.lua.
--
-- From ARGV[i]: n fields and n pairs for the hash; m offsets (-1: unchanged) and m pairs; e events and e pairs of name
-- and members. Returns the index after the report, and the report. The offsets are not copied: they are ARGV[first] to
-- ARGV[last].
local function read_report(i)
  local n = 2 * ARGV[i]
  local fields = { unpack(ARGV, i + 1, i + n) }
  i = i + n + 1
  local m, first = 2 * ARGV[i], i + 1
  i = math.max(i, i + m) + 1
  local e = 2 * ARGV[i]
  return i + e + 1, { fields = fields, first = first, last = first + m - 1, events = { unpack(ARGV, i + 1, i + e) } }
end

-- Replaces the durable offsets of a job, unless the report says that they are unchanged. Writes offsets:<id>, job:<id>
-- (deletes crashes).
local function write_offsets(id, r)
  if r.last < r.first - 1 then return end
  call('DEL', offsets(id))
  -- unpack() returns at most 8000 values.
  for k = r.first, r.last, 4000 do call('HSET', offsets(id), unpack(ARGV, k, math.min(k + 3999, r.last))) end
  -- The job has a checkpoint, so what made its workers crash is behind it.
  if r.last >= r.first then call('HDEL', key(id), 'crashes') end
end

-- Emits the events of a report. worker: the worker that they name.
local function emit_report(id, job, r, worker)
  for k = 1, #r.events, 2 do emit(id, job, r.events[k], r.events[k + 1], worker) end
end
