-- Reads and checks an element before anything is written. What is not a valid job or continuation is rejected, with a
-- reason that names the field. The result is that of Contract/Job+Reading.swift: both are tested with the same cases
-- and with random ones (BusTests/GrammarTests). LuaHead.swift makes the table of fields from Contract/JobField.swift.
--
-- KINDS has a check for each kind of value. Its arguments: the value, the element as text, the element as a table, the
-- kind of job.
--
-- Uses: Faults, Json, Raw, Urls, Webhooks.
do
  local KINDS = { notify = Webhooks.accepts }

  KINDS.id = is_id

  function KINDS.url(value, _, _, kind) return Urls.is_url(value) or kind == 'download' and Urls.is_object(value) end

  -- Only a download has several URLs.
  function KINDS.urls(value)
    if type(value) ~= 'table' or #value < 1 or #value > 16 then return false end
    local count = 0
    for index, url in pairs(value) do
      count = count + 1
      if type(index) ~= 'number' or not (Urls.is_url(url) or Urls.is_object(url)) then return false end
    end
    return count == #value
  end

  function KINDS.path(path)
    if type(path) ~= 'string' or #path > 4096 or not find(path, '^[^/%c][^%c]*$') then return false end
    if #path <= 255 and byte(path) ~= 46 and not find(path, '/.', 1, true) then return true end
    path = '/' .. path .. '/'
    if find(path, '/../', 1, true) or find(path, '/./', 1, true) or find(string.lower(path), '/.haul', 1, true) then
      return false
    end
    -- No part is longer than 255 bytes. The steps go to the last slash that is near enough, not from part to part.
    local at = 1
    while at < #path do
      local step = match(sub(path, at + 1, at + 256), '^.*()/')
      if not step then return false end
      at = at + step
    end
    return true
  end

  function KINDS.file(path) return KINDS.path(path) and byte(path, #path) ~= 47 end

  function KINDS.checksum(text)
    if type(text) ~= 'string' or #text > 140 then return false end
    local algorithm, digest = match(text, '^(%w+):(%x+)$')
    return algorithm and KIND.digits[algorithm] == #digest
  end

  function KINDS.method(method, _, _, kind)
    return type(method) == 'string' and #method <= 20 and (kind ~= 'download' or method ~= 'HEAD')
      and (kind ~= 'upload' or method == 'PUT' or method == 'POST' or method == 'PATCH') and find(method, '^[A-Z]+$')
  end

  -- PHP writes an empty object as an empty list.
  function KINDS.headers(headers, _, _, kind)
    if type(headers) ~= 'table' then return false end
    local count = 0
    for name, value in pairs(headers) do
      count = count + 1
      if count > LARGEST.headers or type(name) ~= 'string' or type(value) ~= 'string' or not find(value, '^[^%z\r\n]*$')
        or not find(name, '^[!-9;-~]+$') then return false end
      local lower = string.lower(name)
      if kind ~= 'download' then
        if KIND.not_in_requests[lower] then return false end
      elseif OWN_HEADERS[lower] or sub(lower, 1, #OWN_PREFIX) == OWN_PREFIX then return false end
    end
    return true
  end

  function KINDS.items(items)
    if type(items) ~= 'table' then return false end
    local count = 0
    for name, value in pairs(items) do
      count = count + 1
      local its_type = type(value)
      if count > LARGEST.headers or type(name) ~= 'string' then return false end
      if its_type ~= 'string' and its_type ~= 'number' and its_type ~= 'boolean' then return false end
    end
    return true
  end

  function KINDS.json() return true end
  function KINDS.flag(value) return type(value) == 'boolean' end

  do
    local MEMBERS = { name = is_id, reply_to = is_id }
    function MEMBERS.size(size) return type(size) == 'number' and size >= 1 and size <= LARGEST.batch and size == floor(size) end
    function KINDS.batch(batch)
      if type(batch) ~= 'table' then return is_id(batch) end
      for name, value in pairs(batch) do
        local accepts = MEMBERS[name]
        if not accepts or not accepts(value) then return false end
      end
      return batch.name ~= nil
    end
  end

  do
    -- The padding hides bits of the last digit, which must be 0.
    local LAST_DIGIT = { [''] = '[%w+/]$', ['='] = '[AEIMQUYcgkosw048]$', ['=='] = '[AQgw]$' }
    function KINDS.base64(text)
      if type(text) ~= 'string' or #text % 4 ~= 0 then return false end
      local digits, padding = match(text, '^([%w+/]*)(=?=?)$')
      return text == '' or digits ~= nil and find(sub(digits, -1), LAST_DIGIT[padding]) ~= nil
    end

    local function is_status(number) return number >= 100 and number <= 599 and number == floor(number) end
    function KINDS.statuses(statuses)
      if type(statuses) ~= 'table' or #statuses < 1 or #statuses > 16 then return false end
      local count = 0
      for index, status in pairs(statuses) do
        count = count + 1
        if type(index) ~= 'number' then return false end
        if type(status) == 'string' then
          local first, last = match(status, '^(%d%d%d)-(%d%d%d)$')
          if not first or not is_status(tonumber(first)) or not is_status(tonumber(last)) then return false end
        elseif type(status) ~= 'number' or not is_status(status) then return false end
      end
      return count == #statuses
    end
  end

  function KINDS.media_type(text)
    local token = "[%w!#$%%&'*+.^_`|~-]+"
    return type(text) == 'string' and #text <= 255
      and (find(text, '^' .. token .. '/' .. token .. '[ \t]*$')
        or find(text, '^' .. token .. '/' .. token .. '[ \t]*;[^%c]*$'))
  end

  do
    local function is_name(text) return type(text) == 'string' and #text >= 1 and #text <= 255 and not find(text, '%c') end
    local MEMBERS = { file = KINDS.file, name = is_name, filename = is_name, type = KINDS.media_type }
    function KINDS.files(files)
      if type(files) ~= 'table' or #files < 1 or #files > KIND.max_files then return false end
      local count = 0
      for index, file in pairs(files) do
        count = count + 1
        if type(index) ~= 'number' or type(file) ~= 'table' or file.file == nil then return false end
        for name, value in pairs(file) do
          local accepts = MEMBERS[name]
          if not accepts or not accepts(value) then return false end
        end
      end
      return count == #files
    end
  end

  do
    local function is_object(value)
      if type(value) ~= 'table' then return false end
      for name in pairs(value) do return type(name) == 'string' end
      return false
    end

    -- The worker checks what is in the steps.
    function KINDS.steps(steps)
      if is_object(steps) then return true end
      if type(steps) ~= 'table' or #steps < 1 or #steps > KIND.max_steps then return false end
      for _, step in ipairs(steps) do if not is_object(step) then return false end end
      return true
    end
  end

  -- The reason for the first field of an upload that contradicts the other fields; nil if there is none. See
  -- Contract/Job+Upload.swift.
  local function wrong_upload(parsed)
    local function wrong(name) return name .. ': ' .. KIND.upload[name] end
    if (parsed.file == nil) == (parsed.files == nil) then return wrong('file') end
    if parsed.each ~= nil and parsed.files == nil then return wrong('each') end
    if parsed.form ~= nil and (parsed.files == nil or parsed.each) then return wrong('form') end
    if parsed.protocol ~= nil
      and (parsed.files or parsed.method or parsed.expect or parsed.idempotent ~= nil or parsed.content_digest) then
      return wrong('protocol')
    end
  end

  -- In a job the field `t` has no meaning, so anything is accepted.
  function KINDS.ticket(ticket, _, parsed) return (parsed.url or parsed.urls) ~= nil or type(ticket) == 'string' and #ticket <= 64 end

  function KINDS.meta(_, element) return #element <= 4096 or #(Raw.member(element, 'meta') or '') <= 4096 end

  local function checker(kind)
    if type(kind) == 'string' then return KINDS[kind] end
    if kind.choice then return function(value) return type(value) == 'string' and kind.choice[value] end end
    if kind.text then return function(value) return type(value) == 'string' and #value <= kind.text end end
    local min, max = unpack(kind.integer or kind.number)
    local is_whole = kind.integer ~= nil
    return function(value)
      return type(value) == 'number' and value >= min and value <= max and (not is_whole or value == floor(value))
    end
  end

  -- Checks by field, and the fields of each kind of job. They are made for the first element, because Lua's functions,
  -- such as pairs(), are not available while Redis loads the library.
  local function make_checks()
    Gate.checks, Gate.fields = {}, {}
    for kind in pairs(KIND.rules) do Gate.fields[kind] = {} end
    for _, field in ipairs(FIELDS) do
      Gate.checks[field[1]] = checker(field[2])
      for kind in pairs(field[4]) do Gate.fields[kind][field[1]] = true end
    end
  end

  -- The reason for the first field, in the order of the table, that has a wrong value. fine: the names of fields that
  -- were checked already. wrong: the name of a field whose value is wrong.
  local function wrong_field(parsed, element, kind, fine, wrong)
    for _, field in ipairs(FIELDS) do
      local name, value = field[1], parsed[field[1]]
      if name == wrong and field[4][kind] then return name .. ': ' .. Faults.reason(field, value, kind) end
      if value ~= nil and not fine[name] then
        if not field[4][kind] then return name .. ': ' .. KIND.rules[kind] end
        if not Gate.checks[name](value, element, parsed, kind) then return name .. ': ' .. Faults.reason(field, value, kind) end
      end
    end
  end

  -- The reason for an unknown limit. A long name is clipped as in Swift (Contract/String+Bytes.swift).
  local function unknown_limit(name)
    if #name > KIND.shown_name then
      local last = KIND.shown_name
      while find(name, '^[\128-\191]', last + 1) do last = last - 1 end
      name = sub(name, 1, last) .. '…'
    end
    return name .. ': ' .. KIND.limit_rule
  end

  -- Fields that give a body. A job has at most one of them.
  local BODIES = { 'body', 'json', 'form', 'body_base64' }

  -- The reason why an element is not a valid job or continuation; nil if it is one. parsed: the element as a table.
  function Gate.fault(parsed, element)
    -- An unknown kind is the only error that is reported: `kind` is the first field of the table.
    local kind = KIND.rules[parsed.kind] and parsed.kind or 'download'
    local known, fine, limit = Gate.fields[kind], {}, nil
    for name, value in pairs(parsed) do
      local accepts = Gate.checks[name]
      if accepts then
        if not (known[name] and accepts(value, element, parsed, kind)) then return wrong_field(parsed, element, kind, fine, name) end
        fine[name] = true
      elseif KIND.limit_prefixes[match(name, '^%a+_')] and (not limit or name < limit) then
        -- Other unknown fields are ignored.
        limit = name
      end
    end
    if limit then return unknown_limit(limit) end
    if not parsed.url and not parsed.urls then
      if not parsed.id then return 'url: is missing' end
      for name in pairs(parsed) do
        if not CONTINUATION[name] then
          return 'url: is missing (without it only id, v and at may be given, to continue a known job)'
        end
      end
    elseif kind == 'upload' then
      return wrong_upload(parsed)
    elseif parsed.body ~= nil or kind ~= 'download' then
      local bodies = 0
      for _, name in ipairs(BODIES) do if parsed[name] ~= nil then bodies = bodies + 1 end end
      if bodies > 1 then return 'body: ' .. KIND.body_rule end
      if bodies > 0 and not parsed.id then return 'id: is required with a body' end
    end
  end

  -- The element as a table, and a reason if it is not a valid job or continuation. The table is nil if the text is not
  -- a JSON object.
  function Gate.read(element)
    if not Gate.checks then make_checks() end
    local parsed, wrong = Json.object(element)
    if not parsed then return nil, 'element: ' .. wrong end
    return parsed, Gate.fault(parsed, element)
  end
end
