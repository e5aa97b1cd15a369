/* See order.h. */
#include "coordinator/run/order.h"

#include "coordinator/run/adjacency.h"

int co_order_compare_rows(co_run *run, const uint32_t *a, const uint32_t *b, uint32_t var_end) {
    const co_query *query = run->query;
    if (var_end > 0 && a[0] != b[0]) {
        uint32_t a_start = co_nodes_event(&run->nodes, a[0])->start_index, b_start = co_nodes_event(&run->nodes, b[0])->start_index;
        if (a_start != b_start) return a_start < b_start ? -1 : 1;
    }
    for (uint32_t v = 1; v < var_end; v++) {
        if (query->vars[v].is_relation || a[v] == b[v]) continue;
        int order = co_nodes_compare(&run->nodes, query->vars[v].label, a[v], b[v]);
        if (order != 0) return order;
    }
    for (uint32_t v = 1; v < query->var_count && var_end == query->var_count; v++) {
        if (query->vars[v].relation != HD_REL_MEMBER_OF || !query->vars[v].is_relation || a[v] == b[v]) continue;
        const uint8_t *kinds = run->rel_edges[query->vars[v].rel]->kinds; /* CONTAINS < REFERS, as the words do */
        if (kinds[a[v]] != kinds[b[v]]) return kinds[a[v]] < kinds[b[v]] ? -1 : 1;
    }
    return 0;
}

int co_order_compare(co_run *run, const hd_value *a_keys, const uint32_t *a, const hd_value *b_keys, const uint32_t *b,
                     uint32_t var_end) {
    for (uint32_t i = 0; i < run->query->order_count; i++) {
        int order = hd_value_order_key(&a_keys[i], &b_keys[i], run->query->orders[i].is_descending);
        if (order != 0) return order;
    }
    return co_order_compare_rows(run, a, b, var_end);
}
