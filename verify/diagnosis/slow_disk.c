/* A disk that is slow: syncs and reads of files whose path begins with SLOW_DISK_PATH take some milliseconds longer.
 * Preloaded into a broker. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static const char *folder;
static useconds_t sync_us, read_us;

static useconds_t microseconds(const char *name) {
    const char *value = getenv(name);
    return value == NULL ? 0 : (useconds_t)(atof(value) * 1000);
}

__attribute__((constructor)) static void begin(void) {
    folder = getenv("SLOW_DISK_PATH");
    sync_us = microseconds("SLOW_DISK_SYNC_MS");
    read_us = microseconds("SLOW_DISK_READ_MS");
}

static void delay(int fd, useconds_t by_us) {
    char link[64], path[PATH_MAX];
    if (folder == NULL || by_us == 0) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return;
    path[length] = 0;
    if (strncmp(path, folder, strlen(folder)) == 0) usleep(by_us);
}

#define SLOW(result, name, parameters, arguments, by_us)                        \
    result name parameters {                                                    \
        static result(*real) parameters;                                        \
        if (real == NULL) real = (result(*) parameters)dlsym(RTLD_NEXT, #name); \
        delay(fd, by_us);                                                       \
        return real arguments;                                                  \
    }

SLOW(int, fsync, (int fd), (fd), sync_us)
SLOW(int, fdatasync, (int fd), (fd), sync_us)
SLOW(ssize_t, preadv, (int fd, const struct iovec *parts, int count, off_t at), (fd, parts, count, at), read_us)
SLOW(ssize_t, preadv64, (int fd, const struct iovec *parts, int count, off64_t at), (fd, parts, count, at), read_us)
SLOW(ssize_t, preadv2, (int fd, const struct iovec *parts, int count, off_t at, int how), (fd, parts, count, at, how), read_us)
SLOW(ssize_t, preadv64v2, (int fd, const struct iovec *parts, int count, off64_t at, int how), (fd, parts, count, at, how), read_us)
