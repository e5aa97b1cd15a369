/* Merging what shards answered to one step into one result, by the rules of fanout.h. Knows nothing of wires, budgets or verdicts:
 * pieces in, result out, the same pieces in the same order always giving the same result. */
#ifndef CO_RUN_MERGE_H
#define CO_RUN_MERGE_H

#include "proto/step.h"

/* One answer: of some partitions, to all of the step's frontier or to a part of it. */
typedef struct co_piece {
    const hd_step_result *result;
    const uint32_t *rows;      /* what was frontier node i of the request is node rows[i] of the step; NULL: i itself */
    const uint32_t *edge_rows; /* MEASURE: the same for edges */
} co_piece;

typedef struct co_merge {
    hd_arena *arena;   /* of the result; columns are copied, strings borrowed from the pieces */
    hd_arena *scratch; /* may be reset as soon as the merge returns */
    const hd_step *step;
    uint32_t frontier_count, edge_count; /* nodes of the step's frontier; MEASURE: its edges */
    const co_piece *pieces;
    uint32_t piece_count;
    bool are_pieces_disjoint; /* no partition stands behind two pieces: they have no event in common */
    bool is_whole;            /* every partition that had to be asked answered completely: the thread order of NEXT is known */
} co_merge;

/* The merged result without verdicts, and without is_candidates_exact, which only verdicts can tell. Where one piece is all there
 * is, its tables are lent, not copied. */
HD_MUST_USE hd_status co_merge_run(const co_merge *merge, hd_step_result *result_out);

#endif
