#include "client/data_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/ids.h"
#include "common/text.h"

enum {
    FORMAT = 1,
    SOCKET_PATH_MAX = 107, /* sun_path holds 108 bytes with its NUL */
    URL_MAX = 512,
};

struct cl_data_folder {
    char *path;
    int lock;
    uint32_t shards;
};

static hd_status fail_io(hd_error *error, const char *what, const char *path) {
    return hd_error_set(error, errno == ENOSPC ? HD_STORE_FULL : HD_STORE_IO, "data", "cannot %s %s: %s", what, path,
                        strerror(errno));
}

/* ---- what may be in it ---- */

/* Files that may stand in a folder which is to become Heddle's: a key that was chosen beforehand, and traces of starting it. */
static bool may_be_there(const char *name) {
    static const char *const known[] = {".", "..", "heddle.lock", "heddle.json.new", "admin.key", "run", "lost+found"};
    for (size_t i = 0; i < HD_COUNT_OF(known); i++)
        if (strcmp(name, known[i]) == 0) return true;
    size_t size = strlen(name);
    return size > 4 && strcmp(name + size - 4, ".log") == 0;
}

static hd_status check_new(const char *path, hd_error *error) {
    DIR *folder = opendir(path);
    if (folder == NULL) return fail_io(error, "read", path);
    hd_status status = HD_OK;
    for (const struct dirent *entry = readdir(folder); entry != NULL && status == HD_OK; entry = readdir(folder)) {
        if (strcmp(entry->d_name, "catalog.db") == 0 || strncmp(entry->d_name, "shard-", 6) == 0)
            status = hd_error_set(
                error, HD_ARGUMENT, "data",
                "%s holds Heddle's data without heddle.json, which says of which version it is; it is not touched", path);
        else if (!may_be_there(entry->d_name))
            status = hd_error_set(error, HD_ARGUMENT, "data",
                                  "%s is neither empty nor a folder of Heddle's (it holds \"%s\"); choose another with --data",
                                  path, entry->d_name);
    }
    closedir(folder);
    return status;
}

/* Written beside it, synced, and put in its place at once. */
static hd_status write_description(const cl_data_folder *folder, hd_error *error) {
    hd_buf path = {0}, fresh = {0}, text = {0};
    hd_status status = HD_OK;
    hd_buf_printf(&path, "%s/heddle.json", folder->path);
    hd_buf_printf(&fresh, "%s.new", path.data);
    hd_buf_printf(&text, "{\"format\": %d, \"shards\": %u}\n", FORMAT, folder->shards);
    int file = open(fresh.data, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || write(file, text.data, text.size) != (ssize_t)text.size || fsync(file) != 0 ||
        rename(fresh.data, path.data) != 0)
        status = fail_io(error, "write", path.data);
    if (file >= 0) close(file);
    int directory = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0) {
        if (status == HD_OK && fsync(directory) != 0) status = fail_io(error, "sync", folder->path);
        close(directory);
    }
    hd_buf_fini(&path);
    hd_buf_fini(&fresh);
    hd_buf_fini(&text);
    return status;
}

static hd_status read_description(cl_data_folder *folder, const json_t *description, hd_error *error) {
    const json_t *format = json_object_get(description, "format"), *shards = json_object_get(description, "shards");
    if (!json_is_integer(format))
        return hd_error_set(error, HD_ARGUMENT, "data", "%s/heddle.json does not say what this folder is; it is not touched",
                            folder->path);
    if (json_integer_value(format) != FORMAT)
        return hd_error_set(error, HD_ARGUMENT, "data",
                            "%s is of another version of Heddle (format %lld; this one knows format %d); it is not touched",
                            folder->path, (long long)json_integer_value(format), FORMAT);
    if (!json_is_integer(shards) || json_integer_value(shards) < 1 || json_integer_value(shards) > CL_SHARDS_MAX)
        return hd_error_set(error, HD_ARGUMENT, "data", "%s/heddle.json does not say how many shards there are", folder->path);
    folder->shards = (uint32_t)json_integer_value(shards);
    return HD_OK;
}

/* Sets folder->shards from what is there and what is wanted, and writes it down where it is new. */
static hd_status settle_shards(cl_data_folder *folder, uint64_t wanted, hd_error *error) {
    hd_buf path = {0};
    json_error_t problem;
    hd_buf_printf(&path, "%s/heddle.json", folder->path);
    bool is_there = access(path.data, F_OK) == 0;
    json_t *description = is_there ? json_load_file(path.data, 0, &problem) : NULL;
    hd_buf_fini(&path);
    hd_status status = is_there ? read_description(folder, description, error) : check_new(folder->path, error);
    json_decref(description);
    HD_TRY(status);
    uint32_t before = folder->shards;
    folder->shards = wanted > 0 ? (uint32_t)wanted : HD_MAX(before, 1u);
    if (folder->shards < before)
        return hd_error_set(error, HD_ARGUMENT, "data",
                            "%s has %u shards, and their data; --shards %u would leave some of it away (more is fine)",
                            folder->path, before, folder->shards);
    return folder->shards == before ? HD_OK : write_description(folder, error);
}

/* ---- opening ---- */

static hd_status refuse_second(const cl_data_folder *folder, hd_error *error) {
    char owner[32];
    ssize_t size = pread(folder->lock, owner, sizeof(owner) - 1, 0);
    owner[HD_MAX(size, 0)] = '\0';
    owner[strspn(owner, "0123456789")] = '\0';
    return hd_error_set(error, HD_UNAVAILABLE, "data", "%s is in use by another `heddle serve`%s%s", folder->path,
                        owner[0] != '\0' ? ", process " : "", owner);
}

static hd_status lock(cl_data_folder *folder, hd_error *error) {
    hd_buf path = {0};
    hd_status status = HD_OK;
    char owner[32];
    hd_buf_printf(&path, "%s/heddle.lock", folder->path);
    folder->lock = open(path.data, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (folder->lock < 0) {
        status = fail_io(error, "open", path.data);
    } else if (flock(folder->lock, LOCK_EX | LOCK_NB) != 0) {
        status = errno == EWOULDBLOCK ? refuse_second(folder, error) : fail_io(error, "lock", path.data);
    } else {
        int size = snprintf(owner, sizeof(owner), "%ld\n", (long)getpid());
        if (ftruncate(folder->lock, 0) != 0 || pwrite(folder->lock, owner, (size_t)size, 0) != size)
            status = fail_io(error, "write", path.data);
    }
    hd_buf_fini(&path);
    return status;
}

static hd_status make_folder(const char *path, hd_error *error) {
    if (mkdir(path, 0700) == 0) return HD_OK;
    struct stat facts;
    if (errno != EEXIST) return fail_io(error, "make the folder", path);
    if (stat(path, &facts) == 0 && S_ISDIR(facts.st_mode)) return HD_OK;
    errno = ENOTDIR;
    return fail_io(error, "use", path);
}

hd_status cl_data_folder_open(const char *path, uint64_t shards_wanted, cl_data_folder **folder_out, hd_error *error) {
    *folder_out = NULL;
    if (shards_wanted > CL_SHARDS_MAX)
        return hd_error_set(error, HD_ARGUMENT, "data", "--shards %llu: from 1 to %d", (unsigned long long)shards_wanted,
                            CL_SHARDS_MAX);
    HD_TRY(make_folder(path, error));
    char *absolute = realpath(path, NULL);
    if (absolute == NULL) return fail_io(error, "use", path);
    cl_data_folder *folder = hd_alloc_zero(1, sizeof(*folder));
    *folder = (cl_data_folder){.path = absolute, .lock = -1};
    hd_status status = lock(folder, error);
    if (status == HD_OK) status = settle_shards(folder, shards_wanted, error);
    if (status == HD_OK) {
        hd_buf run = {0};
        hd_buf_printf(&run, "%s/run", folder->path);
        status = make_folder(run.data, error);
        hd_buf_fini(&run);
    }
    if (status != HD_OK) {
        cl_data_folder_close(folder);
        return status;
    }
    *folder_out = folder;
    return HD_OK;
}

void cl_data_folder_close(cl_data_folder *folder) {
    if (folder == NULL) return;
    if (folder->lock >= 0) close(folder->lock);
    hd_free(folder->path);
    hd_free(folder);
}

const char *cl_data_folder_path(const cl_data_folder *folder) {
    return folder->path;
}

uint32_t cl_data_folder_shards(const cl_data_folder *folder) {
    return folder->shards;
}

/* ---- sockets ---- */

/* A folder of our own under a place where others may write: ours, and closed to them, or not used at all. */
static hd_status make_private_folder(const char *path, hd_error *error) {
    struct stat facts;
    if (mkdir(path, 0700) != 0 && errno != EEXIST) return fail_io(error, "make the folder", path);
    if (lstat(path, &facts) != 0) return fail_io(error, "use", path);
    if (S_ISDIR(facts.st_mode) && facts.st_uid == geteuid() && (facts.st_mode & 077) == 0) return HD_OK;
    return hd_error_set(error, HD_ARGUMENT, "data", "%s has to be a folder of this user alone (mode 0700)", path);
}

hd_status cl_data_folder_endpoint(const cl_data_folder *folder, uint32_t shard, hd_buf *endpoint_out, hd_error *error) {
    hd_buf path = {0};
    hd_status status = HD_OK;
    hd_buf_printf(&path, "%s/run/shard-%u.sock", folder->path, shard);
    if (path.size > SOCKET_PATH_MAX) {
        const char *base = getenv("XDG_RUNTIME_DIR");
        if (base == NULL || base[0] != '/' || strlen(base) > SOCKET_PATH_MAX / 2 || access(base, W_OK) != 0) base = "/tmp";
        hd_buf_clear(&path);
        hd_buf_printf(&path, "%s/heddle-%lu-%016llx", base, (unsigned long)geteuid(),
                      (unsigned long long)hd_hash64(folder->path, strlen(folder->path)));
        status = make_private_folder(path.data, error);
        hd_buf_printf(&path, "/shard-%u.sock", shard);
    }
    hd_buf_printf(endpoint_out, "ipc://%s", path.data);
    hd_buf_fini(&path);
    return status;
}

/* ---- the URL ---- */

void cl_data_folder_write_url(const cl_data_folder *folder, const char *url) {
    hd_buf path = {0};
    hd_buf_printf(&path, "%s/run/url", folder->path);
    FILE *file = url != NULL ? fopen(path.data, "we") : NULL;
    if (file != NULL) {
        fprintf(file, "%s\n", url);
        fclose(file);
    } else {
        unlink(path.data);
    }
    hd_buf_fini(&path);
}

bool cl_data_folder_read_url(const char *path, hd_buf *url_out) {
    hd_buf file_path = {0};
    char line[URL_MAX] = "";
    hd_buf_printf(&file_path, "%s/run/url", path);
    FILE *file = fopen(file_path.data, "re");
    hd_buf_fini(&file_path);
    if (file == NULL) return false;
    size_t size = fread(line, 1, sizeof(line) - 1, file);
    fclose(file);
    hd_str url = hd_text_trim((hd_str){line, size});
    if (url.size == 0) return false;
    hd_buf_add_str(url_out, url);
    return true;
}
