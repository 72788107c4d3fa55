/* Adds to the wall clock of the process that it is loaded into as many nanoseconds as the file TIDEGATE_CLOCK holds, a
 * signed number of eight bytes. The monotonic clock is left alone, as on a machine whose time is set. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t SECOND = 1000000000;
static volatile int64_t *file;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("TIDEGATE_CLOCK");
    int opened = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (opened < 0) return;
    void *at = mmap(NULL, sizeof *file, PROT_READ, MAP_SHARED, opened, 0);
    if (at != MAP_FAILED) file = at;
    close(opened);
}

int clock_gettime(clockid_t id, struct timespec *now) {
    int done = (int)syscall(SYS_clock_gettime, id, now);
    if (done == 0 && file && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
        int64_t moved = (int64_t)now->tv_sec * SECOND + now->tv_nsec + *file;
        now->tv_sec = moved / SECOND;
        now->tv_nsec = moved % SECOND;
    }
    return done;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &precise) != 0) return -1;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
