/* Spare hands: threads that help one caller through a long loop while the machine has cores with nothing to do. A search over all
 * vectors waits for memory, and one core cannot keep it busy. Thread-safe. */
#ifndef SH_CREW_H
#define SH_CREW_H

#include "common/base.h"

typedef struct sh_crew sh_crew;

/* `cores` that callers and hands together may use; cores − 1 threads are started. Fewer come where the system gives no more. */
sh_crew *sh_crew_new(uint32_t cores);
void sh_crew_free(sh_crew *crew); /* nobody may be inside sh_crew_share; NULL is nobody */

/* Runs work(self, 0) in the caller and, while it lasts, work(self, 1), work(self, 2) … below `members_max` in whoever is idle; maybe in
 * nobody. Returns when all have returned. So `work` takes its pieces from a common count and comes home when there are none.
 * `crew` may be NULL: then the caller is alone. */
void sh_crew_share(sh_crew *crew, uint32_t members_max, void (*work)(void *self, uint32_t member), void *self);

#endif
