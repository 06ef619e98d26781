-- Reads JSON as RFC 8259 defines it, with the same result as Contract/JSON.swift. No name may occur twice in an object.
--
-- cjson is fast but accepts more. What it accepts beyond the RFC is found by a few patterns, each of which skips long
-- runs of characters. No loop here goes from character to character.
--
-- Uses: Isolation.
do
  local JSON

  -- A separate decoder, because cjson's settings apply to every library that uses it. cjson is not available while
  -- Redis loads the library. Returns the value of a JSON text; raises an error if cjson rejects it.
  function Json.decode(text)
    if not JSON then
      JSON = cjson.new()
      JSON.decode_invalid_numbers(false)
      JSON.decode_max_depth(LARGEST.depth)
    end
    return JSON.decode(text)
  end

  -- How often a pattern is found in a text.
  function Json.count(text, pattern) return select(2, gsub(text, pattern, '')) end

  -- Whether a text is ASCII.
  function Json.is_ascii(text) return find(text, '^[%z\1-\127]*$') ~= nil end

  -- Whether a text is UTF-8. Each complete character becomes a blank, and the rest must be ASCII. Blanks, since bytes
  -- that were apart must not form a new character.
  function Json.is_utf8(text)
    -- Overlong forms, surrogates, code points above U+10FFFF.
    for lead, second in pairs({ ['\224'] = '[\128-\159]', ['\237'] = '[\160-\191]',
      ['\240'] = '[\128-\143]', ['\244'] = '[\144-\191]' }) do
      if find(text, lead, 1, true) and find(text, lead .. second) then return false end
    end
    -- Long runs of ASCII are best removed first, short ones last.
    local middle = sub(text, #text / 2, #text / 2 + 63)
    if Json.count(middle, '[\128-\255]') < 32 then text = gsub(text, '[%z\1-\127]+', ' ') end
    if not find(text, '^[^\224-\239]*$') then text = gsub(text, '[\224-\239][\128-\191][\128-\191]', ' ') end
    if not find(text, '^[^\194-\223]*$') then text = gsub(text, '[\194-\223][\128-\191]', ' ') end
    if not find(text, '^[^\240-\244]*$') then
      text = gsub(text, '[\240-\244][\128-\191][\128-\191][\128-\191]', ' ')
    end
    return Json.is_ascii(text)
  end

  -- The text with all its strings emptied; or nil and what is wrong with the text.
  local function skeleton(text)
    local bare = text
    if find(bare, '\\', 1, true) then bare = gsub(bare, '\\["\\]', '') end
    bare = gsub(bare, '"[^"]*"', '""')
    if #bare > LARGEST.skeleton then return nil, LARGEST.skeleton_rule end
    -- Most texts are printable ASCII only.
    if find(text, '^[ -~]*$') then return bare end
    if not Json.is_ascii(text) and not Json.is_utf8(text) then return nil, 'must be a JSON object: it is not valid UTF-8' end
    -- Control characters that are blanks may occur between tokens. No others are allowed anywhere.
    if not find(text, '^[^%z\1-\31]*$') and Json.count(text, '[%z\1-\31]') ~= Json.count(bare, '[\t\r\n]') then
      return nil, 'must be a JSON object: a control character is not allowed there'
    end
    return bare
  end

  -- How many members all objects in a value have, or `max` once that many are found. In cjson's tables the names of
  -- members are texts, and the indexes of arrays are numbers.
  local function members(value, max)
    local count = 0
    for name in pairs(value) do
      if type(name) ~= 'string' then break end
      count = count + 1
    end
    for _, inner in pairs(value) do
      if count >= max then return count end
      if type(inner) == 'table' then count = count + members(inner, max - count) end
    end
    return count
  end

  -- The table of a JSON object; or nil and what is wrong with the text, as a part of a sentence.
  function Json.object(text)
    if #text > LARGEST.element then return nil, LARGEST.element_rule end
    if not find(text, '^[ \t\r\n]*{') then return nil, 'must be a JSON object' end
    local bare, wrong = skeleton(text)
    if not bare then return nil, wrong end
    local fine, value = pcall(Json.decode, text)
    if not fine then return nil, 'must be a JSON object: ' .. gsub(Isolation.text_of(value), '^[%w_]+:%d+: ', '') end
    -- cjson also accepts 1. and -.5 as numbers, and keeps the last of several members with one name.
    if find(bare, '[.-]%D') then return nil, 'must be a JSON object: a number is not valid' end
    local written = Json.count(bare, ':')
    if members(value, written) ~= written then return nil, 'must be a JSON object: a name occurs twice in an object' end
    return value
  end
end
