-- The keys of a job. LuaHead.swift generates the functions that read its hash: Jobs.read(), Jobs.read_end() and
-- Jobs.read_running().
do
  -- How many fields a hash has, 0 if it does not exist; nil for a key of another type.
  function Jobs.size(name)
    local count = try('HLEN', name)
    return type(count) == 'number' and count or nil
  end

  -- The reason with which an element or a control operation is rejected if one of its job's keys is not a hash, because
  -- another client wrote another type. nil if all of them are hashes or do not exist. No call changes a job with such a
  -- key.
  function Jobs.wrong_type(c, id)
    if Jobs.size(c.JOB .. id) and Jobs.size(c.SPEC .. id) and Jobs.size(c.OFFSETS .. id) then return nil end
    return 'id: a key of job ' .. id .. ' is not a hash; run haul check to see which one, then push the job again'
  end

  -- The job as Jobs.read() returns it; without fields if one of its keys is not a hash.
  function Jobs.find(c, id) return Jobs.wrong_type(c, id) and {} or Jobs.read(c, id) end
end
