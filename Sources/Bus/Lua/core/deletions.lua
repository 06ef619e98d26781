-- Files that have no further use. A worker of their store unlinks them.
--
-- Calls ahead: Budget.
-- Writes: job:<id>, deletions:<store>, deleting:<store>.
do
  -- Queues a job's files, which no longer have a use, for a worker of their store to unlink. with_file: whether the
  -- finished file is deleted, too. The finished file is identified by its inode, size and time, so that no other file
  -- is deleted instead. If the job is pushed again before that, the next run deletes the file first: `pending_deletion`
  -- names it.
  function Deletions.schedule(c, id, with_file)
    local store, file, generation, inode, mtime, received, bytes, completed = unpack(call('HMGET', c.JOB .. id, 'store', 'file',
      'generation', 'inode', 'mtime', 'received', 'bytes', 'completed_file'))
    generation, inode = generation or '', with_file and inode or ''
    -- A later run may have begun a file elsewhere (Pushes.record).
    local identity, finished_store, finished = match(completed or '', '^(%S+) (%S+) (.+)$')
    if identity ~= (inode .. '-' .. (mtime or '')) then finished_store, finished = store, file end
    local size = bytes and bytes ~= '' and bytes or received
    local function queue(at, name, ...)
      call('LPUSH', c.PREFIX .. KEY.deletions .. at, cjson.encode({ id, name, ... }))
    end
    -- An upload has no file of its own in the store.
    if inode ~= '' and finished_store and finished and finished ~= '' then
      if size and mtime then
        call('HSET', c.JOB .. id, 'pending_deletion', cjson.encode({ finished_store, finished, inode .. ' ' .. size .. ' ' .. mtime }))
      end
      local is_beside = finished_store == store and finished == file
      queue(finished_store, finished, is_beside and generation or '', inode, c.NOW, size or '', mtime or '')
      if is_beside then return end
    end
    if generation ~= '' and store and file and file ~= '' then queue(store, file, generation, '', c.NOW, '', '') end
  end

  -- Up to 10 entries that a worker claimed over 10 s ago and has not confirmed. The worker may have died.
  local function unconfirmed(c, deleting)
    local entries, some = {}, try('HRANDFIELD', deleting, 10, 'WITHVALUES')
    for n = 1, some.err and 0 or #some, 2 do
      if (tonumber(some[n + 1]) or 0) < c.now - 10000 then entries[#entries + 1] = some[n] end
    end
    return entries
  end

  -- Whether a value is an entry that Deletions.schedule() has written.
  local function is_file(reported)
    if type(reported) ~= 'table' then return false end
    for n = 1, 4 do
      if type(reported[n]) ~= 'string' then return false end
    end
    return true
  end

  -- Whose the finished file of an entry is, if its job was pushed again:
  --   removed: the removed job's, even if the new push never runs
  --   newer: that of a later run. A file may have the identity of the one that its run has deleted first
  --   undecided: a run is at work, and deletes the file itself. The entry waits until it has ended
  -- DroppedFile.owner() asks the same again right before the file is deleted.
  local function file_owner(c, store, id, inode, mtime)
    local values = try('HMGET', c.JOB .. id, 'state', 'store', 'inode', 'mtime')
    if values.err then return 'newer' end
    local state, job_store, job_inode, job_mtime = unpack(values)
    if not state then return 'removed' end
    if state == 'running' then return 'undecided' end
    -- Entries of earlier versions have only the inode, which a later file may have.
    if mtime == '' then return (job_store or store) == store and 'newer' or 'removed' end
    return (job_store or store) == store and job_inode == inode and job_mtime == mtime and 'newer' or 'removed'
  end

  -- A task of the tick: assigns this worker some files of its store to unlink. When a file is unlinked, the worker
  -- removes its entry from `deleting`. Unlinking a file twice does no harm.
  function Deletions.claim(c, tick)
    local queued, deleting = c.PREFIX .. KEY.deletions .. tick.store, c.PREFIX .. KEY.deleting .. tick.store
    if call('EXISTS', queued, deleting) == 0 then return end
    local max, entries = Budget.of(tick), unconfirmed(c, deleting)
    -- A key of another type stops nothing else.
    local waiting = try('RPOP', queued, max)
    if type(waiting) ~= 'table' or waiting.err then waiting = {} end
    for _, entry in ipairs(waiting) do entries[#entries + 1] = entry end
    local assigned = {}
    for _, entry in ipairs(entries) do
      local fine, reported = pcall(cjson.decode, entry)
      -- Entries of earlier versions have only the inode.
      local id, file, generation, inode, _, size, mtime = unpack(fine and is_file(reported) and reported or { '', '', '', '' })
      local owner = inode ~= '' and file_owner(c, tick.store, id, inode, mtime or '')
      if owner == 'newer' then inode = '' end
      if inode ~= '' and (size or '') ~= '' and (mtime or '') ~= '' then inode = inode .. ' ' .. size .. ' ' .. mtime end
      if owner == 'undecided' then
        assigned[#assigned + 1], assigned[#assigned + 2] = entry, c.NOW
      elseif generation ~= '' or inode ~= '' then
        for _, value in ipairs({ id, tick.store, file, generation, inode, entry }) do tick.dropped[#tick.dropped + 1] = value end
        assigned[#assigned + 1], assigned[#assigned + 2] = entry, c.NOW
      else
        try('HDEL', deleting, entry)
      end
    end
    if #assigned > 0 then try('HSET', deleting, unpack(assigned)) end
    Budget.spend(tick, #waiting, max)
  end
end
