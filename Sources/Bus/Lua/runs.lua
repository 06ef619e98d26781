-- A duty of tick.lua, and the work of report_runs.lua: extends the leases of this worker's runs, and writes their
-- reports.

-- Reads what decides about a run and what its events need. It is read each second for each run, so it is as little as
-- possible.
local function running(id)
  local v = redis.pcall('HMGET', key(id), 'state', 'token', 'want', 'meta', 'seq', 'host')
  if v.err then
    if not trouble(v) then raise(v) end
    return {}
  end
  return { state = v[1] or nil, token = v[2] or nil, want = v[3] or nil, meta = v[4] or nil, seq = tonumber(number(v[5])) or 0,
    host = v[6] or nil }
end

local function write_run(run, worker)
  local id, r, fields = run.id, run.report, run.report.fields
  emit_report(id, run.job, r, worker)
  local n, seq = #fields, numbers[id]
  if seq then
    fields[n + 1], fields[n + 2], fields[n + 3], fields[n + 4] = 'seq', seq, 'epoch', current_epoch()
    numbers[id] = nil
  end
  write_fields(id, fields)
  -- The keys may hold anything: whatever is there is replaced.
  write_offsets(id, r)
end

-- ARGV from `first` on: number of runs, then for each: id, token, a report (report.lua). Adds the tokens of runs that
-- are fenced to tick.fenced, and tokens with requests for their jobs to tick.requests.
-- Writes leases, job:<id>, offsets:<id>, busy:<host>.
local function extend_runs(tick, first)
  local i, due, runs, leases = first + 1, whole(now + tick.lease), {}, {}
  for _ = 1, tonumber(ARGV[first]) do
    local run = { id = ARGV[i], token = ARGV[i + 1] }
    i, run.report = read_report(i + 2)
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
    fleet.count(run.id, run.job)
    if run.job.want then
      tick.requests[#tick.requests + 1] = run.token
      tick.requests[#tick.requests + 1] = run.job.want
    end
  end
end
