-- Forgets a job that does not run.
--
-- ARGV: nonce, id
-- Returns 'removed', 'unknown' or 'running' (cancel it first).
touch()
local id = ARGV[2]
local j = job(id)
if not j.state then return 'unknown' end
if j.state == 'running' then return 'running' end
leave(id, j)
call('DEL', key(id), offsets(id))
call('ZREM', DEADLINES, id)
call('HDEL', WANT, id)
return 'removed'
