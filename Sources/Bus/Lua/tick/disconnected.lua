-- Tasks of the tick: workers on other machines notice the end of a process before its lease ends, because the kernel
-- closes the connections of a process that ends. Each worker subscribes to a channel of its own, `alive:<instance>`. If
-- it has no subscriber any more, and the worker has also been silent for SILENT ms, its process has ended.
--
-- A process that is frozen, or that a busy machine starves, keeps its connections. One whose connection was cut
-- reconnects and ticks meanwhile, unless the network closes its connections and lets it open none for SILENT ms. Such a
-- worker asks Redis before it names a file (QueueServer+Tick.swift), and keeps a request that it has sent until its lease
-- ends, because no other run may repeat it. After a restart or a failover of Redis no worker is connected, and that proves nothing.
-- So the field `connected` of a worker has the server at which its subscription was seen; '' if it was not.
--
-- Uses: Call, Losses.
-- Writes: worker:<worker>.
do
  local SILENT = 2500

  local function is_subscribed(c, instance)
    -- Roles of an earlier version lack this right.
    local reply = try('PUBSUB', 'NUMSUB', c.PREFIX .. KEY.alive .. instance)
    return not reply.err and reply[2] > 0
  end

  -- Records where this worker is connected.
  function Disconnected.record(c, tick)
    if not tick.is_known then return end
    local connected = is_subscribed(c, tick.instance) and Call.server() or ''
    if connected ~= (tick.connected or '') then call('HSET', c.WORKER, 'connected', connected) end
  end

  -- Ends the runs of workers whose processes have ended.
  function Disconnected.reap(c, tick)
    if c.now < tick.grace then return end
    for _, worker in ipairs(tick.missed) do
      if Losses.has_done_enough(tick) then return end
      local hash = c.PREFIX .. KEY.worker .. worker
      local values = try('HMGET', hash, 'instance', 'seen', 'connected')
      local instance, seen, connected = unpack(values)
      if not values.err and instance and (tonumber(number(seen)) or c.now) <= c.now - SILENT
        and connected == Call.server() and not is_subscribed(c, instance)
        and Losses.end_worker(c, tick, worker, instance, true) then call('HSET', hash, 'connected', '') end
    end
  end
end
