#include "common/graph.h"

static const char *const label_names[] = {
    [HD_LABEL_NONE] = "",
#define LABEL(name, text) [HD_LABEL_##name] = text,
#include "common/graph.def"
};

static const char *const relation_names[] = {
    [HD_REL_NONE] = "",
#define RELATION(name, text, arrow, varlen, runs) [HD_REL_##name] = text,
#include "common/graph.def"
};

static const char *const property_names[] = {
    [HD_PROP_NONE] = "",
#define PROPERTY(name, text) [HD_PROP_##name] = text,
#include "common/graph.def"
};

/* The number of the spelling, 0 (which is …_NONE in all three) for none. */
static unsigned find_name(const char *const *names, size_t count, hd_str text) {
    for (unsigned i = 1; i < count; i++) {
        if (hd_str_is_equal(hd_str_of(names[i]), text)) return i;
    }
    return 0;
}

const char *hd_label_name(hd_label label) {
    HD_CHECK(label < HD_LABEL_END);
    return label_names[label];
}

const char *hd_relation_name(hd_relation relation) {
    HD_CHECK(relation < HD_REL_END);
    return relation_names[relation];
}

const char *hd_property_name(hd_property property) {
    HD_CHECK(property < HD_PROP_END);
    return property_names[property];
}

hd_label hd_label_parse(hd_str text) {
    return find_name(label_names, HD_COUNT_OF(label_names), text);
}

hd_relation hd_relation_parse(hd_str text) {
    return find_name(relation_names, HD_COUNT_OF(relation_names), text);
}

hd_property hd_property_parse(hd_str text) {
    return find_name(property_names, HD_COUNT_OF(property_names), text);
}
