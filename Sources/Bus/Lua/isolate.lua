-- One job's trouble is its own: whatever somebody has written over its keys, the others behind it are served.

-- To pcall an error is a text or a table, by Redis' version.
local function text_of(e) return type(e) == 'table' and tostring(e.err) or tostring(e) end

-- What is wrong with the job, as a text, if an error is of its own making: a key of another type, a value that is none, what
-- Lua cannot do with such a value. nil for what would befall every job: a right that is missing, a disk that cannot be written.
local function trouble(e)
  local text = text_of(e)
  local isOwn = string.find(text, '^[%w_]+:%d+: ') or string.find(text, '^WRONGTYPE')
    or string.find(text, '^ERR .*not an? ') or string.find(text, '^ERR .*overflow')
  return isOwn and text or nil
end

-- What pcall has caught goes on, and is told with its own code.
local function raise(e) error({ err = text_of(e) }, 0) end

-- Runs `act` for one job. Returns true and what it returned, or false and what is wrong with the job: then nothing is told of it.
-- What was written before the error stays, so whoever calls takes the job out of the way of the others.
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

-- Runs `act` for each of `ids`, and `aside` where that fails.
local function each(ids, act, aside)
  for _, id in ipairs(ids) do
    local fine, wrong = isolated(act, id)
    if not fine then aside(id, wrong) end
  end
end
