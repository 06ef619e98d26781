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

-- A duty of tick.lua: takes what waits for a worker of this store, some at once.
local function take_drops(tick)
  -- A key of another type stops nothing else.
  local most = share(tick)
  local entries = redis.pcall('RPOP', PREFIX .. KEY.drops .. tick.store, most)
  if type(entries) ~= 'table' or entries.err then return end
  for _, entry in ipairs(entries) do
    -- Earlier versions told the inode alone.
    local id, file, generation, inode, _, size, mtime = unpack(cjson.decode(entry))
    if inode ~= '' then
      -- A job that was pushed again since deletes it itself, unless it is at work in another store.
      local v = redis.pcall('HMGET', key(id), 'state', 'store')
      if v.err or v[1] and (v[2] or tick.store) == tick.store then inode = '' end
    end
    if inode ~= '' and (size or '') ~= '' and (mtime or '') ~= '' then inode = inode .. ' ' .. size .. ' ' .. mtime end
    if generation ~= '' or inode ~= '' then
      for _, x in ipairs({ id, tick.store, file, generation, inode }) do tick.dropped[#tick.dropped + 1] = x end
    end
  end
  spend(tick, #entries, most)
end
