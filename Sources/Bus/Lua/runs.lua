-- A task of the tick, and the work of report_runs.lua: extends the leases of this worker's runs, and writes their
-- reports.

-- Reads what decides about a run and what its events need. It is read each second for each run, so it is as little as
-- possible.
local function running(id)
  local values = redis.pcall('HMGET', key(id), 'state', 'token', 'want', 'meta', 'seq', 'host')
  if values.err then
    if not trouble(values) then raise(values) end
    return {}
  end
  local state, token, want, meta, seq, host = unpack(values)
  return { state = state or nil, token = token or nil, want = want or nil, meta = meta or nil, seq = tonumber(number(seq)) or 0,
    host = host or nil }
end

local function write_run(run, worker)
  local id, report, fields = run.id, run.report, run.report.fields
  emit_report(id, run.job, report, worker)
  local n, seq = #fields, seqs[id]
  if seq then
    fields[n + 1], fields[n + 2], fields[n + 3], fields[n + 4] = 'seq', seq, 'epoch', current_epoch()
    seqs[id] = nil
  end
  write_fields(id, fields)
  -- The keys may hold any value, which is replaced.
  write_offsets(id, report)
end

-- ARGV from `first` on: number of runs, then for each: id, token, a report (report.lua). Adds the tokens of runs that
-- are fenced to tick.fenced, and tokens with control operations for their jobs to
-- tick.operations.
-- Writes leases, job:<id>, offsets:<id>, busy:<host>.
local function extend_runs(tick, first)
  local argument, due, runs, leases = first + 1, integer_text(now + tick.lease), {}, {}
  for _ = 1, tonumber(ARGV[first]) do
    local run = { id = ARGV[argument], token = ARGV[argument + 1] }
    argument, run.report = read_report(argument + 2)
    run.job = running(run.id)
    if run.job.token == run.token and run.job.state == 'running' then
      runs[#runs + 1] = run
      leases[#leases + 1], leases[#leases + 2] = due, run.id
    else
      tick.fenced[#tick.fenced + 1] = run.token
    end
  end
  if #runs == 0 then return end
  -- The first write: a key of another type raises its error here.
  call('ZADD', LEASES, unpack(leases))
  for _, run in ipairs(runs) do
    write_run(run, tick.worker)
    hosts.count(run.id, run.job)
    if run.job.want then
      tick.operations[#tick.operations + 1] = run.token
      tick.operations[#tick.operations + 1] = run.job.want
    end
  end
end
