// An origin that gives each connection the same rate, and optionally one of them a twentieth of that rate.
//
//     pacer SIZE BYTES_PER_SECOND SLOW PAUSE  prints its port; SLOW is the number of the slow connection, 0 for none
//
// It serves one file of SIZE bytes with a strong ETag, ranges and keep-alive. Every 5 ms each connection may send what
// its rate permits. With a PAUSE it sends unevenly: after half to one and a half times as many milliseconds.
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { most = 2048, block = 1 << 20 };
static struct connection { int fd, used; char head[8192]; int64_t left; double rate, earned, next; } connections[most];
static char bytes[block];

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void drop(struct connection *c) {
    close(c->fd);
    c->fd = -1;
}

static void answer(struct connection *c, int64_t size) {
    long long first = 0, last = size - 1;
    char *range = strcasestr(c->head, "\r\nRange: bytes="), reply[512];
    if (range) {
        last = size - 1;
        sscanf(range + 15, "%lld-%lld", &first, &last);
    }
    int length = snprintf(reply, sizeof reply,
        "HTTP/1.1 %s\r\nETag: \"v1\"\r\nAccept-Ranges: bytes\r\nContent-Length: %lld\r\n", range ? "206 Partial Content" : "200 OK",
        last - first + 1);
    if (range)
        length += snprintf(reply + length, sizeof reply - (size_t)length, "Content-Range: bytes %lld-%lld/%lld\r\n", first, last,
            (long long)size);
    length += snprintf(reply + length, sizeof reply - (size_t)length, "\r\n");
    if (send(c->fd, reply, (size_t)length, MSG_NOSIGNAL) != length) return drop(c);
    c->left = last - first + 1;
    c->used = 0;
}

static void receive(struct connection *c, int64_t size) {
    ssize_t count = recv(c->fd, c->head + c->used, sizeof c->head - 1 - (size_t)c->used, MSG_DONTWAIT);
    if (count <= 0) return drop(c);
    c->used += (int)count;
    c->head[c->used] = 0;
    if (strstr(c->head, "\r\n\r\n")) answer(c, size);
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    int64_t size = atoll(argv[1]);
    double rate = atof(argv[2]), pause = atof(argv[4]) / 1000, last = now();
    int slow = atoi(argv[3]), accepted = 0;
    for (int n = 0; n < most; n++) connections[n].fd = -1;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), epoll = epoll_create1(0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 512)) return 1;
    getsockname(listener, (struct sockaddr *)&address, &length);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &(struct epoll_event){.events = EPOLLIN, .data.ptr = NULL});
    for (;;) {
        struct epoll_event events[64];
        int count = epoll_wait(epoll, events, 64, 5);
        for (int n = 0; n < count; n++) {
            struct connection *c = events[n].data.ptr;
            if (c) {
                if (c->fd >= 0) receive(c, size);
                continue;
            }
            int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
            for (int k = 0; fd >= 0 && k < most; k++) {
                if (connections[k].fd >= 0) continue;
                accepted++;
                connections[k] = (struct connection){.fd = fd, .rate = accepted == slow ? rate / 20 : rate};
                epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = EPOLLIN, .data.ptr = &connections[k]});
                break;
            }
        }
        double time = now(), passed = time - last;
        if (passed < 0.004) continue;
        last = time;
        for (int n = 0; n < most; n++) {
            struct connection *c = &connections[n];
            if (c->fd < 0 || !c->left) continue;
            c->earned += c->rate * passed;
            // Bytes that could not be sent in time are forfeited, beyond a burst of 50 ms, or of two pauses.
            double cap = c->rate * (pause > 0.025 ? 2 * pause : 0.05);
            if (c->earned > cap) c->earned = cap;
            if (time < c->next) continue;
            c->next = time + pause * (0.5 + drand48());
            while (c->fd >= 0 && c->left && c->earned >= 1) {
                int64_t piece = c->earned < block ? (int64_t)c->earned : block;
                if (piece > c->left) piece = c->left;
                ssize_t sent = send(c->fd, bytes, (size_t)piece, MSG_NOSIGNAL | MSG_DONTWAIT);
                if (sent <= 0) break;
                c->left -= sent;
                c->earned -= (double)sent;
                if (sent < piece) break;
            }
        }
    }
}
