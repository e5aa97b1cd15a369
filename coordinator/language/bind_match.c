/* Patterns: variables, relations and their parameters, the walk of section 4.1, and with it labels (4.5), arrows (4.3) and whether
 * FAR's ends are bound.
 *
 * Labels are inferred along the walk: START's variable is an Event, and a relation gives the label of its other end. Since every
 * path touches what is bound, every variable gets its label that way; written labels are then compared with the inferred ones.
 * A label of HD_LABEL_NONE in here means that a fault about it was reported. */
#include <inttypes.h>

#include "common/text.h"
#include "coordinator/language/language_private.h"

typedef struct match_state {
    co_binder *binder;
    uint32_t **path_vars; /* by path: the variables of its nodes */
    uint32_t *path_rels;  /* by path: the number of its first relation */
    bool *is_bound;       /* by variable */
    uint32_t rel_capacity;
} match_state;

static const char *label_words(hd_label label) {
    return label == HD_LABEL_ENTITY ? "an Entity" : label == HD_LABEL_TAG ? "a Tag" : "an Event";
}

/* ---- declaring: variables and relations in the order of the text ---- */

static hd_status declare_node(match_state *state, const co_tree_node *node, uint32_t *var_out) {
    co_binder *binder = state->binder;
    uint32_t known = node->var.text.data ? co_bind_find(binder, node->var.text) : UINT32_MAX;
    if (known != UINT32_MAX && !binder->query->vars[known].is_relation) {
        *var_out = known;
        return HD_OK;
    }
    co_name none = {0};
    if (known != UINT32_MAX) {
        HD_TRY(co_fault(binder->faults, CO_BLOCKED_GRAMMAR, node->var.offset, CO_HINT("Give the node a name of its own."),
                        "the variable " HD_STR_FMT " names a relation already", HD_STR_ARG(co_excerpt(node->var.text))));
        return co_bind_add_var(binder, &none, node->offset, var_out);
    }
    return co_bind_add_var(binder, &node->var, node->var.text.data ? node->var.offset : node->offset, var_out);
}

static hd_status declare_rel(match_state *state, const co_tree_rel *written, uint32_t clause) {
    co_binder *binder = state->binder;
    co_query *query = binder->query;
    co_name name = written->var;
    if (name.text.data && co_bind_find(binder, name.text) != UINT32_MAX) {
        HD_TRY(co_fault(binder->faults, CO_BLOCKED_GRAMMAR, name.offset,
                        CO_HINT("Give the relation a name of its own, or leave its name out."),
                        "the variable " HD_STR_FMT " names something already: a relation's variable may not be used twice",
                        HD_STR_ARG(co_excerpt(name.text))));
        name = (co_name){0};
    }
    if (query->rel_count == CO_RELATIONS_MAX) {
        HD_TRY(co_fault(binder->faults, CO_BLOCKED_GRAMMAR, written->offset, CO_HINT("Split the question into several queries."),
                        "a query has at most %d relations, and this is one more", CO_RELATIONS_MAX));
    }
    uint32_t var;
    HD_TRY(co_bind_add_var(binder, &name, name.text.data ? name.offset : written->offset, &var));
    HD_TRY(co_push(binder->faults->arena, (void *)&query->rels, &query->rel_count, &state->rel_capacity, sizeof *query->rels));
    query->vars[var].is_relation = true;
    query->vars[var].relation = written->relation;
    query->vars[var].rel = query->rel_count - 1;
    query->rels[query->rel_count - 1] = (co_rel){.var = var,
                                                 .relation = written->relation,
                                                 .arrow = written->arrow,
                                                 .is_variable_length = written->is_variable_length,
                                                 .hops_min = 1,
                                                 .hops_max = 1,
                                                 .clause = clause,
                                                 .offset = written->offset,
                                                 .size = written->size};
    return HD_OK;
}

static hd_status declare_path(match_state *state, uint32_t index) {
    const co_tree_path *path = &state->binder->tree->paths[index];
    uint32_t *vars;
    HD_ALLOC(vars, state->binder->faults->arena, path->node_count);
    state->path_vars[index] = vars;
    state->path_rels[index] = state->binder->query->rel_count;
    HD_TRY(declare_node(state, &path->nodes[0], &vars[0]));
    for (uint32_t i = 0; i < path->rel_count; i++) {
        HD_TRY(declare_rel(state, &path->rels[i], path->clause));
        HD_TRY(declare_node(state, &path->nodes[i + 1], &vars[i + 1]));
        co_rel *rel = &state->binder->query->rels[state->path_rels[index] + i];
        rel->left = vars[i];
        rel->right = vars[i + 1];
    }
    return HD_OK;
}

/* ---- a relation by itself: parameters, length, whether it may have an arrow ---- */

static const co_rule *find_param_rule(const co_relation_rule *relation, hd_str name) {
    for (uint32_t i = 0; i < relation->param_count; i++) {
        if (hd_str_is_equal(name, hd_str_of(relation->params[i].name))) return &relation->params[i];
    }
    return NULL;
}

static hd_status bind_rel_params(match_state *state, const co_tree_rel *written, co_rel *rel) {
    co_faults *faults = state->binder->faults;
    const co_relation_rule *relation = co_relation_rule_of(rel->relation);
    const char *name = hd_relation_name(rel->relation);
    for (uint32_t i = 0; i < written->props.count; i++) {
        const co_pair *pair = &written->props.items[i];
        const co_rule *rule = find_param_rule(relation, pair->name.text);
        if (!rule) {
            co_advice advice;
            hd_str fallback = relation->param_count ? HD_STR("Filter by properties in WHERE.") : HD_STR("Leave the braces out.");
            HD_TRY(co_advise(faults, pair->name.text, "allowed_params", relation->param_names, fallback, &advice));
            HD_TRY(co_fault(faults, CO_BLOCKED_GRAMMAR, pair->name.offset, &advice, "%s has no parameter " HD_STR_FMT, name,
                            HD_STR_ARG(co_excerpt(pair->name.text))));
            continue;
        }
        hd_expr **field = (hd_expr **)(void *)((char *)rel + rule->field);
        if (*field) {
            HD_TRY(co_fault(faults, CO_BLOCKED_GRAMMAR, pair->name.offset, CO_HINT("Write each parameter once."),
                            "%s of %s stands twice", rule->name, name));
        }
        *field = pair->value;
        HD_TRY(co_rule_check(&state->binder->checker, rule, name, pair->value));
        HD_TRY(co_bind_fold(state->binder, pair->value));
    }
    return HD_OK;
}

static hd_status bind_rel_length(match_state *state, const co_tree_rel *written, co_rel *rel) {
    co_faults *faults = state->binder->faults;
    if (!written->is_variable_length) return HD_OK;
    if (!co_relation_rule_of(rel->relation)->can_vary) {
        return co_fault(faults, CO_BLOCKED_GRAMMAR, written->hops_offset, CO_HINT("Take the * out, and write one pattern a step."),
                        "%s has no variable length; SHARES and NEXT have", hd_relation_name(rel->relation));
    }
    if (written->hops_min < 1 || written->hops_max < 1 || written->hops_min > CO_HOPS_MAX || written->hops_max > CO_HOPS_MAX) {
        return co_fault(faults, CO_BLOCKED_GRAMMAR, written->hops_offset,
                        CO_HINT("Write *, *2, *1..3, *..3 or *2.., within 1 and 3."), "a variable length is from 1 to %d",
                        CO_HOPS_MAX);
    }
    if (written->hops_min > written->hops_max) {
        return co_fault(faults, CO_BLOCKED_GRAMMAR, written->hops_offset,
                        &(co_advice){.hint = HD_STR("Write the smaller number first.")},
                        "the length *%" PRIu64 "..%" PRIu64 " holds nothing", written->hops_min, written->hops_max);
    }
    rel->hops_min = (uint32_t)written->hops_min;
    rel->hops_max = (uint32_t)written->hops_max;
    return HD_OK;
}

static hd_status bind_rel_arrow(match_state *state, const co_rel *rel) {
    const co_relation_rule *rule = co_relation_rule_of(rel->relation);
    const char *name = hd_relation_name(rel->relation);
    co_faults *faults = state->binder->faults;
    co_advice advice = {0};
    if (rule->arrow == CO_ARROW_RULE_NONE && rel->arrow != CO_ARROW_NONE) {
        HD_TRY(hd_arena_printf(faults->arena, &advice.hint, "Write -[:%s]-.", name));
        return co_fault(faults, CO_BLOCKED_GRAMMAR, rel->offset, &advice, "%s has no direction, so it takes no arrow", name);
    }
    if (rule->arrow == CO_ARROW_RULE_REQUIRED && rel->arrow == CO_ARROW_NONE) {
        HD_TRY(hd_arena_printf(faults->arena, &advice.hint,
                               rel->relation == HD_REL_NEXT ? "Write -[:%s]-> for what follows, or <-[:%s]- for what came before."
                                                            : "Write -[:%s]-> or <-[:%s]-.",
                               name, name));
        return co_fault(faults, CO_BLOCKED_GRAMMAR, rel->offset, &advice, "%s has a direction, so it needs an arrow", name);
    }
    return HD_OK;
}

static hd_status bind_rel(match_state *state, const co_tree_rel *written, co_rel *rel) {
    if (rel->relation == HD_REL_NONE) return HD_OK;
    HD_TRY(bind_rel_arrow(state, rel));
    HD_TRY(bind_rel_length(state, written, rel));
    return bind_rel_params(state, written, rel);
}

/* ---- the walk ---- */

/* The label that the far end of a relation has when the near end has `near`; NONE: the relation does not take `near`. */
static hd_label other_end(const co_relation_rule *rule, hd_label near) {
    if (near == rule->from) return rule->to;
    return near == rule->to ? rule->from : HD_LABEL_NONE;
}

static hd_status report_end(match_state *state, const co_rel *rel, uint32_t var) {
    const co_relation_rule *rule = co_relation_rule_of(rel->relation);
    const co_var *end = &state->binder->query->vars[var];
    co_faults *faults = state->binder->faults;
    hd_str who = end->name.data ? co_excerpt(end->name) : HD_STR("a node");
    co_advice advice = {.hint = HD_STR("Use another variable there, or a relation that fits what it is.")};
    if (rule->from == rule->to) {
        return co_fault(faults, CO_BLOCKED_GRAMMAR, rel->offset, &advice,
                        "%s joins two nodes of the label %s, and " HD_STR_FMT " is %s", hd_relation_name(rel->relation),
                        hd_label_name(rule->from), HD_STR_ARG(who), label_words(end->label));
    }
    return co_fault(faults, CO_BLOCKED_GRAMMAR, rel->offset, &advice,
                    "%s joins %s to %s, and " HD_STR_FMT " is %s at an end where it cannot be", hd_relation_name(rel->relation),
                    label_words(rule->from), label_words(rule->to), HD_STR_ARG(who), label_words(end->label));
}

static hd_status infer_label(match_state *state, const co_rel *rel, uint32_t from, uint32_t to) {
    co_var *vars = state->binder->query->vars;
    const co_relation_rule *rule = co_relation_rule_of(rel->relation);
    if (vars[from].label == HD_LABEL_NONE) {
        if (rule->from == rule->to && !state->is_bound[to]) vars[to].label = rule->to;
        return HD_OK;
    }
    hd_label label = other_end(rule, vars[from].label);
    if (label == HD_LABEL_NONE) return report_end(state, rel, from);
    if (!state->is_bound[to]) vars[to].label = label;
    return vars[to].label == HD_LABEL_NONE || vars[to].label == label ? HD_OK : report_end(state, rel, to);
}

/* Section 4.3, where the ends decide which way an arrow points. */
static hd_status fit_arrow(match_state *state, co_rel *rel) {
    co_binder *binder = state->binder;
    const co_relation_rule *rule = co_relation_rule_of(rel->relation);
    hd_label left = binder->query->vars[rel->left].label, right = binder->query->vars[rel->right].label;
    if (rule->from == rule->to || left == HD_LABEL_NONE || right == HD_LABEL_NONE || left == right) return HD_OK;
    co_arrow fitting = left == rule->from ? CO_ARROW_RIGHT : CO_ARROW_LEFT;
    if (rel->arrow == fitting) return HD_OK;
    if (rel->arrow != CO_ARROW_NONE) {
        co_advice advice = {0};
        HD_TRY(hd_arena_printf(binder->faults->arena, &advice.hint,
                               fitting == CO_ARROW_RIGHT ? "Write -[:%s]->." : "Write <-[:%s]-.", hd_relation_name(rel->relation)));
        return co_fault(binder->faults, CO_BLOCKED_GRAMMAR, rel->offset, &advice, "the arrow of %s goes from %s to %s",
                        hd_relation_name(rel->relation), label_words(rule->from), label_words(rule->to));
    }
    if (rule->arrow != CO_ARROW_RULE_MEMBER) return HD_OK;
    rel->arrow = fitting;
    co_query *query = binder->query;
    uint32_t line, column;
    co_position(query->text, rel->offset, &line, &column);
    HD_TRY(co_push(binder->faults->arena, (void *)&query->notes, &query->note_count, &binder->note_capacity, sizeof *query->notes));
    return hd_arena_printf(binder->faults->arena, &query->notes[query->note_count - 1],
                           "the arrow of MEMBER_OF at line %" PRIu32 ", column %" PRIu32
                           " was filled in: it goes from the Event to the Tag",
                           line, column);
}

static hd_status walk_rel(match_state *state, uint32_t rel_index, uint32_t from, uint32_t to, const co_tree_rel *written) {
    co_query *query = state->binder->query;
    co_rel *rel = &query->rels[rel_index];
    bool is_filter = state->is_bound[to];
    if (rel->relation != HD_REL_NONE) {
        HD_TRY(infer_label(state, rel, from, to));
        HD_TRY(fit_arrow(state, rel));
        if (rel->relation == HD_REL_FAR && !is_filter) {
            co_advice advice = {.hint = HD_STR("Reach the node first, with a relation such as SHARES in an earlier pattern.")};
            hd_str name = query->vars[to].name;
            if (name.data) {
                HD_TRY(hd_arena_printf(state->binder->faults->arena, &advice.hint,
                                       "Reach " HD_STR_FMT " first, with a relation such as SHARES in a pattern before this one.",
                                       HD_STR_ARG(co_excerpt(name))));
            }
            HD_TRY(co_fault(state->binder->faults, CO_BLOCKED_GRAMMAR, written->relation_name.offset, &advice,
                            "FAR filters a pair that is bound, and one of its ends is not bound there"));
        }
    }
    state->is_bound[to] = true;
    co_walk_step *step = &query->walk[rel_index];
    *step = (co_walk_step){.rel = rel_index, .from = from, .to = to, .is_filter = is_filter};
    return HD_OK;
}

/* From the leftmost bound node rightwards to the end, then leftwards to the beginning. The steps of a path stand in walk[] from its
 * first relation's number on, so they are put there in walking order afterwards. */
static hd_status walk_path(match_state *state, uint32_t index) {
    co_query *query = state->binder->query;
    const co_tree_path *path = &state->binder->tree->paths[index];
    const uint32_t *vars = state->path_vars[index];
    uint32_t first = state->path_rels[index], entry = 0;
    while (entry < path->node_count && !state->is_bound[vars[entry]]) entry++;
    if (entry == path->node_count) {
        HD_TRY(co_fault(state->binder->faults, CO_BLOCKED_GRAMMAR, path->offset,
                        CO_HINT("Let each path touch a variable of START or of a path before it."),
                        "this path touches no variable that is bound: it would be a product of unrelated sets"));
        for (uint32_t i = 0; i < path->node_count; i++) state->is_bound[vars[i]] = true;
        return HD_OK;
    }
    for (uint32_t i = entry; i < path->rel_count; i++) HD_TRY(walk_rel(state, first + i, vars[i], vars[i + 1], &path->rels[i]));
    for (uint32_t i = entry; i-- > 0;) HD_TRY(walk_rel(state, first + i, vars[i + 1], vars[i], &path->rels[i]));
    co_walk_step *steps;
    HD_ALLOC(steps, state->binder->faults->arena, path->rel_count);
    for (uint32_t i = 0; i < path->rel_count; i++) {
        uint32_t rightwards = path->rel_count - entry;
        steps[i] = query->walk[first + (i < rightwards ? entry + i : path->rel_count - 1 - i)];
    }
    if (path->rel_count > 0) memcpy(&query->walk[first], steps, path->rel_count * sizeof *steps);
    return HD_OK;
}

/* ---- written labels, property maps ---- */

static hd_status check_label(match_state *state, const co_tree_node *node, uint32_t var) {
    hd_label label = state->binder->query->vars[var].label;
    if (node->label == HD_LABEL_NONE || label == HD_LABEL_NONE || node->label == label) return HD_OK;
    static const char *const labels[][2] = {
        [HD_LABEL_EVENT] = {"Event", NULL}, [HD_LABEL_ENTITY] = {"Entity", NULL}, [HD_LABEL_TAG] = {"Tag", NULL}};
    co_advice advice = {.allowed_key = "allowed_labels", .allowed = labels[label]};
    HD_TRY(hd_arena_printf(state->binder->faults->arena, &advice.hint, "Write :%s, or leave the label out.", hd_label_name(label)));
    return co_fault(state->binder->faults, CO_BLOCKED_GRAMMAR, node->label_name.offset, &advice,
                    "the label %s contradicts the pattern, in which the node is %s", hd_label_name(node->label),
                    label_words(label));
}

/* {name: value} is a condition var.name = value. */
static hd_status bind_prop(match_state *state, const co_pair *pair, uint32_t var) {
    co_binder *binder = state->binder;
    hd_arena *arena = binder->faults->arena;
    hd_expr *property, *equality;
    uint32_t end = pair->value->offset + pair->value->size;
    HD_TRY(co_term_new(arena, HD_EXPR_PROPERTY, pair->name.offset, pair->name.size, &property));
    HD_TRY(co_term_new(arena, HD_EXPR_EQ, pair->name.offset, end - pair->name.offset, &equality));
    property->index = var;
    co_term_of(property)->name2 = pair->name;
    HD_ALLOC(equality->args, arena, 2);
    equality->args[0] = property;
    equality->args[1] = pair->value;
    equality->arg_count = 2;
    HD_TRY(co_bind_property(binder, property));
    HD_TRY(co_type_check_condition(&binder->checker, equality));
    HD_TRY(co_bind_fold(binder, equality));
    return co_bind_conjuncts(binder, equality);
}

hd_status co_bind_match(co_binder *binder) {
    co_tree *tree = binder->tree;
    co_query *query = binder->query;
    hd_arena *arena = binder->faults->arena;
    match_state state = {.binder = binder};
    HD_ALLOC(state.path_vars, arena, tree->path_count);
    HD_ALLOC(state.path_rels, arena, tree->path_count);
    for (uint32_t p = 0; p < tree->path_count; p++) HD_TRY(declare_path(&state, p));
    HD_ALLOC(state.is_bound, arena, query->var_count);
    HD_ALLOC(query->walk, arena, query->rel_count);
    state.is_bound[0] = true;
    for (uint32_t p = 0; p < tree->path_count; p++) {
        for (uint32_t i = 0; i < tree->paths[p].rel_count; i++) {
            HD_TRY(bind_rel(&state, &tree->paths[p].rels[i], &query->rels[state.path_rels[p] + i]));
        }
        HD_TRY(walk_path(&state, p));
    }
    for (uint32_t p = 0; p < tree->path_count; p++) {
        for (uint32_t i = 0; i < tree->paths[p].node_count; i++) {
            const co_tree_node *node = &tree->paths[p].nodes[i];
            HD_TRY(check_label(&state, node, state.path_vars[p][i]));
            for (uint32_t k = 0; k < node->props.count; k++)
                HD_TRY(bind_prop(&state, &node->props.items[k], state.path_vars[p][i]));
        }
    }
    return HD_OK;
}
