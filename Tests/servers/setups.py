"""The set-ups: how each server is started on a loopback port to serve a directory."""
import hashlib
import os
import shutil

IS_ROOT = os.geteuid() == 0
HERE = os.path.dirname(os.path.abspath(__file__))
LOGIN = ("guest", "s3 cret")


class Setup:
    """`continues`: whether an interrupted download must continue. Then the server supports ranges and distinguishes
    versions. `shows_changes`: whether the server shows every change at once. A server that caches files shows it later.
    `login`: the server demands credentials. `behind`: the name of the set-up to which this one forwards."""

    def __init__(self, name, start, continues=True, shows_changes=True, login=False, scheme="http", behind=None):
        self.name, self.start, self.continues, self.shows_changes = name, start, continues, shows_changes
        self.login, self.scheme, self.behind = login, scheme, behind


def write(directory, name, text):
    path = os.path.join(directory, name)
    with open(path, "w") as file:
        file.write(text)
    return path


def program(*names):
    for name in names:
        found = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
        if found:
            return found
    raise FileNotFoundError(names[0])


def nginx(server="", location="", http="", tls=False):
    def start(at):
        tls_settings = f" ssl; ssl_certificate {at.certificate}; ssl_certificate_key {at.key}" if tls else ""
        config = write(at.directory, "nginx.conf", f"""
            {'user root;' if IS_ROOT else ''} daemon off; worker_processes 1; pid {at.directory}/pid; error_log {at.directory}/error;
            events {{ worker_connections 256; }}
            http {{
                types {{ text/html html; application/octet-stream bin; }}
                access_log off; sendfile on; client_body_temp_path {at.directory}/t1; proxy_temp_path {at.directory}/t2;
                fastcgi_temp_path {at.directory}/t3; uwsgi_temp_path {at.directory}/t4; scgi_temp_path {at.directory}/t5;
                {http.format(directory=at.directory)}
                server {{
                    listen 127.0.0.1:{at.port}{tls_settings}; root {at.files};
                    {server.format(files=at.files)}
                    location / {{ {location.format(directory=at.directory, behind=at.behind)} }}
                }}
            }}""")
        return [program("nginx"), "-p", at.directory, "-c", config, "-e", at.directory + "/error"]
    return start


APACHE_MODULES = "mpm_event authz_core authn_core authn_file authz_user auth_digest auth_basic filter deflate headers mime"


def apache(more="", require="Require all granted"):
    def start(at):
        loaded = "\n".join(f"LoadModule {each}_module /usr/lib/apache2/modules/mod_{each}.so" for each in APACHE_MODULES.split())
        digest = hashlib.md5(f"{LOGIN[0]}:files:{LOGIN[1]}".encode()).hexdigest()
        passwords = write(at.directory, "htdigest", f"{LOGIN[0]}:files:{digest}\n")
        config = write(at.directory, "apache.conf", f"""
            {loaded}
            ServerName localhost
            ServerRoot {at.directory}
            PidFile {at.directory}/pid
            DefaultRuntimeDir {at.directory}
            Listen 127.0.0.1:{at.port}
            ErrorLog {at.directory}/error
            {'User www-data' if IS_ROOT else ''}
            {'Group www-data' if IS_ROOT else ''}
            DocumentRoot {at.files}
            TypesConfig /dev/null
            AddType application/octet-stream .bin
            <Directory {at.files}>
                {require}
                {more.format(passwords=passwords)}
            </Directory>""")
        return [program("apache2"), "-D", "FOREGROUND", "-f", config]
    return start


def lighttpd(more="", modules=""):
    def start(at):
        digest = hashlib.md5(f"{LOGIN[0]}:files:{LOGIN[1]}".encode()).hexdigest()
        passwords = write(at.directory, "htdigest", f"{LOGIN[0]}:files:{digest}\n")
        config = write(at.directory, "lighttpd.conf", f"""
            server.modules = ( {modules} )
            server.document-root = "{at.files}"
            server.bind = "127.0.0.1"
            server.port = {at.port}
            server.errorlog = "{at.directory}/error"
            mimetype.assign = ( ".bin" => "application/octet-stream" )
            """ + more.replace("PASSWORDS", passwords))
        return [program("lighttpd"), "-D", "-f", config]
    return start


def h2o(at):
    config = write(at.directory, "h2o.conf", f"""
{'user: root' if IS_ROOT else ''}
listen: {{ host: 127.0.0.1, port: {at.port} }}
hosts: {{ default: {{ paths: {{ "/": {{ file.dir: {at.files} }} }} }} }}
error-log: {at.directory}/error
num-threads: 1
""")
    return [program("h2o"), "-m", "worker", "-c", config]


def caddy(more=""):
    def start(at):
        config = write(at.directory, "Caddyfile", f"""{{
            admin off
            auto_https off
            storage file_system {at.directory}/caddy
        }}
        http://:{at.port} {{
            bind 127.0.0.1
            root * {at.files}
            {more}
            file_server
        }}
        """)
        return [program("caddy"), "run", "--config", config, "--adapter", "caddyfile"]
    return start


def haproxy(at):
    config = write(at.directory, "haproxy.conf", f"""
global
    maxconn 256
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
listen here
    bind 127.0.0.1:{at.port}
    server there 127.0.0.1:{at.behind}
""")
    return [program("haproxy"), "-db", "-f", config]


def varnish(at):
    return [
        program("varnishd"), "-F", "-n", at.directory + "/varnish", "-a", f"127.0.0.1:{at.port}", "-T", "none",
        "-b", f"127.0.0.1:{at.behind}", "-s", "malloc,100m",
    ] + (["-j", "none"] if IS_ROOT else [])


def squid(at):
    user = "cache_effective_user proxy" if IS_ROOT else ""
    config = write(at.directory, "squid.conf", f"""
http_port 127.0.0.1:{at.port} accel defaultsite=localhost
cache_peer 127.0.0.1 parent {at.behind} 0 no-query originserver
http_access allow all
cache deny all
pid_filename none
access_log none
cache_log {at.directory}/cache.log
coredump_dir {at.directory}
shutdown_lifetime 0 seconds
{user}
""")
    return [program("squid"), "-N", "-f", config]


def nghttpx(at):
    return [
        program("nghttpx"), f"-f127.0.0.1,{at.port};no-tls", f"-b127.0.0.1,{at.behind}", "--workers=1",
        "--conf=/dev/null", f"--pid-file={at.directory}/pid", f"--errorlog-file={at.directory}/error", "--no-ocsp",
    ]


def command(*words):
    """The words may contain {port} and {files}."""
    def start(at):
        return [program(words[0])] + [word.format(port=at.port, files=at.files) for word in words[1:]]
    return start


def application(name):
    return lambda at: ["/usr/bin/python3", os.path.join(HERE, "applications.py"), name, str(at.port), at.files]


DIGEST = "AuthType Digest\nAuthName files\nAuthDigestProvider file\nAuthUserFile {passwords}"
CACHE = "proxy_cache_path {directory}/cache keys_zone=here:1m;"

ALL = [
    Setup("nginx", nginx()),
    Setup("nginx-no-etag", nginx(server="etag off;")),
    Setup("nginx-no-ranges", nginx(server="max_ranges 0;"), continues=False),
    Setup("nginx-close", nginx(server="keepalive_timeout 0;")),
    Setup("nginx-two-connections", nginx(
        http="limit_conn_zone $binary_remote_addr zone=few:1m;", server="limit_conn few 2; limit_conn_status 503;")),
    Setup("nginx-gzip", nginx(server="gzip on; gzip_types *; gzip_min_length 1;")),
    Setup("nginx-open-file-cache", nginx(server="open_file_cache max=100; open_file_cache_valid 60s;"), shows_changes=False),
    Setup("nginx-cache", nginx(
        http=CACHE, location="proxy_pass http://127.0.0.1:{behind}; proxy_cache here; proxy_cache_valid 10s;"),
        shows_changes=False, behind="nginx"),
    Setup("nginx-tls", nginx(tls=True), scheme="https"),
    Setup("nginx-redirect", nginx(server="absolute_redirect off; location /there/ {{ alias {files}/; }}", location="return 302 /there$uri;")),
    Setup("apache", apache()),
    Setup("apache-no-etag", apache("FileETag None")),
    Setup("apache-no-ranges", apache("MaxRanges none"), continues=False),
    Setup("apache-deflate", apache("SetOutputFilter DEFLATE")),
    Setup("apache-digest", apache(DIGEST, "Require valid-user"), login=True),
    Setup("lighttpd", lighttpd()),
    Setup("lighttpd-no-etag", lighttpd('static-file.etags = "disable"\n')),
    Setup("lighttpd-digest", lighttpd(
        'auth.backend = "htdigest"\nauth.backend.htdigest.userfile = "PASSWORDS"\nauth.require = ( "/" => ('
        '"method" => "digest", "algorithm" => "MD5", "realm" => "files", "require" => "valid-user" ) )\n',
        '"mod_auth", "mod_authn_file"'), login=True),
    Setup("caddy", caddy()),
    Setup("caddy-gzip", caddy("encode gzip")),
    Setup("h2o", h2o),
    Setup("haproxy", haproxy, behind="nginx"),
    Setup("varnish", varnish, shows_changes=False, behind="nginx"),
    Setup("squid", squid, behind="apache"),
    Setup("nghttpx", nghttpx, behind="nginx"),
    Setup("twisted", command("twistd3", "--nodaemon", "--pidfile=", "web", "--listen=tcp:{port}:interface=127.0.0.1",
                             "--path={files}")),
    Setup("tornado", application("tornado"), shows_changes=False),
    Setup("aiohttp", application("aiohttp")),
    Setup("uvicorn-starlette", application("uvicorn"), continues=False),
    Setup("hypercorn-starlette", application("hypercorn"), continues=False),
    Setup("werkzeug", application("werkzeug")),
    Setup("cheroot-werkzeug", application("cheroot")),
    Setup("waitress-werkzeug", application("waitress")),
    Setup("gunicorn-werkzeug", application("gunicorn")),
    Setup("python-http-server", application("standard"), continues=False),
    Setup("webrick", command("ruby", "-run", "-e", "httpd", "--", "--bind-address=127.0.0.1", "--port={port}", "{files}")),
    Setup("mini-httpd", command("mini_httpd", "-D", "-h", "127.0.0.1", "-p", "{port}", "-d", "{files}")),
    Setup("webfs", command("webfsd", "-F", "-i", "127.0.0.1", "-p", "{port}", "-r", "{files}")),
    Setup("busybox", command("busybox", "httpd", "-f", "-p", "127.0.0.1:{port}", "-h", "{files}")),
    Setup("civetweb", command("civetweb", "-listening_ports", "127.0.0.1:{port}", "-document_root", "{files}")),
    Setup("php", command("php", "-S", "127.0.0.1:{port}", "-t", "{files}"), continues=False),
]
