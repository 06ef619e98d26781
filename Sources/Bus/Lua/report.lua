-- What a run has to tell, the same in tick.lua and settle.lua.
--
-- From ARGV[i]: n fields and n pairs for the hash; m offsets (-1: unchanged) and m pairs; e events and e pairs of
-- name and members. Returns the index after it, the events, and whether the offsets advanced.
local function read_report(i)
  local n = 2 * ARGV[i]
  local fields = { unpack(ARGV, i + 1, i + n) }
  i = i + n + 1
  local m, offsets = 2 * ARGV[i], nil
  if m >= 0 then
    offsets = { unpack(ARGV, i + 1, i + m) }
    i = i + m
  end
  i = i + 1
  local e = 2 * ARGV[i]
  return i + e + 1, { fields = fields, offsets = offsets, events = { unpack(ARGV, i + 1, i + e) } }
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
