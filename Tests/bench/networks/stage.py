"""Two network namespaces, the link between them, and the servers at its far end. `close` removes everything."""

import json
import os
import re
import signal
import subprocess
import time

CLIENT_ADDRESS, SERVER_ADDRESS = "10.77.0.1", "10.77.0.2"

NGINX = """
user root; daemon off; worker_processes 2; pid {work}/nginx.pid; error_log {work}/nginx.log;
worker_rlimit_nofile 20000;
events {{ worker_connections 8192; }}
http {{
    log_format about '$status $connection $body_bytes_sent'; access_log {work}/access.log about;
    sendfile on; tcp_nopush on; keepalive_requests 100000; root {work}/www;
    client_body_temp_path {work}/t1; proxy_temp_path {work}/t2; fastcgi_temp_path {work}/t3;
    uwsgi_temp_path {work}/t4; scgi_temp_path {work}/t5;
    ssl_certificate {work}/cert.pem; ssl_certificate_key {work}/key.pem; ssl_session_cache shared:s:1m;
    limit_conn_zone $server_port zone=places:1m;
    server {{
        listen 80; listen 443 ssl;
        location /paced/ {{ alias {work}/www/; limit_rate 2m; }}
        location /two/ {{ alias {work}/www/; limit_rate 5m; limit_conn places 2; limit_conn_status 503; }}
    }}
}}
"""


class Stage:
    def __init__(self, work, seed):
        self.work, self.seed = work, seed
        tag = str(os.getpid())
        self.client, self.server = f"hauln-c{tag}", f"hauln-s{tag}"
        self.processes, self.link, self.buffers = [], None, {}
        os.makedirs(f"{work}/www", exist_ok=True)
        os.chmod(work, 0o755)

    def open(self):
        for name in (self.client, self.server):
            subprocess.run(["ip", "netns", "add", name], check=True)
            # The kernel must not carry metrics of the path from one run to the next.
            self.inside(name, ["sh", "-c", "ip link set lo up; sysctl -qw net.ipv4.tcp_no_metrics_save=1"])
        for setting in ("tcp_rmem", "tcp_wmem"):
            text = self.inside(self.client, ["sysctl", "-n", f"net.ipv4.{setting}"], capture_output=True, text=True).stdout
            self.buffers[setting] = text.split()
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=haul",
             "-addext", f"subjectAltName=IP:{SERVER_ADDRESS},IP:127.0.0.1",
             "-keyout", f"{self.work}/key.pem", "-out", f"{self.work}/cert.pem"],
            check=True, capture_output=True)
        with open(f"{self.work}/nginx.conf", "w") as file:
            file.write(NGINX.format(work=self.work))
        self.start(self.server, ["nginx", "-p", self.work, "-c", f"{self.work}/nginx.conf", "-e", f"{self.work}/nginx.log"])
        self.start(self.server, ["nghttpx", "--conf=/dev/null", "--frontend=*,8443", "--backend=127.0.0.1,80",
                                 "--alpn-list=h2" if self.has_alpn_list() else "--npn-list=h2", "--workers=2",
                                 "--accesslog-file=/dev/null", f"--errorlog-file={self.work}/nghttpx.log",
                                 f"{self.work}/key.pem", f"{self.work}/cert.pem"])

    @staticmethod
    def has_alpn_list():
        return "--alpn-list" in subprocess.run(["nghttpx", "--help"], capture_output=True, text=True).stdout

    def command(self, namespace, command):
        return ["ip", "netns", "exec", namespace, *command]

    def inside(self, namespace, command, **more):
        return subprocess.run(self.command(namespace, command), check=True, **more)

    def start(self, namespace, command, **more):
        more.setdefault("stdout", subprocess.DEVNULL)
        more.setdefault("stderr", subprocess.DEVNULL)
        process = subprocess.Popen(self.command(namespace, command), **more)
        self.processes.append(process)
        return process

    def end(self, process):
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process in self.processes:
            self.processes.remove(process)

    def connect(self, network):
        """Replaces the link, so that no run meets packets of another run in the queue."""
        self.disconnect()
        self.seed += 1
        self.link = subprocess.Popen(
            [f"{self.work}/link", self.client, self.server, str(network.rtt), str(network.rate), str(network.loss),
             str(network.queue), str(self.seed), "0" if network.loss else "1"], stdout=subprocess.PIPE, text=True)
        assert self.link.stdout.readline() == "ready\n", "the link could not be made"
        for name, own, other in (
            (self.client, CLIENT_ADDRESS, SERVER_ADDRESS), (self.server, SERVER_ADDRESS, CLIENT_ADDRESS)):
            self.inside(name, ["sh", "-c", f"ip link set link0 txqueuelen 20000 gso_max_size 16384 up && "
                               f"ip address add {own} peer {other} dev link0 && "
                               f"ip route replace {other} dev link0 congctl cubic"])
            for setting, (least, initial, most) in self.buffers.items():
                self.inside(name, ["sysctl", "-qw", f"net.ipv4.{setting}={least} {initial} {network.buffer or most}"])

    def disconnect(self):
        if self.link:
            self.link.terminate()
            tally = self.link.stdout.read().strip()
            self.link.wait()
            self.link = None
            return tally

    def received(self):
        """The bytes that the client's end of the link has received."""
        text = self.inside(self.client, ["ip", "-s", "-j", "link", "show", "link0"], capture_output=True, text=True).stdout
        return json.loads(text)[0]["stats64"]["rx"]["bytes"]

    def forget_requests(self):
        with open(f"{self.work}/access.log", "w"):
            pass

    def requests(self):
        """The status and the connection of each request since `forget_requests`. nginx logs a request when its response
        has ended."""
        time.sleep(0.3)
        with open(f"{self.work}/access.log") as file:
            return [tuple(line.split()[:2]) for line in file]

    def measure(self, network):
        """Measures the link itself: round trip, rate, loss."""
        self.connect(network)
        ping = self.inside(self.client, ["ping", "-q", "-c", "20", "-i", "0.1", SERVER_ADDRESS], capture_output=True, text=True)
        rtt = re.search(r"= [\d.]+/([\d.]+)/", ping.stdout)[1]
        if network.loss:
            flood = ["-u", "-l", "1400", "-t", "3", "-b"]
            rate = self.flood([*flood, f"{network.rate * 1.1}M"])["sum_received"]["bits_per_second"] * 1428 / 1400
            loss = self.flood([*flood, f"{network.rate / 2}M"])["sum"]["lost_percent"]
            text = f"{rate / 1e6:.1f} Mbit/s of UDP with its headers, {loss:.2f} % lost at half of that"
        else:
            rate = self.flood(["-P", "8", "-O", "4", "-t", "4"])["sum_received"]["bits_per_second"] * 1500 / 1448
            text = f"{rate / 1e6:.1f} Mbit/s of TCP with its headers"
        return f"{rtt} ms, {text}; {self.disconnect()}"

    def flood(self, options):
        server = self.start(self.server, ["iperf3", "-s", "-1"])
        time.sleep(0.5)
        text = self.inside(
            self.client, ["iperf3", "-c", SERVER_ADDRESS, "-R", "-J", *options], capture_output=True, text=True).stdout
        self.end(server)
        return json.loads(text)["end"]

    def abandon(self):
        for process in [*self.processes, *filter(None, [self.link])]:
            # SIGTERM, so that nginx can end its workers.
            if process.returncode is None:
                os.kill(process.pid, signal.SIGTERM)
        time.sleep(1)
        for name in (self.client, self.server):
            os.system(f"ip netns del {name} 2>/dev/null")

    def close(self):
        self.disconnect()
        for process in list(self.processes):
            self.end(process)
        for name in (self.client, self.server):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
