#include "draw/page.h"

#include "draw/page_script.h"
#include "draw/svg.h"

static void put_button(const struct xml_out *out, const char *id, const char *face,
                       const char *words)
{
    xml_put(out, "<button id=\"%s\" type=\"button\" aria-label=\"%s\" title=\"%s\">%s</button>\n",
            id, words, words, face);
}

bool page_put(const struct xml_out *out, const struct picture *picture)
{
    xml_raw(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                 "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                 "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                 "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n<title>");
    xml_text(out, picture->title);
    xml_raw(out, "</title>\n<style>");
    xml_raw(out, page_style);
    xml_raw(out, "</style>\n</head>\n<body>\n<header>\n<h1>");
    xml_text(out, picture->title);
    xml_raw(out, "</h1>\n");
    put_button(out, "previous", "↑", "previous event (p)");
    put_button(out, "next", "↓", "next event (n)");
    put_button(out, "out", "−", "smaller (-)");
    put_button(out, "in", "+", "larger (+)");
    put_button(out, "fit", "fit", "as wide as the window (0)");
    if (picture->is_live) {
        put_button(out, "hold", "hold", "hold the picture as it is, or go on (h)");
    }
    xml_raw(out, "</header>\n<main id=\"view\" tabindex=\"0\" "
                 "aria-label=\"the picture; arrow keys move it\">\n");
    if (!svg_put(out, picture, true)) {
        return false;
    }
    xml_raw(out, "</main>\n<div id=\"said\" role=\"status\" aria-live=\"polite\">What the pointer "
                 "is on is explained here. Keys: n and p go through the events, + and - zoom, "
                 "0 fits the window.");
    xml_raw(out, picture->is_live ? " The picture grows with its capture, but not while an event "
                                    "has the focus (Escape goes on), or it is held (h)."
                                  : "");
    xml_raw(out, "</div>\n<script>\n");
    xml_raw(out, page_script);
    xml_raw(out, picture->is_live ? page_live_script : "");
    xml_raw(out, "</script>\n</body>\n</html>\n");
    return true;
}
