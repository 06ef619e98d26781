-- The raw text of a top-level member of valid JSON, without the blanks around it. So what a producer wrote is passed on
-- without being encoded anew.
--
-- Uses: Json.
do
  -- raw_member(text, name) returns that text and where it begins, or nil.
  local raw_member

  -- Where a name occurs from `at` on: the positions of its two quotes and of its value. `blotted` is the text with its
  -- escaped quotes and backslashes replaced, so that a text in quotes is a whole string.
  local function find_name(blotted, name, at)
    while true do
      local first, last = find(blotted, '"' .. name .. '"', at, true)
      if not first then return nil end
      local value = match(blotted, '^[ \t\r\n]*:[ \t\r\n]*()', last + 1)
      if value then return first, last, value end
      at = last + 1
    end
  end

  -- The same for a name that is written with escapes. It may also find names without escapes, which does no harm.
  local function find_escaped(blotted, name, at)
    while true do
      local first, last, value = find(blotted, '"[%w_\\]*"[ \t\r\n]*:[ \t\r\n]*()', at)
      if not first then return nil end
      local written = match(blotted, '^"([^"]*)"', first)
      local may_be = #written > #name and find(written, '\\', 1, true)
      if may_be and Json.decode('["' .. written .. '"]')[1] == name then return first, first + #written + 1, value end
      at = last + 1
    end
  end

  -- The position of the last character of the value that begins at `at`.
  local function end_of_value(blotted, at)
    local character = sub(blotted, at, at)
    if character == '"' then return find(blotted, '"', at + 1, true) end
    if character ~= '{' and character ~= '[' then return find(blotted, '[ \t\r\n,}]', at) - 1 end
    local depth = 0
    while true do
      local first, last = find(blotted, '["{}%[%]]', at)
      character = sub(blotted, first, first)
      if character == '"' then last = find(blotted, '"', first + 1, true)
      else
        depth = depth + ((character == '{' or character == '[') and 1 or -1)
        if depth == 0 then return first end
      end
      at = last + 1
    end
  end

  local last_text, last_name, last_raw, last_at

  function Raw.member(text, name)
    if text == last_text and name == last_name then return last_raw, last_at end
    local blotted = text
    if find(blotted, '\\', 1, true) then blotted = gsub(blotted, '\\["\\]', '__') end
    last_text, last_name, last_raw = text, name, nil
    for _, search in ipairs({ find_name, find_escaped }) do
      local at, depth = 1, 0
      while not last_raw do
        local first, last, value = search(blotted, name, at)
        if not first then break end
        local between = gsub(sub(blotted, at, first - 1), '"[^"]*"', '')
        depth = depth + Json.count(between, '[{%[]') - Json.count(between, '[}%]]')
        if depth == 1 then last_raw, last_at = sub(text, value, end_of_value(blotted, value)), value end
        at = last + 1
      end
    end
    return last_raw, last_at
  end
end
