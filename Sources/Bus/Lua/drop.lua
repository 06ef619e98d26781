-- Files that nobody wants any more are for a worker of their store to unlink: until one looks, they wait.
drop = function(id, with_file)
  local place = call('HMGET', key(id), 'store', 'file', 'generation', 'inode')
  local generation, inode = place[3] or '', with_file and place[4] or ''
  if place[1] and place[2] and (generation ~= '' or inode ~= '') then
    call('LPUSH', PREFIX .. 'drops:' .. place[1], cjson.encode({ id, place[2], generation, inode, NOW }))
  end
end

-- A duty of tick.lua: takes what waits for a worker of this store, some at once.
local function take_drops(tick)
  -- A key of another type stops nothing else.
  local most = share(tick)
  local entries = redis.pcall('RPOP', PREFIX .. 'drops:' .. tick.store, most)
  if type(entries) ~= 'table' or entries.err then return end
  for _, entry in ipairs(entries) do
    local id, file, generation, inode = unpack(cjson.decode(entry))
    -- A job that was pushed again since may have found the file good.
    if inode ~= '' and redis.pcall('HEXISTS', key(id), 'state') ~= 0 then inode = '' end
    if generation ~= '' or inode ~= '' then
      for _, x in ipairs({ id, tick.store, file, generation, inode }) do tick.dropped[#tick.dropped + 1] = x end
    end
  end
  spend(tick, #entries, most)
end
