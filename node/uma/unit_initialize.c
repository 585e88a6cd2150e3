// Unit initialize: what the volumes are. Discovery through the RTAs, device profiles and the
// hardware resource table, which the TTSs advertise.

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "base/why.h"
#include "node/interface/uma_rta.h"
#include "node/interface/volume.h"
#include "node/uma/agent.h"

/* ---- read windows ---------------------------------------------------------------------------- */

// The volume's window from now on, or none; the CTA has let go of the one before when that closes.
static void window_put(struct uma *uma, struct volume *v, int fd)
{
    if (v->window >= 0 || fd >= 0) {
        uma->cta->window_set(uma->cta_ctx, v->number, fd, fd >= 0 ? v->profile.size : 0);
        descriptor_drop(uma, &v->window);
        v->window = fd;
    }
}

/* ---- opening --------------------------------------------------------------------------------- */

void volumes_open(struct uma *uma, struct unit *unit)
{
    for (struct volume *v = NULL; (v = volume_next(uma, v)) != NULL;) {
        bool is_to_open = v->state == VOLUME_NEW || v->state == VOLUME_FAILED;
        if (v->unit == unit_number(uma, unit) && is_to_open) {
            v->state = VOLUME_OPENING;
            unit_tell_volume(uma, unit, v);
        }
    }
}

void volumes_retry(struct uma *uma, struct unit *unit)
{
    volumes_open(uma, unit);
    volumes_leave(uma, unit);
}

void volumes_lost(struct uma *uma, struct unit *unit)
{
    for (struct volume *v = NULL; (v = volume_next(uma, v)) != NULL;) {
        if (v->unit != unit_number(uma, unit)) {
            continue;
        }
        window_put(uma, v, -1);
        v->is_waited = false;
        if (v->state == VOLUME_CLOSING) {
            v->state = VOLUME_LEAVING;
        } else if (v->state != VOLUME_LEAVING) {
            v->state = VOLUME_NEW;
            v->is_probing = false;
        }
    }
    volumes_standby_tell(uma, unit);
    resources_advertise(uma);
}

// A process that stands by has opened the device, whatever else it says.
static bool has_profile(const struct unit_message *answer)
{
    return answer->kind == UNIT_STANDBY || (answer->error == 0 && answer->kind != UNIT_CLOSE);
}

// An answer from another process is believed as far as it can be true.
static struct volume *volume_answered(struct uma *uma, struct unit *unit,
                                      const struct unit_message *answer)
{
    struct volume *v = volume_by_number(uma, answer->volume);
    if (v == NULL || v->unit != unit_number(uma, unit)) {
        unit_say(uma, unit, "answered for a volume that is not its");
        unit_note(uma, unit, UNIT_NOTE_BROKEN);
        return NULL;
    }
    if (has_profile(answer) && !volume_profile_is_sane(&answer->profile)) {
        unit_say(uma, unit, "answered with a profile that cannot be");
        unit_note(uma, unit, UNIT_NOTE_BROKEN);
        return NULL;
    }
    if (has_profile(answer) && v->was_open &&
        strcmp(volume_profile_pin(&v->profile), volume_profile_pin(&answer->profile)) != 0) {
        unit_say(uma, unit, "answered for another device than the one that was first opened");
        unit_note(uma, unit, UNIT_NOTE_BROKEN);
        return NULL;
    }
    return v;
}

static void volume_say(struct uma *uma, const struct volume *v, const char *what)
{
    char line[WHY_MAX + VOLUME_NAME_MAX + 64];
    snprintf(line, sizeof line, "volume %s: %s", v->wish.name, what);
    uma->parts.say(uma->parts.ctx, line);
}

// Before the node has started it is the host that says why it does not.
static void volume_failed(struct uma *uma, struct volume *v, const struct unit_message *answer)
{
    struct why why;
    char line[WHY_MAX + 32];
    unit_message_why(answer, &why);
    bool is_news = strcmp(v->why.text, why.text) != 0;
    v->state = VOLUME_FAILED;
    v->is_waited = false;
    v->error = answer->error;
    v->why = why;
    if (is_news && uma_has_started(uma)) {
        snprintf(line, sizeof line, "not opened: %s", why.text);
        volume_say(uma, v, line);
    }
}

// The identity is settled when it is first opened: no successor's word changes it.
static void identity_settle(struct uma *uma, struct volume *v, const struct volume_profile *profile)
{
    uma->parts.identify(uma->parts.ctx, profile, &v->identity);
    if (v->wish.has_uuid) {
        memcpy(v->identity.uuid, v->wish.identity.uuid, sizeof v->identity.uuid);
    }
    if (v->wish.has_alias) {
        memcpy(v->identity.alias, v->wish.identity.alias, sizeof v->identity.alias);
    }
    // Another node knows nothing of what is reserved here.
    if (uma->parts.reservation_join != NULL && !v->wish.may_stand_by) {
        v->reservation = uma->parts.reservation_join(uma->parts.ctx, &v->identity);
    }
}

// It is known what it is, from now on.
static void profile_put(struct uma *uma, struct volume *v, const struct volume_profile *profile)
{
    if (!v->was_open) {
        identity_settle(uma, v, profile);
    }
    v->why = (struct why){""};
    v->profile = *profile;
    v->has_profile = v->was_open = true;
}

static void volume_opened(struct uma *uma, struct volume *v, const struct volume_profile *profile,
                          int window)
{
    if (v->is_waited) {
        volume_say(uma, v, "taken over: it is this node's now");
    }
    v->state = VOLUME_OPEN;
    v->is_waited = false;
    profile_put(uma, v, profile);
    window_put(uma, v, window);
}

void volume_on_open(struct uma *uma, struct unit *unit, const struct unit_message *answer, int fd)
{
    struct volume *v = volume_answered(uma, unit, answer);
    bool is_awaited = v != NULL && (v->state == VOLUME_OPENING || v->state == VOLUME_LEAVING);
    bool is_open = is_awaited && v->state == VOLUME_OPENING && answer->error == 0;
    if (!is_awaited || (answer->is_window != 0 && !is_open)) {
        descriptor_drop(uma, &fd);
    }
    if (!is_awaited) {
        return;
    }
    if (fd >= 0 && answer->is_window == 0) {
        descriptor_drop(uma, &v->keepsake);
        v->keepsake = fd;
    }
    if (v->state == VOLUME_LEAVING) {
        volume_leave(uma, v);
        return;
    }
    if (is_open) {
        if (answer->keeps_pages != 0) {
            uma->cta->unit_keep(uma->cta_ctx, v->unit);
        }
        volume_opened(uma, v, &answer->profile, answer->is_window != 0 ? fd : -1);
    } else {
        volume_failed(uma, v, answer);
    }
    unit_note(uma, unit, UNIT_NOTE_PROGRESS);
    resources_advertise(uma);
    resources_check_started(uma);
}

/* ---- standing by ----------------------------------------------------------------------------- */

void volumes_standby_tell(struct uma *uma, struct unit *unit)
{
    for (struct volume *v = NULL; (v = volume_next(uma, v)) != NULL;) {
        if (v->unit == unit_number(uma, unit) && v->wish.may_stand_by) {
            uma->cta->standby_set(uma->cta_ctx, v->number, volume_stands_by(uma, v), uma->now);
            unit_note(uma, unit, UNIT_NOTE_STANDBY);
        }
    }
}

bool unit_is_waiting(struct uma *uma, const struct unit *unit)
{
    for (struct volume *v = NULL; (v = volume_next(uma, v)) != NULL;) {
        if (v->unit == unit_number(uma, unit) && v->is_waited) {
            return true;
        }
    }
    return false;
}

// A volume that goes while it is waited for goes with the process.
void volume_on_standby(struct uma *uma, struct unit *unit, const struct unit_message *message)
{
    struct volume *v = volume_answered(uma, unit, message);
    bool is_allowed = v != NULL && v->wish.may_stand_by;
    if (v != NULL && (!is_allowed || v->state == VOLUME_LEAVING)) {
        unit_say(uma, unit, is_allowed ? "waits for what is wanted no more" : "stands by unasked");
        unit_note(uma, unit, UNIT_NOTE_BROKEN);
    } else if (v != NULL && v->state == VOLUME_OPENING) {
        v->is_waited = true;
        profile_put(uma, v, &message->profile);
        volume_say(uma, v, "another node has it: standing by");
        volumes_standby_tell(uma, unit);
        resources_advertise(uma);
        resources_check_started(uma);
    }
}

/* ---- probing --------------------------------------------------------------------------------- */

void volume_on_probe(struct uma *uma, struct unit *unit, const struct unit_message *answer)
{
    struct volume *v = volume_answered(uma, unit, answer);
    if (v == NULL || v->state != VOLUME_OPEN) {
        return;
    }
    v->is_probing = false;
    if (answer->error == 0 && memcmp(&v->profile, &answer->profile, sizeof v->profile) != 0) {
        v->profile = answer->profile;
        if (v->window >= 0) {
            uma->cta->window_set(uma->cta_ctx, v->number, v->window, v->profile.size);
        }
        resources_advertise(uma);
    }
}

/* ---- closing --------------------------------------------------------------------------------- */

static void volume_free(struct uma *uma, struct volume *v)
{
    struct unit *unit = &uma->units[v->unit];
    descriptor_drop(uma, &v->keepsake);
    window_put(uma, v, -1);
    list_remove(&v->unsaid);
    uma->cta->volume_remove(uma->cta_ctx, v->number);
    if (v->reservation != NULL) {
        uma->parts.reservation_leave(uma->parts.ctx, v->reservation);
    }
    *v = (struct volume){.keepsake = -1, .window = -1};
    list_init(&v->unsaid);
    resources_advertise(uma);
    unit_note(uma, unit, UNIT_NOTE_NEEDED);
}

void volume_leave(struct uma *uma, struct volume *v)
{
    struct unit *unit = &uma->units[v->unit];
    if (v->state != VOLUME_LEAVING || connections_of(uma, v) > 0) {
        return;
    }
    if (unit->state == UNIT_READY || unit->state == UNIT_OPENING ||
        unit->state == UNIT_CONNECTING) {
        v->state = VOLUME_CLOSING;
        unit_tell_volume(uma, unit, v);
    } else {
        volume_free(uma, v);
    }
}

void volumes_leave(struct uma *uma, struct unit *unit)
{
    uint32_t number = unit_number(uma, unit);
    for (struct volume *v = NULL; (v = volume_next(uma, v)) != NULL;) {
        if (v->unit == number && v->state == VOLUME_LEAVING) {
            volume_leave(uma, v);
        }
    }
}

void volume_on_close(struct uma *uma, struct unit *unit, const struct unit_message *answer)
{
    struct volume *v = volume_answered(uma, unit, answer);
    if (v == NULL || v->state != VOLUME_CLOSING) {
        return;
    }
    if (answer->error == -EBUSY) { // its device has not answered everything yet
        v->state = VOLUME_LEAVING;
        unit_note(uma, unit, UNIT_NOTE_PROGRESS);
    } else {
        volume_free(uma, v);
    }
}

/* ---- the hardware resource table ------------------------------------------------------------- */

static enum resource_state resource_state_of(const struct uma *uma, const struct volume *v)
{
    if (v->state == VOLUME_FAILED && !v->was_open) {
        return RESOURCE_FAILED;
    }
    if (v->has_profile && volume_stands_by(uma, v)) {
        return RESOURCE_STANDBY;
    }
    bool is_ready = v->state == VOLUME_OPEN && uma->units[v->unit].state == UNIT_READY;
    return is_ready ? RESOURCE_READY : RESOURCE_NOT_READY;
}

static struct resource resource_of(const struct uma *uma, const struct volume *v)
{
    struct resource row = {.volume = v->number,
                           .state = resource_state_of(uma, v),
                           .abilities = v->profile.abilities,
                           .profile = v->profile,
                           .identity = v->identity};
    snprintf(row.name, sizeof row.name, "%s", v->wish.name);
    for (unsigned i = 0; i < VOLUME_GROUPING_COUNT; i++) {
        row.places[i] = v->wish.places[i];
        row.places[i].member = v->members[i];
    }
    if (v->wish.read_only) {
        row.abilities &= ~(uint32_t)(VOLUME_CAN_WRITE | VOLUME_CAN_TRIM | VOLUME_CAN_WRITE_ZEROES |
                                     VOLUME_CAN_ZERO_FAST | VOLUME_CAN_FUA);
    }
    return row;
}

void resources_advertise(struct uma *uma)
{
    uma->table.count = 0;
    uma->table.generation++;
    uma->table.rows = uma->rows;
    for (struct volume *v = NULL; (v = volume_next(uma, v)) != NULL;) {
        if (v->state != VOLUME_LEAVING && v->state != VOLUME_CLOSING) {
            uma->rows[uma->table.count++] = resource_of(uma, v);
        }
    }
    for (unsigned i = 0; i < uma->tts_count; i++) {
        uma->ttss[i].tts->advertise(uma->ttss[i].ctx, &uma->table);
    }
}

static bool is_discovered(struct uma *uma)
{
    for (struct volume *v = NULL; (v = volume_next(uma, v)) != NULL;) {
        enum resource_state state = resource_state_of(uma, v);
        if (state == RESOURCE_NOT_READY && !v->was_open) {
            return false;
        }
        if (state == RESOURCE_NOT_READY && !uma->units[v->unit].was_ready) {
            return false;
        }
    }
    return true;
}

void resources_check_started(struct uma *uma)
{
    if (!uma->is_started || uma->is_stopping || !is_discovered(uma)) {
        return;
    }
    for (unsigned i = 0; i < uma->tts_count; i++) {
        struct uma_tts *tts = &uma->ttss[i];
        if (!tts->has_started) {
            tts->error = tts->tts->start(tts->ctx, &tts->why);
            tts->has_started = tts->error == 0;
            if (!tts->has_started) {
                uma->tts_retry_ns = instant_after(uma->now, NS_PER_S);
            } else {
                tts->why = (struct why){""};
            }
        }
    }
}
