-- A duty of tick.lua and report_runs.lua: extends the leases of this worker's runs, and writes what they report. From ARGV[first]:
-- their count, then for each: id, token, a report (report.lua).

-- What decides about a run, and what its events need. Of many runs this is read each second, so no more is asked.
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
  emit_report(id, run.j, r, worker)
  local n, seq = #fields, numbers[id]
  if seq then
    fields[n + 1], fields[n + 2], fields[n + 3], fields[n + 4] = 'seq', seq, 'epoch', reign()
    numbers[id] = nil
  end
  if #fields > 0 then call('HSET', key(id), unpack(fields)) end
  -- They are written over whatever is there.
  write_offsets(id, r)
end

local function extend_runs(tick, first)
  local i, due, runs, leases = first + 1, whole(now + tick.lease), {}, {}
  for _ = 1, tonumber(ARGV[first]) do
    local run = { id = ARGV[i], token = ARGV[i + 1] }
    i, run.report = read_report(i + 2)
    run.j = running(run.id)
    if run.j.token == run.token and run.j.state == 'running' then
      runs[#runs + 1] = run
      leases[#leases + 1], leases[#leases + 2] = due, run.id
    else
      tick.fenced[#tick.fenced + 1] = run.token
    end
  end
  if #runs == 0 then return end
  -- The first key to be written: of another type, it fails here.
  call('ZADD', LEASES, unpack(leases))
  for _, run in ipairs(runs) do
    write_run(run, tick.worker)
    fleet.count(run.id, run.j)
    if run.j.want then
      tick.requests[#tick.requests + 1] = run.token
      tick.requests[#tick.requests + 1] = run.j.want
    end
  end
end
