#!/bin/bash
# Copies what /usr/bin/haul needs into a directory, which becomes the image. Runs while the image is built.
set -euo pipefail
image=$1
user=64640

mkdir -p "$image"/{usr/bin,usr/lib,usr/lib64,etc/ssl/certs,dev,proc,sys,tmp,run,var/lib/haul/downloads}
ln -s usr/bin usr/lib usr/lib64 "$image"
# Copies the file that a name leads to, under that name, so that no link leads out of the image.
take() { install -D -m "$(stat -L -c %a "$1")" "$1" "$image$1"; }

take /usr/bin/haul
# The libraries and the dynamic loader.
ldd /usr/bin/haul | grep -o '/[^ ]*' | sort -u | while read -r library; do take "$library"; done
# The certificate authorities, and the configuration of OpenSSL.
take /etc/ssl/certs/ca-certificates.crt
take /etc/ssl/openssl.cnf
mkdir -p "$image/usr/lib/ssl"
ln -s /etc/ssl/certs /etc/ssl/openssl.cnf "$image/usr/lib/ssl/"
ln -s certs/ca-certificates.crt "$image/etc/ssl/cert.pem"
# International host names are read in this locale.
mkdir -p "$image/usr/lib/locale"
cp -r /usr/lib/locale/C.utf8 "$image/usr/lib/locale/"
# Host names come from files, then from DNS.
printf 'hosts: files dns\n' >"$image/etc/nsswitch.conf"
printf 'root:x:0:0::/:/\nhaul:x:%s:%s::/var/lib/haul:/\n' "$user" "$user" >"$image/etc/passwd"
printf 'root:x:0:\nhaul:x:%s:\n' "$user" >"$image/etc/group"
chown "$user:$user" "$image/var/lib/haul/downloads"
chmod 1777 "$image/tmp"
