// weft: finds the command and hands over.

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/say.h"
#include "node/discovery/envoy.h"
#include "node/discovery/process.h"
#include "node/unit/process.h"

static int help_main(int argc, char **argv);
static void help_help(FILE *out);

static const struct command command_help = {
    .name = "help",
    .summary = "explain weft, a command, or the environment",
    .run = help_main,
    .help = help_help,
};

static const struct command *const commands[] = {
    &command_run,    &command_env,      &command_doctor, &command_stat,  &command_top,
    &command_watch,  &command_reads,    &command_draw,   &command_serve, &command_status,
    &command_rescan, &command_discover, &command_ls,     &command_info,  &command_cp,
    &command_attach, &command_help};
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static void weft_help(FILE *out)
{
    fputs("weft: an RDMA NIC in a library. Programs that use libibverbs and librdmacm run on it\n"
          "unchanged; on the wire it is iWARP over TCP, or RoCEv2 over UDP. And a storage node on\n"
          "top of it.\n"
          "\n"
          "Usage: weft COMMAND [OPTION...]\n"
          "\n"
          "Commands:\n",
          out);
    for (unsigned i = 0; i < COMMAND_COUNT; i++) {
        fprintf(out, "  %-8s %s\n", commands[i]->name, commands[i]->summary);
    }
    fputs("\n"
          "  weft help COMMAND      what a command does, its options and exit statuses\n"
          "  weft help environment  the WEFT_* variables\n"
          "  weft --version         the version\n"
          "\n"
          "First steps:\n"
          "  weft doctor                             what is in the way here, and its cure\n"
          "  weft run ibv_devinfo                    see the device\n"
          "  weft run rping -s -C 3 -v &             a server, and\n"
          "  weft run rping -c -a 127.0.0.1 -C 3 -v  its client\n"
          "  weft stat                               counters of what runs now\n"
          "  weft top                                the same live: rates, latencies\n"
          "  weft watch                              the same as a page in a browser\n"
          "  weft draw capture.pcap -o life.html     a connection's life, as a picture\n"
          "  weft serve disk.img                     a file as a volume for clients\n"
          "  weft ls 127.0.0.1                       the volumes there, for weft cp and weft info\n"
          "\n"
          "Manual pages: weft(1), weft-run(1), weft-env(1), weft-doctor(1), weft-stat(1),\n"
          "weft-top(1), weft-watch(1), weft-reads(1), weft-draw(1), weft-serve(1),\n"
          "weft-status(1), weft-rescan(1), weft-discover(1), weft-ls(1), weft-info(1),\n"
          "weft-cp(1), weft-attach(1), weft(7).\n",
          out);
}

static const struct command *command_find(const char *name)
{
    for (unsigned i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i]->name, name) == 0) {
            return commands[i];
        }
    }
    return NULL;
}

static int help_main(int argc, char **argv)
{
    if (argc > 2) {
        return say_usage("help", "one word at most, not %d", argc - 1);
    }
    if (argc < 2) {
        weft_help(stdout);
        return EXIT_SUCCESS;
    }
    if (strcmp(argv[1], "environment") == 0) {
        settings_print(stdout);
        return EXIT_SUCCESS;
    }
    if (strcmp(argv[1], "--help") == 0) {
        help_help(stdout);
        return EXIT_SUCCESS;
    }
    const struct command *command = command_find(argv[1]);
    if (command == NULL) {
        return say_usage("", "there is no command %s", argv[1]);
    }
    command->help(stdout);
    return EXIT_SUCCESS;
}

static void help_help(FILE *out)
{
    fputs("Usage: weft help [COMMAND | environment]\n"
          "\n"
          "Explains weft, one of its commands, or the WEFT_* variables of the environment.\n",
          out);
}

// A full disk or a closed pipe must not look like success.
static int output_finish(int status)
{
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == EXIT_SUCCESS) {
        say_error("output lost", "standard output", "see to it that somebody reads it", "%m");
        return EXIT_FAILED;
    }
    return status;
}

// A standard descriptor that whoever starts us has closed would be the number of the next file or
// socket, and what is said there, or copied, would go into that. What holds the number is open the
// wrong way round, so that it fails as before, with EBADF; programs we start find it closed.
static void hold_standard_descriptors(void)
{
    static const int wrong_way[] = {
        [STDIN_FILENO] = O_WRONLY, [STDOUT_FILENO] = O_RDONLY, [STDERR_FILENO] = O_RDONLY};
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", wrong_way[fd] | O_CLOEXEC) < 0) {
            return; // no /dev/null, or no descriptors: nothing to be had here
        }
    }
}

int main(int argc, char **argv)
{
    hold_standard_descriptors();
    if (argc < 2) {
        weft_help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        weft_help(stdout);
        return output_finish(EXIT_SUCCESS);
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        puts("weft " WEFT_VERSION);
        return output_finish(EXIT_SUCCESS);
    }
    if (strcmp(argv[1], UNIT_PROCESS_COMMAND) == 0) {
        return unit_process_main();
    }
    if (strcmp(argv[1], ENVOY_PROCESS_COMMAND) == 0) {
        return discovery_process_main();
    }
    const struct command *command = command_find(argv[1]);
    if (command == NULL) {
        return say_usage("", "there is no command %s", argv[1]);
    }
    return output_finish(command->run(argc - 1, argv + 1));
}
