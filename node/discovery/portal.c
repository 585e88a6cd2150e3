// An iSCSI portal that is asked (RFC 7143): SendTargets in a discovery session; then each target,
// in a session of its own, for its logical units; then each unit, whether it is a disk. By the
// calls of libiscsi that wait.

#include <errno.h>
#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "format/scsi.h"
#include "node/ddm/network.h"
#include "node/ddm/scsi_facts.h"
#include "node/ddm/scsi_session.h"
#include "node/discovery/asker.h"
#include "node/discovery/asking.h"
#include "node/discovery/remote_uri.h"
#include "node/interface/volume.h"
#include "text/percent.h"

enum {
    ANSWER_SECONDS = 5,
    CONNECT_TRIES = 2, // SYNs behind the first: seven seconds
    INQUIRY_LEN = 64,
    REPORT_LUNS_LEN = 16 << 10,
    LINEAGE_PAGE_LEN = 4 + VOLUME_LINEAGE_LEN,
    UNIT_PER_TARGET_MAX = 1024,
};

struct portal {
    const struct remote_uri *uri;
    char initiator[SCSI_SESSION_TEXT_MAX];
    char user[REMOTE_USER_MAX], password[REMOTE_USER_MAX]; // empty: none
};

// "USER%PASSWORD@", with its percent sign encoded as those of URIs are.
static void user_take(struct portal *portal)
{
    snprintf(portal->user, sizeof portal->user, "%s", portal->uri->user);
    text_percent_decode(portal->user);
    char *at = strrchr(portal->user, '@');
    if (at != NULL) {
        *at = '\0';
    }
    char *mark = strchr(portal->user, '%');
    if (mark != NULL) {
        snprintf(portal->password, sizeof portal->password, "%s", mark + 1);
        *mark = '\0';
    }
}

static void *portal_create(const struct remote_uri *uri)
{
    struct portal *portal = calloc(1, sizeof *portal);
    if (portal != NULL) {
        portal->uri = uri;
        scsi_session_initiator(uri->initiator[0] != '\0' ? uri->initiator : NULL,
                               portal->initiator);
        user_take(portal);
    }
    return portal;
}

/* ---- sessions -------------------------------------------------------------------------------- */

// With an ISID of its own: with that of a volume's session it would end that.
static void isid_choose(struct iscsi_context *context)
{
    uint32_t random[2] = {0};
    if (getrandom(random, sizeof random, GRND_NONBLOCK) == sizeof random) {
        iscsi_set_isid_random(context, random[0] & 0xffffff, random[1] & 0xffff);
    }
}

static void session_end(struct iscsi_context *context)
{
    if (context != NULL) {
        iscsi_logout_sync(context);
        iscsi_destroy_context(context);
    }
}

static int say_lost(struct iscsi_context *context, const char *what, struct why *ret_why)
{
    const char *said = context != NULL ? iscsi_get_error(context) : "no memory";
    why_say(ret_why, "%s: %.*s", what, (int)strcspn(said, "\n"), said);
    return -ECONNREFUSED;
}

// Without a target: one for discovery. NULL with the reason.
static struct iscsi_context *session_begin(const struct portal *portal, const char *where,
                                           const char *target, struct why *ret_why)
{
    struct iscsi_context *context = iscsi_create_context(portal->initiator);
    if (context == NULL) {
        say_lost(NULL, "no session", ret_why);
        return NULL;
    }
    iscsi_set_timeout(context, ANSWER_SECONDS);
    iscsi_set_tcp_syncnt(context, CONNECT_TRIES);
    iscsi_set_noautoreconnect(context, 1);
    isid_choose(context);
    iscsi_set_session_type(context,
                           target != NULL ? ISCSI_SESSION_NORMAL : ISCSI_SESSION_DISCOVERY);
    iscsi_set_header_digest(context, ISCSI_HEADER_DIGEST_NONE_CRC32C);
    if (target != NULL) {
        iscsi_set_targetname(context, target);
    }
    if (portal->user[0] != '\0') {
        iscsi_set_initiator_username_pwd(context, portal->user, portal->password);
    }
    if (iscsi_connect_sync(context, where) != 0) {
        say_lost(context, "it cannot be connected to", ret_why);
    } else if (iscsi_login_sync(context) != 0) {
        say_lost(context, "it refuses the login", ret_why);
    } else {
        return context;
    }
    iscsi_destroy_context(context);
    return NULL;
}

/* ---- units ----------------------------------------------------------------------------------- */

// Others are controllers, tapes, or places where there is none.
static bool is_disk(struct iscsi_context *context, int lun)
{
    struct scsi_task *task = iscsi_inquiry_sync(context, lun, 0, 0, INQUIRY_LEN);
    const struct scsi_inquiry_standard *inquiry =
        task != NULL && task->status == SCSI_STATUS_GOOD ? scsi_datain_unmarshall(task) : NULL;
    bool result = inquiry != NULL &&
                  inquiry->qualifier == SCSI_INQUIRY_PERIPHERAL_QUALIFIER_CONNECTED &&
                  inquiry->device_type == SCSI_INQUIRY_PERIPHERAL_DEVICE_TYPE_DIRECT_ACCESS;
    if (task != NULL) {
        scsi_free_scsi_task(task);
    }
    return result;
}

// What another node's volume is made of; nobody else has this page.
static void lineage_find(struct iscsi_context *context, int lun, struct volume_lineage *ret)
{
    struct scsi_task *task =
        iscsi_inquiry_sync(context, lun, 1, SCSI_VOLUME_LINEAGE, LINEAGE_PAGE_LEN);
    *ret = (struct volume_lineage){0};
    if (task != NULL && task->status == SCSI_STATUS_GOOD) {
        scsi_lineage_take(task->datain.data, (uint32_t)task->datain.size, ret);
    }
    if (task != NULL) {
        scsi_free_scsi_task(task);
    }
}

// 0, when it is full too; or a negative errno with the reason.
static int units_read(struct asking *asking, struct iscsi_context *context, const char *where,
                      const char *target, struct why *ret_why)
{
    struct scsi_task *task = iscsi_reportluns_sync(context, 0, REPORT_LUNS_LEN);
    const struct scsi_reportluns_list *list =
        task != NULL && task->status == SCSI_STATUS_GOOD ? scsi_datain_unmarshall(task) : NULL;
    int result = list == NULL ? say_lost(context, "it does not tell its units", ret_why) : 0;
    uint32_t count = list != NULL ? list->num : 0;
    struct volume_lineage lineage;
    for (uint32_t i = 0;
         i < count && i < UNIT_PER_TARGET_MAX && result == 0 && !asking_is_full(asking); i++) {
        if (!asking_has_time(asking)) {
            result = say_lost(context, "it answers too slowly", ret_why);
        } else if (is_disk(context, list->luns[i])) {
            lineage_find(context, list->luns[i], &lineage);
            asking_unit(asking, where, target, list->luns[i], &lineage);
        }
    }
    if (task != NULL) {
        scsi_free_scsi_task(task);
    }
    return result;
}

/* ---- targets --------------------------------------------------------------------------------- */

// A portal's address as a target's list has it is "HOST:PORT,TAG".
static bool address_take(const char *portal, char ret[REMOTE_HOST_MAX])
{
    int len = (int)strcspn(portal, ",");
    bool is_anywhere = strncmp(portal, "0.0.0.0", 7) == 0 || strncmp(portal, "[::]", 4) == 0;
    snprintf(ret, REMOTE_HOST_MAX, "%.*s", len, portal);
    return !is_anywhere && len > 0 && len < REMOTE_HOST_MAX;
}

// Where the target is: where we are, if it is there too, else where it says first.
static void target_where(const struct portal *portal, const struct iscsi_discovery_address *target,
                         char ret[REMOTE_HOST_MAX])
{
    char one[REMOTE_HOST_MAX];
    ret[0] = '\0';
    for (const struct iscsi_target_portal *p = target->portals; p != NULL; p = p->next) {
        if (!address_take(p->portal, one) || strcmp(one, portal->uri->where) == 0) {
            ret[0] = '\0';
            return;
        }
        if (ret[0] == '\0') {
            memcpy(ret, one, sizeof one);
        }
    }
}

static void target_read(const struct portal *portal, struct asking *asking,
                        const struct iscsi_discovery_address *target)
{
    char where[REMOTE_HOST_MAX];
    struct why why = {"it answers too slowly"};
    target_where(portal, target, where);
    struct iscsi_context *context =
        asking_has_time(asking)
            ? session_begin(portal, where[0] != '\0' ? where : portal->uri->where,
                            target->target_name, &why)
            : NULL;
    int result =
        context != NULL ? units_read(asking, context, where, target->target_name, &why) : -1;
    session_end(context);
    if (result < 0) {
        asking_keep(asking, target->target_name, why.text);
    }
}

static int portal_read(void *self, struct asking *asking, struct why *ret_why)
{
    const struct portal *portal = self;
    struct iscsi_context *context = session_begin(portal, portal->uri->where, NULL, ret_why);
    if (context == NULL) {
        return -ECONNREFUSED;
    }
    struct iscsi_discovery_address *targets = iscsi_discovery_sync(context);
    bool is_told = targets != NULL || *iscsi_get_error(context) == '\0'; // that there are none
    int error = is_told ? 0 : say_lost(context, "it does not tell its targets", ret_why);
    for (const struct iscsi_discovery_address *t = targets; t != NULL; t = t->next) {
        if (!asking_wants(asking, t->target_name)) {
            continue;
        }
        if (asking_is_full(asking)) {
            asking->left_out++;
        } else {
            target_read(portal, asking, t);
        }
    }
    iscsi_free_discovery_data(context, targets);
    session_end(context);
    return error;
}

static const char *const *portal_calls(void)
{
    return network_calls;
}

const struct asker asker_portal = {
    .driver = "iscsi",
    .calls = portal_calls,
    .create = portal_create,
    .read = portal_read,
};
