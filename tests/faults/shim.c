/* Fails one operation on files, or all from some moment on: preloaded by tests.faults, which counts and arms it.
 *
 * Only operations below one directory count, so that Python's own are left alone: by path, or by a descriptor that was
 * opened there. The real function runs unless it is the one to fail; a short read or write does a part of its work.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { ONCE = 0, FROM_THEN_ON = 1 };
enum { SHORT = -1 };

static char below[4096];
static atomic_long count, at = -1;
static int error_number, mode;
static char failed[64];
static atomic_char ours[65536];

void fault_below(const char *directory) { strncpy(below, directory, sizeof below - 1); }
void fault_arm(long operation, int error, int how) {
    count = 0; error_number = error; mode = how; failed[0] = 0; at = operation;
}
void fault_disarm(void) { at = -1; }
long fault_count(void) { return count; }
const char *fault_failed(void) { return failed; }

static int is_below(const char *path) {
    size_t length = strlen(below);
    return length && path && !strncmp(path, below, length);
}
static int is_ours(int fd) { return fd >= 0 && fd < 65536 && ours[fd]; }

/* Whether this operation is to fail: an error number, SHORT, or 0. */
static int fault(const char *name, int can_be_short) {
    if (at < 0) return 0;
    long now = atomic_fetch_add(&count, 1);
    if (!(mode == ONCE ? now == at : now >= at)) return 0;
    if (error_number == SHORT && !can_be_short) return 0;
    if (!failed[0]) strncpy(failed, name, sizeof failed - 1);
    return error_number;
}

#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define FAIL_IF(condition, name, value) do { int e = (condition) ? fault(name, 0) : 0; \
    if (e > 0) { errno = e; return value; } } while (0)

static int opened(int fd, int belongs) { if (fd >= 0 && fd < 65536) ours[fd] = (char)belongs; return fd; }
#define OPEN(name) int name(const char *path, int flags, ...) { REAL(name); int belongs = is_below(path); \
    va_list list; va_start(list, flags); mode_t bits = va_arg(list, int); va_end(list); \
    FAIL_IF(belongs, "open", -1); return opened(real(path, flags, bits), belongs); }
OPEN(open) OPEN(open64)
#define OPENAT(name) int name(int at_, const char *path, int flags, ...) { REAL(name); \
    int belongs = is_below(path) || is_ours(at_); \
    va_list list; va_start(list, flags); mode_t bits = va_arg(list, int); va_end(list); \
    FAIL_IF(belongs, "open", -1); return opened(real(at_, path, flags, bits), belongs); }
OPENAT(openat) OPENAT(openat64)

int close(int fd) {
    REAL(close);
    int belongs = is_ours(fd);
    if (belongs) ours[fd] = 0;
    int e = belongs ? fault("close", 0) : 0;
    int result = real(fd);  /* Linux has closed a descriptor also when it reports an error. */
    if (e > 0) { errno = e; return -1; }
    return result;
}
#define WRITE(name, declared, passed) ssize_t name declared { REAL(name); \
    int e = is_ours(fd) ? fault("write", size > 1) : 0; \
    if (e > 0) { errno = e; return -1; } if (e == SHORT) size /= 2; return real passed; }
WRITE(write, (int fd, const void *data, size_t size), (fd, data, size))
WRITE(pwrite, (int fd, const void *data, size_t size, off_t where), (fd, data, size, where))
WRITE(pwrite64, (int fd, const void *data, size_t size, off64_t where), (fd, data, size, where))
#define READ(name, declared, passed) ssize_t name declared { REAL(name); \
    int e = is_ours(fd) ? fault("read", size > 1) : 0; \
    if (e > 0) { errno = e; return -1; } if (e == SHORT) size /= 2; return real passed; }
READ(read, (int fd, void *data, size_t size), (fd, data, size))
READ(pread, (int fd, void *data, size_t size, off_t where), (fd, data, size, where))
READ(pread64, (int fd, void *data, size_t size, off64_t where), (fd, data, size, where))

/* Flushing takes most of the time of a test and changes nothing that a process can see. */
int fsync(int fd) { REAL(fsync); FAIL_IF(is_ours(fd), "fsync", -1); return is_ours(fd) ? 0 : real(fd); }
int fchmod(int fd, mode_t bits) { REAL(fchmod); FAIL_IF(is_ours(fd), "chmod", -1); return real(fd, bits); }
int chmod(const char *path, mode_t bits) { REAL(chmod); FAIL_IF(is_below(path), "chmod", -1); return real(path, bits); }
int rename(const char *from, const char *to) { REAL(rename); FAIL_IF(is_below(from), "rename", -1); return real(from, to); }
int link(const char *from, const char *to) { REAL(link); FAIL_IF(is_below(from), "link", -1); return real(from, to); }
int linkat(int a, const char *from, int b, const char *to, int flags) {
    REAL(linkat); FAIL_IF(is_below(from), "link", -1); return real(a, from, b, to, flags); }
int unlink(const char *path) { REAL(unlink); FAIL_IF(is_below(path), "unlink", -1); return real(path); }
int unlinkat(int a, const char *path, int flags) {
    REAL(unlinkat); FAIL_IF(is_below(path) || is_ours(a), "unlink", -1); return real(a, path, flags); }
int remove(const char *path) { REAL(remove); FAIL_IF(is_below(path), "unlink", -1); return real(path); }
int rmdir(const char *path) { REAL(rmdir); FAIL_IF(is_below(path), "rmdir", -1); return real(path); }
int mkdir(const char *path, mode_t bits) { REAL(mkdir); FAIL_IF(is_below(path), "mkdir", -1); return real(path, bits); }
DIR *opendir(const char *path) { REAL(opendir); FAIL_IF(is_below(path), "list", NULL); return real(path); }
int stat(const char *path, struct stat *s) { REAL(stat); FAIL_IF(is_below(path), "stat", -1); return real(path, s); }
int stat64(const char *path, struct stat64 *s) { REAL(stat64); FAIL_IF(is_below(path), "stat", -1); return real(path, s); }
int lstat(const char *path, struct stat *s) { REAL(lstat); FAIL_IF(is_below(path), "stat", -1); return real(path, s); }
int lstat64(const char *path, struct stat64 *s) { REAL(lstat64); FAIL_IF(is_below(path), "stat", -1); return real(path, s); }
int fstat(int fd, struct stat *s) { REAL(fstat); FAIL_IF(is_ours(fd), "stat", -1); return real(fd, s); }
int fstat64(int fd, struct stat64 *s) { REAL(fstat64); FAIL_IF(is_ours(fd), "stat", -1); return real(fd, s); }
