-- Files that nobody wants any more are for a worker of their store to unlink: until one looks, they wait. A finished one is told by
-- its inode, size and time, so that no other file is taken for it. If its job is pushed again meanwhile, the run that follows
-- unlinks it before anything else: `doomed` tells of it.
drop = function(id, with_file)
  local v = call('HMGET', key(id), 'store', 'file', 'generation', 'inode', 'mtime', 'received', 'bytes')
  local store, file, generation, inode, mtime = v[1], v[2], v[3] or '', with_file and v[4] or '', v[5]
  -- An upload has no file here that is its own.
  if not (store and file) or file == '' or generation == '' and inode == '' then return end
  local size = v[7] and v[7] ~= '' and v[7] or v[6]
  if inode ~= '' and size and mtime then
    call('HSET', key(id), 'doomed', cjson.encode({ store, file, inode .. ' ' .. size .. ' ' .. mtime }))
  end
  call('LPUSH', PREFIX .. KEY.drops .. store, cjson.encode({ id, file, generation, inode, NOW, size or '', mtime or '' }))
end

-- What was given to a worker that has not said since that it is done: it may have died.
local function take_unfinished(dropping)
  local entries, some = {}, redis.pcall('HRANDFIELD', dropping, 10, 'WITHVALUES')
  for n = 1, some.err and 0 or #some, 2 do
    if (tonumber(some[n + 1]) or 0) < now - 10000 then entries[#entries + 1] = some[n] end
  end
  return entries
end

-- Whether an entry is one of `drop`.
local function is_file(told)
  if type(told) ~= 'table' then return false end
  for n = 1, 4 do
    if type(told[n]) ~= 'string' then return false end
  end
  return true
end

-- A duty of tick.lua: gives what waits for a worker of this store, some at once. The worker takes it out of `dropping` when it is
-- done. To unlink a file twice does no harm.
local function take_drops(tick)
  local drops, dropping = PREFIX .. KEY.drops .. tick.store, PREFIX .. KEY.dropping .. tick.store
  if call('EXISTS', drops, dropping) == 0 then return end
  local most, entries = share(tick), take_unfinished(dropping)
  -- A key of another type stops nothing else.
  local waiting = redis.pcall('RPOP', drops, most)
  if type(waiting) ~= 'table' or waiting.err then waiting = {} end
  for _, entry in ipairs(waiting) do entries[#entries + 1] = entry end
  local given = {}
  for _, entry in ipairs(entries) do
    local fine, told = pcall(cjson.decode, entry)
    -- Earlier versions told the inode alone.
    local id, file, generation, inode, _, size, mtime = unpack(fine and is_file(told) and told or { '', '', '', '' })
    if inode ~= '' then
      -- A job that was pushed again since deletes it itself, unless it is at work in another store.
      local v = redis.pcall('HMGET', key(id), 'state', 'store')
      if v.err or v[1] and (v[2] or tick.store) == tick.store then inode = '' end
    end
    if inode ~= '' and (size or '') ~= '' and (mtime or '') ~= '' then inode = inode .. ' ' .. size .. ' ' .. mtime end
    if generation ~= '' or inode ~= '' then
      for _, x in ipairs({ id, tick.store, file, generation, inode, entry }) do tick.dropped[#tick.dropped + 1] = x end
      given[#given + 1], given[#given + 2] = entry, NOW
    else
      redis.pcall('HDEL', dropping, entry)
    end
  end
  if #given > 0 then redis.pcall('HSET', dropping, unpack(given)) end
  spend(tick, #waiting, most)
end
