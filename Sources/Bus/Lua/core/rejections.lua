-- Elements and control operations that are refused: the list `rejected`, and the event.
--
-- Uses: Events, History, Replies.
-- Calls ahead: Batches, Json.
-- Writes: rejected, events:<id>.
do
  -- The first 4096 bytes of an element. Bytes that are not UTF-8 are replaced, because the whole entry would be invalid
  -- JSON.
  local function excerpt(element)
    local shown = sub(element, 1, 4096)
    if Json.is_ascii(shown) then return shown end
    -- Drop a character at the end that is cut off in the middle.
    if #element > 4096 then shown = gsub(shown, '[\192-\255][\128-\191]*$', '') end
    return Json.is_utf8(shown) and shown or (gsub(shown, '[\128-\255]', '?'))
  end

  -- Rejects an element or a control operation: lists it in `rejected` and publishes the event at once. reason: a
  -- sentence. id: the job's, or nil. names: reply lists, with blanks between them, or nil. meta: the element's JSON, or
  -- nil.
  function Rejections.add(c, element, reason, id, names, meta)
    local shown = type(element) == 'string' and excerpt(element) or ''
    local entry = '{"at":' .. c.NOW .. ',"reason":' .. Events.quoted(reason) .. ',"element":' .. Events.quoted(shown) .. '}'
    call('LPUSH', c.PREFIX .. KEY.rejected, entry)
    call('LTRIM', c.PREFIX .. KEY.rejected, 0, 999)
    -- Elements hold secrets.
    call('PEXPIRE', c.PREFIX .. KEY.rejected, 86400000)
    id = id or 'unknown'
    local event = Events.json(c, 'rejected', '"id":"' .. id .. '"', nil, meta and ',"meta":' .. meta or '',
      ',"reason":' .. Events.quoted(reason))
    Events.send(c, id, event)
    c.produced = c.produced + #entry + #event
    Events.keep(c, 'rejected', id, event)
    History.count(c, 'rejected')
    Replies.send(c, names, event)
  end

  -- Rejects an element. push: its envelope, or nil. The rejection counts in its batch, and goes to its `reply_to`.
  function Rejections.add_element(c, element, reason, id, push)
    if push then Batches.refuse(c, id, push, element) end
    Rejections.add(c, element, reason, id, push and push.reply_to, push and push.meta)
  end
end
