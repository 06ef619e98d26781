-- Makes a worker known on a new connection, and puts back what it holds without knowing it: claims whose reply was
-- lost, which never ran, and everything of an earlier process of the same name, which was lost with it.
--
-- ARGV: nonce, worker, instance, session (it grows with each registration of this process), crash limit, retention completed,
--       failed, cancelled (ms), n pairs of its fields, known tokens …
-- Returns 'ok', 'old' if a later registration of this process was here first, or {'taken', instance, ms since it was seen}
-- while another live process has the name.
define('register', { 'allow-oom' }, function()
  call('HLEN', WORKER)
  local settings = touch()
  local worker, instance = ARGV[2], ARGV[3]
  local retention = retention_of(settings, 6)
  local seen = call('HMGET', WORKER, 'instance', 'seen', 'session')
  if seen[1] and seen[1] ~= instance and now - tonumber(seen[2] or 0) < 3000 then
    return { 'taken', seen[1], whole(now - tonumber(seen[2] or 0)) }
  end
  -- It comes over a connection that was lost: it knows less than the one before it.
  if seen[1] == instance and tonumber(ARGV[4]) < tonumber(seen[3] or 0) then return 'old' end
  local is_successor = seen[1] ~= instance
  -- It was another process that was to take no more.
  if is_successor then call('HDEL', SETTINGS, 'quiet:' .. worker) end
  local n = tonumber(ARGV[9])
  local known = {}
  for k = 10 + n * 2, #ARGV do known[ARGV[k]] = true end
  local claims = call('HGETALL', WORKER)
  call('ZADD', WORKERS, NOW, worker)
  local mine = { 'instance', instance, 'session', ARGV[4], 'seen', NOW }
  for k = 1, n * 2 do mine[#mine + 1] = ARGV[9 + k] end
  -- What it has received is counted from its own beginning.
  if is_successor then call('HDEL', WORKER, 'received') end
  call('HSET', WORKER, unpack(mine))
  call('PEXPIRE', WORKER, 86400000)
  for k = 1, #claims, 2 do
    local token, id = claims[k], claims[k + 1]
    if #token == 32 and string.find(token, '^%x+$') and not known[token] then
      local j = job(id)
      if j.state == 'running' and j.token == token then
        if is_successor then lose(id, j, tonumber(ARGV[5]), retention) else requeue(id, j, true, 'unheard', retention) end
      end
      call('HDEL', WORKER, token)
    end
  end
  give_back(HELD, 1000)
  if has_places(settings) then offer_place(settings, false) end
  return publish('ok')
end)
