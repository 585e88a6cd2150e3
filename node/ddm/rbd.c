// rbd: images of a Ceph cluster. Ceph's libraries are many and large, so the driver is a module of
// weft's own (node/rbd), which only the process of such a volume loads.

#include <stddef.h>

#include "base/why.h"
#include "node/ddm/drivers.h"
#include "node/interface/rta_ddm.h"
#include "node/module/load.h"
#include "node/module/module.h"

static int rbd_open(const struct ddm_target *target, const struct ddm_host *host, struct ddm *next,
                    struct ddm **ret, struct why *ret_why)
{
    struct weft_ddm_driver driver;
    struct why why;
    int error = module_load_own("weft-rbd.so", &driver, &why);
    if (error != 0) {
        why_say(
            ret_why,
            "Ceph's driver cannot be loaded: %.250s; weft has it if librbd-dev was there when it "
            "was built, and it needs librbd1",
            why.text);
        return error;
    }
    return module_open(&driver, &ddm_rbd, target, host, ret, ret_why);
}

const struct ddm_driver ddm_rbd = {
    .version = DDM_VERSION,
    .self_size = sizeof(struct ddm_driver),
    .name = "rbd",
    .summary = "an image of a Ceph cluster",
    .object = "POOL[/NAMESPACE]/IMAGE[@SNAPSHOT]",
    .fence = "the image's exclusive lock: who has had it is blocklisted",
    .needs_process = true,
    .can_stand_by = true,
    .takes_all = true,
    .open = rbd_open,
    .probe = module_probe,
    .submit = module_submit,
    .flush_queue = module_flush_queue,
    .poll_fd = module_poll_fd,
    .next_deadline = module_next_deadline,
    .poll = module_poll,
    .drain = module_drain,
    .close = module_close,
};
