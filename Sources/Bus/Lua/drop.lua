-- Files that nobody wants any more are for a worker of their store to unlink.
local function drop(tick, id, with_file)
  local place = call('HMGET', key(id), 'store', 'file', 'generation', 'inode')
  if place[1] and place[2] then
    for _, x in ipairs({ id, place[1], place[2], place[3] or '', with_file and place[4] or '' }) do
      tick.dropped[#tick.dropped + 1] = x
    end
  end
end
