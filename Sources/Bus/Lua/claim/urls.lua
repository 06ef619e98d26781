-- Which URLs a job may have. Contract/URLRule.swift has the same rules, and both are tested with the same cases.
do
  local function is_ipv4(text)
    local parts = { match(text, '^(%d%d?%d?)%.(%d%d?%d?)%.(%d%d?%d?)%.(%d%d?%d?)$') }
    -- Some programs read a number with a leading zero as octal.
    for _, part in ipairs(parts) do
      if tonumber(part) > 255 or #part > 1 and byte(part) == 48 then return false end
    end
    return #parts == 4
  end

  function Urls.is_ipv6(text)
    -- The longest address has 45 bytes, the longest zone 18. The patterns below are not linear.
    if #text > 64 then return false end
    local address, zone = match(text, '^([^%%]*)(.*)$')
    if zone ~= '' then
      if not find(zone, '^%%[%w_.-]+$') then return false end
      -- An interface name has at most 15 bytes on Linux, and libcurl rejects a longer one.
      if #gsub(zone, '^%%25(.)', '%%%1') > 16 then return false end
    end
    -- An IPv4 address may replace the last two groups.
    local head, ipv4 = match(address, '^(.*:)([^:]*%.[^:]*)$')
    if ipv4 then
      if not is_ipv4(ipv4) then return false end
      address = head .. '0:0'
    end
    if not find(address, '^[%x:]+$') or find(address, '%x%x%x%x%x') then return false end
    local groups, gaps = select(2, gsub(address, '%x+', '')), select(2, gsub(address, '::', ''))
    local colons = select(2, gsub(address, ':', ''))
    if gaps == 0 then return groups == 8 and colons == 7 and not find(address, '^:') and not find(address, ':$') end
    -- One gap, and no single colon at either end.
    return gaps == 1 and groups <= 7 and not find(address, ':::') and not find(address, '^:[^:]')
      and not find(address, '[^:]:$')
  end

  function Urls.is_port(text)
    if text == '' or text == ':' then return true end
    local digits = match(text, '^:(%d%d?%d?%d?%d?)$')
    return digits ~= nil and tonumber(digits) >= 1 and tonumber(digits) <= 65535
  end

  function Urls.is_host(host)
    if #host > 254 or not find(host, '^[%w_.\128-\255-]+$') then return false end
    if find(host, '^%.') or find(host, '..', 1, true) then return false end
    if #host > 63 and not find(host, '[\128-\255]') then
      for label in gmatch(host, '[^.]+') do if #label > 63 then return false end end
    end
    -- If the last label is a number, the host must be an IPv4 address. A name may end with a dot.
    local name = byte(host, -1) == 46 and sub(host, 1, -2) or host
    local last = match(name, '^.*%.(.*)$') or name
    if not find(last, '^%d') then return true end
    return not find(last, '^%d+$') and not find(last, '^0[xX]%x*$') or is_ipv4(name)
  end

  -- What stood between the scheme and the path of the last valid URL, because jobs of one host often follow each other.
  local last_authority

  -- Whether a value is an http or https URL that a job may have. Each pattern is anchored, and no two repeated classes
  -- that are adjacent share a character. Otherwise Lua would try all ways to divide a text between them.
  function Urls.is_url(url)
    if type(url) ~= 'string' or #url > 8192 then return false end
    local authority, rest = match(url, '^[hH][tT][tT][pP][sS]?://([^/?#%c ]+)()')
    if not authority or not find(url, '^[^%c ]*$', rest) then return false end
    if authority == last_authority then return true end
    local whole = authority
    if find(authority, '@', 1, true) then
      local login
      login, authority = match(authority, '^(.*)@(.*)$')
      if find(login, '%00', 1, true) then return false end
    end
    if byte(authority) == 91 then
      local address, port = match(authority, '^%[([^%]]*)%](.*)$')
      return address ~= nil and Urls.is_ipv6(address) and Urls.is_port(port)
    end
    local host, port = match(authority, '^([^:]*)(.*)$')
    if not (Urls.is_host(host) and Urls.is_port(port)) then return false end
    last_authority = whole
    return true
  end

  -- Whether a value is the URL of an object, s3://BUCKET/KEY, perhaps with ?versionId=ID. Only downloads may have one.
  function Urls.is_object(url)
    if type(url) ~= 'string' or #url > 8192 then return false end
    local bucket, rest = match(url, '^s3://(%w[%w._-]+)/[^?#%c ]+(.*)$')
    if not bucket or #bucket < 3 or #bucket > 63 then return false end
    return rest == '' or find(rest, '^%?versionId=[^?#&%c ]+$') ~= nil
  end

  -- A URL without its login and its fragment, and with its query masked. See Contract/MaskedURL.swift.
  function Urls.mask(url)
    if find(url, '^[^#?@]*$') then return url end
    url = gsub(url, '#.*$', '')
    url = gsub(url, '%?.*$', '?[masked]')
    return (gsub(url, '^(%w+://)[^/]*@', '%1'))
  end
end
