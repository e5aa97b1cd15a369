/* Time comes from here and nowhere else, so that tests can script it. Thread-safe. */
#ifndef HD_COMMON_CLOCK_H
#define HD_COMMON_CLOCK_H

#include "common/base.h"

uint64_t hd_clock_monotonic_us(void); /* for deadlines and durations */
int64_t hd_clock_wall_us(void);       /* Unix time, microseconds */

/* Tests only: both clocks stand still at the given values until hd_clock_use_real. */
void hd_clock_use_scripted(uint64_t monotonic_us, int64_t wall_us);
void hd_clock_advance(uint64_t us);
void hd_clock_use_real(void);

/* Unix-time microseconds ↔ text. Parsing takes RFC 3339 / ISO 8601 dates and date-times ("2025-01-31", "2025-01-31T10:20",
 * "2025-01-31T10:20:30.123456+09:00", also a space or lower-case t/z); no offset means UTC; more than six fraction digits are cut;
 * years 0001..9999; second 60 is refused, as are impossible days. False: not an instant. */
bool hd_instant_parse(hd_str text, int64_t *us_out);
enum { HD_INSTANT_TEXT_MAX = 32 };
/* RFC 3339, UTC, 'Z', a fraction only where there is one, no trailing zeros. NUL-terminated; returns the length. */
size_t hd_instant_format(int64_t us, char text_out[HD_INSTANT_TEXT_MAX]);

#endif
