#!/usr/bin/env bash
# Downloads from every HTTP server that Debian has, on loopback: plain, with a checksum, over several connections,
# resumed, and changed in the middle. Prints a table. Exits with 1 if a result is not as expected. Arguments choose
# set-ups by the prefix of their names (default: all). Takes about three minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=deploy/lib/packages.sh
. deploy/lib/packages.sh
need_swift
need_packages "${BUILD_PACKAGES[@]}" "${RUN_PACKAGES[@]}" openssl nginx-light apache2-bin lighttpd lighttpd-mod-openssl \
    caddy h2o haproxy varnish squid nghttp2-proxy mini-httpd webfs busybox php-cli civetweb ruby ruby-webrick python3 \
    python3-twisted python3-tornado python3-aiohttp python3-werkzeug python3-cheroot python3-waitress python3-hypercorn \
    gunicorn uvicorn python3-starlette python3-aiofiles
haul="${HAUL:-}"
if [ -z "$haul" ]; then
    swift build --product haul >/dev/null
    haul="$(swift build --show-bin-path)/haul"
fi
exec /usr/bin/python3 Tests/servers/servers.py "$haul" "$@"
