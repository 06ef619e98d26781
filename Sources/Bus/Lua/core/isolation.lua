-- One job's errors do not stop the other jobs. Any client may have written over a job's keys.
do
  -- pcall returns an error as a text or as a table, which depends on the version of Redis.
  function Isolation.text_of(caught) return type(caught) == 'table' and tostring(caught.err) or tostring(caught) end

  -- The text of an error that the job itself causes: a key of another type, a value that is invalid, an operation that
  -- Lua cannot do with such a value. nil for an error that every job would meet, like a missing right or a disk that
  -- cannot be written. caught: what pcall has caught.
  function Isolation.trouble(caught)
    local text = Isolation.text_of(caught)
    local is_own = find(text, '^[%w_]+:%d+: ') or find(text, '^WRONGTYPE')
      or find(text, '^ERR .*not an? ') or find(text, '^ERR .*overflow')
    return is_own and text or nil
  end

  -- Raises an error that pcall has caught, with its own error code.
  function Isolation.raise(caught) error({ err = Isolation.text_of(caught) }, 0) end

  -- Runs `act` for one job. Returns true and its result, or false and the text of an error that the job causes. Then
  -- the job's events are discarded. Any other error is raised. Writes before the error stay, so the caller must remove
  -- the job from the list that it reads, or the job would stop the others again.
  function Isolation.run(c, act, ...)
    local before = #c.outbox
    local fine, result = pcall(act, ...)
    if fine then return true, result end
    local wrong = Isolation.trouble(result)
    if not wrong then Isolation.raise(result) end
    for n = #c.outbox, before + 1, -1 do
      c.seqs[c.outbox[n].id] = c.outbox[n].before
      c.outbox[n] = nil
    end
    return false, wrong
  end

  -- Runs `act` for each of `ids`, each isolated. on_error: is called with the id and the text of the error if `act`
  -- fails.
  function Isolation.each(c, ids, act, on_error)
    for _, id in ipairs(ids) do
      local fine, wrong = Isolation.run(c, act, id)
      if not fine then on_error(id, wrong) end
    end
  end
end
