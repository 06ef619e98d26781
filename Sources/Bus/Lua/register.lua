-- Registers a worker on a new connection. Requeues the claims that it does not know, because their replies were lost
-- and their runs never began. If an earlier process had the name, all its jobs were lost with it. Also returns the
-- elements that the worker holds.
--
-- ARGV: nonce, worker, instance, session (grows with each registration of this process), crash limit, retention of
-- completed, failed, cancelled jobs (ms), number of the worker's fields, pairs of them, then the tokens that the worker
-- knows
-- Returns 'ok'; 'old' if a later registration of this process came first; or {'taken', instance, ms since that process
-- was seen} while another live process has the name.
-- Writes worker:<worker>, workers, settings, held:<worker>, jobs, permits, and what lose() and requeue() write.
define('register', { 'allow-oom' }, function()
  call('HLEN', WORKER)
  local settings = touch()
  local worker, instance = ARGV[2], ARGV[3]
  local retention = retention_of(settings, 6)
  local known_instance, seen, session = unpack(call('HMGET', WORKER, 'instance', 'seen', 'session'))
  if known_instance and known_instance ~= instance and now - tonumber(seen or 0) < 3000 then
    return { 'taken', known_instance, integer_text(now - tonumber(seen or 0)) }
  end
  -- The call was sent over a connection that was lost, and knows fewer tokens than the later registration.
  if known_instance == instance and tonumber(ARGV[4]) < tonumber(session or 0) then return 'old' end
  local is_successor = known_instance ~= instance
  -- The setting was for the earlier process.
  if is_successor then call('HDEL', SETTINGS, 'quiet:' .. worker) end
  local count = tonumber(ARGV[9])
  local known = {}
  for n = 10 + count * 2, #ARGV do known[ARGV[n]] = true end
  local claims = call('HGETALL', WORKER)
  call('ZADD', WORKERS, NOW, worker)
  local mine = { 'instance', instance, 'session', ARGV[4], 'seen', NOW }
  for n = 1, count * 2 do mine[#mine + 1] = ARGV[9 + n] end
  -- A process counts what it has received from 0.
  if is_successor then call('HDEL', WORKER, 'received') end
  call('HSET', WORKER, unpack(mine))
  call('PEXPIRE', WORKER, 86400000)
  for n = 1, #claims, 2 do
    local token, id = claims[n], claims[n + 1]
    if #token == 32 and string.find(token, '^%x+$') and not known[token] then
      local job = read_job(id)
      if job.state == 'running' and job.token == token then
        if is_successor then lose(id, job, tonumber(ARGV[5]), retention) else requeue(id, job, true, 'unheard', retention) end
      end
      call('HDEL', WORKER, token)
    end
  end
  return_elements(HELD, 1000)
  if has_permits(settings) then offer_permit(settings, false) end
  return publish('ok')
end)
