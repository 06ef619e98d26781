// A link between two network namespaces, with delay, rate, loss and a bounded queue in each direction.
//
//     link CLIENT SERVER ROUND-TRIP-MS MBIT-PER-SECOND LOSS-PERCENT QUEUE-BYTES SEED OFFLOAD
//
// CLIENT and SERVER are names from `ip netns`. Each gets a TUN device `link0`. What one device sends, the other one
// receives, so real TCP runs end to end. Only packets from the server are lost, since those have the bytes of
// downloads. Prints "ready". With OFFLOAD 1 TCP passes several segments at once. A fast link needs that, and a lossy
// link cannot have it.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

struct packet {
    struct packet *next;
    uint64_t due;
    int length;
    char bytes[];
};

struct direction {
    int from, to;
    double loss;
    struct packet *first, **last;
    uint64_t free_at; // when the next packet may be sent
    uint64_t passed, lost, dropped;
};

static const int header = 40 + 12; // bytes of IPv4 and TCP with timestamps, for each segment
static uint64_t delay, queue;
static double nanoseconds_per_byte;
static uint64_t state;
static volatile sig_atomic_t is_stopped;

static void stop(int number) { is_stopped = number; }

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

// xorshift64*, as a number from 0 to 1.
static double chance(void) {
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return (double)((state * 2685821657736338717ull) >> 11) / 9007199254740992.0;
}

static int device(const char *namespace, int offload) {
    char path[256];
    snprintf(path, sizeof path, "/run/netns/%s", namespace);
    int space = open(path, O_RDONLY | O_CLOEXEC);
    if (space < 0 || setns(space, CLONE_NEWNET) != 0) fail(path);
    close(space);
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) fail("/dev/net/tun");
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR};
    strcpy(request.ifr_name, "link0");
    if (ioctl(fd, TUNSETIFF, &request) != 0) fail("TUNSETIFF");
    if (offload && ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) != 0) fail("TUNSETOFFLOAD");
    return fd;
}

// The bytes of the packet on the link. Each of several segments has a header of its own.
static uint64_t weight(const struct packet *packet) {
    const struct virtio_net_hdr *about = (const void *)packet->bytes;
    uint64_t bytes = (uint64_t)packet->length - sizeof *about;
    if (about->gso_type == VIRTIO_NET_HDR_GSO_NONE || about->gso_size == 0) return bytes;
    return bytes + (bytes - header - 1) / about->gso_size * header;
}

// Reads the waiting packets, but few enough that the other direction gets its turn.
static void read_from(struct direction *direction) {
    static char buffer[sizeof(struct virtio_net_hdr) + 65536];
    for (int n = 0; n < 64; n++) {
        ssize_t length = read(direction->from, buffer, sizeof buffer);
        if (length <= 0) return;
        uint64_t time = now();
        if (direction->loss > 0 && chance() < direction->loss) {
            direction->lost++;
            continue;
        }
        struct packet *packet = malloc(sizeof *packet + (size_t)length);
        if (!packet) fail("malloc");
        packet->length = (int)length;
        memcpy(packet->bytes, buffer, (size_t)length);
        uint64_t bytes = weight(packet), begin = direction->free_at > time ? direction->free_at : time;
        if ((double)(begin - time) / nanoseconds_per_byte + (double)bytes > (double)queue) {
            direction->dropped++;
            free(packet);
            continue;
        }
        direction->free_at = begin + (uint64_t)((double)bytes * nanoseconds_per_byte);
        packet->due = direction->free_at + delay;
        packet->next = NULL;
        *direction->last = packet;
        direction->last = &packet->next;
        direction->passed++;
    }
}

static void write_to(struct direction *direction, uint64_t time) {
    while (direction->first && direction->first->due <= time) {
        struct packet *packet = direction->first;
        if (write(direction->to, packet->bytes, (size_t)packet->length) < 0 && errno == EAGAIN) return;
        direction->first = packet->next;
        if (!direction->first) direction->last = &direction->first;
        free(packet);
    }
}

int main(int count, char **arguments) {
    if (count != 9) return fprintf(stderr, "see link.c\n"), 2;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    signal(SIGTERM, stop);
    signal(SIGINT, stop);
    int offload = atoi(arguments[8]);
    int client = device(arguments[1], offload), server = device(arguments[2], offload);
    delay = (uint64_t)(atof(arguments[3]) * 1e6 / 2);
    nanoseconds_per_byte = 8e3 / atof(arguments[4]);
    queue = strtoull(arguments[6], NULL, 10);
    state = strtoull(arguments[7], NULL, 10) * 0x9E3779B97F4A7C15ull + 1;
    struct direction up = {.from = client, .to = server}, down = {.from = server, .to = client};
    down.loss = atof(arguments[5]) / 100;
    up.last = &up.first, down.last = &down.first;
    // The link belongs to the set-up of the measurement: other programs must not slow it down.
    struct sched_param priority = {.sched_priority = 1};
    sched_setscheduler(0, SCHED_FIFO, &priority);
    prctl(PR_SET_TIMERSLACK, 1);
    puts("ready");
    fflush(stdout);
    while (!is_stopped) {
        uint64_t time = now(), next = time + 1000000000;
        write_to(&up, time);
        write_to(&down, time);
        if (up.first && up.first->due < next) next = up.first->due;
        if (down.first && down.first->due < next) next = down.first->due;
        // Packets collect for up to 50 µs, so that fewer turns handle them.
        uint64_t wait = next > time + 50000 ? next - time : 50000;
        struct timespec timeout = {(time_t)(wait / 1000000000), (long)(wait % 1000000000)};
        struct pollfd ready[2] = {{.fd = client, .events = POLLIN}, {.fd = server, .events = POLLIN}};
        if (ppoll(ready, 2, &timeout, NULL) <= 0) continue;
        read_from(&up);
        read_from(&down);
    }
    printf("up: %lu passed, %lu dropped; down: %lu passed, %lu lost, %lu dropped\n", up.passed, up.dropped, down.passed,
        down.lost, down.dropped);
    return 0;
}
