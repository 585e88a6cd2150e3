// weft attach: a volume of a target as an NBD socket. It is a storage node of one volume, whose
// device is the target's.

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/say.h"
#include "cli/volume.h"
#include "node/host/config.h"
#include "node/host/host.h"
#include "node/host/wish.h"
#include "text/addresses.h"

enum attach_option {
    OPTION_HELP = 'h',
    OPTION_READ_ONLY = 'r',
    OPTION_QUIET = 'q',
    OPTION_RUN = 256,
    OPTION_SOCKET,
};

enum { WORD_MAX = 1024 };

static void attach_help(FILE *out)
{
    fputs(
        "Usage: weft attach [OPTION...] nvme+rdma://HOST[:PORT]/NQN[/NSID] | nvme+tcp://...\n"
        "       weft attach [OPTION...] iscsi+rdma://HOST[:PORT]/TARGET/LUN | iscsi://...\n"
        "\n"
        "Makes a volume of a target usable by programs that speak NBD: qemu-img, nbdcopy, fio,\n"
        "nbd-client. It stays until it is stopped (Ctrl-C). A lost connection is made again.\n"
        "\n"
        "Options:\n"
        "  -r, --read-only     refuse writes\n"
        "  -q, --quiet         do not print the socket's address\n"
        "      --run=COMMAND   run this shell command and end with it; $uri names the socket\n"
        "      --socket=PATH   the Unix socket; in a new folder of $XDG_RUNTIME_DIR or /tmp\n"
        "                      if not given\n"
        "  -h, --help          this text\n"
        "\n"
        "Exit status: 0 after a signal; 1: the volume cannot be used; 2: wrong command line; with\n"
        "--run of the command.\n"
        "\n"
        "Examples:\n"
        "  weft attach nvme+rdma://192.0.2.1/nqn.2014-08.org.nvmexpress:uuid:...\n"
        "  weft attach --run='qemu-img info $uri' nvme+rdma://192.0.2.1/nqn...\n",
        out);
}

struct attach {
    struct host_config config;
    bool is_read_only;
    bool is_done;
    char *captive[4];
    char folder[HOST_LISTEN_MAX]; // made for the socket; empty: the user named one
};

static int socket_choose(struct attach *attach, const char *path)
{
    char listen[ADDRESS_MAX];
    int len = snprintf(listen, sizeof listen, "unix:%s", path);
    attach->config.nbd_listen.count = 0;
    return len < ADDRESS_MAX && addresses_add(&attach->config.nbd_listen, listen) == ADDRESSES_OK
               ? 0
               : say_usage("attach", "--socket=%s: the path is too long", path);
}

// In a folder of its own, which others can neither enter nor have made before.
static int socket_default(struct attach *attach)
{
    char path[sizeof attach->folder + sizeof "/nbd"];
    const char *parent = getenv("XDG_RUNTIME_DIR");
    int len = snprintf(attach->folder, sizeof attach->folder, "%s/weft-attach.XXXXXX",
                       parent != NULL ? parent : "/tmp");
    if (len >= (int)sizeof attach->folder || mkdtemp(attach->folder) == NULL) {
        int error = len >= (int)sizeof attach->folder ? ENAMETOOLONG : errno;
        attach->folder[0] = '\0';
        say_error("cannot attach", parent != NULL ? parent : "/tmp",
                  "name a socket with --socket=PATH", "no folder for the socket: %s",
                  strerror(error));
        return EXIT_FAILED;
    }
    snprintf(path, sizeof path, "%s/nbd", attach->folder);
    return socket_choose(attach, path);
}

static int option_apply(struct attach *attach, int option, char **argv)
{
    switch (option) {
    case OPTION_HELP:
        attach_help(stdout);
        attach->is_done = true;
        return 0;
    case OPTION_READ_ONLY:
        attach->is_read_only = true;
        return 0;
    case OPTION_QUIET:
        attach->config.is_quiet = true;
        return 0;
    case OPTION_RUN:
        attach->captive[0] = "/bin/sh";
        attach->captive[1] = "-c";
        attach->captive[2] = optarg;
        attach->config.captive = attach->captive;
        return 0;
    case OPTION_SOCKET:
        return socket_choose(attach, optarg);
    case ':':
        return say_usage("attach", "%s needs a value", argv[optind - 1]);
    default:
        return say_usage("attach", "there is no option %s", argv[optind - 1]);
    }
}

static int options_read(int argc, char **argv, struct attach *attach)
{
    static const struct option options[] = {{"help", no_argument, NULL, OPTION_HELP},
                                            {"quiet", no_argument, NULL, OPTION_QUIET},
                                            {"read-only", no_argument, NULL, OPTION_READ_ONLY},
                                            {"run", required_argument, NULL, OPTION_RUN},
                                            {"socket", required_argument, NULL, OPTION_SOCKET},
                                            {0}};
    optind = 1;
    for (int option; (option = getopt_long(argc, argv, ":hqr", options, NULL)) != -1;) {
        int result = option_apply(attach, option, argv);
        if (result != 0 || attach->is_done) {
            return result;
        }
    }
    return argc - optind == 1 ? 0 : say_usage("attach", "one volume, not %d", argc - optind);
}

// The only volume of the node, with the name of its driver. What stands behind a question mark is
// the driver's.
static int volume_choose(struct attach *attach, const char *uri)
{
    struct volume_wish wish;
    char word[WORD_MAX];
    struct why why;
    snprintf(word, sizeof word, "%.*s", (int)strcspn(uri, "?"), uri);
    int result = volume_check("attach", word, true);
    if (result != 0) {
        return result;
    }
    if (strncmp(uri, "nvme+", 5) != 0 && strncmp(uri, "iscsi", 5) != 0) {
        return say_usage("attach",
                         "%s: it is no nvme+rdma://..., nvme+tcp://..., iscsi+rdma://... or "
                         "iscsi://...; give an NBD address to the program itself",
                         uri);
    }
    snprintf(word, sizeof word, "%.*s=%s", (int)strcspn(uri, "+:"), uri, uri);
    if (wish_parse(word, &wish, &why) != 0) {
        return say_usage("attach", "%s: %s", uri, why.text);
    }
    wish.read_only = attach->is_read_only;
    if (config_volume_add(&attach->config, &wish) != 0) {
        say_error("cannot attach", uri, "free some memory", "no memory");
        return EXIT_FAILED;
    }
    return 0;
}

static int attach_main(int argc, char **argv)
{
    struct attach attach = {.config = {.pool_len = WISH_POOL_DEFAULT, .rta = HOST_RTA_HOST}};
    int result = options_read(argc, argv, &attach);
    if (result == 0 && !attach.is_done && attach.config.nbd_listen.count == 0) {
        result = socket_default(&attach);
    }
    if (result == 0 && !attach.is_done) {
        result = volume_choose(&attach, argv[optind]);
        if (result == 0) {
            result = host_run(&attach.config);
        }
    }
    if (attach.folder[0] != '\0') {
        rmdir(attach.folder);
    }
    config_free(&attach.config);
    return result;
}

const struct command command_attach = {
    .name = "attach",
    .summary = "make a volume of a target an NBD socket",
    .run = attach_main,
    .help = attach_help,
};
