/* nfs_mount: an NFS export as a folder, for kernels without an NFS client. libnfs speaks to the server, libfuse to the
 * kernel; this file only joins them.
 *
 *   nfs_mount nfs://127.0.0.1/path?version=3 FOLDER -f -o OPTIONS
 *
 * Version 3: with version 4, libnfs 4.0 cannot write more than 4 KiB at a time, nor change the mode of a folder.
 *
 * A libnfs context serves one request at a time, so there are CONTEXTS of them. An open file belongs to the context that opened
 * it. Data is committed when a file that was written is closed, as the kernel's client does it ("close-to-open"); attributes and
 * names are kept for as long as the -o options attr_timeout and entry_timeout say.
 */
#define FUSE_USE_VERSION 31
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <nfsc/libnfs.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define CONTEXTS 8
#define TIMEOUT_MS 30000
#define SYMBOLIC_LINK_MAX 4096

struct context {
	struct nfs_context *nfs;
	pthread_mutex_t busy;
};

struct file {
	struct context *context;
	struct nfsfh *handle;
	int written; /* since the last commit; only read and set while the context is held */
};

static struct context contexts[CONTEXTS];
static unsigned int turn;

static struct context *hold(struct context *one)
{
	pthread_mutex_lock(&one->busy);
	return one;
}

/* Any context that is free, or the next in turn. */
static struct context *hold_any(void)
{
	unsigned int first = __atomic_fetch_add(&turn, 1, __ATOMIC_RELAXED);

	for (unsigned int i = 0; i < CONTEXTS; i++) {
		struct context *one = &contexts[(first + i) % CONTEXTS];

		if (pthread_mutex_trylock(&one->busy) == 0)
			return one;
	}
	return hold(&contexts[first % CONTEXTS]);
}

static int let_go(struct context *one, int result)
{
	pthread_mutex_unlock(&one->busy);
	return result;
}

/* One call on any context: libnfs returns -errno, as libfuse wants it. */
#define ONCE(call)                                         \
	do {                                               \
		struct context *one = hold_any();          \
		struct nfs_context *nfs = one->nfs;        \
		return let_go(one, (call));                \
	} while (0)

static struct file *file_of(const struct fuse_file_info *info)
{
	return (struct file *)(uintptr_t)info->fh;
}

static void to_stat(const struct nfs_stat_64 *from, struct stat *to)
{
	memset(to, 0, sizeof(*to));
	to->st_ino = from->nfs_ino;
	to->st_mode = from->nfs_mode;
	to->st_nlink = from->nfs_nlink;
	to->st_uid = from->nfs_uid;
	to->st_gid = from->nfs_gid;
	to->st_size = from->nfs_size;
	to->st_blksize = from->nfs_blksize;
	to->st_blocks = from->nfs_blocks;
	to->st_atim = (struct timespec){from->nfs_atime, from->nfs_atime_nsec};
	to->st_mtim = (struct timespec){from->nfs_mtime, from->nfs_mtime_nsec};
	to->st_ctim = (struct timespec){from->nfs_ctime, from->nfs_ctime_nsec};
}

/* The server sees root; what is made belongs to whoever asked for it. */
static int give_to_caller(struct nfs_context *nfs, const char *path)
{
	const struct fuse_context *caller = fuse_get_context();

	if (caller->uid == 0 && caller->gid == 0)
		return 0;
	return nfs_lchown(nfs, path, caller->uid, caller->gid);
}

static int op_getattr(const char *path, struct stat *out, struct fuse_file_info *info)
{
	struct nfs_stat_64 found;
	struct context *one = info ? hold(file_of(info)->context) : hold_any();
	int result = info ? nfs_fstat64(one->nfs, file_of(info)->handle, &found) : nfs_lstat64(one->nfs, path, &found);

	if (result == 0)
		to_stat(&found, out);
	return let_go(one, result);
}

static int op_readlink(const char *path, char *out, size_t size)
{
	char target[SYMBOLIC_LINK_MAX + 1] = {0};
	struct context *one = hold_any();
	int result = nfs_readlink(one->nfs, path, target, SYMBOLIC_LINK_MAX);

	if (result >= 0)
		snprintf(out, size, "%s", target);
	return let_go(one, result < 0 ? result : 0);
}

static int op_readdir(const char *path, void *buffer, fuse_fill_dir_t fill, off_t offset, struct fuse_file_info *info,
		      enum fuse_readdir_flags flags)
{
	struct nfsdir *folder;
	struct nfsdirent *entry;
	struct context *one = hold_any();
	int result = nfs_opendir(one->nfs, path, &folder);

	(void)offset, (void)info, (void)flags;
	if (result == 0) {
		while ((entry = nfs_readdir(one->nfs, folder)) && fill(buffer, entry->name, NULL, 0, 0) == 0)
			;
		nfs_closedir(one->nfs, folder);
	}
	return let_go(one, result);
}

static int made(struct context *one, const char *path, int result)
{
	return let_go(one, result == 0 ? give_to_caller(one->nfs, path) : result);
}

static int op_mkdir(const char *path, mode_t mode)
{
	struct context *one = hold_any();

	return made(one, path, nfs_mkdir2(one->nfs, path, mode & 07777));
}

static int op_symlink(const char *target, const char *path)
{
	struct context *one = hold_any();

	return made(one, path, nfs_symlink(one->nfs, target, path));
}

static int op_link(const char *from, const char *to) { ONCE(nfs_link(nfs, from, to)); }
static int op_unlink(const char *path) { ONCE(nfs_unlink(nfs, path)); }
static int op_rmdir(const char *path) { ONCE(nfs_rmdir(nfs, path)); }

static int op_rename(const char *from, const char *to, unsigned int flags)
{
	if (flags)
		return -EINVAL; /* NFS has neither RENAME_NOREPLACE nor RENAME_EXCHANGE */
	ONCE(nfs_rename(nfs, from, to));
}

static int op_chmod(const char *path, mode_t mode, struct fuse_file_info *info)
{
	(void)info;
	ONCE(nfs_chmod(nfs, path, mode & 07777));
}

static int op_chown(const char *path, uid_t uid, gid_t gid, struct fuse_file_info *info)
{
	struct nfs_stat_64 now;
	struct context *one = hold_any();
	int result = nfs_lstat64(one->nfs, path, &now);

	(void)info; /* libnfs wants both; -1 is "leave it" */
	if (result == 0)
		result = nfs_lchown(one->nfs, path, uid == (uid_t)-1 ? (int)now.nfs_uid : (int)uid,
				    gid == (gid_t)-1 ? (int)now.nfs_gid : (int)gid);
	return let_go(one, result);
}

static int op_utimens(const char *path, const struct timespec times[2], struct fuse_file_info *info)
{
	struct timeval wanted[2];
	struct timespec now;

	(void)info;
	clock_gettime(CLOCK_REALTIME, &now);
	for (int i = 0; i < 2; i++) {
		struct timespec time = times[i].tv_nsec == UTIME_NOW || times[i].tv_nsec == UTIME_OMIT ? now : times[i];

		wanted[i] = (struct timeval){time.tv_sec, time.tv_nsec / 1000};
	}
	ONCE(nfs_lutimes(nfs, path, wanted));
}

static int op_truncate(const char *path, off_t size, struct fuse_file_info *info)
{
	if (info) {
		struct file *file = file_of(info);
		struct context *one = hold(file->context);

		file->written = 1;
		return let_go(one, nfs_ftruncate(one->nfs, file->handle, size));
	}
	ONCE(nfs_truncate(nfs, path, size));
}

static int opened(const char *path, int flags, mode_t mode, struct fuse_file_info *info)
{
	struct file *file = calloc(1, sizeof(*file));
	int result;

	if (!file)
		return -ENOMEM;
	file->context = hold_any();
	/* Where a write goes is for the kernel to say, also with O_APPEND: there is one client. */
	result = nfs_open2(file->context->nfs, path, flags & ~O_APPEND, mode & 07777, &file->handle);
	if (result == 0 && (flags & O_CREAT))
		result = give_to_caller(file->context->nfs, path);
	let_go(file->context, 0);
	if (result < 0) {
		free(file);
		return result;
	}
	info->fh = (uintptr_t)file;
	return 0;
}

static int op_create(const char *path, mode_t mode, struct fuse_file_info *info)
{
	return opened(path, info->flags | O_CREAT, mode, info);
}

static int op_open(const char *path, struct fuse_file_info *info)
{
	return opened(path, info->flags & ~(O_CREAT | O_EXCL), 0, info);
}

static int op_read(const char *path, char *out, size_t size, off_t offset, struct fuse_file_info *info)
{
	struct file *file = file_of(info);
	struct context *one = hold(file->context);

	(void)path;
	return let_go(one, nfs_pread(one->nfs, file->handle, offset, size, out));
}

static int op_write(const char *path, const char *data, size_t size, off_t offset, struct fuse_file_info *info)
{
	struct file *file = file_of(info);
	struct context *one = hold(file->context);

	(void)path;
	file->written = 1;
	return let_go(one, nfs_pwrite(one->nfs, file->handle, offset, size, data));
}

static int committed(struct file *file)
{
	struct context *one = hold(file->context);
	int result = file->written ? nfs_fsync(one->nfs, file->handle) : 0;

	if (result == 0)
		file->written = 0;
	return let_go(one, result);
}

static int op_flush(const char *path, struct fuse_file_info *info)
{
	(void)path;
	return committed(file_of(info));
}

static int op_fsync(const char *path, int data_only, struct fuse_file_info *info)
{
	(void)path, (void)data_only;
	return committed(file_of(info));
}

static int op_release(const char *path, struct fuse_file_info *info)
{
	struct file *file = file_of(info);
	struct context *one = hold(file->context);

	(void)path;
	nfs_close(one->nfs, file->handle);
	free(file);
	return let_go(one, 0);
}

static int op_statfs(const char *path, struct statvfs *out) { ONCE(nfs_statvfs(nfs, path, out)); }

static void *op_init(struct fuse_conn_info *connection, struct fuse_config *config)
{
	(void)connection;
	config->use_ino = 1;
	config->nullpath_ok = 0;
	return NULL;
}

static const struct fuse_operations operations = {
	.init = op_init, .getattr = op_getattr, .readlink = op_readlink, .readdir = op_readdir, .mkdir = op_mkdir,
	.symlink = op_symlink, .link = op_link, .unlink = op_unlink, .rmdir = op_rmdir, .rename = op_rename,
	.chmod = op_chmod, .chown = op_chown, .utimens = op_utimens, .truncate = op_truncate, .create = op_create,
	.open = op_open, .read = op_read, .write = op_write, .flush = op_flush, .fsync = op_fsync,
	.release = op_release, .statfs = op_statfs,
};

static int connect_one(struct context *one, const char *address)
{
	struct nfs_url *url;
	int result;

	pthread_mutex_init(&one->busy, NULL);
	one->nfs = nfs_init_context();
	if (!one->nfs)
		return -ENOMEM;
	url = nfs_parse_url_dir(one->nfs, address);
	if (!url) {
		fprintf(stderr, "nfs_mount: %s: %s\n", address, nfs_get_error(one->nfs));
		return -EINVAL;
	}
	nfs_set_timeout(one->nfs, TIMEOUT_MS);
	result = nfs_mount(one->nfs, url->server, url->path);
	if (result < 0)
		fprintf(stderr, "nfs_mount: %s cannot be reached: %s\n", address, nfs_get_error(one->nfs));
	nfs_destroy_url(url);
	return result;
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: nfs_mount nfs://SERVER/EXPORT?version=3 FOLDER [FUSE OPTIONS]\n");
		return 2;
	}
	for (int i = 0; i < CONTEXTS; i++)
		if (connect_one(&contexts[i], argv[1]) < 0)
			return 1;
	argv[1] = argv[0];
	return fuse_main(argc - 1, argv + 1, &operations, NULL);
}
