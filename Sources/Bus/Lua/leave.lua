-- Forgets a worker that ends, once it holds nothing.
--
-- ARGV: nonce, worker, instance, place (neighbours.lua), bytes that it has received in all
define('leave', { 'allow-oom' }, function()
  touch()
  local known, received = unpack(call('HMGET', WORKER, 'instance', 'received'))
  if (known or ARGV[3]) ~= ARGV[3] then return end
  -- Not of a call that is sent again.
  if known then history.receive(ARGV[5], received) end
  give_back(HELD, 1000)
  call('DEL', WORKER)
  fleet.end_shares(ARGV[3])
  call('HDEL', SETTINGS, 'quiet:' .. ARGV[2])
  call('HDEL', PREFIX .. KEY.host .. ARGV[4], ARGV[2])
  -- A wait that the server still keeps for a lost connection may yet take something: for a while more ticks look there.
  call('ZADD', WORKERS, whole(now - 86400000 + 15000), ARGV[2])
  -- There may be no other worker whose tick would write it.
  history.keep()
end)
