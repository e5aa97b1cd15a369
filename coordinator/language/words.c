/* The vocabulary of the language, as tables: what each relation joins and takes, what each label and relation has, what START knows.
 * Names of labels, relations and properties themselves come from common/graph.def. */
#include <math.h>

#include "coordinator/language/language_private.h"

static const char *const sources[] = {"thread", "explicit", NULL};
static const char *const kinds[] = {"contains", "refers", NULL};
static const char *const realizations[] = {"realization", NULL};

/* ---- START, LIMIT ---- */

#define START_RULE(key, kind, ...) \
    { #key, kind, .field = offsetof(co_start, key), __VA_ARGS__ }
const co_rule co_start_rules[] = {
    START_RULE(text, CO_RULE_TEXT),
    START_RULE(vector, CO_RULE_VECTOR),
    START_RULE(k, CO_RULE_INT, .min = 1, .max = INFINITY),
    START_RULE(ids, CO_RULE_IDS),
    START_RULE(entity, CO_RULE_NAMES),
    START_RULE(entity_all, CO_RULE_NAME_LIST),
    START_RULE(tag, CO_RULE_NAMES),
    START_RULE(tag_all, CO_RULE_NAME_LIST),
    START_RULE(since, CO_RULE_INSTANT),
    START_RULE(until, CO_RULE_INSTANT),
    START_RULE(exact, CO_RULE_BOOL),
};
const uint32_t co_start_rule_count = HD_COUNT_OF(co_start_rules);
const char *const co_words_start_keys[] = {"text", "vector",  "k",     "ids",   "entity", "entity_all",
                                           "tag",  "tag_all", "since", "until", "exact",  NULL};

const co_rule co_limit_rule = {"LIMIT", CO_RULE_INT, .min = 1, .max = CO_LIMIT_MAX};

/* ---- relations ---- */

#define REL_RULE(key, kind, member, ...) \
    { key, kind, .field = offsetof(co_rel, member), __VA_ARGS__ }
static const co_rule shares_rules[] = {REL_RULE("min", CO_RULE_INT, min, .min = 1, .max = INFINITY),
                                       REL_RULE("min_w", CO_RULE_FLOAT, min_w, .min = 0, .max = INFINITY)};
static const co_rule similar_rules[] = {REL_RULE("k", CO_RULE_INT, k, .min = 1, .max = 50),
                                        REL_RULE("min", CO_RULE_FLOAT, min, .min = -1, .max = 1),
                                        REL_RULE("exact", CO_RULE_BOOL, exact, )};
static const co_rule far_rules[] = {REL_RULE("max", CO_RULE_FLOAT, max, .min = -1, .max = 1)};
static const co_rule next_rules[] = {REL_RULE("source", CO_RULE_WORD, source, .words = sources)};
static const co_rule resolved_rules[] = {REL_RULE("relation", CO_RULE_WORD, resolved_relation, .words = realizations)};
static const co_rule member_rules[] = {REL_RULE("kind", CO_RULE_WORD, kind, .words = kinds)};
static const co_rule connected_rules[] = {REL_RULE("min", CO_RULE_INT, min, .min = 1, .max = INFINITY)};
static const co_rule same_as_rules[] = {REL_RULE("min", CO_RULE_FLOAT, min, .min = 0, .max = 1)};

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NO_WORDS ((const char *const[]){NULL})
#define PARAMS(rules, ...) .params = (rules), .param_count = HD_COUNT_OF(rules), .param_names = WORDS(__VA_ARGS__)

/* What graph.def says of each relation. */
#define RELATION(name, text, arrow_rule, varlen, runs) \
    enum { ARROW_OF_##name = CO_ARROW_RULE_##arrow_rule, CAN_VARY_##name = varlen, IS_RUNNING_##name = runs };
#include "common/graph.def"
#define FACTS(name) .arrow = (co_arrow_rule)ARROW_OF_##name, .can_vary = CAN_VARY_##name, .is_running = IS_RUNNING_##name

static const co_relation_rule relation_rules[HD_REL_END] = {
    [HD_REL_SHARES] = {HD_LABEL_EVENT, HD_LABEL_EVENT, FACTS(SHARES), PARAMS(shares_rules, "min", "min_w"),
                       .property_names = WORDS("count", "weight", "via", "hops")},
    [HD_REL_SIMILAR] = {HD_LABEL_EVENT, HD_LABEL_EVENT, FACTS(SIMILAR), PARAMS(similar_rules, "k", "min", "exact"),
                        .property_names = WORDS("cos")},
    [HD_REL_FAR] = {HD_LABEL_EVENT, HD_LABEL_EVENT, FACTS(FAR), PARAMS(far_rules, "max"), .property_names = WORDS("cos")},
    [HD_REL_NEXT] = {HD_LABEL_EVENT, HD_LABEL_EVENT, FACTS(NEXT), PARAMS(next_rules, "source"),
                     .property_names = WORDS("source", "hops")},
    [HD_REL_RESOLVED_BY] = {HD_LABEL_EVENT, HD_LABEL_EVENT, FACTS(RESOLVED_BY), PARAMS(resolved_rules, "relation"),
                            .property_names = WORDS("relation", "asserted_at")},
    [HD_REL_PARTICIPATED_IN] = {HD_LABEL_ENTITY, HD_LABEL_EVENT, FACTS(PARTICIPATED_IN), .params = NULL, .param_count = 0,
                                .param_names = NO_WORDS, .property_names = NO_WORDS},
    [HD_REL_MEMBER_OF] = {HD_LABEL_EVENT, HD_LABEL_TAG, FACTS(MEMBER_OF), PARAMS(member_rules, "kind"),
                          .property_names = WORDS("kind")},
    [HD_REL_CONNECTED] = {HD_LABEL_ENTITY, HD_LABEL_ENTITY, FACTS(CONNECTED), PARAMS(connected_rules, "min"),
                          .property_names = WORDS("event_count")},
    [HD_REL_SAME_AS] = {HD_LABEL_ENTITY, HD_LABEL_ENTITY, FACTS(SAME_AS), PARAMS(same_as_rules, "min"),
                        .property_names = WORDS("confidence")},
};

const co_relation_rule *co_relation_rule_of(hd_relation relation) {
    HD_CHECK(relation > HD_REL_NONE && relation < HD_REL_END);
    return &relation_rules[relation];
}

const char *const co_words_labels[] = {
#define LABEL(name, text) text,
#include "common/graph.def"
    NULL,
};
const char *const co_words_relations[] = {
#define RELATION(name, text, arrow, varlen, runs) text,
#include "common/graph.def"
    NULL,
};
#define RUNNING_true(text) text,
#define RUNNING_false(text)
const char *const co_words_relations_running[] = {
#define RELATION(name, text, arrow, varlen, runs) RUNNING_##runs(text)
#include "common/graph.def"
    NULL,
};
const char *const co_words_functions[] = {"cos", "count", "min", "max", "sum", "avg", "collect", NULL};

/* ---- properties ---- */

static const char *const event_properties[] = {"id", "summary", "timestamp", "order_index", "thread", NULL};
static const char *const start_properties[] = {"id", "summary", "timestamp", "order_index", "thread", "score", NULL};
static const char *const entity_properties[] = {"id", "name", "type", "event_count", NULL};
static const char *const tag_properties[] = {"id", "name", "event_count", NULL};

const char *const *co_words_properties(hd_label label, bool is_start) {
    switch (label) {
    case HD_LABEL_EVENT: return is_start ? start_properties : event_properties;
    case HD_LABEL_ENTITY: return entity_properties;
    case HD_LABEL_TAG: return tag_properties;
    default: hd_panic(__FILE__, __LINE__, "a label of the graph");
    }
}

bool co_words_has(const char *const *words, hd_str word) {
    for (size_t i = 0; words[i]; i++) {
        if (hd_str_is_equal(word, hd_str_of(words[i]))) return true;
    }
    return false;
}

co_type_kind co_property_type(hd_property property) {
    switch (property) {
    case HD_PROP_TIMESTAMP:
    case HD_PROP_ASSERTED_AT: return CO_TYPE_INSTANT;
    case HD_PROP_ORDER_INDEX:
    case HD_PROP_SCORE:
    case HD_PROP_EVENT_COUNT:
    case HD_PROP_COUNT:
    case HD_PROP_WEIGHT:
    case HD_PROP_HOPS:
    case HD_PROP_COS:
    case HD_PROP_CONFIDENCE: return CO_TYPE_NUMBER;
    case HD_PROP_VIA: return CO_TYPE_LIST;
    default: return CO_TYPE_STRING;
    }
}

/* ---- words of other systems ---- */

typedef struct hint_row {
    const char *word, *hint;
} hint_row;

static hd_str find_hint(const hint_row *rows, size_t count, hd_str word) {
    for (size_t i = 0; i < count; i++) {
        if (hd_str_is_equal_nocase(word, hd_str_of(rows[i].word))) return hd_str_of(rows[i].hint);
    }
    return (hd_str){0};
}

hd_str co_words_function_hint(hd_str function) {
    static const char fold[] = "CONTAINS already ignores case; = compares exactly.";
    static const char instant[] = "A timestamp compares with a string as it is: a.timestamp >= '2025-01-31'.";
    static const char arithmetic[] = "Return the values and calculate where the answer is read.";
    static const char cosine[] = "Write cos(a, b).";
    static const hint_row rows[] = {
        {"toLower", fold},
        {"toUpper", fold},
        {"lower", fold},
        {"upper", fold},
        {"date", instant},
        {"datetime", instant},
        {"timestamp", instant},
        {"localdatetime", instant},
        {"now", instant},
        {"duration", instant},
        {"abs", arithmetic},
        {"round", arithmetic},
        {"floor", arithmetic},
        {"ceil", arithmetic},
        {"length", arithmetic},
        {"similarity", cosine},
        {"cosine", cosine},
        {"distance", cosine},
        {"size", "Count with count(..), or read r.count of a SHARES relation."},
        {"id", "Write the property: a.id."},
        {"elementId", "Write the property: a.id."},
        {"type", "A relation's type is the name it is matched by."},
        {"labels", "A node's label follows from its relations."},
        {"properties", "Return the variable itself, or its properties one by one."},
        {"nodes", "Name the nodes of the path and return them."},
        {"relationships", "Name the relations of the path and return them."},
        {"coalesce", "Return both values and choose where the answer is read."},
        {"exists", "Write a.thread IS NOT NULL for a property; put a pattern into MATCH."},
        {"shortestPath", "Write a variable length: (a)-[:NEXT*1..3]->(b)."},
        {"any", "Write the conditions one by one, joined with OR, or use IN."},
        {"all", "Write the conditions one by one, joined with AND."},
        {"none", "Write NOT and the condition."},
        {"single", "Write the conditions one by one."},
    };
    return find_hint(rows, HD_COUNT_OF(rows), function);
}

hd_str co_words_clause_hint(hd_str word) {
    static const char contains[] = "Use CONTAINS on the name of an Entity or a Tag.";
    static const char end[] = "Use LIMIT (up to 200), or page by time with events(until: ..).";
    static const char start[] = "Begin with START a = events(..), then MATCH, WHERE and RETURN.";
    static const hint_row rows[] = {
        {"LIKE", contains},
        {"ILIKE", contains},
        {"BETWEEN", "Write 1 <= x <= 5, or two comparisons joined with AND."},
        {"EXISTS", "Write IS NOT NULL."},
        {"HAVING", "Aggregates cannot be filtered: order by them and use LIMIT."},
        {"GROUP", "RETURN groups by the items that are no aggregates; leave GROUP BY out."},
        {"OFFSET", end},
        {"TOP", end},
        {"FETCH", end},
        {"ASCENDING", "Write ASC."},
        {"DESCENDING", "Write DESC."},
        {"FROM", start},
        {"SELECT", start},
        {"PROFILE", "Write EXPLAIN for the plan alone; every answer carries its plan too."},
        {"ELSE", "There is no CASE: return the properties themselves."},
        {"USING", "There are no planner hints; leave it out."},
        {"NULLS", "Nulls sort last, ascending or descending; leave it out."},
    };
    return find_hint(rows, HD_COUNT_OF(rows), word);
}

hd_str co_words_property_hint(hd_label label, hd_str property) {
    static const hint_row name_rows[] = {
        {"title", "Write name."},
        {"label", "Write name."},
        {"summary", "Events have a summary; this one has a name."},
        {"degree", "Write event_count."},
        {"df", "Write event_count."},
        {"frequency", "Write event_count."},
        {"count", "Write event_count."},
        {"kind", "Write type for what an Entity is; kind is a property of MEMBER_OF."},
    };
    static const hint_row event_rows[] = {
        {"content", "The content is not part of the graph: read it with the tool get_memory_content."},
        {"text", "Return summary; the content is read with the tool get_memory_content."},
        {"title", "Return summary."},
        {"description", "Return summary; the content is read with the tool get_memory_content."},
        {"entities", "Match them: (e:Entity)-[:PARTICIPATED_IN]->(a)."},
        {"tags", "Match them: (a)-[:MEMBER_OF]->(t)."},
        {"tag", "Match it: (a)-[:MEMBER_OF]->(t)."},
        {"date", "Write timestamp."},
        {"time", "Write timestamp."},
        {"created_at", "Write timestamp."},
        {"updated_at", "Write timestamp."},
        {"vector", "Vectors are not returned; compare them with cos(a, b)."},
        {"embedding", "Vectors are not returned; compare them with cos(a, b)."},
        {"similarity", "Write cos(a, b), or a.score of the start's events."},
        {"distance", "Write cos(a, b), or a.score of the start's events."},
    };
    if (label == HD_LABEL_EVENT) return find_hint(event_rows, HD_COUNT_OF(event_rows), property);
    return find_hint(name_rows, HD_COUNT_OF(name_rows), property);
}

hd_str co_words_start_hint(hd_str key) {
    static const char span[] = "Write since: for at or after, and until: for before.";
    static const char text[] = "Write text:.";
    static const char count[] = "Write k: for the number of events to start from.";
    static const hint_row rows[] = {
        {"entities", "Write entity: [..]."},
        {"name", "Write entity: or tag:."},
        {"type", "Write entity: with the entity's name."},
        {"tags", "Write tag: [..]."},
        {"id", "Write ids: [..]."},
        {"event", "Write ids: [..]."},
        {"thread", "Filter in WHERE: a.thread = $t."},
        {"query", text},
        {"q", text},
        {"sentence", text},
        {"search", text},
        {"summary", text},
        {"similar", text},
        {"embedding", "Write vector:."},
        {"limit", count},
        {"top_k", count},
        {"top_n", count},
        {"n", count},
        {"count", count},
        {"from", span},
        {"to", span},
        {"after", span},
        {"before", span},
        {"start", span},
        {"end", span},
        {"timestamp", span},
    };
    return find_hint(rows, HD_COUNT_OF(rows), key);
}

hd_str co_words_relation_hint(hd_relation relation) {
    switch (relation) {
    case HD_REL_SAME_AS: return HD_STR("Ask for all names of the entity at once with events(entity: [..]).");
    default: return HD_STR("Use one of the relations that are available.");
    }
}
