"""Checks that the oracle finds an order for any acts. Rules that contradict each other would find a right job wrong."""
import random

from oracle import Act, orders

MOST_ACTS = 6
KINDS = ["push", "push", "continuation", "paused", "running", "cancelled", "removed",
         "batch paused", "batch running", "batch cancelled"]


def acts(pick):
    """Random acts, at timestamps that a producer's clock and a queue's delays can produce."""
    now, result = 1_000_000, []
    offset = pick.choice([0, 0, -60_000, 60_000, -5, 5])
    for number in range(pick.randrange(2, MOST_ACTS + 1)):
        now += pick.choice([1, 2, 5, 20, 250])
        act = Act(pick.choice(KINDS), now, number)
        if pick.random() < 0.6:
            act.at = now + (offset if act.is_push else 0)
        now += pick.choice([0, 0, 1])
        act.ended = now
        result.append(act)
        if pick.random() < 0.5:
            rest(result, now + pick.choice([0, 1, 50]))
            now = max(act.done for act in result)
    rest(result, now + 1)
    return result


def rest(done, now):
    for act in done:
        act.done = min(act.done, now)


def check(count):
    for seed in range(count):
        some = acts(random.Random(seed))
        if next(orders(some), None) is None:
            lines = [f"{act.kind}: sent {act.began}..{act.ended}, done by {act.done}, at {act.at}" for act in some]
            raise SystemExit("\n".join([f"The rules of the oracle leave no order for these acts (seed {seed}):", *lines]))


if __name__ == "__main__":
    check(20_000)
