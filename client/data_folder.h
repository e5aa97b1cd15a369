/* The folder of `heddle serve`:
 *
 *     DIR/heddle.json   {"format": 1, "shards": N}: what the folder is; written once, and when shards are added
 *     DIR/heddle.lock   held (flock) by the serve that runs; holds its process id
 *     DIR/admin.key, DIR/catalog.db     the coordinator's
 *     DIR/shard-0 …     the shards'
 *     DIR/run/          sockets, and `url` while it runs
 */
#ifndef CL_DATA_FOLDER_H
#define CL_DATA_FOLDER_H

#include "common/buf.h"
#include "common/status.h"

enum { CL_SHARDS_MAX = 64 };

typedef struct cl_data_folder cl_data_folder;

/* Opens or makes `path` (mode 0700) and locks it. `shards_wanted`: 0 takes what the folder has, or 1. HD_UNAVAILABLE: another serve
 * has it; HD_ARGUMENT: of another version, something else's folder, fewer shards than it has; HD_STORE_IO. */
HD_MUST_USE hd_status cl_data_folder_open(const char *path, uint64_t shards_wanted, cl_data_folder **folder_out, hd_error *error);
void cl_data_folder_close(cl_data_folder *folder);             /* gives the lock back; NULL is fine */
const char *cl_data_folder_path(const cl_data_folder *folder); /* absolute */
uint32_t cl_data_folder_shards(const cl_data_folder *folder);

/* The endpoint of a shard, "ipc://…". Where DIR is too long for a socket's path, its sockets are in a private folder under
 * XDG_RUNTIME_DIR or /tmp, made here. */
HD_MUST_USE hd_status cl_data_folder_endpoint(const cl_data_folder *folder, uint32_t shard, hd_buf *endpoint_out, hd_error *error);

/* The URL of the coordinator, for other commands on this machine; NULL takes it away. */
void cl_data_folder_write_url(const cl_data_folder *folder, const char *url);
/* False: nothing runs there, as far as the folder says. */
bool cl_data_folder_read_url(const char *path, hd_buf *url_out);

#endif
