/* The shard's HTTP side: /healthz (alive), /readyz (takes requests), /metrics (Prometheus). Carries no org's names. */
#ifndef SH_HEALTH_H
#define SH_HEALTH_H

#include "common/status.h"

typedef struct sh_health sh_health;

/* Listens on `address` ("127.0.0.1:9090", port 0 picks one) in a thread of its own. `is_ready(self)` is asked from that thread. */
HD_MUST_USE hd_status sh_health_new(const char *address, bool (*is_ready)(void *self), void *self, sh_health **health_out,
                                    hd_error *error);
uint16_t sh_health_port(const sh_health *health);
void sh_health_free(sh_health *health);

#endif
