# shellcheck shell=bash
# serve_files DIRECTORY PORT RATE WORK: starts nginx on loopback, which serves the files at RATE for each connection.
# Its pid is in $!, and WORK gets its log and its temporary files.
serve_files() {
    chmod 755 "$4" "$1"
    cat >"$4/nginx.conf" <<CONF
daemon off; worker_processes 1; pid $4/nginx.pid; error_log $4/nginx.log;
events { worker_connections 64; }
http {
    access_log off; client_body_temp_path $4/t1; proxy_temp_path $4/t2; fastcgi_temp_path $4/t3;
    uwsgi_temp_path $4/t4; scgi_temp_path $4/t5;
    server { listen 127.0.0.1:$2; root $1; limit_rate $3; }
}
CONF
    [ "$(id -u)" -ne 0 ] || sed -i '1i user root;' "$4/nginx.conf"
    "$(command -v nginx || echo /usr/sbin/nginx)" -p "$4" -c "$4/nginx.conf" -e "$4/nginx.log" &
}
