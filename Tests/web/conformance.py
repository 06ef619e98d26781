"""Starts Redis, a worker and `haul web`, and lets Schemathesis try what docs/reference/openapi.json describes. See conformance.sh."""

import os
import pathlib
import sys

import schemathesis
import schemathesis.cli
from hypothesis import strategies

from fleet import Fleet

HERE = pathlib.Path(__file__).parent

# What a pattern alone does not say: which hosts can be. In docs/reference/openapi.json these have a format.
HOSTS = strategies.from_regex(
    r"\A(?:[a-z][a-z0-9_-]{0,20}(?:\.[a-z][a-z0-9-]{0,9}){0,3}|127\.0\.0\.[1-9]|\[::1\]|bücher\.example)(?::[1-9][0-9]{0,3})?\Z", fullmatch=True)
URLS = strategies.builds(
    "{}://{}{}".format, strategies.sampled_from(["http", "https", "HTTP"]), HOSTS,
    strategies.from_regex(r"\A(?:[/?#][!-~é]{0,40})?\Z", fullmatch=True))
schemathesis.openapi.format("haul-url", URLS)
schemathesis.openapi.format("haul-host", HOSTS)


@schemathesis.hook
def filter_body(context, body):
    """No case has what a schema cannot describe: jobs that follow a job, whose texts may have ${…}, and schedules to add,
    of which it would have to know the cron expressions, the time zones and the whole job."""
    jobs = body if isinstance(body, list) else [body]
    return not any(isinstance(job, dict) and ({"then", "else", "schedule"} & job.keys()) for job in jobs)


def main():
    fleet = Fleet(sys.argv[1])
    try:
        os.environ["TOKEN"] = fleet.token
        status = schemathesis.cli.schemathesis(
            ["--config-file", str(HERE / "conformance.toml"), "run", "docs/reference/openapi.json",
             "--url", f"http://127.0.0.1:{fleet.port}/api", *sys.argv[2:]], standalone_mode=False)
        if fleet.web.poll() is not None:
            print((fleet.work / "web.log").read_text()[-2000:], file=sys.stderr)
            raise SystemExit("haul web has ended")
    finally:
        fleet.close()
    sys.exit(status)


if __name__ == "__main__":
    main()
