-- What a run has to tell, the same in tick.lua and settle.lua.
--
-- From ARGV[i]: n fields and n pairs for the hash; m offsets (-1: unchanged) and m pairs; e events and e pairs of
-- name and members. Returns the index after it, and the report: its offsets stay where they are, from
-- ARGV[first] to ARGV[last].
local function read_report(i)
  local n = 2 * ARGV[i]
  local fields = { unpack(ARGV, i + 1, i + n) }
  i = i + n + 1
  local m, first = 2 * ARGV[i], i + 1
  i = math.max(i, i + m) + 1
  local e = 2 * ARGV[i]
  return i + e + 1, { fields = fields, first = first, last = first + m - 1, events = { unpack(ARGV, i + 1, i + e) } }
end

local function write_offsets(id, r)
  if r.last < r.first - 1 then return end
  call('DEL', offsets(id))
  -- unpack() gives 8000 values at most.
  for k = r.first, r.last, 4000 do call('HSET', offsets(id), unpack(ARGV, k, math.min(k + 3999, r.last))) end
  -- The job moves: whatever made its workers crash is behind it.
  if r.last >= r.first then call('HDEL', key(id), 'crashes') end
end

local function emit_report(id, j, r, worker)
  for k = 1, #r.events, 2 do emit(id, j, r.events[k], r.events[k + 1], worker) end
end
