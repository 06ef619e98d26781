-- Finds jobs by their URLs, which the jobs' records mask. The hash `urls` has a digest of each URL, and the id of the
-- job that it belongs to. Further jobs of the same URL are the fields of url:<digest>. A job whose id was derived from
-- its URL alone needs no entry, because its id is the digest.
--
-- Writes: urls, url:<digest>.
do
  -- The digest of the last URL is kept, also for later calls: it is needed again for the same element, and jobs of one
  -- URL often follow each other.
  local last, last_digest

  -- The digest of a URL. It is also the id that is derived from the URL alone.
  function UrlIndex.digest(url)
    if url ~= last then last, last_digest = url, sub(redis.sha1hex(url .. '\n'), 1, 16) end
    return last_digest
  end

  -- The digests of all URLs of an element, with blanks between them. parsed: its table.
  function UrlIndex.digests(parsed)
    if not parsed.urls then return UrlIndex.digest(parsed.url) end
    local digests, known = {}, {}
    for _, url in ipairs({ parsed.url or parsed.urls[1], unpack(parsed.urls) }) do
      local digest = UrlIndex.digest(url)
      if not known[digest] then digests[#digests + 1] = digest end
      known[digest] = true
    end
    return table.concat(digests, ' ')
  end

  -- How long further jobs of a URL are found after the last of them was claimed: as long as a queue keeps ended jobs, and
  -- at least 400 days, because a job may be paused for long.
  local function renew(c, digest)
    local retention = c.retention or {}
    try('PEXPIRE', c.PREFIX .. KEY.url .. digest, integer_text(math.max(34560000000, tonumber(retention.completed or 0),
      tonumber(retention.failed or 0), tonumber(retention.cancelled or 0))))
  end

  -- Enters a job for one digest. A key of another type stops no job.
  local function enter(c, id, digest)
    if digest == id then return end
    if try('HSETNX', c.PREFIX .. KEY.urls, digest, id) == 0 then
      try('HSET', c.PREFIX .. KEY.url .. digest, id, '')
      renew(c, digest)
    end
  end

  -- Enters a job for each of its digests.
  function UrlIndex.enter(c, id, digests)
    if #digests == 16 then return enter(c, id, digests) end
    for digest in gmatch(digests, '%x+') do enter(c, id, digest) end
  end

  -- Whether a job is found by its digests.
  function UrlIndex.has(c, id, digests)
    for digest in gmatch(digests, '%x+') do
      if digest ~= id and try('HGET', c.PREFIX .. KEY.urls, digest) ~= id and try('HEXISTS', c.PREFIX .. KEY.url .. digest, id) == 0 then
        return false
      end
    end
    return true
  end

  -- Enters a job that is missing, for an inspection, whose role has few rights.
  function UrlIndex.restore(c, id, digests)
    for digest in gmatch(digests, '%x+') do
      if call('HEXISTS', c.PREFIX .. KEY.urls, digest) == 0 then call('HSET', c.PREFIX .. KEY.urls, digest, id)
      else
        call('HSET', c.PREFIX .. KEY.url .. digest, id, '')
        renew(c, digest)
      end
    end
  end

  -- Removes jobs. jobs: ids and their field `url_digests` in turn; a last job may have none.
  function UrlIndex.forget(c, jobs)
    local owners, digests = {}, {}
    for n = 2, #jobs, 2 do
      -- A job has at most 17 URLs, and any client may write into its hash.
      for digest in gmatch(sub(jobs[n], 1, 288), '%x+') do
        owners[#owners + 1], digests[#digests + 1] = jobs[n - 1], digest
      end
    end
    if #digests == 0 then return end
    local found, gone = try('HMGET', c.PREFIX .. KEY.urls, unpack(digests)), {}
    for n, digest in ipairs(digests) do
      if found[n] == owners[n] then gone[#gone + 1] = digest
      elseif digest ~= owners[n] then try('HDEL', c.PREFIX .. KEY.url .. digest, owners[n]) end
    end
    if #gone > 0 then call('HDEL', c.PREFIX .. KEY.urls, unpack(gone)) end
  end

  -- Records the URLs of a push. set: adds a pair for the job's hash.
  function UrlIndex.record(c, job, push, set)
    local id, digests = push.id, push.url_digests
    if digests == job.url_digests then
      for digest in gmatch(digests, '%x+') do renew(c, digest) end
      return
    end
    if not job.url_digests and digests == id then return end
    if job.url_digests then UrlIndex.forget(c, { id, job.url_digests }) end
    UrlIndex.enter(c, id, digests)
    set('url_digests', digests)
  end

  -- Removes two entries, which are chosen at random, if their jobs no longer exist. An entry stays behind if no worker
  -- was there when its job expired.
  function UrlIndex.sweep(c)
    local some = try('HRANDFIELD', c.PREFIX .. KEY.urls, 2, 'WITHVALUES')
    for n = 1, some.err and 0 or #some, 2 do
      if call('EXISTS', c.JOB .. some[n + 1]) == 0 then call('HDEL', c.PREFIX .. KEY.urls, some[n]) end
    end
  end
end
