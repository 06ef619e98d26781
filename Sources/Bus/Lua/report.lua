-- A run's report, in the arguments of tick.lua, report_runs.lua and settle.lua.
--
-- From ARGV[first] on: the number of fields and pairs for the hash; the number of offsets (-1: unchanged) and pairs;
-- the number of events and pairs of name and members. Returns the index after the report, and the report. The offsets
-- are not copied: they are ARGV[report.first] to ARGV[report.last].
local function read_report(first)
  local field_count = 2 * ARGV[first]
  local fields = { unpack(ARGV, first + 1, first + field_count) }
  local at = first + field_count + 1
  local offset_count, first_offset = 2 * ARGV[at], at + 1
  at = math.max(at, at + offset_count) + 1
  local event_count = 2 * ARGV[at]
  return at + event_count + 1, { fields = fields, first = first_offset, last = first_offset + offset_count - 1,
    events = { unpack(ARGV, at + 1, at + event_count) } }
end

-- Replaces the durable offsets of a job, unless the report says that they are unchanged. Writes offsets:<id>, job:<id>
-- (deletes crashes).
local function write_offsets(id, report)
  if report.last < report.first - 1 then return end
  call('DEL', offsets(id))
  -- unpack() returns at most 8000 values.
  for n = report.first, report.last, 4000 do call('HSET', offsets(id), unpack(ARGV, n, math.min(n + 3999, report.last))) end
  -- The job has a checkpoint, so what made its workers crash is behind it.
  if report.last >= report.first then call('HDEL', key(id), 'crashes') end
end

-- Emits the events of a report. worker: the worker that they name.
local function emit_report(id, job, report, worker)
  for n = 1, #report.events, 2 do emit(id, job, report.events[n], report.events[n + 1], worker) end
end
