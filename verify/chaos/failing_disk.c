/* A disk that is full, or whose syncs fail, as long as a byte in a control file says so.
 *
 * Preloaded into a broker. Only files below CHAOS_DISK_FOLDER are affected. The control file is mapped, so that reading
 * it costs nothing: 0 no fault, 1 writes fail with ENOSPC, 2 syncs fail with EIO. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WELL, FULL, UNSYNCED };

static const volatile unsigned char *control;
static const char *folder;

__attribute__((constructor)) static void open_control(void) {
    const char *path = getenv("CHAOS_DISK_CONTROL");
    folder = getenv("CHAOS_DISK_FOLDER");
    if (path == NULL || folder == NULL) return;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    void *page = mmap(NULL, 1, PROT_READ, MAP_SHARED, fd, 0);
    if (page != MAP_FAILED) control = page;
    close(fd);
}

static int is_failing(int fd, int fault) {
    char link[64], path[PATH_MAX];
    if (control == NULL || *control != fault) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return strncmp(path, folder, strlen(folder)) == 0;
}

#define FAILING(result, name, parameters, arguments, fault, error)                   \
    result name parameters {                                                         \
        static result(*real) parameters;                                             \
        if (real == NULL) real = (result(*) parameters)dlsym(RTLD_NEXT, #name);      \
        if (is_failing(fd, fault)) {                                                 \
            errno = error;                                                           \
            return -1;                                                               \
        }                                                                            \
        return real arguments;                                                       \
    }

FAILING(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size), FULL, ENOSPC)
FAILING(ssize_t, writev, (int fd, const struct iovec *parts, int count), (fd, parts, count), FULL, ENOSPC)
FAILING(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at), FULL, ENOSPC)
FAILING(ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at), FULL, ENOSPC)
FAILING(ssize_t, pwritev, (int fd, const struct iovec *parts, int count, off_t at), (fd, parts, count, at), FULL, ENOSPC)
FAILING(ssize_t, pwritev64, (int fd, const struct iovec *parts, int count, off64_t at), (fd, parts, count, at), FULL, ENOSPC)
FAILING(ssize_t, pwritev2, (int fd, const struct iovec *parts, int count, off_t at, int how), (fd, parts, count, at, how), FULL, ENOSPC)
FAILING(ssize_t, pwritev64v2, (int fd, const struct iovec *parts, int count, off64_t at, int how), (fd, parts, count, at, how), FULL, ENOSPC)
FAILING(int, fsync, (int fd), (fd), UNSYNCED, EIO)
FAILING(int, fdatasync, (int fd), (fd), UNSYNCED, EIO)
