#include "client/import/sender.h"

#include <stdio.h>

#include "client/call.h"
#include "common/clock.h"
#include "common/map.h"
#include "common/text.h"

enum {
    BATCH_BYTES_MAX = 2 << 20, /* a body is 16 MiB at most; beyond a few MiB there is nothing to gain */
    LOOK_EVERY = 16,           /* memories taken in between two looks at the connections */
    DRAIN_MS = 30000,
    TICK_MS = 1000,
};

typedef struct item {
    char *place, *id, *previous; /* owned; id and previous may be NULL */
    uint64_t number;
    size_t at, size; /* its JSON, in the batch's body */
} item;

/* Sent as one call. Its items stand in the order they came in. */
typedef struct batch batch;
struct batch {
    batch *next; /* later ones */
    item *items;
    uint32_t count;
    hd_buf body;
    hd_map ids; /* of its items → index of the first one */
    bool is_flying;
    uint32_t failures;                        /* in a row */
    uint64_t failing_since_us, not_before_us; /* 0: not failing */
};

struct cl_sender {
    cl_http *http;
    cl_sender_options options;
    cl_sender_told *told;
    void *self;
    batch *first;     /* not answered yet, in order */
    batch *building;  /* not in the list yet; never NULL */
    uint32_t waiting; /* batches in the list */
    uint32_t flying;
    uint32_t since_look;
    bool is_draining;
    hd_error failure; /* the one that ends it all; code HD_OK while there is none */
};

/* ---- batches ---- */

static batch *new_batch(const cl_sender *sender) {
    batch *b = hd_alloc_zero(1, sizeof(*b));
    b->items = hd_alloc_zero(sender->options.batch_items_max, sizeof(*b->items));
    hd_map_init(&b->ids, NULL);
    hd_buf_add_str(&b->body, HD_STR("{\"memories\":["));
    return b;
}

static void free_batch(batch *b) {
    if (b == NULL) return;
    for (uint32_t i = 0; i < b->count; i++) {
        hd_free(b->items[i].place);
        hd_free(b->items[i].id);
        hd_free(b->items[i].previous);
    }
    hd_free(b->items);
    hd_map_fini(&b->ids);
    hd_buf_fini(&b->body);
    hd_free(b);
}

static char *copy_or_null(hd_str text) {
    return text.data != NULL ? hd_str_to_c(text) : NULL;
}

static void add_to_batch(batch *b, const cl_memory *memory) {
    item *it = &b->items[b->count];
    if (b->count > 0) hd_buf_add_char(&b->body, ',');
    *it = (item){.place = hd_str_to_c(memory->place),
                 .id = copy_or_null(memory->id),
                 .previous = copy_or_null(memory->previous),
                 .number = memory->number,
                 .at = b->body.size,
                 .size = memory->json.size};
    hd_buf_add_str(&b->body, memory->json);
    if (it->id != NULL) {
        uint32_t index;
        bool is_new;
        HD_CHECK(hd_map_put(&b->ids, hd_str_of(it->id), b->count, &index, &is_new) == HD_OK);
    }
    b->count++;
}

static cl_memory get_memory(const batch *b, uint32_t i) {
    const item *it = &b->items[i];
    return (cl_memory){.json = {b->body.data + it->at, it->size},
                       .id = hd_str_of(it->id),
                       .previous = hd_str_of(it->previous),
                       .place = hd_str_of(it->place),
                       .number = it->number};
}

static void close_body(batch *b) {
    hd_buf_add_str(&b->body, HD_STR("]}"));
}

/* Puts `fresh` behind `before` (NULL: at the front). */
static void insert_batch(cl_sender *sender, batch *before, batch *fresh) {
    batch **at = before != NULL ? &before->next : &sender->first;
    fresh->next = *at;
    *at = fresh;
    sender->waiting++;
}

static void remove_batch(cl_sender *sender, batch *b) {
    batch **at = &sender->first;
    while (*at != b) at = &(*at)->next;
    *at = b->next;
    sender->waiting--;
    free_batch(b);
}

/* Has an earlier batch an event that this one names? */
static bool has_to_wait(const cl_sender *sender, const batch *b) {
    for (const batch *earlier = sender->first; earlier != b; earlier = earlier->next) {
        for (uint32_t i = 0; i < b->count; i++) {
            const item *it = &b->items[i];
            if (it->previous != NULL && hd_map_get(&earlier->ids, hd_str_of(it->previous)) != HD_MAP_NONE) return true;
            if (it->id != NULL && hd_map_get(&earlier->ids, hd_str_of(it->id)) != HD_MAP_NONE) return true;
        }
    }
    return false;
}

static void start_ready(cl_sender *sender) {
    uint64_t now_us = hd_clock_monotonic_us();
    for (batch *b = sender->first; b != NULL && sender->flying < sender->options.in_flight_max; b = b->next) {
        if (b->is_flying || b->not_before_us > now_us || has_to_wait(sender, b)) continue;
        b->is_flying = true;
        sender->flying++;
        cl_http_post(sender->http, "/v1/tools/save_memories", hd_buf_get(&b->body), b);
    }
}

/* ---- what comes back ---- */

static void fail(cl_sender *sender, hd_status status, const char *what) {
    (void)hd_error_set(&sender->failure, status, "import", "%s", what);
}

/* To be tried again, later each time. What is told when that goes on for too long: `what`. */
static void put_off(cl_sender *sender, batch *b, uint32_t retry_after_s, const char *what) {
    uint64_t now_us = hd_clock_monotonic_us();
    if (b->failing_since_us == 0) b->failing_since_us = now_us;
    uint64_t wait_ms = (uint64_t)sender->options.backoff_ms << HD_MIN(b->failures, 5u);
    wait_ms = HD_MAX(wait_ms, retry_after_s * 1000ull);
    b->failures++;
    b->not_before_us = now_us + wait_ms * 1000;
    if (now_us - b->failing_since_us < sender->options.retry_ms * 1000) return;
    hd_buf text = {0};
    hd_buf_printf(&text, "%s. Given up after trying again for ", what);
    char seconds[32];
    snprintf(seconds, sizeof(seconds), "%llu s", (unsigned long long)((now_us - b->failing_since_us) / 1000000));
    hd_buf_add_str(&text, hd_str_of(seconds));
    hd_buf_add_str(&text, HD_STR("; the same command goes on where it stopped"));
    fail(sender, HD_UNAVAILABLE, text.data);
    hd_buf_fini(&text);
}

/* "item 3: …" and "the memory: …": the place is told by its line. */
static const char *skip_item(const char *detail) {
    const char *at = detail;
    if (strncmp(at, "the memory: ", 12) == 0) return at + 12;
    if (strncmp(at, "item ", 5) != 0) return detail;
    at += 5 + strspn(at + 5, "0123456789");
    return strncmp(at, ": ", 2) == 0 ? at + 2 : detail;
}

static void tell_refused(cl_sender *sender, const batch *b, uint32_t i, const json_t *problem) {
    cl_memory memory = get_memory(b, i);
    hd_buf text = {0};
    cl_add_problem(&text, problem);
    sender->told(sender->self, &memory, CL_OUTCOME_REFUSED, skip_item(text.data), NULL);
    hd_buf_fini(&text);
}

/* Reasons that say nothing of the memory itself. */
static bool is_passing(const char *reason) {
    static const char *const passing[] = {"busy", "shard_unavailable", "timeout", "internal"};
    for (size_t i = 0; i < HD_COUNT_OF(passing); i++)
        if (strcmp(passing[i], reason) == 0) return true;
    return false;
}

/* Refused because of an earlier item of the same call which is there after all, or will be: it was not this call that saved it. */
static bool is_refused_for_another(const batch *b, uint32_t i, const bool *is_there_or_again) {
    const char *previous = b->items[i].previous;
    uint32_t at = previous != NULL ? hd_map_get(&b->ids, hd_str_of(previous)) : HD_MAP_NONE;
    return at < i && is_there_or_again[at];
}

/* Takes in one result. Returns whether the item has to be sent again; *is_passing_out: because of something that passes. */
static bool take_result(cl_sender *sender, const batch *b, uint32_t i, const json_t *result, bool *is_there_or_again,
                        bool *is_passing_out, hd_buf *problem_out) {
    cl_memory memory = get_memory(b, i);
    const char *reason = cl_json_text(result, "reason");
    const json_t *warnings = json_object_get(result, "warnings");
    if (strcmp(cl_json_text(result, "status"), "ok") == 0) {
        bool is_replaced = json_is_true(json_object_get(result, "replaced"));
        sender->told(sender->self, &memory, is_replaced ? CL_OUTCOME_REPLACED : CL_OUTCOME_ADDED, NULL, warnings);
    } else if (strcmp(reason, "already_exists") == 0) {
        is_there_or_again[i] = true;
        sender->told(sender->self, &memory, CL_OUTCOME_ALREADY_THERE, NULL, NULL);
    } else if (strcmp(reason, "quota_exceeded") == 0) {
        hd_buf_clear(problem_out);
        cl_add_problem(problem_out, result);
        fail(sender, HD_QUOTA, problem_out->data);
    } else if (is_passing(reason)) {
        hd_buf_clear(problem_out);
        cl_add_problem(problem_out, result);
        return *is_passing_out = is_there_or_again[i] = true;
    } else if (is_refused_for_another(b, i, is_there_or_again)) {
        return is_there_or_again[i] = true;
    } else {
        tell_refused(sender, b, i, result);
    }
    return false;
}

/* A result for every item, in order. What is to be sent again becomes a batch in this one's place. */
static void take_results(cl_sender *sender, batch *b, const json_t *results, uint32_t retry_after_s) {
    bool *is_there_or_again = hd_alloc_zero(b->count, sizeof(*is_there_or_again)), is_passing_any = false;
    batch *again = NULL;
    hd_buf problem = {0};
    for (uint32_t i = 0; i < b->count; i++) {
        if (!take_result(sender, b, i, json_array_get(results, i), is_there_or_again, &is_passing_any, &problem)) continue;
        if (again == NULL) again = new_batch(sender);
        cl_memory memory = get_memory(b, i);
        add_to_batch(again, &memory);
    }
    if (again != NULL) {
        close_body(again);
        insert_batch(sender, b, again);
        bool is_any_done = again->count < b->count;
        if (is_passing_any && !is_any_done) {
            again->failures = b->failures;
            again->failing_since_us = b->failing_since_us;
        }
        if (is_passing_any) put_off(sender, again, retry_after_s, problem.data);
    }
    hd_buf_fini(&problem);
    hd_free(is_there_or_again);
    remove_batch(sender, b);
}

/* The call as a whole was refused for what it holds: halves find the memory that it is about. */
static void split(cl_sender *sender, batch *b, const json_t *problem) {
    if (b->count == 1) {
        tell_refused(sender, b, 0, problem);
        remove_batch(sender, b);
        return;
    }
    batch *halves[2] = {new_batch(sender), new_batch(sender)};
    for (uint32_t i = 0; i < b->count; i++) {
        cl_memory memory = get_memory(b, i);
        add_to_batch(halves[i >= b->count / 2], &memory);
    }
    for (int h = 1; h >= 0; h--) {
        close_body(halves[h]);
        insert_batch(sender, b, halves[h]);
    }
    remove_batch(sender, b);
}

/* The status of an answer that ends the import. */
static hd_status get_end_status(int http_status) {
    switch (http_status) {
    case 401: return HD_UNAUTHORIZED;
    case 403: return HD_FORBIDDEN;
    case 404: return HD_NOT_FOUND;
    case 429: return HD_QUOTA;
    default: return HD_INTERNAL;
    }
}

static void take_answer(cl_sender *sender, batch *b, const cl_http_done *done) {
    const cl_http_reply *reply = &done->reply;
    if (done->status != HD_OK) {
        put_off(sender, b, 0, done->error.message);
        return;
    }
    json_t *json = json_loadb(hd_buf_get(&reply->body).data, reply->body.size, 0, NULL);
    const json_t *results = json_object_get(json, "results");
    const char *reason = cl_json_text(json, "reason");
    hd_buf problem = {0};
    if (json_is_object(json)) cl_add_problem(&problem, json);
    if (!json_is_object(json)) {
        char text[256];
        snprintf(text, sizeof(text), "what answers at %.180s is no Heddle coordinator (HTTP %d)", cl_http_url(sender->http),
                 reply->status);
        if (reply->status >= 500)
            put_off(sender, b, reply->retry_after_s, text);
        else
            fail(sender, HD_WIRE, text);
    } else if (reply->status == 200 && json_array_size(results) == b->count) {
        take_results(sender, b, results, reply->retry_after_s);
    } else if (reply->status == 400 || reply->status == 413) {
        split(sender, b, json);
    } else if (is_passing(reason)) {
        put_off(sender, b, reply->retry_after_s, problem.data);
    } else {
        fail(sender, get_end_status(reply->status), problem.data);
    }
    hd_buf_fini(&problem);
    json_decref(json);
}

/* Starts what can be started; takes in what is over, waiting `wait_ms` at the most for the first of it. */
static void pump(cl_sender *sender, uint32_t wait_ms) {
    cl_http_done done;
    if (!sender->is_draining) start_ready(sender);
    while (cl_http_wait(sender->http, wait_ms, &done)) {
        batch *b = done.tag;
        b->is_flying = false;
        sender->flying--;
        take_answer(sender, b, &done);
        cl_http_reply_fini(&done.reply);
        if (!sender->is_draining && sender->failure.code == HD_OK) start_ready(sender);
        wait_ms = 0;
    }
}

/* How long there is nothing to do but wait for an answer. */
static uint32_t get_wait_ms(const cl_sender *sender) {
    uint64_t now_us = hd_clock_monotonic_us(), until_us = now_us + TICK_MS * 1000ull;
    for (const batch *b = sender->first; b != NULL; b = b->next)
        if (!b->is_flying && b->not_before_us > now_us) until_us = HD_MIN(until_us, b->not_before_us);
    return (uint32_t)((until_us - now_us + 999) / 1000);
}

/* Until `waiting_max` batches are left at the most. */
static hd_status wait_for_room(cl_sender *sender, uint32_t waiting_max, hd_error *error) {
    pump(sender, 0);
    while (sender->failure.code == HD_OK && sender->waiting > waiting_max) pump(sender, get_wait_ms(sender));
    if (sender->failure.code == HD_OK) return HD_OK;
    return hd_error_set(error, sender->failure.code, "import", "%s", sender->failure.message);
}

/* ---- the sender ---- */

cl_sender *cl_sender_new(cl_http *http, const cl_sender_options *options, cl_sender_told *told, void *self) {
    HD_CHECK(options->batch_items_max > 0 && options->in_flight_max > 0);
    cl_sender *sender = hd_alloc_zero(1, sizeof(*sender));
    *sender = (cl_sender){.http = http, .options = *options, .told = told, .self = self};
    sender->building = new_batch(sender);
    return sender;
}

void cl_sender_free(cl_sender *sender) {
    if (sender == NULL) return;
    while (sender->first != NULL) remove_batch(sender, sender->first);
    free_batch(sender->building);
    hd_free(sender);
}

static void queue_built(cl_sender *sender) {
    if (sender->building->count == 0) return;
    batch *last = sender->first;
    while (last != NULL && last->next != NULL) last = last->next;
    close_body(sender->building);
    insert_batch(sender, last, sender->building);
    sender->building = new_batch(sender);
}

hd_status cl_sender_add(cl_sender *sender, const cl_memory *memory, hd_error *error) {
    if (sender->building->count > 0 && sender->building->body.size + memory->json.size > BATCH_BYTES_MAX) queue_built(sender);
    add_to_batch(sender->building, memory);
    if (sender->building->count == sender->options.batch_items_max) queue_built(sender);
    if (sender->waiting >= sender->options.in_flight_max) return wait_for_room(sender, sender->options.in_flight_max, error);
    if (++sender->since_look < LOOK_EVERY) return HD_OK;
    sender->since_look = 0;
    return wait_for_room(sender, UINT32_MAX, error);
}

hd_status cl_sender_finish(cl_sender *sender, hd_error *error) {
    queue_built(sender);
    return wait_for_room(sender, 0, error);
}

void cl_sender_drain(cl_sender *sender) {
    uint64_t deadline_us = hd_clock_monotonic_us() + DRAIN_MS * 1000ull;
    sender->is_draining = true;
    while (sender->flying > 0 && hd_clock_monotonic_us() < deadline_us) pump(sender, TICK_MS);
}
