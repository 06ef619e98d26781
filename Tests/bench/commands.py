"""What the commands that Redis executes for a small job cost it, without the functions that decide what to do: the least
that a job can cost as long as its record has these fields. Started by cost.py as its part `commands`.

The scripts do for 13 jobs at a time what `claim` and `settle` do on a busy queue, as MONITOR shows it, with constants
where the functions would have worked something out. Nothing is checked, parsed or limited.
"""
import secrets
import time

TOGETHER = 13
QUEUE = "haul:{default}:"

CLAIM = """
local call, now, answer, leases, tokens = redis.call, ARGV[1], {}, {}, {}
for n = 2, #ARGV do
  local element = call('RPOP', 'haul:{default}:jobs')
  local id = string.sub(redis.sha1hex(element), 1, 16)
  call('HLEN', 'haul:{default}:job:' .. id)
  call('HSET', 'haul:{default}:spec:' .. id, 'spec', element)
  call('HSET', 'haul:{default}:job:' .. id, 'state', 'running', 'token', ARGV[n], 'worker', 'bench', 'started', now, 'updated', now,
    'url', 'http://127.0.0.1:20000/jobs/1234.bin', 'created', now, 'pushed', now)
  answer[#answer + 1], answer[#answer + 2] = id, element
  leases[#leases + 1], leases[#leases + 2] = now, id
  tokens[#tokens + 1], tokens[#tokens + 2] = ARGV[n], id
end
call('ZADD', 'haul:{default}:leases', unpack(leases))
call('HSET', 'haul:{default}:worker:bench', unpack(tokens))
return answer
"""

SETTLE = """
local call, now, tokens, ids = redis.call, ARGV[1], {}, {}
for at = 2, #ARGV, 26 do
  local token, id, file = ARGV[at], ARGV[at + 1], ARGV[at + 9]
  local job = 'haul:{default}:job:' .. id
  call('HMGET', job, 'state', 'token', 'want_at', 'deadline_at', 'seq', 'pushed', 'want', 'want_next', 'next_push', 'active_token',
    'waiting', 'speed', 'meta', 'reply_to', 'host', 'batch', 'notify', 'group')
  call('HSET', job, 'state', 'completed', 'finished', now, 'updated', now, 'seq', now, 'epoch', now,
    'settled_until', now, unpack(ARGV, at + 2, at + 23))
  call('ZADD', 'haul:{default}:completed', now, id)
  call('PEXPIRE', job, '86410000')
  call('DEL', 'haul:{default}:spec:' .. id, 'haul:{default}:offsets:' .. id)
  local head = '{"v":1,"event":"started","id":"' .. id .. '","queue":"default","epoch":' .. now .. ',"seq":' .. now .. ',"at":' .. now
  call('PUBLISH', 'haul:{default}:events:' .. id, head .. ',"worker":"bench"' .. ARGV[at + 24] .. '}')
  call('PUBLISH', 'haul:{default}:events:' .. id, head .. ',"worker":"bench"' .. ARGV[at + 25] .. '}')
  tokens[#tokens + 1], ids[#ids + 1] = token, id
end
call('HDEL', 'haul:{default}:worker:bench', unpack(tokens))
call('ZREM', 'haul:{default}:leases', unpack(ids))
return #ids
"""


def run(connection, count):
    """Pushes, claims and ends `count` jobs, rounded down to whole calls. Returns how many."""
    claim, settle = (connection.call("SCRIPT", "LOAD", text) for text in (CLAIM, SETTLE))
    calls = count // TOGETHER
    connection.call("LPUSH", QUEUE + "jobs",
                    *('{"url":"http://127.0.0.1:20000/jobs/%d.bin"}' % number for number in range(calls * TOGETHER)))
    for _ in range(calls):
        now = str(int(time.time() * 1000))
        tokens = [secrets.token_hex(16) for _ in range(TOGETHER)]
        ids = [part.decode() if isinstance(part, bytes) else part
               for part in connection.call("EVALSHA", claim, 0, now, *tokens)[::2]]
        assert connection.call("EVALSHA", settle, 0, now, *(part for pair in zip(tokens, ids) for part in ended(*pair, now))) == TOGETHER
    return calls * TOGETHER


def ended(token, identifier, now):
    """What a worker tells Redis about a completed download: 26 arguments."""
    fields = ["etag", '"6b0dfe64-64"', "last_modified", "Mon, 30 Nov 2026 22:53:24 GMT", "total", "100", "file", identifier + ".bin",
              "received", "100", "store", "14b8bf711cac9762d6e940a7793b4edc", "inode", "2445888", "mtime", "1796079241465232070",
              "validated", now, "source", "http://127.0.0.1:20000/jobs/1234.bin", "seconds", "0.014446619"]
    return [token, identifier, *fields, ',"attempt":1,"total":100,"resumable":true',
            ',"file":"1234.bin","bytes":100,"seconds":0.014446619,"etag":"\\"6b0dfe64-64\\""']
