/* JSON lines on stderr. Thread-safe; one write(2) a line. Values are escaped here, nowhere else. */
#ifndef HD_COMMON_LOG_H
#define HD_COMMON_LOG_H

#include "common/base.h"

typedef enum hd_log_level { HD_LOG_DEBUG, HD_LOG_INFO, HD_LOG_WARN, HD_LOG_ERROR } hd_log_level;

/* `process` is copied: "heddle-shard". Levels below `level_min` are dropped. */
void hd_log_init(const char *process, hd_log_level level_min);
bool hd_log_level_parse(hd_str text, hd_log_level *level_out);
/* {"ts", "level", "process", "pid", "module", "msg"} */
void hd_log(hd_log_level level, const char *module, const char *format, ...) HD_PRINTF(3, 4);

#endif
