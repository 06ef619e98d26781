-- Kinds of jobs that not every worker does. A worker says with its registration which ones it does. What it takes of another
-- kind it sets aside, unchanged, into a line of that kind; who does that kind takes it from there, or puts it back into the line
-- of all with its tick. So an old worker leaves a new kind to newer ones.
--
-- The hash `kinds` has the kinds of which something was set aside, and when that was last.

-- Whether this worker does jobs of a kind; is_current() has read which ones. What cannot be read here it does not do.
function kinds.does(kind) return kinds.rules[kind] ~= nil and string.find(' ' .. kinds.done .. ' ', ' ' .. kind .. ' ', 1, true) ~= nil end

-- The kind that an element names; nil for one that names none, or not as a kind can be named.
function kinds.named(j)
  local kind = j and j.kind
  return type(kind) == 'string' and #kind <= 32 and string.find(kind, '^[a-z][a-z_]*$') and kind or nil
end

function kinds.set_aside(element, kind)
  call('LPUSH', PREFIX .. KEY.kind .. kind, element)
  redis.pcall('HSET', kinds.key, kind, NOW)
end

-- Kinds of which something is set aside.
function kinds.aside()
  -- Of another type it has none.
  local names, all = {}, redis.pcall('HGETALL', kinds.key)
  for n = 1, #all, 2 do
    local count = redis.pcall('LLEN', PREFIX .. KEY.kind .. all[n])
    if count == 0 then call('HDEL', kinds.key, all[n]) elseif type(count) == 'number' then names[#names + 1] = all[n] end
  end
  return names
end

-- The next element that was set aside and is for this worker, moved to what it holds; nil if there is none.
function kinds.take_aside()
  for _, kind in ipairs(kinds.aside()) do
    if kinds.does(kind) then return call('LMOVE', PREFIX .. KEY.kind .. kind, HELD, 'RIGHT', 'RIGHT') end
  end
end

-- A duty of tick.lua. Where the line is never empty nobody comes to what was set aside, so some of it goes to the front. What this
-- worker does not do is told.
function kinds.look_aside(tick)
  local names = kinds.aside()
  if #names == 0 then return end
  kinds.done = call('HGET', WORKER, 'kinds') or kinds.all
  local is_busy = call('LLEN', JOBS) > 0
  for _, kind in ipairs(names) do
    if not kinds.does(kind) then
      tick.aside[#tick.aside + 1] = kind
    elseif is_busy then
      for _ = 1, 16 do
        if not call('LMOVE', PREFIX .. KEY.kind .. kind, JOBS, 'RIGHT', 'RIGHT') then break end
      end
    end
  end
end
