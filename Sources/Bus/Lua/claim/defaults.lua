-- Defaults of a queue's jobs. The hash `defaults` has JSON values by the name of a job's field, and `base`, a URL
-- against which a relative `url` is resolved. A value that the field may not have is ignored.
--
-- A call reads the hash only if it claims an element. The claim puts the defaults that it needs itself into the
-- envelope. It passes all of them on as they were written, and the worker applies them (Contract/Job+Defaults.swift).
--
-- Uses: Events, Gate, Json, Raw, Urls.
do
  -- Whether the queue has any defaults or limits of hosts, or uses groups. It is read once in a call.
  function Defaults.or_limits_exist(c)
    local prefix = c.PREFIX
    if c.has_defaults_or_limits == nil then
      c.has_defaults_or_limits = call('EXISTS', prefix .. KEY.defaults, prefix .. KEY.limits, prefix .. KEY.hosts,
        prefix .. KEY.deferredHosts, prefix .. KEY.backoff, prefix .. KEY.groups, prefix .. KEY.deferredGroups) > 0
    end
    return c.has_defaults_or_limits
  end

  -- Fields that the claim itself needs.
  local USED_BY_CLAIM = { 'path', 'delay', 'deadline', 'reply_to', 'notify', 'meta' }

  -- The value of a JSON text; nil if the text is not JSON.
  local function value_of(text)
    local holder = Json.object('{"v":' .. text .. '}')
    if not holder or holder.v == nil then return nil end
    for name in pairs(holder) do if name ~= 'v' then return nil end end
    return holder.v
  end

  -- The queue's defaults, read once in a call: `values` and `texts` by field, and `base`. false if there are none.
  local function of_queue(c)
    if c.defaults ~= nil then return c.defaults end
    c.defaults = false
    if not Defaults.or_limits_exist(c) then return false end
    local all = try('HGETALL', c.PREFIX .. KEY.defaults)
    -- A key of another type counts as no defaults.
    if all.err or #all == 0 then return false end
    local known = { values = {}, texts = {} }
    for n = 1, #all, 2 do
      local name, text = all[n], all[n + 1]
      local value
      if #text <= LARGEST.default and (MAY_HAVE_DEFAULT[name] or name == 'base') then value = value_of(text) end
      if name == 'base' then known.base = Urls.is_url(value) and value or nil
      elseif value ~= nil then known.values[name], known.texts[name] = value, text end
    end
    c.defaults = known
    return known
  end

  -- Whether a job of a kind may have a default.
  local function fits(name, known, kind)
    return Gate.fields[kind][name] and Gate.checks[name](known.values[name], known.texts[name], nil, kind)
  end

  -- A path with its . and .. segments removed (RFC 3986, section 5.2.4).
  local function tidy(path)
    local parts, last = {}, ''
    for part in gmatch(sub(path, 2) .. '/', '([^/]*)/') do
      last = part
      if part == '..' then parts[#parts] = nil
      elseif part ~= '.' then parts[#parts + 1] = part end
    end
    local is_folder = last == '.' or last == '..'
    return '/' .. table.concat(parts, '/') .. (is_folder and #parts > 0 and '/' or '')
  end

  -- The URL of a relative reference at `base` (RFC 3986, section 5.2.2); nil if the reference is empty, absolute or
  -- invalid.
  local function resolved(base, reference)
    if reference == '' or #reference > 8192 then return nil end
    if find(reference, '^[%a][%w+.-]*:') or find(reference, '[%c ]') then return nil end
    local scheme, authority, path, query = match(base, '^(%a+):(//[^/?#]*)([^?#]*)([^#]*)')
    if sub(reference, 1, 2) == '//' then return scheme .. ':' .. reference end
    local own_path, rest = match(reference, '^([^?#]*)(.*)$')
    if own_path == '' then
      if sub(rest, 1, 1) == '#' then rest = query .. rest end
      return scheme .. ':' .. authority .. path .. rest
    end
    if sub(own_path, 1, 1) ~= '/' then own_path = (match(path, '^.*/') or '/') .. own_path end
    return scheme .. ':' .. authority .. tidy(own_path) .. rest
  end

  -- The element with another value, given as JSON, for a member that it has.
  local function with_value(element, name, value)
    local raw, at = Raw.member(element, name)
    return sub(element, 1, at - 1) .. value .. sub(element, at + #raw)
  end

  -- The element with its relative `url` made absolute by the queue's `base`; nil if the result is not a valid URL.
  -- parsed: the element as a table, whose `url` becomes absolute as well.
  function Defaults.with_absolute_url(c, element, parsed)
    local known = parsed and type(parsed.url) == 'string' and of_queue(c)
    if not known or not known.base then return nil end
    local url = resolved(known.base, parsed.url)
    if not url or not Urls.is_url(url) then return nil end
    parsed.url = url
    return with_value(element, 'url', Events.quoted(url))
  end

  -- The defaults that an envelope may have, as it has them, for a job of a kind; nil if there are none.
  function Defaults.of(c, kind)
    local known = of_queue(c)
    if not known then return nil end
    local values = {}
    for _, name in ipairs(USED_BY_CLAIM) do
      if known.values[name] ~= nil and fits(name, known, kind) then
        local value = known.values[name]
        values[name] = name == 'meta' and known.texts.meta or type(value) == 'number' and value * 1000 or value
      end
    end
    return values
  end

  -- The value of one default, unchecked; nil if there is none.
  function Defaults.value(c, name)
    local known = of_queue(c)
    return known and known.values[name]
  end

  -- The defaults as the claim returns them to the worker: a list of field, JSON, …
  function Defaults.as_list(c)
    local known, reported = of_queue(c), {}
    if not known then return reported end
    for name, text in pairs(known.texts) do reported[#reported + 1], reported[#reported + 2] = name, text end
    return reported
  end
end
