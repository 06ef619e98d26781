"""Groups in a chaos run: some of the jobs are in one of three groups, and no more jobs of one group run than its limit."""
from ledger import Q

NAMES = ("group-0", "group-1", "group-2")
LIMITED, LIMIT = NAMES[0], 3


class Groups:
    # The command that sets the limit.
    limits = "HSET", Q + "limits", "group:" + LIMITED, f'{{"running":{LIMIT}}}'

    def __init__(self, share, pick):
        self.share, self.pick, self.count, self.most, self.wrong = share, pick, 0, 0, []

    def give(self, spec):
        if self.pick.random() < self.share:
            spec["group"] = self.pick.choice(NAMES)
            self.count += 1

    def check(self, redis):
        """Counts the running jobs of the limited group, by their leases. Redis runs a script as a whole, so no job can
        end and no other one begin in between."""
        script = ("local n = 0 for _, id in ipairs(redis.call('ZRANGE', KEYS[1] .. 'leases', 0, -1)) do "
                  "if redis.call('HGET', KEYS[1] .. 'job:' .. id, 'group') == ARGV[1] then n = n + 1 end end return n")
        running = redis.call("EVAL", script, 1, Q, LIMITED)
        self.most = max(self.most, running)
        if running > LIMIT:
            self.wrong.append(f"{running} jobs of {LIMITED} run, and {LIMIT} may")

    @staticmethod
    def waiting(redis):
        """How many elements wait for the turns of their groups."""
        return sum(redis.call("LLEN", key) for key in redis.call("KEYS", Q + "deferred_group:*"))
