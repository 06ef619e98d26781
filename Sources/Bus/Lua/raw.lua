-- The raw text of a top-level member of valid JSON, so that what a producer wrote is never re-encoded.
local function RAW(text, name)
  local depth, at, first = 0, 1, nil
  while true do
    local i = string.find(text, '["{}%[%],]', at)
    if not i then return nil end
    local c = string.sub(text, i, i)
    if c == '"' then
      local j = i + 1
      while true do
        j = string.find(text, '["\\]', j)
        if not j then return nil end
        if string.sub(text, j, j) == '"' then break end
        j = j + 2
      end
      if depth == 1 and not first then
        local found = string.sub(text, i + 1, j - 1)
        -- A name may be written with escapes.
        if #found <= 6 * #name and string.find(found, '\\', 1, true) then
          found = cjson.decode('["' .. found .. '"]')[1]
        end
        local colon = found == name and string.match(text, '^%s*:()', j + 1)
        if colon then first = colon j = colon - 1 end
      end
      at = j + 1
    else
      if c == '{' or c == '[' then depth = depth + 1
      elseif c == ',' then
        if first and depth == 1 then return string.sub(text, first, i - 1) end
      else
        depth = depth - 1
        if depth == 0 then return first and string.sub(text, first, i - 1) end
      end
      at = i + 1
    end
  end
end
