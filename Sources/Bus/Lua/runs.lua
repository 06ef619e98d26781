-- A duty of tick.lua: extends the leases of this worker's runs, and writes what they report. From ARGV[first]: their count, then
-- for each: id, token, a report (report.lua).
local function extend_runs(tick, first)
  local count = tonumber(ARGV[first])
  local i = first + 1
  for _ = 1, count do
    local id, token = ARGV[i], ARGV[i + 1]
    local r
    i, r = read_report(i + 2)
    -- There are many of them, so no more is asked than this; offsets are written over whatever is there.
    local isRead, j = pcall(job, id)
    if isRead and j.token == token and j.state == 'running' then
      call('ZADD', LEASES, whole(now + tick.lease), id)
      if #r.fields > 0 then call('HSET', key(id), unpack(r.fields)) end
      write_offsets(id, r)
      emit_report(id, j, r, tick.worker)
      if j.want then
        tick.requests[#tick.requests + 1] = token
        tick.requests[#tick.requests + 1] = j.want
      end
    else
      tick.fenced[#tick.fenced + 1] = token
    end
  end
end
