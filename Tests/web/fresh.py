"""What the page shows, and what its buttons do, after something else has changed: tests of browser.py."""

from bench import eventually


def leave(bench, queue, name, state="completed"):
    """Ends an invented job as a worker elsewhere would."""
    bench.redis("ZREM", f"haul:{{{queue}}}:leases", name)
    bench.redis("HSET", f"haul:{{{queue}}}:job:{name}", "state", state)
    bench.redis("ZADD", f"haul:{{{queue}}}:{state}", "1", name)


def test_a_filtered_list_follows_its_jobs(bench):
    bench.invent("fresh", 60)
    bench.visit("#/fresh/jobs/running?host=host1.example")
    bench.shows("9 found among 60.")
    bench.redis("HSET", "haul:{fresh}:job:running-00008", "speed", "77000000")
    bench.shows("77 MB/s")
    leave(bench, "fresh", "running-00015")
    bench.shows("8 found among 59.")
    # The server examines 2,000 jobs each second. What lies behind them is searched again.
    bench.invent("far", 2500)
    bench.visit("#/far/jobs/running?q=248")
    bench.shows("2480.bin", "2489.bin", "found among 2,500.")
    number = lambda: int(bench.text(".sums").split()[0])
    first = number()
    bench.redis("HSET", "haul:{far}:job:running-02485", "speed", "77000000")
    bench.shows("77 MB/s", within=30)
    leave(bench, "far", "running-02485")
    eventually("the row to leave", lambda: number() == first - 1 and "2485.bin" not in bench.text(), within=30)
