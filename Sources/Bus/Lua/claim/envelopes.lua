-- The envelope of an element: what the functions need to know of a push. Nothing else reads an element, except hosts.lua,
-- which asks for which host the next one is.
--
--     element              the text that is kept, with an absolute `url`
--     id                   of the job
--     what                 'job', 'continuation' or 'ticket'
--     at                   when the push was made (ms), or nil
--     ticket               of a ticket
--     kind                 nil for a download
--     url                  masked; nil for a continuation or a ticket
--     url_digests          of all URLs of a job (url_index.lua)
--     path, reply_to       or nil
--     meta                 JSON, or nil
--     delay, deadline      in ms after the push, or nil
--     notify               what reports its end: a table, false or nil
--     is_webhook           whether it is a signed request, which has no defaults
--     group                or nil
--     batch, batch_size, batch_reply_to   what the push says of its batch, or nil
--
-- In all files `push` is an envelope. That of an element that is not a valid push has what could be read of `id`, `at`,
-- `kind`, `reply_to`, `meta` and of its batch.
--
-- Uses: Defaults, Gate, Kinds, Raw, UrlIndex, Urls.
do
  local function set_batch(push, batch)
    if type(batch) == 'table' then push.batch, push.batch_size, push.batch_reply_to = batch.name, batch.size, batch.reply_to
    else push.batch = batch end
  end

  -- What could be read of an element that is not a valid push. parsed: its table.
  local function refused(parsed, element)
    local push = { element = element, id = is_id(parsed.id) and parsed.id or nil, kind = Kinds.named(parsed.kind),
      at = type(parsed.at) == 'number' and parsed.at or nil, reply_to = is_id(parsed.reply_to) and parsed.reply_to or nil }
    local meta = parsed.meta ~= nil and Raw.member(element, 'meta')
    push.meta = meta and #meta <= 4096 and meta or nil
    if parsed.batch ~= nil and Gate.checks.batch(parsed.batch) then set_batch(push, parsed.batch) end
    return push
  end

  local COPIED = { at = 'at', t = 'ticket', path = 'path', reply_to = 'reply_to', notify = 'notify', group = 'group' }

  local function envelope(parsed, element, id)
    local url = parsed.url or parsed.urls and parsed.urls[1]
    -- Most elements have no other members, and each one costs even if it is nil.
    local push = { element = element, id = id, what = url and 'job' or parsed.t and 'ticket' or 'continuation',
      is_webhook = parsed.webhook ~= nil }
    if url then push.url, push.url_digests = Urls.mask(url), UrlIndex.digests(parsed) end
    if parsed.kind ~= 'download' then push.kind = parsed.kind end
    if parsed.meta ~= nil then push.meta = Raw.member(element, 'meta') or nil end
    if parsed.delay then push.delay = parsed.delay * 1000 end
    if parsed.deadline then push.deadline = parsed.deadline * 1000 end
    for name, value in pairs(parsed) do
      local member = COPIED[name]
      if member then push[member] = value end
    end
    if parsed.batch ~= nil then set_batch(push, parsed.batch) end
    return push
  end

  -- The id of an element without `id`. The rule is that of Queue+Producing.swift.
  local function id_of(parsed, element)
    local is_plain = parsed.method == nil and parsed.headers == nil and parsed.urls == nil
      and (parsed.kind == nil or parsed.kind == 'download')
    if not is_plain then return sub(redis.sha1hex(element), 1, 16) end
    -- The index of URLs needs the same digest.
    if not parsed.path then return UrlIndex.digest(parsed.url) end
    return sub(redis.sha1hex(parsed.url .. '\n' .. parsed.path), 1, 16)
  end

  -- Reads an element. Returns its envelope without defaults, and a reason if it is not a valid push. The envelope is nil
  -- if the element is not a JSON object.
  function Envelopes.read(c, element)
    local parsed, reason = Gate.read(element)
    local kept = element
    -- Nothing but the URL is checked again.
    local absolute = reason and find(reason, '^url: ') and Defaults.with_absolute_url(c, element, parsed)
    if absolute then
      kept = absolute
      reason = #absolute > LARGEST.element and 'element: ' .. LARGEST.element_rule or Gate.fault(parsed, absolute)
    end
    if reason then return parsed and refused(parsed, element), reason end
    return envelope(parsed, kept, parsed.id or id_of(parsed, kept))
  end

  -- The envelope, without defaults, of an element that was valid when it was kept.
  function Envelopes.kept(element, id) return envelope(Gate.read(element), element, id) end

  -- Puts the queue's defaults into the envelope of a job that lacks them. A webhook has a deadline of a day by default.
  function Envelopes.complete(c, push)
    if push.is_webhook then push.deadline = push.deadline or 864e5 return end
    local values = push.what == 'job' and Defaults.of(c, push.kind or 'download')
    if not values then return end
    for name, value in pairs(values) do
      if push[name] == nil then push[name] = value end
    end
  end
end
