-- The reason for refusing a value, where a field has several rules: it names the one that the value breaks. The order
-- is that of Contract/FieldFault.swift and Contract/URLRule.swift. Only a refused value comes here, so that the checks
-- of the others stay fast. `KIND.faults` has the texts.
--
-- Uses: Urls.
do
  -- Functions by kind of value. Each may return nil if only the field's whole rule says what is wrong.
  local REASONS = {}

  function REASONS.url(value, kind)
    local faults = KIND.faults
    if type(value) ~= 'string' then return faults.no_text end
    if #value > 8192 then return faults.url_too_long end
    if find(value, '[%c ]') then return faults.url_space end
    if kind == 'download' and sub(value, 1, 5) == 's3://' then
      local bucket, rest = match(value, '^s3://([^/?#]*)(.*)$')
      if not find(bucket, '^%w[%w._-]+$') or #bucket < 3 or #bucket > 63 then return faults.bucket end
      if not find(rest, '^/[^?#]') then return faults.key end
      return not Urls.is_object(value) and faults.version or nil
    end
    local authority = match(value, '^[hH][tT][tT][pP][sS]?://([^/?#]*)')
    if not authority then return faults.scheme end
    local login, address = match(authority, '^(.*)@(.*)$')
    if login and find(login, '%00', 1, true) then return faults.login end
    address = address or authority
    if byte(address) == 91 then
      local ipv6, port = match(address, '^%[([^%]]*)%](.*)$')
      if not ipv6 or not Urls.is_ipv6(ipv6) then return faults.ipv6 end
      return not Urls.is_port(port) and faults.port or nil
    end
    local host, port = match(address, '^([^:]*)(.*)$')
    if host == '' then return faults.no_host end
    if #host > 254 then return faults.host_too_long end
    if not Urls.is_host(host) then
      if not find(host, '^[%w_.\128-\255-]+$') or find(host, '^%.') or find(host, '..', 1, true) then
        return faults.host
      end
      if not find(host, '[\128-\255]') then
        for label in gmatch(host, '[^.]+') do if #label > 63 then return faults.host_too_long end end
      end
      return faults.ipv4
    end
    return not Urls.is_port(port) and faults.port or nil
  end

  function REASONS.urls(value, kind)
    if type(value) ~= 'table' or #value < 1 or #value > 16 then return nil end
    for n = 1, #value do
      local fault = REASONS.url(value[n], kind)
      if fault then return 'number ' .. n .. ' ' .. fault end
    end
  end

  function REASONS.path(value)
    local faults = KIND.faults
    if type(value) ~= 'string' then return faults.no_text end
    if value == '' then return faults.empty end
    if #value > 4096 then return faults.path_too_long end
    if byte(value) == 47 then return faults.absolute_path end
    if find(value, '%c') then return faults.control_character end
    local parts = '/' .. value .. '/'
    if find(parts, '/../', 1, true) or find(parts, '/./', 1, true) then return faults.dot_part end
    if find(string.lower(parts), '/.haul', 1, true) then return faults.own_part end
    for part in gmatch(value, '[^/]+') do if #part > 255 then return faults.part_too_long end end
  end

  function REASONS.file(value) return REASONS.path(value) or KIND.faults.directory end

  function REASONS.checksum(value)
    if type(value) ~= 'string' then return nil end
    local algorithm = match(value, '^(%w+):')
    if KIND.digits[algorithm] then
      local count, given = KIND.digits[algorithm], #value - #algorithm - 1
      local rule = 'must have ' .. count .. ' hexadecimal digits after ' .. algorithm .. ':, '
      if given ~= count then return rule .. 'not ' .. given end
      return rule .. 'but character ' .. find(value, '%X', #algorithm + 2) - #algorithm - 1 .. ' of them is not one'
    end
    if not find(value, '^%x+$') then return nil end
    for name, count in pairs(KIND.digits) do
      if #value == count then return 'must name its algorithm: write ' .. name .. ': before the ' .. count .. ' digits' end
    end
  end

  function REASONS.headers(value, kind)
    if type(value) ~= 'table' then return nil end
    local first, is_conditional, has_wrong_name, n = nil, false, false, 0
    for name in pairs(value) do
      n = n + 1
      if n > LARGEST.headers or type(name) ~= 'string' then return nil end
      has_wrong_name = has_wrong_name or not find(name, '^[!-9;-~]+$')
      name = string.lower(name)
      local forbidden = kind == 'download' and OWN_HEADERS or KIND.not_in_requests
      if forbidden[name] and (not first or name < first) then first = name end
      if kind == 'download' and sub(name, 1, #OWN_PREFIX) == OWN_PREFIX then is_conditional = true end
    end
    if first == 'host' then return KIND.faults.host_header end
    if first then return 'must not have the header ' .. first .. ', because Haul sets it itself' end
    if is_conditional then return KIND.faults.conditional_header end
    return has_wrong_name and KIND.faults.header_name or KIND.faults.header_value
  end

  function REASONS.method(_, kind) return KIND.faults['method_of_' .. kind] end

  -- The reason for refusing a value of a field. field: its row of FIELDS.
  function Faults.reason(field, value, kind)
    local reason = REASONS[field[2]]
    return reason and reason(value, kind) or field[3]
  end
end
