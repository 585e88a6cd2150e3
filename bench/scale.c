// Many connections of one process to another, all open at the same time.
//
//     bench-scale (verbs|tcp) CONNECTIONS [idle]
//
// One line tells how fast they were made, how long a request and its answer of 64 octets take, by
// another connection each time, how many there are in a second with sixteen of them out, and how
// much resident memory a connection has before anything was sent, which with `idle` is all. Both
// ends spin. Then all of them stay until standard input ends, so that somebody may look at the
// process.
#include "bench/scale.h"

#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>

#include "bench/measure.h"

enum {
    LATENCY_COUNT = 20000,
    RATE_COUNT = 100000,
    STRIDE = 7919, // a prime: a request goes by another connection than the one before
};
static const double limit_s = 3; // for as many requests as there are until then

// The connection that this request goes by.
static unsigned chosen(unsigned request, unsigned connection_count)
{
    return (unsigned)((uint64_t)request * STRIDE % connection_count);
}

static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static double resident_kib(pid_t pid)
{
    char path[64];
    long pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", pid);
    FILE *file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%*s %ld", &pages) != 1) {
        perror(path);
        exit(1);
    }
    fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1024;
}

static void round_trip(const struct scale_carrier *carrier, unsigned connection)
{
    carrier->request(connection);
    while (carrier->answers() == 0) {
    }
}

// Prints the percentiles, without the end of the line.
static void measure_latency(const struct scale_carrier *carrier, unsigned connection_count)
{
    static double us[LATENCY_COUNT];
    unsigned count = 0;
    const double end = now_s() + limit_s;
    for (double before = now_s(); count < LATENCY_COUNT && before < end; count++) {
        round_trip(carrier, chosen(count, connection_count));
        const double after = now_s();
        us[count] = 1e6 * (after - before);
        before = after;
    }
    qsort(us, count, sizeof us[0], compare_double);
    printf("\"p50_us\": %.3f, \"p99_us\": %.3f", us[count / 2], us[count * 99ULL / 100]);
}

static double requests_per_s(const struct scale_carrier *carrier, unsigned connection_count)
{
    unsigned sent = 0, answered = 0;
    const double begin = now_s();
    double now = begin;
    bool is_over = false;
    while (!is_over || answered < sent) {
        while (!is_over && sent < answered + SCALE_DEPTH) {
            carrier->request(chosen(sent++, connection_count));
        }
        answered += carrier->answers();
        now = now_s();
        is_over = is_over || sent >= RATE_COUNT || now > begin + limit_s;
    }
    return answered / (now - begin);
}

// Resident memory of both ends, before and after.
struct memory {
    double client_kib, server_kib;
};

static struct memory server_memory(pid_t server)
{
    return (struct memory){.client_kib = resident_kib(getpid()),
                           .server_kib = resident_kib(server)};
}

static void measure_requests(const struct scale_carrier *carrier, unsigned count)
{
    const double end = now_s() + limit_s;
    for (unsigned i = 0; i < count && now_s() < end; i++) {
        round_trip(carrier, i); // the first one by each
    }
    measure_latency(carrier, count);
    printf(", \"requests_per_s\": %.0f, ", requests_per_s(carrier, count));
}

static void measure(const struct scale_carrier *carrier, unsigned count, bool are_idle,
                    pid_t server, int port_fd)
{
    const struct memory before = server_memory(server);
    const double begin = now_s();
    carrier->connect(count, port_fd);
    const double connected = now_s();
    const struct memory after = server_memory(server);
    printf("{\"pid\": %d, \"connects_per_s\": %.1f, ", getpid(), count / (connected - begin));
    if (!are_idle) {
        measure_requests(carrier, count);
    }
    printf("\"client_kib\": %.3f, \"server_kib\": %.3f}\n",
           (after.client_kib - before.client_kib) / count,
           (after.server_kib - before.server_kib) / count);
    fflush(stdout);
    while (getchar() != EOF) {
    }
}

int main(int argc, char **argv)
{
    const struct scale_carrier *carrier =
        argc >= 3 && strcmp(argv[1], scale_verbs.name) == 0 ? &scale_verbs
        : argc >= 3 && strcmp(argv[1], scale_tcp.name) == 0 ? &scale_tcp
                                                            : NULL;
    const bool are_idle = argc == 4 && strcmp(argv[3], "idle") == 0;
    const unsigned count = carrier != NULL ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
    int ports[2];
    if (count == 0 || argc != (are_idle ? 4 : 3)) {
        fprintf(stderr, "usage: bench-scale (verbs|tcp) CONNECTIONS [idle]\n");
        return 2;
    }
    raise_descriptor_limit();
    if (pipe(ports) != 0) {
        perror("pipe");
        return 1;
    }
    const pid_t server = fork_end();
    if (server == 0) {
        carrier->serve(count, ports[1]);
        _exit(0);
    }
    measure(carrier, count, are_idle, server, ports[0]);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    return 0;
}
