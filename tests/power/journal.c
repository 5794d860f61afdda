/* Records what a process writes to some files, when it syncs them, and what it says to others, all in one order.
 *
 * Preloaded into a process of the tests. JOURNAL names the file of records; JOURNAL_FILES is the beginning of the paths to watch.
 * A record is: op (1 byte), file (4), offset (8), length (4), then so many bytes; numbers as this machine has them.
 *
 *   O opened    bytes: path                      W write     offset, bytes (recorded before it happens)
 *   T truncate  offset: the new length           S synced    (recorded after it happened)
 *   U unlinked  bytes: path                      M message   bytes to a socket or standard output (before they leave)
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define FDS 4096
#define FILES 256

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int journal = -1;
static const char *prefix;
static char *names[FILES];
static int file_of[FDS]; /* index into names, plus one */

struct __attribute__((packed)) head {
  char op;
  uint32_t file;
  uint64_t offset;
  uint32_t length;
};

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("JOURNAL");
  prefix = getenv("JOURNAL_FILES");
  if (path && prefix) journal = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static void record(char op, int file, uint64_t offset, const void *bytes, size_t length) {
  struct head head = {op, (uint32_t)file, offset, (uint32_t)length};
  struct iovec parts[2] = {{&head, sizeof head}, {(void *)bytes, length}};
  size_t wanted = sizeof head + length;
  pthread_mutex_lock(&lock);
  if ((size_t)syscall(SYS_writev, journal, parts, 2) != wanted) abort(); /* a record that is not whole proves nothing */
  pthread_mutex_unlock(&lock);
}

static int watched(int fd) { return journal >= 0 && fd >= 0 && fd < FDS ? file_of[fd] : 0; }

static int is_ours(const char *path) {
  size_t length = strlen(path);
  return journal >= 0 && strncmp(path, prefix, strlen(prefix)) == 0 && !(length > 4 && !strcmp(path + length - 4, "-shm"));
}

static int opened(int fd, const char *path) {
  int file = 0;
  if (fd < 0 || fd >= FDS) return fd;
  file_of[fd] = 0;
  if (!is_ours(path)) return fd;
  pthread_mutex_lock(&lock);
  while (file < FILES && names[file] && strcmp(names[file], path)) file++;
  if (file == FILES) abort();
  if (!names[file]) names[file] = strdup(path);
  file_of[fd] = file + 1;
  pthread_mutex_unlock(&lock);
  record('O', file + 1, 0, path, strlen(path));
  return fd;
}

#define REAL(name, type) ((type)dlsym(RTLD_NEXT, name))
#define MODE(flags, mode) \
  if ((flags) & (O_CREAT | O_TMPFILE)) { va_list rest; va_start(rest, flags); mode = va_arg(rest, int); va_end(rest); }

int open(const char *path, int flags, ...) {
  int mode = 0;
  MODE(flags, mode)
  return opened((int)syscall(SYS_openat, AT_FDCWD, path, flags, mode), path);
}

int open64(const char *path, int flags, ...) {
  int mode = 0;
  MODE(flags, mode)
  return opened((int)syscall(SYS_openat, AT_FDCWD, path, flags | O_LARGEFILE, mode), path);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset) {
  if (watched(fd)) record('W', watched(fd), (uint64_t)offset, bytes, length);
  return REAL("pwrite64", ssize_t (*)(int, const void *, size_t, off64_t))(fd, bytes, length, offset);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) { return pwrite64(fd, bytes, length, offset); }

ssize_t write(int fd, const void *bytes, size_t length) {
  if (watched(fd)) record('W', watched(fd), (uint64_t)lseek(fd, 0, SEEK_CUR), bytes, length);
  else if (fd == 1 && journal >= 0) record('M', 0, 0, bytes, length);
  return syscall(SYS_write, fd, bytes, length);
}

ssize_t send(int fd, const void *bytes, size_t length, int flags) {
  if (journal >= 0) record('M', 0, 0, bytes, length);
  return REAL("send", ssize_t (*)(int, const void *, size_t, int))(fd, bytes, length, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
  if (journal >= 0)
    for (size_t i = 0; i < message->msg_iovlen; i++)
      record('M', 0, 0, message->msg_iov[i].iov_base, message->msg_iov[i].iov_len);
  return REAL("sendmsg", ssize_t (*)(int, const struct msghdr *, int))(fd, message, flags);
}

int ftruncate64(int fd, off64_t length) {
  if (watched(fd)) record('T', watched(fd), (uint64_t)length, "", 0);
  return (int)syscall(SYS_ftruncate, fd, length);
}

int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

static int synced(int fd, int result) {
  if (result == 0 && watched(fd)) record('S', watched(fd), 0, "", 0);
  return result;
}

int fsync(int fd) { return synced(fd, (int)syscall(SYS_fsync, fd)); }
int fdatasync(int fd) { return synced(fd, (int)syscall(SYS_fdatasync, fd)); }

int unlink(const char *path) {
  if (is_ours(path)) record('U', 0, 0, path, strlen(path));
  return (int)syscall(SYS_unlink, path);
}

int close(int fd) {
  if (fd >= 0 && fd < FDS) file_of[fd] = 0;
  return (int)syscall(SYS_close, fd);
}
