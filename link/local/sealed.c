#include "link/local/sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "link/sys.h"

static int map(int fd, size_t len, uint8_t **ret)
{
    void *memory;
    int error = sys_map_shared(fd, len, &memory);
    if (error == 0) {
        *ret = memory;
    }
    return error;
}

int local_sealed_create(const char *name, size_t len, int seals, uint8_t **ret, int *ret_fd)
{
    int fd = sys_memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return fd;
    }
    int error = sys_ftruncate(fd, len);
    uint8_t *memory = NULL;
    if (error == 0) { // before the seals: one of them is against who maps it to write
        error = map(fd, len, &memory);
    }
    if (error == 0) {
        error = sys_fcntl(fd, F_ADD_SEALS, seals);
    }
    if (error != 0) {
        local_sealed_release(memory, len);
        sys_close(fd);
        return error;
    }
    *ret = memory;
    *ret_fd = fd;
    return 0;
}

bool local_sealed_is(int fd, size_t len, int seals)
{
    int has = sys_fcntl(fd, F_GET_SEALS, 0);
    return has >= 0 && (has & seals) == seals && sys_file_len(fd) == (int64_t)len;
}

int local_sealed_adopt(int fd, size_t len, uint8_t **ret)
{
    return local_sealed_is(fd, len, LOCAL_SEALED_LEN) ? map(fd, len, ret) : -EINVAL;
}

void local_sealed_release(uint8_t *memory, size_t len)
{
    if (memory != NULL) {
        munmap(memory, len);
    }
}
