"""Rules of the bus, each of which can be removed from the functions that Redis runs. The oracle of the histories, or
the ledger of the chaos run, must notice.

The text of the functions is changed only in Redis, so no build is needed. A text that is not found is an error: a
change of the functions requires a change here.
"""
import re

# By rule: what happens without it, and the replacements in the text.
MUTATIONS = {
    "invalid": ("an invalid push destroys a known job", [
        ("function KINDS.headers(headers, _, _, kind)\n", "function KINDS.headers(headers, _, _, kind)\n  do return true end\n"),
        ("    if not was then\n      return States.fail(",
         "    do call('DEL', c.JOB .. id, c.SPEC .. id) return States.leave_state(c, id, job) end\n"
         "    if not was then\n      return States.fail("),
    ]),
    "bulk": ("a bulk cancel ends newer pushes", [
        ("local function is_newer(at, timestamp) return not at or at > tonumber(timestamp) end",
         "local function is_newer(at, timestamp) return false end"),
        ("  if pushed > operation_at then return end\n", ""),
    ]),
    "permits": ("a free permit under max_running is found by a tick only", [
        ("  function Permits.offer(c, even_if_empty)\n", "  function Permits.offer(c, even_if_empty)\n    do return end\n"),
        ("      claims = not may_claim and", "      claims = Permits.are_limited(c) and { { 'answer', 'full' } } or not may_claim and"),
    ]),
    "duplicate": ("a newer push replaces all that a job was pushed with", [
        ("    call('HSET', c.SPEC .. id, 'renewed', push.element)\n", "    call('HSET', c.SPEC .. id, 'spec', push.element)\n"),
        ("        call('HSET', spec_key, 'renewed', push.element)\n", "        call('HSET', spec_key, 'spec', push.element)\n"),
    ]),
    "unserved": ("a removal with its file waits for a worker of its store", [
        ("    elseif States.removes_job(want) then\n      Deletions.schedule(c, id, want == 'deleted')\n",
         "    elseif want == 'deleted' then call('HSET', c.WANT, id, want .. ' ' .. integer_text(operation_at))\n"
         "    elseif States.removes_job(want) then\n      Deletions.schedule(c, id, want == 'deleted')\n"),
    ]),
    "continuation": ("a continuation right behind a pause is lost", [
        ("  if state == 'running' and job.want and (not at or at > tonumber(job.want_at or 0)) then return 'next_push' end\n", ""),
    ]),
    "kept": ("a push that was kept behind a pause runs after a later cancel", [
        ("    if is_kept then drop_next_push(c, id, job, States.ends_job(want)) end\n", ""),
    ]),
    "repeat": ("a producer's own repeat runs a cancelled job again", [
        ("  return at and (at <= tonumber(job.settled_until or 0) or at == tonumber(job.ahead))\n", "  return false\n"),
    ]),
    "ahead": ("a repeat of a clock that is ahead runs a cancelled job again", [
        ("  return at and (at <= tonumber(job.settled_until or 0) or at == tonumber(job.ahead))\n",
         "  return at and at <= tonumber(job.settled_until or 0)\n"),
    ]),
    "whole": ("a control operation for a batch reaches no member", [
        ("  local function apply_to_members(c, name, want, operation_at, cursor, tick)\n",
         "  local function apply_to_members(c, name, want, operation_at, cursor, tick)\n    do return '0' end\n"),
    ]),
    "newer": ("a control operation for a batch counts as newer than all pushes", [
        ("    local operation = (want == 'retried' and 'running' or want) .. ' ' .. operation_at\n",
         "    local operation = want == 'retried' and 'running' or want\n"),
    ]),
    "counted": ("a member that is cancelled counts as before", [
        ("    call('HSET', members, id, state)\n", "    if state ~= 'cancelled' then call('HSET', members, id, state) end\n"),
    ]),
}

# Rules of batches and of what comes after jobs, which the ledger checks.
OF_BATCHES = {
    "reported": ("an end pushes no webhook", [
        ("    if not has(job.notify, entry.event) then return end\n", "    do return end\n"),
    ]),
    "body": ("a webhook says another time than its event", [
        ("    local epoch, seq = match(json, '\"epoch\":(%d+),\"seq\":(%d+)')\n",
         "    local epoch, seq = match(json, '\"epoch\":(%d+),\"seq\":(%d+)')\n"
         "    json = gsub(json, '\"at\":1', '\"at\":2', 1)\n"),
    ]),
    "logged": ("some events do not reach the event stream", [
        ("    is_emptied[c.PREFIX] = nil\n", "    is_emptied[c.PREFIX] = nil\n    if c.now % 50 == 0 then return end\n"),
    ]),
    "planned": ("a due time stays due after its push", [
        ("    call('ZADD', due_key, next, name)\n", "    if element == '' or c.now % 2 == 0 then call('ZADD', due_key, next, name) end\n"),
    ]),
    "overlap": ("a run is pushed although the last one has not ended", [
        ("or overlap == 'skip' and is_active(c, call('HGET', state, 'last_id')) then", "then"),
    ]),
    "grouped": ("more jobs of a group run than its limit", [
        ("    if rule.running and running(c, group) >= rule.running then", "    if rule.running and running(c, group) >= 2 * rule.running then"),
    ]),
    "followed": ("the end of a run pushes nothing", [
        ("if job.steps then Steps.push(c, job.steps) end\n", ""),
    ]),
    "twice": ("a member counts once more in each state that it comes to", [
        ("    local left = before and IS_STATE[before] and try('HINCRBY', hash, before, -1)\n", "    local left = 0\n"),
    ]),
    "pending": ("a batch ends while members are pending", [
        ("    local has_ended = batch.pending == 0 and batch.size and ended >= batch.size\n", "    local has_ended = batch.size and ended >= batch.size\n"),
    ]),
    "announced": ("any call that touches a finished batch publishes its end again", [
        ("    if has_ended and (touched.is_changed or not finished) then\n", "    if has_ended then\n"),
    ]),
    "forgotten": ("a member that a control operation has cancelled is not counted", [
        ("    call('HSET', members, id, state)\n", "    if state ~= 'cancelled' then call('HSET', members, id, state) end\n"),
    ]),
}

# What is wrong with some workers or with the producer on purpose. The ledger must notice that, too.
BROKEN = {
    "gate": "every third worker has no gate",
    "secret": "every third worker has another secret for webhooks",
    "group": "gates leave their group of processes",
    "secrecy": "a secret of the private bucket is written into Redis",
    "credentials": "every third worker has other credentials for the private bucket",
    "partition": "the jobs of partitions are pushed to other ones",
    "catch_up": "missed runs are caught up where they should not be",
}


def loaded(redis):
    """The text of the functions that are loaded."""
    libraries = redis.call("FUNCTION", "LIST", "WITHCODE", "LIBRARYNAME", "haul*")
    assert len(libraries) == 1, libraries
    return dict(zip(libraries[0][::2], libraries[0][1::2]))["library_code"]


def without(code, name):
    """The text of the functions without a rule."""
    for replacement in (MUTATIONS | OF_BATCHES)[name][1]:
        # Workers load the functions without the blanks that begin a line.
        old, new = (re.sub("^ +", "", text, flags=re.MULTILINE) for text in replacement)
        assert code.count(old) == 1, f"{code.count(old)} times in the functions: {old}"
        code = code.replace(old, new)
    return code


def mutate(redis, name):
    """Removes a rule from the functions that are loaded."""
    redis.call("FUNCTION", "LOAD", "REPLACE", without(loaded(redis), name))


def check(redis):
    """Fails if a rule is not found in the functions that are loaded, because they were changed and this file was not."""
    code = loaded(redis)
    for name in MUTATIONS | OF_BATCHES:
        without(code, name)
