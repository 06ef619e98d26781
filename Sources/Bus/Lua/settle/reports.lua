-- The report of a run, in the arguments of a tick, of report() (runs.lua) and of a settle.
--
-- Uses: Events.
-- Writes: job:<id>, offsets:<id>.
do
  -- From ARGV[first] on: the number of fields and pairs for the hash; the number of offsets (-1: unchanged) and pairs;
  -- the number of events and pairs of name and members. Returns the index after the report, and the report. The offsets
  -- are not copied: they are ARGV[report.first] to ARGV[report.last].
  function Reports.read(c, first)
    local ARGV = c.ARGV
    local field_count = 2 * ARGV[first]
    local fields = { unpack(ARGV, first + 1, first + field_count) }
    local at = first + field_count + 1
    local offset_count, first_offset = 2 * ARGV[at], at + 1
    at = math.max(at, at + offset_count) + 1
    local event_count = 2 * ARGV[at]
    return at + event_count + 1, { fields = fields, first = first_offset, last = first_offset + offset_count - 1,
      events = { unpack(ARGV, at + 1, at + event_count) } }
  end

  -- Replaces the durable offsets of a job, unless the report says that they are unchanged.
  function Reports.write_offsets(c, id, report)
    if report.last < report.first - 1 then return end
    call('DEL', c.OFFSETS .. id)
    -- unpack() returns at most 8000 values.
    for n = report.first, report.last, 4000 do
      call('HSET', c.OFFSETS .. id, unpack(c.ARGV, n, math.min(n + 3999, report.last)))
    end
    -- The job has a checkpoint, so what made its workers crash is behind it.
    if report.last >= report.first then call('HDEL', c.JOB .. id, 'crashes') end
  end

  -- Emits the events of a report. worker: the worker that they name.
  function Reports.emit(c, id, job, report, worker)
    for n = 1, #report.events, 2 do Events.emit(c, id, job, report.events[n], report.events[n + 1], worker) end
  end
end
