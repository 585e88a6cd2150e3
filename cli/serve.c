// weft serve: a storage node.

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/say.h"
#include "node/host/config.h"
#include "node/host/host.h"
#include "node/host/wish.h"
#include "node/interface/request.h"
#include "text/addresses.h"

enum serve_option {
    OPTION_HELP = 'h',
    OPTION_READ_ONLY = 'r',
    OPTION_QUIET = 'q',
    OPTION_CONFIG = 256,
    OPTION_ALLOW_ADD,
    OPTION_CNTLID_MIN,
    OPTION_HTTP,
    OPTION_ISCSI,
    OPTION_ISCSI_RDMA,
    OPTION_ISCSI_SECRETS,
    OPTION_MDNS,
    OPTION_METRICS,
    OPTION_NBD,
    OPTION_NVME_RDMA,
    OPTION_NVME_TCP,
    OPTION_POOL,
    OPTION_RDMA_CONNECTIONS,
    OPTION_RTA,
    OPTION_RUN,
};

static const char help[] =
    "Usage: weft serve [OPTION...] [NAME=]URI...\n"
    "\n"
    "Serves files, devices and memory as volumes to clients. Each is driven by a process of\n"
    "its own, which is started again when it dies; clients notice a delay.\n"
    "\n"
    "A URI is DRIVER:OBJECT, with filters before and parameters behind:\n"
    "  file:disk.img          a file or block device; a bare path is this too\n"
    "  file:disk.img?direct=on&engine=threads\n"
    "  images/                each file of a folder, as they come and go; by pattern:\n"
    "  glob:/dev/nvme?n1      what matches of a folder\n"
    "  iscsi://HOST/*         all that an iSCSI portal has; targets by pattern\n"
    "  nvme+tcp://HOST:8009/* all that an NVMe discovery service knows; nvme+rdma: too\n"
    "  ram:1G                 memory\n"
    "  null:1T                reads zeroes, drops what is written\n"
    "  delay+file:disk.img?delay.write=10ms\n"
    "\n"
    "Options:\n"
    "      --allow-add      volumes may come by weft rescan\n"
    "      --cntlid-min=NUMBER  of the first NVMe controller: two nodes that serve one\n"
    "                       subsystem have numbers of their own\n"
    "      --config=FILE    volumes and settings from a file, see weft-serve(1)\n"
    "      --http=ADDRESS   HOST:PORT or unix:PATH: a page for browsers, and /metrics\n"
    "      --iscsi=ADDRESS  HOST[:PORT] for iSCSI initiators; 3260 if no PORT\n"
    "      --iscsi-rdma=ADDRESS  HOST[:PORT] for iSCSI over one-shot RDMA; 3260 if no PORT\n"
    "      --iscsi-secrets=FILE  who may log in by iSCSI, and how he proves who he is\n"
    "      --mdns           announce NVMe discovery over TCP to the network, by Avahi\n"
    "      --metrics=HOST:PORT  counters for Prometheus, at /metrics\n"
    "  -r, --read-only      refuse writes\n"
    "  -q, --quiet          do not print addresses\n"
    "      --nbd=ADDRESS    HOST:PORT, [HOST]:PORT or unix:PATH for NBD clients;\n"
    "                       port 0 takes a free one\n"
    "      --nvme-rdma=ADDRESS  HOST[:PORT] for NVMe hosts over RDMA; 4420 if no PORT\n"
    "      --nvme-tcp=ADDRESS  HOST:PORT for NVMe hosts over TCP\n"
    "                       each of these may be given up to 8 times; with no address\n"
    "                       for clients, --nbd=127.0.0.1:10809 and\n"
    "                       --nvme-rdma=127.0.0.1:4420\n"
    "      --pool=SIZE      memory for data on their way, 64M if not given\n"
    "      --rdma-connections=NUMBER  room of each protocol over RDMA, half of it for one\n"
    "                       address; 512 if not given\n"
    "      --rta=WHERE      processes for the drivers: each (one for each volume, the\n"
    "                       default), one (for all), host (none)\n"
    "      --run=COMMAND    serve this shell command and end with it; $uri and $uris name\n"
    "                       the volumes\n"
    "  -h, --help           this text\n"
    "\n"
    "Exit status: 0 after a signal; 1: it cannot serve; 2: wrong command line; with --run\n"
    "of the command.\n"
    "\n"
    "Examples:\n"
    "  weft serve disk.img\n"
    "  weft serve --nbd=unix:/tmp/disk.sock data=file:/srv/data.img scratch=ram:1G\n"
    "  weft serve --nbd=127.0.0.1:0 ram:1G --run='qemu-img info $uri'\n";

static void serve_help(FILE *out)
{
    fputs(help, out);
}

struct serve {
    struct host_config config;
    unsigned listeners; // a bit for each option that named an address, by its number
    bool is_done;
    char *captive[4];
};

static int rta_choose(struct serve *serve, const char *word)
{
    if (config_rta_parse(word, &serve->config.rta)) {
        return 0;
    }
    return say_usage("serve", "--rta=%s: it must be each, one or host", word);
}

static int pool_choose(struct serve *serve, const char *text)
{
    struct why why;
    uint64_t len;
    if (wish_pool_parse(text, &len, &why) != 0) {
        return say_usage("serve", "--pool=%s: %s", text, why.text);
    }
    serve->config.pool_len = len;
    return 0;
}

static int cntlid_choose(struct serve *serve, const char *text)
{
    struct why why;
    if (wish_cntlid_parse(text, &serve->config.cntlid_min, &why) != 0) {
        return say_usage("serve", "--cntlid-min=%s: %s", text, why.text);
    }
    return 0;
}

static int rdma_connections_choose(struct serve *serve, const char *text)
{
    struct why why;
    if (wish_rdma_connections_parse(text, &serve->config.rdma_connection_max, &why) != 0) {
        return say_usage("serve", "--rdma-connections=%s: %s", text, why.text);
    }
    return 0;
}

// Is it the first address that the command line gives for this option? It replaces what the file
// names: the command line has the last word.
static bool is_first(struct serve *serve, int option)
{
    unsigned bit = 1U << (option - OPTION_CONFIG);
    bool result = (serve->listeners & bit) == 0;
    serve->listeners |= bit;
    return result;
}

// For clients: given again, at another address too.
static int address_choose(struct serve *serve, int option, struct addresses *addresses)
{
    if (is_first(serve, option)) {
        addresses->count = 0;
    }
    enum addresses_verdict verdict = addresses_add(addresses, optarg);
    return verdict == ADDRESSES_OK
               ? 0
               : say_usage("serve", "%s: %s", optarg, addresses_verdict_name(verdict));
}

// The page and the metrics are at one: a second address would replace the first without a word.
static int page_choose(struct serve *serve, int option, char ret_listen[HOST_LISTEN_MAX])
{
    if (!is_first(serve, option)) {
        return say_usage("serve", "%s: a second address of the same kind; give one", optarg);
    }
    if (strlen(optarg) >= HOST_LISTEN_MAX) {
        return say_usage("serve", "%s: the address is too long", optarg);
    }
    snprintf(ret_listen, HOST_LISTEN_MAX, "%s", optarg);
    return 0;
}

static int path_choose(const char *option, char ret[HOST_PATH_MAX])
{
    if (strlen(optarg) >= HOST_PATH_MAX) {
        return say_usage("serve", "%s: the path is too long", option);
    }
    snprintf(ret, HOST_PATH_MAX, "%s", optarg);
    return 0;
}

// Where clients come to by the option's protocol; NULL: it names none.
static struct addresses *listen_of(struct host_config *config, int option)
{
    switch (option) {
    case OPTION_ISCSI:
        return &config->iscsi_listen;
    case OPTION_ISCSI_RDMA:
        return &config->iscsi_rdma_listen;
    case OPTION_NBD:
        return &config->nbd_listen;
    case OPTION_NVME_RDMA:
        return &config->nvme_rdma_listen;
    case OPTION_NVME_TCP:
        return &config->nvme_tcp_listen;
    default:
        return NULL;
    }
}

static int option_apply(struct serve *serve, int option, char **argv)
{
    struct addresses *listen = listen_of(&serve->config, option);
    if (listen != NULL) {
        return address_choose(serve, option, listen);
    }
    switch (option) {
    case OPTION_CONFIG: // read before the others
        return 0;
    case OPTION_ALLOW_ADD:
        serve->config.takes_volumes = true;
        return 0;
    case OPTION_CNTLID_MIN:
        return cntlid_choose(serve, optarg);
    case OPTION_READ_ONLY:
        serve->config.is_read_only = true;
        return 0;
    case OPTION_QUIET:
        serve->config.is_quiet = true;
        return 0;
    case OPTION_HTTP:
        return page_choose(serve, option, serve->config.http_listen);
    case OPTION_ISCSI_SECRETS:
        return path_choose("--iscsi-secrets", serve->config.iscsi_secrets);
    case OPTION_MDNS:
        serve->config.is_announced = true;
        return 0;
    case OPTION_METRICS:
        return page_choose(serve, option, serve->config.metrics_listen);
    case OPTION_POOL:
        return pool_choose(serve, optarg);
    case OPTION_RDMA_CONNECTIONS:
        return rdma_connections_choose(serve, optarg);
    case OPTION_RTA:
        return rta_choose(serve, optarg);
    case OPTION_RUN:
        serve->captive[0] = "/bin/sh";
        serve->captive[1] = "-c";
        serve->captive[2] = optarg;
        serve->config.captive = serve->captive;
        return 0;
    case ':':
        return say_usage("serve", "%s needs a value", argv[optind - 1]);
    default:
        return say_usage("serve", "there is no option %s", argv[optind - 1]);
    }
}

static const struct option options[] = {
    {"allow-add", no_argument, NULL, OPTION_ALLOW_ADD},
    {"cntlid-min", required_argument, NULL, OPTION_CNTLID_MIN},
    {"config", required_argument, NULL, OPTION_CONFIG},
    {"help", no_argument, NULL, OPTION_HELP},
    {"http", required_argument, NULL, OPTION_HTTP},
    {"iscsi", required_argument, NULL, OPTION_ISCSI},
    {"iscsi-rdma", required_argument, NULL, OPTION_ISCSI_RDMA},
    {"iscsi-secrets", required_argument, NULL, OPTION_ISCSI_SECRETS},
    {"mdns", no_argument, NULL, OPTION_MDNS},
    {"metrics", required_argument, NULL, OPTION_METRICS},
    {"nbd", required_argument, NULL, OPTION_NBD},
    {"nvme-rdma", required_argument, NULL, OPTION_NVME_RDMA},
    {"nvme-tcp", required_argument, NULL, OPTION_NVME_TCP},
    {"pool", required_argument, NULL, OPTION_POOL},
    {"quiet", no_argument, NULL, OPTION_QUIET},
    {"rdma-connections", required_argument, NULL, OPTION_RDMA_CONNECTIONS},
    {"read-only", no_argument, NULL, OPTION_READ_ONLY},
    {"rta", required_argument, NULL, OPTION_RTA},
    {"run", required_argument, NULL, OPTION_RUN},
    {0},
};

static int config_choose(struct serve *serve, const char *path)
{
    struct why why;
    serve->config.path = path;
    if (config_read(path, &serve->config, &why) != 0) {
        say_error("cannot serve", path, "see weft-serve(1) for what stands in it", "%s", why.text);
        return EXIT_FAILED;
    }
    serve->config.file_volume_count = serve->config.volume_count;
    return 0;
}

// The file first, so that the command line has the last word.
static int options_read(int argc, char **argv, struct serve *serve)
{
    int result = 0;
    optind = 1;
    for (int option; (option = getopt_long(argc, argv, ":hrq", options, NULL)) != -1;) {
        if (option == OPTION_HELP) {
            serve_help(stdout);
            serve->is_done = true;
            return 0;
        }
        if (option == OPTION_CONFIG && (result = config_choose(serve, optarg)) != 0) {
            return result;
        }
    }
    optind = 1;
    for (int option; (option = getopt_long(argc, argv, ":hrq", options, NULL)) != -1;) {
        if ((result = option_apply(serve, option, argv)) != 0) {
            return result;
        }
    }
    return 0;
}

static int volumes_read(struct serve *serve, char **words, size_t count)
{
    struct why why;
    for (size_t i = 0; i < count; i++) {
        struct volume_wish wish;
        if (wish_parse(words[i], &wish, &why) != 0) {
            return say_usage("serve", "%s: %s", words[i], why.text);
        }
        wish_name_settle(serve->config.volumes, serve->config.volume_count, &wish);
        if (config_volume_add(&serve->config, &wish) != 0) {
            say_error("cannot serve", words[i], "free some memory", "no memory");
            return EXIT_FAILED;
        }
    }
    size_t most = NODE_VOLUME_COUNT_MAX;
    if (serve->config.volume_count > most) {
        return say_usage("serve", "at most %zu volumes", most);
    }
    if (serve->config.volume_count == 0 && serve->config.path == NULL) {
        return say_usage("serve", "serve what? Give a file, or a URI");
    }
    return 0;
}

// Who names one protocol, on the command line or in the file, wants no other.
static void listeners_default(struct host_config *config)
{
    if (config->nbd_listen.count == 0 && config->nvme_rdma_listen.count == 0 &&
        config->nvme_tcp_listen.count == 0 && config->iscsi_listen.count == 0 &&
        config->iscsi_rdma_listen.count == 0) {
        addresses_add(&config->nbd_listen, "127.0.0.1:10809");
        addresses_add(&config->nvme_rdma_listen, "127.0.0.1:4420");
    }
}

static int mdns_check(const struct host_config *config)
{
    return !config->is_announced || config->nvme_tcp_listen.count > 0
               ? 0
               : say_usage("serve", "--mdns: it announces NVMe over TCP: give --nvme-tcp=ADDRESS, "
                                    "which others can reach");
}

static int serve_main(int argc, char **argv)
{
    struct serve serve = {.config = {.pool_len = WISH_POOL_DEFAULT}};
    int result = options_read(argc, argv, &serve);
    if (result == 0 && !serve.is_done) {
        result = volumes_read(&serve, argv + optind, (size_t)(argc - optind));
        if (result == 0) {
            listeners_default(&serve.config);
            result = mdns_check(&serve.config);
        }
        if (result == 0) {
            result = host_run(&serve.config);
        }
    }
    config_free(&serve.config);
    return result;
}

const struct command command_serve = {
    .name = "serve",
    .summary = "serve files, devices and memory as volumes",
    .run = serve_main,
    .help = serve_help,
};
