/* JSON lines on stderr. Thread-safe; one write(2) a line. Values are escaped here, nowhere else. */
#ifndef HD_COMMON_LOG_H
#define HD_COMMON_LOG_H

#include "common/base.h"

typedef enum hd_log_level { HD_LOG_DEBUG, HD_LOG_INFO, HD_LOG_WARN, HD_LOG_ERROR } hd_log_level;

/* Takes those of the descriptors 0..2 that the caller closed, so that no file or socket of ours gets a number that is written to as
 * standard output or error. Reading and writing them fails, as it would have. To be called before anything is opened. */
void hd_log_hold_descriptors(void);

/* `process` is copied: "heddle-shard". Levels below `level_min` are dropped. Holds the standard descriptors as well. */
void hd_log_init(const char *process, hd_log_level level_min);
bool hd_log_level_parse(hd_str text, hd_log_level *level_out);
/* {"ts", "level", "process", "pid", "module", "msg"} */
void hd_log(hd_log_level level, const char *module, const char *format, ...) HD_PRINTF(3, 4);

#endif
