#define _XOPEN_SOURCE_EXTENDED 1

#include "cli/top/screen.h"

#include <curses.h>
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/poll_ms.h"
#include "base/time.h"
#include "cli/say.h"
#include "cli/top/draw.h"
#include "cli/top/grid.h"
#include "cli/top/model.h"
#include "cli/top/view.h"
#include "clock/clock.h"

enum { COLOR_PAIR_TROUBLE = 1, ESCAPE_DELAY_MS = 25 };

struct screen {
    struct top_round *round;
    struct top_model model;
    struct top_view view;
    instant_ns next_round_ns;
    uint64_t rounds_left; // UINT64_MAX: no end
    bool is_over;
    int error; // of looking for processes
};

/* ---- the terminal ---------------------------------------------------------------------------- */

static int terminal_open(void)
{
    setlocale(LC_ALL, "");
    if (newterm(NULL, stdout, stdin) == NULL) {
        const char *name = getenv("TERM");
        say_error("no screen", name != NULL ? name : "TERM",
                  "set TERM to what your terminal is, or use weft top --batch",
                  "no terminal of that name is known here");
        return EXIT_FAILED;
    }
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    set_escdelay(ESCAPE_DELAY_MS);
    curs_set(0);
    if (has_colors()) {
        start_color();
        use_default_colors();
        init_pair(COLOR_PAIR_TROUBLE, COLOR_RED, -1);
    }
    return 0;
}

static attr_t attributes_of(enum grid_style style)
{
    static const attr_t attributes[GRID_STYLE_COUNT] = {
        [GRID_DIM] = A_DIM,       [GRID_STRONG] = A_BOLD,
        [GRID_TITLE] = A_REVERSE, [GRID_SELECTED] = A_BOLD | A_UNDERLINE,
        [GRID_TROUBLE] = A_BOLD,
    };
    return attributes[style];
}

// All cells; curses sends those that have changed.
static void grid_show(const struct grid *grid)
{
    for (unsigned row = 0; row < grid->height; row++) {
        for (unsigned column = 0; column < grid->width; column++) {
            const struct grid_cell *cell = grid_at(grid, row, column);
            const wchar_t text[2] = {(wchar_t)cell->character, L'\0'};
            const short pair = cell->style == GRID_TROUBLE ? COLOR_PAIR_TROUBLE : 0;
            cchar_t shown;
            setcchar(&shown, text, attributes_of(cell->style), pair, NULL);
            mvadd_wch((int)row, (int)column, &shown);
        }
    }
    refresh();
}

static void draw(struct screen *screen)
{
    struct grid grid;
    if (grid_init(&grid, (unsigned)COLS, (unsigned)LINES) == 0) {
        top_draw(&grid, &screen->model, &screen->view);
        erase();
        grid_show(&grid);
    }
    grid_fini(&grid);
}

static int key_of(int key)
{
    switch (key) {
    case KEY_UP:
        return TOP_KEY_UP;
    case KEY_DOWN:
        return TOP_KEY_DOWN;
    case KEY_LEFT:
        return TOP_KEY_LEFT;
    case KEY_RIGHT:
        return TOP_KEY_RIGHT;
    case KEY_PPAGE:
        return TOP_KEY_PAGE_UP;
    case KEY_NPAGE:
        return TOP_KEY_PAGE_DOWN;
    case KEY_HOME:
        return TOP_KEY_HOME;
    case KEY_END:
        return TOP_KEY_END;
    case KEY_ENTER:
    case '\r':
        return TOP_KEY_ENTER;
    case KEY_BACKSPACE:
    case 0x7f:
        return TOP_KEY_BACKSPACE;
    default:
        return key;
    }
}

// True: some came, or the terminal has another size.
static bool keys_take(struct screen *screen)
{
    bool has_any = false;
    for (int key; !screen->is_over && (key = getch()) != ERR; has_any = true) {
        if (key == KEY_RESIZE) {
            clearok(curscr, TRUE); // the terminal has moved what it showed, as it liked
            continue;
        }
        screen->is_over = !top_view_key(&screen->view, &screen->model,
                                        top_draw_page((unsigned)LINES), key_of(key));
    }
    return has_any;
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void round_begin(struct screen *screen, instant_ns now)
{
    screen->next_round_ns = instant_after(now, screen->view.interval_seconds * NS_PER_S);
    screen->error = top_round_start(screen->round, &screen->model, now);
    screen->is_over |= screen->error != 0;
}

static bool round_go_on(struct screen *screen, instant_ns now)
{
    if (top_round_is_over(screen->round)) {
        if (screen->view.is_paused || now < screen->next_round_ns) {
            return false;
        }
        round_begin(screen, now);
    }
    const bool has_changed = top_round_step(screen->round, &screen->model, now);
    if (has_changed && top_round_is_over(screen->round) && screen->rounds_left != UINT64_MAX) {
        screen->is_over |= --screen->rounds_left == 0;
    }
    return has_changed;
}

static void wait(struct screen *screen, instant_ns now)
{
    struct pollfd wanted[TOP_ASKED_AT_ONCE + 1];
    instant_ns until_ns;
    unsigned count = top_round_wants(screen->round, now, wanted + 1, &until_ns);
    if (top_round_is_over(screen->round) && !screen->view.is_paused) {
        until_ns = instant_min(until_ns, screen->next_round_ns);
    }
    wanted[0] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    if (poll(wanted, count + 1, poll_ms(now, until_ns)) > 0) {
        screen->is_over |= (wanted[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
    }
}

static void loop(struct screen *screen)
{
    draw(screen);
    while (!screen->is_over) {
        bool has_changed = round_go_on(screen, clock_now());
        has_changed |= keys_take(screen);
        if (has_changed && !screen->is_over) {
            draw(screen);
        }
        if (!screen->is_over) {
            wait(screen, clock_now());
        }
    }
}

int top_screen_run(struct top_round *round, unsigned interval_seconds, uint64_t round_count)
{
    struct screen screen = {.round = round,
                            .rounds_left = round_count > 0 ? round_count : UINT64_MAX};
    if (terminal_open() != 0) {
        return EXIT_FAILED;
    }
    top_view_init(&screen.view, interval_seconds, strcmp(nl_langinfo(CODESET), "UTF-8") == 0);
    top_model_init(&screen.model);
    loop(&screen);
    endwin();
    top_round_stop(round);
    top_model_fini(&screen.model);
    if (screen.error != 0) {
        say_error("no processes", "/proc/net/unix, the runtime folder",
                  "mount /proc; see WEFT_RUNTIME_DIR in weft-status(1)", "%s",
                  strerror(-screen.error));
        return EXIT_FAILED;
    }
    return EXIT_SUCCESS;
}
