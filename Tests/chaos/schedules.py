"""Schedules of a chaos run (docs/guides/schedules.md). Each due time is pushed once, through kills and failovers; runs of
a schedule do not overlap unless it says so; and of runs that were missed at most the latest takes place.

The names: `each` pushes a job of its own for each due time, `turn` the same unless the last one is active, `same` runs
one job again and again. `late-one` and `late-none` are made to have missed some hours, as if no worker had been there.
"""
import datetime
import json
import time

from ledger import Q
from resp import Redis, RedisError, pairs

HOUR = 3_600_000
# A run that is later than this was missed, and the longest that a fault keeps all workers from pushing, in ms.
MISSED, LATEST = 60_000, 30_000
TROUBLE = (ConnectionError, RedisError)


class Schedules:
    RULES = "due times doubled or missing", "runs that overlap, or were skipped for nothing", "missed runs caught up wrongly"

    def __init__(self, topology, origin, catch_up=("one", "none")):
        self.topology, self.origin, self.catch_up = topology, origin, catch_up
        self.definitions, self.missed_at, self.stopped, self.counts = {}, {}, 0, {}

    def define(self):
        def job(name, source, **more):
            return {"reply_to": "schedule-" + name, "retries": 200, "url": self.origin.url + source, **more}

        one, none = self.catch_up
        request = {"kind": "request", "method": "GET"}
        self.definitions = {
            "each": {"every": 3, "unique": True, "overlap": "allow", "job": job("each", "/r/each/0/100/5", **request)},
            "turn": {"every": 2, "unique": True, "job": job("turn", "/r/turn/0/100/3000", **request)},
            "same": {"every": 3, "job": job("same", "/f/0/5000/20000", path="s/same.bin")},
            "late-one": {"every": 3600, "unique": True, "catch_up": one, "job": job("late-one", "/r/one/0/9/5", **request)},
            "late-none": {"every": 3600, "unique": True, "catch_up": none, "job": job("late-none", "/r/no/0/9/5", **request)},
        }

    # During the run.

    def start(self, redis, send):
        """`send` repeats a command until it is acknowledged."""
        self.define()
        for name, definition in self.definitions.items():
            send(redis, "HSET", Q + "schedules", name, json.dumps(definition))

    def steer(self, running):
        """A thread: the hours that were missed, once the schedules are planned."""
        redis, names = Redis(self.topology.locate), ["late-one", "late-none"]
        while running.is_set() and names:
            time.sleep(0.5)
            try:
                state = pairs(redis.call("HGETALL", Q + "schedule:" + names[0]))
                if "next" not in state:
                    continue
                if names[0] in self.missed_at and ("pushed" in state or "missed" in state):
                    names.pop(0)
                    continue
                now = self.now(redis)
                due = now // HOUR * HOUR - 5 * HOUR
                self.missed_at.setdefault(names[0], []).append(now)
                self.topology.call_durably(redis, "ZADD", Q + "schedule_due", due, names[0])
                time.sleep(3)
            except TROUBLE:
                pass

    @staticmethod
    def now(redis):
        seconds, microseconds = redis.call("TIME")
        return int(seconds) * 1000 + int(microseconds) // 1000

    def stop(self, redis, send):
        """Pauses all schedules: nothing is due from now on."""
        for name in self.definitions:
            send(redis, "HSET", Q + "schedule_paused", name, "1")
            send(redis, "ZADD", Q + "schedule_due", 0, name)
        self.stopped = self.now(redis)

    # The end.

    def judge(self, run, records):
        once, turns, missed = [], [], []
        for name, definition in self.definitions.items():
            state = pairs(run.redis.call("HGETALL", Q + "schedule:" + name))
            ends = self.ends(run.redis, name)
            self.counts[name] = f"{name} {state.get('pushed', 0)}"
            if name.startswith("late"):
                missed += self.wrong_catch_up(name, state, ends)
            else:
                once += self.wrong_runs(name, definition["every"] * 1000, state, ends)
        turns += self.wrong_turns(run, self.ends(run.redis, "turn"))
        for name in self.definitions:
            run.redis.call("HDEL", Q + "schedules", name)
            run.redis.call("HDEL", Q + "schedule_paused", name)
            run.redis.call("DEL", Q + "schedule:" + name)
            run.redis.call("ZREM", Q + "schedule_due", name)
        return dict(zip(self.RULES, (once, turns, missed)))

    @staticmethod
    def ends(redis, name):
        """The final events of a schedule's jobs, oldest first."""
        return [json.loads(text) for text in reversed(redis.call("LRANGE", f"{Q}reply:schedule-{name}", 0, -1))]

    def wrong_runs(self, name, every, state, ends):
        found, times = [], [due_time(event["id"]) for event in ends if ":" in event["id"]]
        pushed, skipped = (int(state.get(field, 0)) for field in ("pushed", "skipped"))
        if {event["event"] for event in ends} - {"completed"}:
            found.append(f"{name}: its runs ended {[event['event'] for event in ends]}")
        if len(ends) != pushed:
            found.append(f"{name}: {pushed} runs were pushed, and {len(ends)} have ended")
        if not pushed or self.stopped - int(state.get("last_due", 0)) > LATEST + every:
            found.append(f"{name}: it was stopped at {self.stopped}, and has {state}")
        if not times:
            return found
        found += [f"{name}: {time} took place {times.count(time)} times" for time in sorted(set(times)) if times.count(time) > 1]
        due = range(min(times), int(state["last_due"]) + 1, every)
        # A run that is due is pushed or skipped, once. The last ones may have been skipped.
        if not len(due) <= pushed + skipped <= len(due) + LATEST // every:
            found.append(f"{name}: {len(due)} runs were due, {pushed} were pushed and {skipped} skipped")
        if not skipped:
            found += [f"{name}: the run of {time} did not take place" for time in sorted(set(due) - set(times))]
        return found

    @staticmethod
    def wrong_turns(run, ends):
        found, ended, until = [], sorted((due_time(event["id"]), event["at"], event["id"]) for event in ends), 0
        for (due, end, id), (following, _, next_id) in zip(ended, ended[1:]):
            until = max(until, end)
            # After a failover a run may end again that had ended before.
            began = run.ledger.begun.get(next_id, until)
            if run.topology.KEEPS_ACKNOWLEDGED and began < until:
                found.append(f"{next_id} began at {began}, and {id} ended at {end}")
            # Each skipped due time came while the last run was active.
            found += [f"turn: {time} was skipped, and {id} had ended at {end}"
                      for time in range(due + 2000, following, 2000) if time > until]
        return found

    def wrong_catch_up(self, name, state, ends):
        found, times = [], [due_time(event["id"]) for event in ends]
        attempts = self.missed_at.get(name, [])
        if not attempts:
            return found if not times else [f"{name}: {times} took place"]
        late = {(now - MISSED - 1) // HOUR * HOUR for now in attempts} | {
            (now + LATEST - MISSED - 1) // HOUR * HOUR for now in attempts}
        on_time = [time for time in times if time > min(attempts) - MISSED]
        caught_up = [time for time in times if time not in on_time]
        if name == "late-none" and caught_up:
            found.append(f"{name}: {caught_up} took place")
        if name == "late-one" and not (set(caught_up) <= late and 1 <= len(caught_up) <= len(attempts)):
            found.append(f"{name}: of the runs until {attempts}, {caught_up} took place")
        if not int(state.get("missed", 0)):
            found.append(f"{name}: no run counts as missed")
        return found

    def figures(self):
        return {"runs of schedules": ", ".join(self.counts.values())}


def due_time(id):
    """The time in the id of a run, in unix ms."""
    text = id.partition(":")[2]
    return int(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)
