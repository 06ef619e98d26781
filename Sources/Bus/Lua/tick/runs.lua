-- The runs of a worker that go on: their leases and their reports.
--
-- Uses: Call, Events, Hosts, Isolation, Jobs, Reports, States.
-- Writes: leases.
do
  local function write_run(c, run, worker)
    local id, report, fields = run.id, run.report, run.report.fields
    Reports.emit(c, id, run.job, report, worker)
    local n, seq = #fields, c.seqs[id]
    if seq then
      fields[n + 1], fields[n + 2], fields[n + 3], fields[n + 4] = 'seq', seq, 'epoch', Call.epoch(c)
      c.seqs[id] = nil
    end
    States.write_fields(c, id, fields)
    -- The keys may hold any value, which is replaced.
    Reports.write_offsets(c, id, report)
  end

  -- ARGV from `first` on: number of runs, then for each: id, token, a report (reports.lua). Adds the tokens of runs
  -- that are fenced to tick.fenced, and tokens with control operations for their jobs to tick.operations.
  function Runs.extend(c, tick, first)
    local ARGV = c.ARGV
    local argument, due, runs, leases = first + 1, integer_text(c.now + tick.lease), {}, {}
    for _ = 1, tonumber(ARGV[first]) do
      local run = { id = ARGV[argument], token = ARGV[argument + 1] }
      argument, run.report = Reports.read(c, argument + 2)
      local job, wrong = Jobs.read_running(c, run.id)
      if wrong and not Isolation.trouble(wrong) then Isolation.raise(wrong) end
      run.job = job or {}
      if run.job.token == run.token and run.job.state == 'running' then
        runs[#runs + 1] = run
        leases[#leases + 1], leases[#leases + 2] = due, run.id
      else
        tick.fenced[#tick.fenced + 1] = run.token
      end
    end
    if #runs == 0 then return end
    -- The first write: a key of another type raises its error here.
    call('ZADD', c.LEASES, unpack(leases))
    for _, run in ipairs(runs) do
      write_run(c, run, tick.worker)
      Hosts.count(c, run.id, run.job)
      if run.job.want then
        tick.operations[#tick.operations + 1] = run.token
        tick.operations[#tick.operations + 1] = run.job.want
      end
    end
  end

  -- Writes the reports of a few runs, and does nothing else for the queue. It is used for the calls between the first
  -- and the last call of a tick, and for a report that cannot wait for the next tick.
  --
  -- ARGV: nonce, worker, lease (ms), number of runs, then for each: id, token, a report (reports.lua)
  -- Returns names and values, as tick.lua does: fenced, operations.
  Call.define('report', { 'allow-oom' }, function(c)
    local tick = { worker = c.ARGV[2], lease = tonumber(c.ARGV[3]), fenced = {}, operations = {} }
    Runs.extend(c, tick, 4)
    return Events.publish(c, Call.named { fenced = tick.fenced, operations = tick.operations })
  end)
end
