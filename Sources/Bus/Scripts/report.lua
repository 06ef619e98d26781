-- What a run has to tell, the same in tick.lua and settle.lua.
--
-- From ARGV[i]: n fields and n pairs for the hash; m offsets (-1: unchanged) and m pairs; e events and e pairs of
-- name and members. Returns the index after it, the events, and whether the offsets advanced.
local function read_report(i)
  local r = { fields = {}, offsets = nil, events = {} }
  local n = tonumber(ARGV[i])
  for k = 1, n * 2 do r.fields[k] = ARGV[i + k] end
  i = i + n * 2 + 1
  local m = tonumber(ARGV[i])
  if m >= 0 then
    r.offsets = {}
    for k = 1, m * 2 do r.offsets[k] = ARGV[i + k] end
    i = i + m * 2
  end
  i = i + 1
  local e = tonumber(ARGV[i])
  for k = 1, e * 2 do r.events[k] = ARGV[i + k] end
  return i + e * 2 + 1, r
end

local function write_offsets(id, r)
  if r.offsets then
    call('DEL', offsets(id))
    if #r.offsets > 0 then call('HSET', offsets(id), unpack(r.offsets)) end
    -- The job moves: whatever made its workers crash is behind it.
    if #r.offsets > 0 then call('HDEL', key(id), 'crashes') end
  end
end

local function emit_report(id, j, r, worker)
  for k = 1, #r.events, 2 do emit(id, j, r.events[k], r.events[k + 1], worker) end
end
