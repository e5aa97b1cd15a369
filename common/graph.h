/* Enums of labels, relations and properties, expanded from graph.def. */
#ifndef HD_COMMON_GRAPH_H
#define HD_COMMON_GRAPH_H

#include "common/base.h"

typedef enum hd_label {
    HD_LABEL_NONE,
#define LABEL(name, text) HD_LABEL_##name,
#include "common/graph.def"
    HD_LABEL_END
} hd_label;

typedef enum hd_relation {
    HD_REL_NONE,
#define RELATION(name, text, arrow, varlen, runs) HD_REL_##name,
#include "common/graph.def"
    HD_REL_END
} hd_relation;

typedef enum hd_property {
    HD_PROP_NONE,
#define PROPERTY(name, text) HD_PROP_##name,
#include "common/graph.def"
    HD_PROP_END
} hd_property;

/* Spelling ↔ number; parse is case-sensitive and gives …_NONE for an unknown word. */
const char *hd_label_name(hd_label label);
const char *hd_relation_name(hd_relation relation);
const char *hd_property_name(hd_property property);
hd_label hd_label_parse(hd_str text);
hd_relation hd_relation_parse(hd_str text);
hd_property hd_property_parse(hd_str text);

/* MEMBER_OF.kind, NEXT.source. A bit each; one event may carry a tag in both kinds. */
enum { HD_KIND_CONTAINS = 1, HD_KIND_REFERS = 2 };
enum { HD_SOURCE_THREAD = 1, HD_SOURCE_EXPLICIT = 2 };

#endif
