/* describe_memory_graph: what a model has to know to write a query, on one page, with recipes that run as they stand; and what this
 * org's graph holds. The page says what this version runs: a construct that is refused today is not on it. */
#include "common/budget.h"
#include "common/clock.h"
#include "coordinator/cluster/gather.h"
#include "coordinator/embed/provider.h"
#include "coordinator/tools/memory_schema.h"
#include "coordinator/tools/tool.h"

enum { FIGURES_WAIT_MS = 2000 };

static const char *const known[] = {NULL};

static const char language_page[] =
    "A query reads: START finds events, MATCH walks from them, WHERE filters, RETURN gives rows. It never writes.\n"
    "\n"
    "  START a = events(text: $q, k: 5)\n"
    "  MATCH (a)-[s:SHARES {min: 2}]-(b)\n"
    "  WHERE b.timestamp >= '2025-01-01'\n"
    "  RETURN a, b, s.count, s.via ORDER BY s.weight DESC LIMIT 10\n"
    "\n"
    "START a = events(...), always events, one START a query:\n"
    "  text: $q            events closest to a text (k 5, at most 20)\n"
    "  vector: $v          the same for a vector of the org's dimension\n"
    "  ids: [..]           those events, at most 200; stands alone\n"
    "  entity: n, tag: n   the newest events of a name, an id or a list of them (any); k 5, at most 200\n"
    "  entity_all: [..], tag_all: [..]   events that have all of them\n"
    "  since: t, until: t  narrow to a span of time (not with ids); k: n alone: the newest events of the org\n"
    "  entity or tag together with text or vector: that scope's events closest to the text; a.score is the cosine\n"
    "\n"
    "Nodes and their properties:\n"
    "  Event: id, summary, timestamp, order_index, thread, score (start variable only)\n"
    "  Entity: id, name, type, event_count      Tag: id, name, event_count\n"
    "Relations, [variable:NAME {parameters}]:\n"
    "  (event)-[:PARTICIPATED_IN]-(entity)      who and what took part\n"
    "  (event)-[:MEMBER_OF {kind: 'contains'}]->(tag)    kind: contains or refers\n"
    "  (event)-[s:SHARES {min: 1, min_w: 0}]-(event)     common entities; s.count, s.weight, s.via; no arrow\n"
    "  (event)-[n:NEXT {source: 'thread'}]->(event)      what follows; source: thread or explicit; n.hops; *1..3 walks on\n"
    "  (a)-[s:SIMILAR {k: 10, min: -1}]-(b)     the k events whose texts are closest to that of a (at most 50); s.cos; no arrow\n"
    "  (a)-[f:FAR {max: 0.5}]-(b)               keeps pairs whose texts are unlike (cosine below max); a and b are bound before\n"
    "\n"
    "WHERE and RETURN: = <> < <= > >= IN CONTAINS, IS NULL, NOT AND OR, cos(a, b). CONTAINS works on Entity.name and Tag.name.\n"
    "Timestamps compare with ISO 8601 strings. Aggregates in RETURN: count(*), count min max sum avg collect, with DISTINCT.\n"
    "Names in a query are matched exactly, then without regard to case. LIMIT is 1..200, 20 where absent.\n"
    "Every path of MATCH starts at a variable that is bound already. Use $parameters for what you were given.\n"
    "\n"
    "The answer: rows; partial: true when something was cut that could have changed it, and truncated says what; start.unresolved\n"
    "lists names that nothing has; notes. A rejected query says where (line, column), why, and what is allowed there.\n"
    "EXPLAIN before START shows the plan and runs nothing.";

/* `start`: the arguments of events(…), with sample values in `params`. Without an embedding provider a text cannot be searched, and
 * the same walk starts from `bare_start`: NULL where the start has no text, "" where nothing of the recipe is left. */
typedef struct recipe {
    const char *name, *why, *start, *rest, *params, *bare_start, *bare_params;
} recipe;

static const recipe recipes[] = {
    {"bridges", "Events that share people or things with what you ask about, and yet are about something else.", "text: $q, k: 10",
     "MATCH (a)-[s:SHARES]-(b), (a)-[f:FAR {max: 0.5}]-(b) RETURN a, b, s.count, s.via, f.cos ORDER BY s.weight DESC LIMIT 10",
     "{\"q\":\"what you want to know\"}", "entity: $name, k: 10", "{\"name\":\"an entity's name\"}"},
    {"thread", "What came after an event, up to three steps on.", "text: $q, k: 3",
     "MATCH (a)-[n:NEXT*1..3]->(b) RETURN a, b, n.hops ORDER BY n.hops", "{\"q\":\"how it began\"}", "entity: $name, k: 3",
     "{\"name\":\"an entity's name\"}"},
    {"co-participation", "Who or what takes part together with an entity, most often first.", "entity: $name, k: 200",
     "MATCH (a)-[:PARTICIPATED_IN]-(e) WHERE e.name <> $name RETURN e, count(DISTINCT a) AS together ORDER BY together DESC",
     "{\"name\":\"an entity's name\"}", NULL, NULL},
    {"scoped start", "The events of one entity closest to a text.", "entity: $name, text: $q, k: 5", "RETURN a, a.score",
     "{\"name\":\"an entity's name\",\"q\":\"what about it\"}", "", ""},
    {"by tag", "The newest events under a tag, with who took part.", "tag: $tag, k: 20",
     "MATCH (a)-[:PARTICIPATED_IN]-(e) RETURN a, collect(e.name) AS who", "{\"tag\":\"a tag\"}", NULL, NULL},
};

static hd_status write_recipes(co_json *json, const co_tool_call *call) {
    co_json_array(json);
    for (size_t i = 0; i < HD_COUNT_OF(recipes); i++) {
        const recipe *r = &recipes[i];
        bool is_bare = call->org->embedding == CO_EMBEDDING_NONE && r->bare_start != NULL;
        if (is_bare && r->bare_start[0] == '\0') continue; /* a text is all there is to it */
        hd_str query;
        HD_TRY(hd_arena_printf(call->arena, &query, "START a = events(%s) %s", is_bare ? r->bare_start : r->start, r->rest));
        co_json_object(json);
        co_json_member_text(json, "name", r->name);
        co_json_member_text(json, "why", r->why);
        co_json_member_str(json, "query", query);
        co_json_key(json, "params");
        co_json_raw(json, hd_str_of(is_bare ? r->bare_params : r->params));
        co_json_end_object(json);
    }
    co_json_end_array(json);
    return HD_OK;
}

static void write_embedding(co_json *json, const co_org *org) {
    co_json_object(json);
    co_json_member_text(json, "provider", co_embedding_name(org->embedding));
    co_json_key(json, "model");
    if (org->embedding == CO_EMBEDDING_BUILTIN)
        co_json_text(json, "builtin: hashed word and character n-grams (lexical: spelling, not meaning)");
    else
        co_json_null(json);
    co_json_member_uint(json, "dimension", org->dimension);
    co_json_end_object(json);
}

static void write_caps(co_json *json, const co_services *services) {
    hd_budget budget;
    hd_budget_init(&budget);
    budget.caps[HD_CAP_DEADLINE] = services->query_deadline_ms;
    co_json_object(json);
    for (int cap = 0; cap < HD_CAP_COUNT; cap++) co_json_member_uint(json, hd_cap_name((hd_cap)cap), budget.caps[cap]);
    co_json_end_object(json);
}

/* Counts that are not known in full are null, and a note says why. */
static void write_counts(co_json *json, const co_org_figures *figures) {
    co_json_object(json);
    co_json_key(json, "events");
    if (figures->is_complete)
        co_json_uint(json, figures->events);
    else
        co_json_null(json);
    co_json_key(json, "vectors");
    if (figures->is_complete)
        co_json_uint(json, figures->vectors);
    else
        co_json_null(json);
    co_json_end_object(json);
}

static hd_status run(co_tool_call *call) {
    HD_TRY(co_tool_check_known(call, known));
    co_org_figures figures;
    uint64_t deadline_us = hd_clock_monotonic_us() + FIGURES_WAIT_MS * 1000;
    HD_TRY(co_gather_org_figures(call->services->topology, call->wire, call->org, deadline_us, call->arena, &figures));
    co_json json;
    co_json_init(&json, call->out);
    co_json_object(&json);
    co_json_member_text(&json, "status", "ok");
    co_json_member_text(&json, "language", language_page);
    co_json_key(&json, "recipes");
    HD_TRY(write_recipes(&json, call));
    co_json_member_text(&json, "org", call->org->name);
    co_json_key(&json, "counts");
    write_counts(&json, &figures);
    co_json_key(&json, "embedding");
    write_embedding(&json, call->org);
    co_json_key(&json, "caps");
    write_caps(&json, call->services);
    co_json_key(&json, "notes");
    co_json_array(&json);
    if (!figures.is_complete) co_json_text(&json, "not every shard of the org answered: the counts are not known");
    co_json_end_array(&json);
    co_json_end_object(&json);
    return HD_OK;
}

const co_tool co_tool_describe_memory_graph = {
    .name = "describe_memory_graph",
    .title = "Describe the memory graph",
    .description =
        "The query language on one page, with recipes that run as they stand, and what the org's graph holds: counts, "
        "embedding model and dimension, the caps in force. Read it before writing a first query.",
    .role = CO_ROLE_READ,
    .is_read_only = true,
    .is_idempotent = true,
    .input_schema = "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{}}",
    .output_schema =
        "{\"type\":\"object\",\"required\":[\"status\"],\"properties\":{\"status\":{\"enum\":[\"ok\",\"error\"]},"
        "\"language\":{\"type\":\"string\"},\"recipes\":{\"type\":\"array\",\"items\":{\"type\":\"object\"}},"
        "\"org\":{\"type\":\"string\"},\"counts\":{\"type\":\"object\",\"properties\":{\"events\":{\"type\":[\"integer\",\"null\"]}"
        ","
        "\"vectors\":{\"type\":[\"integer\",\"null\"]}}},\"embedding\":{\"type\":\"object\"},\"caps\":{\"type\":\"object\"},"
        "\"notes\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}}," CO_ERROR_PROPERTIES "}}",
    .run = run,
};
