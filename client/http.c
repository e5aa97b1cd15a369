/* All calls go through one multi handle, which keeps the connections; a call is one easy handle of its own. */
#include "client/http.h"

#include <curl/curl.h>
#include <stdio.h>
#include <strings.h>

#include "common/clock.h"

enum {
    CONNECT_MS = 5000,
    CALL_MS = 120000, /* a save's own limit is seconds; this is for a coordinator that is gone without a word */
    REPLY_BYTES_MAX = 256 << 20,
};

struct cl_http {
    CURLM *multi;
    char *url;
    struct curl_slist *headers;
    bool is_loopback;
    struct transfer *first; /* in flight */
};

typedef struct transfer transfer;
struct transfer {
    transfer *next;
    cl_http *http;
    CURL *easy;
    char *url;
    void *tag;
    cl_http_reply reply;
    char problem[CURL_ERROR_SIZE];
    bool is_too_large;
};

/* ---- making ---- */

static hd_status check_url(const char *url, hd_error *error) {
    hd_status status = HD_OK;
    CURLU *parts = curl_url();
    char *scheme = NULL, *query = NULL, *user = NULL;
    if (parts == NULL || curl_url_set(parts, CURLUPART_URL, url, 0) != CURLUE_OK ||
        curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
        (strcasecmp(scheme, "http") != 0 && strcasecmp(scheme, "https") != 0)) {
        status = hd_error_set(error, HD_ARGUMENT, "http", "\"%s\" is no URL of a coordinator; write http://127.0.0.1:7700", url);
    } else if (curl_url_get(parts, CURLUPART_QUERY, &query, 0) == CURLUE_OK ||
               curl_url_get(parts, CURLUPART_USER, &user, 0) == CURLUE_OK) {
        status = hd_error_set(error, HD_ARGUMENT, "http", "\"%s\": a coordinator's URL has neither a user nor a query", url);
    }
    curl_free(scheme);
    curl_free(query);
    curl_free(user);
    curl_url_cleanup(parts);
    return status;
}

static bool is_loopback(const char *url) {
    CURLU *parts = curl_url();
    char *host = NULL;
    bool is_local = false;
    if (parts != NULL && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
        curl_url_get(parts, CURLUPART_HOST, &host, 0) == CURLUE_OK)
        is_local = strncmp(host, "127.", 4) == 0 || strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0;
    curl_free(host);
    curl_url_cleanup(parts);
    return is_local;
}

static void add_header(cl_http *http, const char *line) {
    struct curl_slist *longer = curl_slist_append(http->headers, line);
    HD_CHECK(longer != NULL);
    http->headers = longer;
}

static hd_status add_headers(cl_http *http, const char *key, hd_error *error) {
    add_header(http, "Content-Type: application/json");
    add_header(http, "Expect:"); /* a body is sent at once, without asking first */
    if (key == NULL) return HD_OK;
    for (const char *at = key; *at != '\0'; at++)
        if ((unsigned char)*at <= ' ' || (unsigned char)*at >= 0x7f)
            return hd_error_set(error, HD_ARGUMENT, "http", "the key holds a character that no key has (a blank or a line end?)");
    hd_buf line = {0};
    hd_buf_printf(&line, "Authorization: Bearer %s", key);
    add_header(http, line.data);
    hd_buf_fini(&line);
    return HD_OK;
}

hd_status cl_http_new(const char *url, const char *key, cl_http **http_out, hd_error *error) {
    *http_out = NULL;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return hd_error_set(error, HD_INTERNAL, "http", "the HTTP library does not start");
    cl_http *http = hd_alloc_zero(1, sizeof(*http));
    hd_status status = check_url(url, error);
    if (status == HD_OK) status = add_headers(http, key, error);
    if (status != HD_OK) {
        cl_http_free(http);
        return status;
    }
    http->url = hd_strdup(url);
    size_t size = strlen(http->url);
    while (size > 0 && http->url[size - 1] == '/') http->url[--size] = '\0';
    http->is_loopback = is_loopback(url);
    http->multi = curl_multi_init();
    HD_CHECK(http->multi != NULL);
    *http_out = http;
    return HD_OK;
}

const char *cl_http_url(const cl_http *http) {
    return http->url;
}

void cl_http_reply_fini(cl_http_reply *reply) {
    hd_buf_fini(&reply->body);
}

/* Takes it out of the list; its memory and its handle go, its reply has been handed over or is released before. */
static void free_transfer(transfer *t) {
    transfer **at = &t->http->first;
    while (*at != t) at = &(*at)->next;
    *at = t->next;
    curl_multi_remove_handle(t->http->multi, t->easy);
    curl_easy_cleanup(t->easy);
    hd_free(t->url);
    hd_free(t);
}

void cl_http_free(cl_http *http) {
    if (http == NULL) return;
    while (http->first != NULL) {
        cl_http_reply_fini(&http->first->reply);
        free_transfer(http->first);
    }
    if (http->multi != NULL) curl_multi_cleanup(http->multi);
    curl_slist_free_all(http->headers);
    hd_free(http->url);
    hd_free(http);
    curl_global_cleanup();
}

/* ---- one call ---- */

static size_t take_body(char *bytes, size_t size, size_t count, void *self) {
    transfer *t = self;
    if (t->reply.body.size + size * count > REPLY_BYTES_MAX) {
        t->is_too_large = true;
        return 0;
    }
    hd_buf_add(&t->reply.body, bytes, size * count);
    return size * count;
}

static transfer *start(cl_http *http, const char *method, const char *path, hd_str body, void *tag) {
    transfer *t = hd_alloc_zero(1, sizeof(*t));
    hd_buf url = {0};
    hd_buf_printf(&url, "%s%s", http->url, path);
    *t = (transfer){.next = http->first, .http = http, .easy = curl_easy_init(), .url = url.data, .tag = tag};
    HD_CHECK(t->easy != NULL);
    http->first = t;
    curl_easy_setopt(t->easy, CURLOPT_PRIVATE, t);
    curl_easy_setopt(t->easy, CURLOPT_URL, t->url);
    curl_easy_setopt(t->easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, http->headers);
    curl_easy_setopt(t->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(t->easy, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(t->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    curl_easy_setopt(t->easy, CURLOPT_TIMEOUT_MS, (long)CALL_MS);
    curl_easy_setopt(t->easy, CURLOPT_ERRORBUFFER, t->problem);
    curl_easy_setopt(t->easy, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(t->easy, CURLOPT_WRITEDATA, t);
    /* A proxy is for the world outside; this machine is not reached through one. */
    if (http->is_loopback) curl_easy_setopt(t->easy, CURLOPT_PROXY, "");
    if (body.data != NULL) {
        curl_easy_setopt(t->easy, CURLOPT_POST, 1L);
        curl_easy_setopt(t->easy, CURLOPT_POSTFIELDS, body.data);
        curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.size);
    }
    curl_easy_setopt(t->easy, CURLOPT_CUSTOMREQUEST, method);
    HD_CHECK(curl_multi_add_handle(http->multi, t->easy) == CURLM_OK);
    return t;
}

static void finish(transfer *t, CURLcode code, cl_http_done *done_out) {
    long status = 0;
    curl_off_t retry_after = 0;
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(t->easy, CURLINFO_RETRY_AFTER, &retry_after);
    *done_out = (cl_http_done){.tag = t->tag, .reply = t->reply};
    done_out->reply.status = (int)status;
    done_out->reply.retry_after_s = (uint32_t)HD_MIN(HD_MAX(retry_after, 0), 3600);
    if (t->is_too_large) {
        done_out->status = hd_error_set(&done_out->error, HD_TOO_LARGE, "http", "%s: the answer is over %d MiB", t->http->url,
                                        REPLY_BYTES_MAX >> 20);
    } else if (code == CURLE_COULDNT_CONNECT) {
        done_out->status = hd_error_set(&done_out->error, HD_UNAVAILABLE, "http",
                                        "nothing answers at %s; is `heddle serve` running? (--url or HEDDLE_URL gives another "
                                        "address)",
                                        t->http->url);
    } else if (code != CURLE_OK) {
        done_out->status = hd_error_set(&done_out->error, HD_UNAVAILABLE, "http", "%s: %s", t->http->url,
                                        t->problem[0] != '\0' ? t->problem : curl_easy_strerror(code));
    }
    free_transfer(t);
}

/* One that ended, if there is one. */
static bool take_done(cl_http *http, cl_http_done *done_out) {
    int left;
    CURLMsg *message;
    while ((message = curl_multi_info_read(http->multi, &left)) != NULL) {
        if (message->msg != CURLMSG_DONE) continue;
        CURLcode code = message->data.result;
        char *self = NULL;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &self);
        finish((transfer *)(void *)self, code, done_out);
        return true;
    }
    return false;
}

void cl_http_post(cl_http *http, const char *path, hd_str body, void *tag) {
    start(http, "POST", path, body.data != NULL ? body : HD_STR(""), tag);
    int running;
    curl_multi_perform(http->multi, &running);
}

bool cl_http_wait(cl_http *http, uint32_t timeout_ms, cl_http_done *done_out) {
    uint64_t deadline_us = hd_clock_monotonic_us() + timeout_ms * 1000ull;
    for (;;) {
        int running;
        if (curl_multi_perform(http->multi, &running) != CURLM_OK) return false;
        if (take_done(http, done_out)) return true;
        uint64_t now_us = hd_clock_monotonic_us();
        if (now_us >= deadline_us) return false;
        curl_multi_poll(http->multi, NULL, 0, (int)((deadline_us - now_us + 999) / 1000), NULL);
    }
}

hd_status cl_http_call(cl_http *http, const char *method, const char *path, hd_str body, cl_http_reply *reply_out,
                       hd_error *error) {
    HD_CHECK(http->first == NULL); /* what ends here is this call */
    start(http, method, path, body, NULL);
    cl_http_done done;
    while (!cl_http_wait(http, CALL_MS, &done)) {}
    *reply_out = done.reply;
    if (done.status == HD_OK) return HD_OK;
    cl_http_reply_fini(reply_out);
    return hd_error_set(error, done.status, "http", "%s", done.error.message);
}
