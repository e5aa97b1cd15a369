/* Three GET answers over libmicrohttpd. */
#include "shard/health.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "common/metrics.h"

enum { CONNECTIONS_MAX = 16, TIMEOUT_S = 10 };

struct sh_health {
    struct MHD_Daemon *daemon;
    bool (*is_ready)(void *self);
    void *self;
};

static enum MHD_Result send_text(struct MHD_Connection *connection, unsigned code, hd_str text, const char *type) {
    struct MHD_Response *response = MHD_create_response_from_buffer(text.size, (void *)(uintptr_t)text.data, MHD_RESPMEM_MUST_COPY);
    if (!response) return MHD_NO;
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    enum MHD_Result result = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result answer(void *self, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *upload, size_t *upload_size, void **state) {
    sh_health *health = self;
    static const char plain[] = "text/plain; charset=utf-8";
    (void)version;
    (void)upload;
    (void)state;
    if (*upload_size > 0) { /* a body says nothing here */
        *upload_size = 0;
        return MHD_YES;
    }
    hd_str path = hd_str_of(url);
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) return send_text(connection, 405, HD_STR("GET only\n"), plain);
    if (hd_str_is_equal(path, HD_STR("/healthz"))) return send_text(connection, 200, HD_STR("ok\n"), plain);
    if (hd_str_is_equal(path, HD_STR("/readyz")))
        return health->is_ready(health->self) ? send_text(connection, 200, HD_STR("ready\n"), plain)
                                              : send_text(connection, 503, HD_STR("not ready\n"), plain);
    if (!hd_str_is_equal(path, HD_STR("/metrics")))
        return send_text(connection, 404, HD_STR("/healthz, /readyz, /metrics\n"), plain);
    hd_buf text;
    hd_buf_init(&text);
    hd_metrics_write(&text);
    enum MHD_Result result = send_text(connection, 200, hd_buf_get(&text), "text/plain; version=0.0.4; charset=utf-8");
    hd_buf_fini(&text);
    return result;
}

/* "HOST:PORT" with an IPv4 address for a host. */
static bool parse_address(const char *text, struct sockaddr_in *address_out) {
    const char *colon = strrchr(text, ':');
    if (!colon || colon == text || !colon[1]) return false;
    char *end = NULL;
    unsigned long port = strtoul(colon + 1, &end, 10);
    char *host = hd_str_to_c((hd_str){text, (size_t)(colon - text)});
    *address_out = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    const char *number = strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
    bool is_good = *end == 0 && port <= UINT16_MAX && inet_pton(AF_INET, number, &address_out->sin_addr) == 1;
    hd_free(host);
    return is_good;
}

hd_status sh_health_new(const char *address, bool (*is_ready)(void *self), void *self, sh_health **health_out, hd_error *error) {
    struct sockaddr_in at;
    *health_out = NULL;
    if (!parse_address(address, &at))
        return hd_error_set(error, HD_ARGUMENT, "health", "\"%s\" is no address to listen on; write 127.0.0.1:9090", address);
    sh_health *health = hd_alloc_zero(1, sizeof(*health));
    health->is_ready = is_ready;
    health->self = self;
    errno = 0;
    health->daemon = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL, ntohs(at.sin_port), NULL, NULL, answer,
                                      health, MHD_OPTION_SOCK_ADDR, &at, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
                                      MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TIMEOUT_S, MHD_OPTION_END);
    if (!health->daemon) {
        int number = errno;
        hd_free(health);
        return hd_error_set(error, HD_ARGUMENT, "health", "cannot listen on %s: %s", address,
                            number ? strerror(number) : "refused");
    }
    *health_out = health;
    return HD_OK;
}

uint16_t sh_health_port(const sh_health *health) {
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(health->daemon, MHD_DAEMON_INFO_BIND_PORT);
    return info ? info->port : 0;
}

void sh_health_free(sh_health *health) {
    if (!health) return;
    MHD_stop_daemon(health->daemon);
    hd_free(health);
}
