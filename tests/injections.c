/* Fail the N-th call on files below one folder, or kill the process there. See injections.py.
 *
 * LD_PRELOAD loads this: Python and Rust's standard library both go through libc. A mapped file says what to do, so that
 * all processes of a command count together, and a killed process leaves a record of what it was about to do.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { ONCE, LASTING, SHORT, KILL }; /* injections.py has the same order */

struct plan {
	char folder[1024];        /* calls on files below it count */
	char lasting_kinds[32];   /* kinds that fail from then on */
	_Atomic long calls;       /* counted so far */
	long at;                  /* number of the call that fails; 0 for none */
	int error, mode;
	char hit[1024];           /* the call that failed */
};

static struct plan *plan;
static int trace = -1; /* lists each call, in a run that only counts */

#define REAL(name) ({ static __typeof__(&name) real; if (!real) real = dlsym(RTLD_NEXT, #name); real; })

int inject_arm(const char *path)
{
	int fd = REAL(open)(path, O_RDWR | O_CLOEXEC);
	void *mapped = mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	char beside[PATH_MAX];
	if (fd < 0 || mapped == MAP_FAILED)
		return -1;
	REAL(close)(fd);
	snprintf(beside, sizeof beside, "%s.trace", path);
	trace = REAL(open)(beside, O_WRONLY | O_APPEND | O_CLOEXEC);
	plan = mapped;
	return 0;
}

__attribute__((constructor)) static void from_environment(void)
{
	const char *path = getenv("BENCHSTUDY_TEST_INJECTION");
	if (path && inject_arm(path))
		_exit(125);
}

static int of_descriptor(int fd, char *out)
{
	char link[64];
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t size = readlink(link, out, PATH_MAX - 1);
	out[size > 0 ? size : 0] = 0;
	return size > 0;
}

static const char *of_path(int dir, const char *path, char *out)
{
	char folder[PATH_MAX];
	if (!path || *path == '/')
		return path;
	if (dir == AT_FDCWD ? !getcwd(folder, sizeof folder) : !of_descriptor(dir, folder))
		return NULL;
	snprintf(out, PATH_MAX * 2, "%s/%s", folder, path);
	return out;
}

/* The errno with which this call fails, or 0. Snakemake's own notes and modules are not results. */
static int fails(char kind, const char *call, const char *path, int half_can_be_done)
{
	size_t length;
	if (!plan || !path)
		return 0;
	length = strlen(plan->folder);
	if (strncmp(path, plan->folder, length) || path[length] != '/' || strstr(path, "/.snakemake") ||
	    !strncmp(path + length, "/src/", 5) || strstr(path, "/__pycache__"))
		return 0;
	long number = atomic_fetch_add(&plan->calls, 1) + 1;
	if (trace >= 0) {
		char line[PATH_MAX * 2 + 64];
		int size = snprintf(line, sizeof line, "%c %s %s\n", kind, call, path + length + 1);
		if (REAL(write)(trace, line, size) != size)
			abort();
	}
	if (!plan->at || number < plan->at)
		return 0;
	if (number == plan->at) {
		snprintf(plan->hit, sizeof plan->hit, "%s %s", call, path + length + 1);
		if (plan->mode == KILL && !half_can_be_done)
			kill(getpid(), SIGKILL);
		return plan->error;
	}
	if (plan->mode == SHORT && number == plan->at + 1)
		return plan->error;
	return plan->mode == LASTING && strchr(plan->lasting_kinds, kind) ? plan->error : 0;
}

static int fails_at(char kind, const char *call, int dir, const char *path)
{
	char out[PATH_MAX * 2];
	int was = errno, error = fails(kind, call, plan ? of_path(dir, path, out) : NULL, 0);
	errno = error ? error : was;
	return error;
}

static int fails_on(char kind, const char *call, int fd, int half)
{
	char out[PATH_MAX];
	int was = errno, error = fails(kind, call, plan && of_descriptor(fd, out) ? out : NULL, half);
	errno = error ? error : was;
	return error;
}

/* How much of a failing write is still done: all (-1), nothing (0), or its first half, as on a disk that fills up. */
static ssize_t done_of(int fd, const char *call, size_t size)
{
	if (!fails_on('w', call, fd, 1))
		return -1;
	return size > 1 && (plan->mode == KILL || (plan->mode == SHORT && plan->calls == plan->at)) ? size / 2 : 0;
}

#define WRITES(name, size, half, whole, ...)                                                                           \
	{                                                                                                              \
		ssize_t done = done_of(fd, #name, size);                                                               \
		if (done < 0)                                                                                          \
			return whole;                                                                                  \
		if (done > 0)                                                                                          \
			done = half;                                                                                   \
		if (plan->mode == KILL)                                                                                \
			kill(getpid(), SIGKILL);                                                                       \
		return done > 0 ? done : -1;                                                                           \
	}

ssize_t write(int fd, const void *data, size_t size)
	WRITES(write, size, REAL(write)(fd, data, done), REAL(write)(fd, data, size))
ssize_t pwrite(int fd, const void *data, size_t size, off_t at)
	WRITES(pwrite, size, REAL(pwrite)(fd, data, done, at), REAL(pwrite)(fd, data, size, at))
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at)
	WRITES(pwrite64, size, REAL(pwrite64)(fd, data, done, at), REAL(pwrite64)(fd, data, size, at))
ssize_t writev(int fd, const struct iovec *parts, int count)
	WRITES(writev, parts[0].iov_len, REAL(write)(fd, parts[0].iov_base, done), REAL(writev)(fd, parts, count))
ssize_t sendfile(int fd, int in, off_t *at, size_t size)
	WRITES(sendfile, size, REAL(sendfile)(fd, in, at, done), REAL(sendfile)(fd, in, at, size))
ssize_t sendfile64(int fd, int in, off64_t *at, size_t size)
	WRITES(sendfile64, size, REAL(sendfile64)(fd, in, at, done), REAL(sendfile64)(fd, in, at, size))
ssize_t copy_file_range(int in, off64_t *from, int fd, off64_t *to, size_t size, unsigned flags)
	WRITES(copy_file_range, size, REAL(copy_file_range)(in, from, fd, to, done, flags),
	       REAL(copy_file_range)(in, from, fd, to, size, flags))

#define ON(kind, name, parameters, ...)                                                                                \
	int name parameters { return fails_on(kind, #name, fd, 0) ? -1 : REAL(name)(__VA_ARGS__); }
#define AT(kind, name, dir, path, parameters, ...)                                                                     \
	int name parameters { return fails_at(kind, #name, dir, path) ? -1 : REAL(name)(__VA_ARGS__); }

/* No power fails here, so nothing needs to reach the disk. */
int fsync(int fd) { return fails_on('s', "fsync", fd, 0) ? -1 : plan ? 0 : REAL(fsync)(fd); }
int fdatasync(int fd) { return fails_on('s', "fdatasync", fd, 0) ? -1 : plan ? 0 : REAL(fdatasync)(fd); }
void sync(void) { if (!plan) REAL(sync)(); }

ON('t', ftruncate, (int fd, off_t size), fd, size)
ON('t', ftruncate64, (int fd, off64_t size), fd, size)
ON('m', fchmod, (int fd, mode_t mode), fd, mode)
AT('t', truncate, AT_FDCWD, path, (const char *path, off_t size), path, size)
AT('t', truncate64, AT_FDCWD, path, (const char *path, off64_t size), path, size)
AT('r', rename, AT_FDCWD, new, (const char *old, const char *new), old, new)
AT('r', renameat, to, new, (int from, const char *old, int to, const char *new), from, old, to, new)
AT('r', renameat2, to, new, (int from, const char *old, int to, const char *new, unsigned flags), from, old, to, new, flags)
AT('d', mkdir, AT_FDCWD, path, (const char *path, mode_t mode), path, mode)
AT('d', mkdirat, dir, path, (int dir, const char *path, mode_t mode), dir, path, mode)
AT('l', link, AT_FDCWD, new, (const char *old, const char *new), old, new)
AT('l', linkat, to, new, (int from, const char *old, int to, const char *new, int flags), from, old, to, new, flags)
AT('l', symlink, AT_FDCWD, new, (const char *old, const char *new), old, new)
AT('l', symlinkat, to, new, (const char *old, int to, const char *new), old, to, new)
AT('u', unlink, AT_FDCWD, path, (const char *path), path)
AT('u', unlinkat, dir, path, (int dir, const char *path, int flags), dir, path, flags)
AT('u', rmdir, AT_FDCWD, path, (const char *path), path)
AT('m', chmod, AT_FDCWD, path, (const char *path, mode_t mode), path, mode)
AT('m', fchmodat, dir, path, (int dir, const char *path, mode_t mode, int flags), dir, path, mode, flags)

#define OPENS(name, dir, ...)                                                                                          \
	{                                                                                                              \
		va_list more;                                                                                          \
		va_start(more, flags);                                                                                 \
		mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0;                              \
		va_end(more);                                                                                          \
		char kind = flags & (O_WRONLY | O_RDWR | O_CREAT) ? 'c' : 'o';                                         \
		return fails_at(kind, #name, dir, path) ? -1 : REAL(name)(__VA_ARGS__, flags, mode);                   \
	}

int open(const char *path, int flags, ...) OPENS(open, AT_FDCWD, path)
int open64(const char *path, int flags, ...) OPENS(open64, AT_FDCWD, path)
int openat(int dir, const char *path, int flags, ...) OPENS(openat, dir, dir, path)
int openat64(int dir, const char *path, int flags, ...) OPENS(openat64, dir, dir, path)

/* It is closed all the same, as Linux does it. */
int close(int fd)
{
	int wrote = plan && (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY;
	int error = wrote ? fails_on('x', "close", fd, 0) : 0;
	int result = REAL(close)(fd);
	if (error)
		errno = error;
	return error ? -1 : result;
}

ssize_t read(int fd, void *data, size_t size) { return fails_on('i', "read", fd, 0) ? -1 : REAL(read)(fd, data, size); }

DIR *opendir(const char *path) { return fails_at('o', "opendir", AT_FDCWD, path) ? NULL : REAL(opendir)(path); }
