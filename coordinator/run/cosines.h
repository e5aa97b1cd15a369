/* Cosines of pairs of events, each measured once a query: by unordered pair, since cos(a, b) is cos(b, a) to the last bit. */
#ifndef CO_RUN_COSINES_H
#define CO_RUN_COSINES_H

#include "coordinator/run/run.h"

/* Index into run->cosines, or HD_MAP_NONE where the pair was not measured (or could not be). */
uint32_t co_cosines_find(const co_run *run, uint32_t a, uint32_t b);
/* Measures the pairs (from[i], to[i]) that are not known yet. Pairs that could not be measured stay unknown; the cut is entered. */
HD_MUST_USE hd_status co_cosines_measure(co_run *run, const co_plan_step *plan_step, const uint32_t *from, const uint32_t *to,
                                         uint32_t count);

/* Enters a cosine that came some other way. NAN: a vector is missing. */
HD_MUST_USE hd_status co_cosines_add(co_run *run, uint32_t a, uint32_t b, double cosine);

#endif
