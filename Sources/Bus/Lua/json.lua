-- Reading JSON: exactly RFC 8259, with the same verdict as Contract/JSON.swift; names are told apart in every object.
--
-- cjson reads quickly and takes too much: what it takes beyond the RFC is looked for in the text, by few patterns that skip whole
-- runs of characters. No loop here goes from character to character.

local JSON

-- cjson's settings belong to whoever uses it, so this is a reader of our own. It is not there while the functions are loaded.
local function decode(text)
  if not JSON then
    JSON = cjson.new()
    JSON.decode_invalid_numbers(false)
    JSON.decode_max_depth(LARGEST.depth)
  end
  return JSON.decode(text)
end

local function count(text, pattern) return select(2, string.gsub(text, pattern, '')) end

local function is_ascii(text) return string.find(text, '^[%z\1-\127]*$') ~= nil end

-- Whether a text is UTF-8: whole characters are taken for a blank each, and all must be ASCII then. The blanks keep apart what did
-- not stand together.
local function is_utf8(text)
  -- Too long forms, halves of pairs, what is beyond the last character.
  for lead, second in pairs({ ['\224'] = '[\128-\159]', ['\237'] = '[\160-\191]',
    ['\240'] = '[\128-\143]', ['\244'] = '[\144-\191]' }) do
    if string.find(text, lead, 1, true) and string.find(text, lead .. second) then return false end
  end
  -- Long runs of ASCII are best gone first, short ones last.
  local middle = string.sub(text, #text / 2, #text / 2 + 63)
  if count(middle, '[\128-\255]') < 32 then text = string.gsub(text, '[%z\1-\127]+', ' ') end
  if not string.find(text, '^[^\224-\239]*$') then text = string.gsub(text, '[\224-\239][\128-\191][\128-\191]', ' ') end
  if not string.find(text, '^[^\194-\223]*$') then text = string.gsub(text, '[\194-\223][\128-\191]', ' ') end
  if not string.find(text, '^[^\240-\244]*$') then
    text = string.gsub(text, '[\240-\244][\128-\191][\128-\191][\128-\191]', ' ')
  end
  return is_ascii(text)
end

-- The text with all its strings emptied, or nil and what is wrong with it.
local function skeleton(text)
  local bare = text
  if string.find(bare, '\\', 1, true) then bare = string.gsub(bare, '\\["\\]', '') end
  bare = string.gsub(bare, '"[^"]*"', '""')
  if #bare > LARGEST.skeleton then return nil, LARGEST.skeleton_rule end
  -- Most are of this.
  if string.find(text, '^[ -~]*$') then return bare end
  if not is_ascii(text) and not is_utf8(text) then return nil, 'must be a JSON object: it is not valid UTF-8' end
  -- Of the control characters those that are blanks may stand between tokens.
  if not string.find(text, '^[^%z\1-\31]*$') and count(text, '[%z\1-\31]') ~= count(bare, '[\t\r\n]') then
    return nil, 'must be a JSON object: a control character stands where none may be'
  end
  return bare
end

-- How many members the objects in a value have. The names of cjson's tables are texts, the places in its arrays numbers.
local function members(value)
  local n = 0
  for name, inner in pairs(value) do
    if type(name) == 'string' then n = n + 1 end
    if type(inner) == 'table' then n = n + members(inner) end
  end
  return n
end

-- The object that a text holds, or nil and what is wrong with it.
local function object(text)
  if #text > LARGEST.element then return nil, LARGEST.element_rule end
  if not string.find(text, '^[ \t\r\n]*{') then return nil, 'must be a JSON object' end
  local bare, wrong = skeleton(text)
  if not bare then return nil, wrong end
  local fine, value = pcall(decode, text)
  if not fine then return nil, 'must be a JSON object: ' .. string.gsub(text_of(value), '^[%w_]+:%d+: ', '') end
  -- To cjson 1. and -.5 are numbers as well, and it keeps the last of several members of a name.
  if string.find(bare, '%.%D') or string.find(bare, '%-%D') then return nil, 'must be a JSON object: a number is none' end
  if members(value) ~= count(bare, ':') then return nil, 'must be a JSON object: a name stands twice in an object' end
  return value
end
