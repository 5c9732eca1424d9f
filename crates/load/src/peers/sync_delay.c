/* Makes every sync take longer, by SYNC_DELAY_US microseconds: what a slower disk would do. Each is counted in the eight
   bytes of the file SYNC_DELAY_SEEN: a program that never comes by here must not be taken for one that minds no delay. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static useconds_t micros;
static _Atomic uint64_t *seen;

/* Children that are forked later share the count. */
__attribute__((constructor)) static void start(void) {
    const char *delay = getenv("SYNC_DELAY_US"), *path = getenv("SYNC_DELAY_SEEN");
    if (delay) micros = (useconds_t)atoi(delay);
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *bytes = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes != MAP_FAILED) seen = bytes;
    close(fd);
}

static void delay(void) {
    if (micros == 0) return;
    usleep(micros);
    if (seen) atomic_fetch_add(seen, 1);
}

int fsync(int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    delay();
    return real(fd);
}

int fdatasync(int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    delay();
    return real(fd);
}
