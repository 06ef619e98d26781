#!/usr/bin/env bash
# Validates the description of the API, and uses the page in a headless Chromium. Further arguments go to the program.
#
#     Tests/web/run.sh [HAUL] [--only PART_OF_A_NAME]
#     Tests/web/run.sh [HAUL] --shots DIRECTORY [--widths 360,1280] [--themes light] [--only NAME] [--page FOLDER]
#     Tests/web/run.sh [HAUL] --picture FILE.png [--seconds N]
#     Tests/web/run.sh [HAUL] --actions [--running N] [--queued N] [--rounds N]
#     Tests/web/run.sh [HAUL] --cost [--before HAUL] [--pages N] [--seconds N] [--turns N]
#     Tests/web/run.sh [HAUL] --streams
#     Tests/web/run.sh [HAUL] --hour [--minutes N] [--running N] [--queued N] [--screenshots DIRECTORY]
#
# The second form makes pictures of each screen: Tests/web/shots.py. The third one makes the picture of README.md, of a
# real fleet: Tests/web/picture.py. The fourth one measures actions: Tests/web/actions.py. The fifth one measures what
# open pages cost Redis: Tests/web/cost.py. The sixth one measures many streams of searches: Tests/web/streams.py. The last one is an hour's work on the page beside a full fleet:
# Tests/web/hour.py.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=deploy/lib/packages.sh
. deploy/lib/packages.sh

need_packages "${RUN_PACKAGES[@]}" chromium chromium-driver fonts-dejavu-core
haul=.build/debug/haul
case ${1-} in
'' | --*) ;;
*) haul=$1 && shift ;;
esac
program=browser.py
if [ "${1-}" = --hour ]; then program=hour.py && shift; fi
if [ "${1-}" = --actions ]; then program=actions.py && shift; fi
if [ "${1-}" = --cost ]; then program=cost.py && shift; fi
if [ "${1-}" = --streams ]; then program=streams.py && shift; fi
if [ "${1-}" = --shots ]; then program=shots.py && shift; fi
if [ "${1-}" = --picture ]; then program=picture.py && shift; fi
need_python web-tests selenium axe-selenium-python openapi-spec-validator
"$venv/bin/python" -m openapi_spec_validator docs/reference/openapi.json
PYTHONDONTWRITEBYTECODE=1 exec "$venv/bin/python" "Tests/web/$program" "$haul" "$@"
