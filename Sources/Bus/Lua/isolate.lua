-- One job's errors do not stop the other jobs. Anybody may have written over a job's keys.

-- pcall returns an error as a text or as a table, which depends on the version of Redis.
local function text_of(e) return type(e) == 'table' and tostring(e.err) or tostring(e) end

-- The text of an error that the job itself causes: a key of another type, a value that is invalid, an operation that
-- Lua cannot do with such a value. nil for an error that every job would meet, like a missing right or a disk that
-- cannot be written. e: what pcall has caught.
local function trouble(e)
  local text = text_of(e)
  local isOwn = string.find(text, '^[%w_]+:%d+: ') or string.find(text, '^WRONGTYPE')
    or string.find(text, '^ERR .*not an? ') or string.find(text, '^ERR .*overflow')
  return isOwn and text or nil
end

-- Raises an error that pcall has caught, with its own error code.
local function raise(e) error({ err = text_of(e) }, 0) end

-- Runs `act` for one job. Returns true and its result, or false and the text of an error that the job causes. Then the
-- job's events are discarded. Any other error is raised.
-- Writes before the error stay. So the caller must take the job out of the way of the others.
local function isolated(act, ...)
  local before = #outbox
  local fine, result = pcall(act, ...)
  if fine then return true, result end
  local wrong = trouble(result)
  if not wrong then raise(result) end
  for k = #outbox, before + 1, -1 do
    numbers[outbox[k][1]] = outbox[k][4]
    outbox[k] = nil
  end
  return false, wrong
end

-- Runs `act` for each of `ids`, each isolated. aside: is called with the id and the text of the error if `act` fails.
local function each(ids, act, aside)
  for _, id in ipairs(ids) do
    local fine, wrong = isolated(act, id)
    if not fine then aside(id, wrong) end
  end
end
