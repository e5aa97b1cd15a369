/* The walk is a depth-first one along first parents first, each commit listed when all its parents are: oldest first, a branch just
 * before the merge that takes it in, and the same order at every run. */
#define _GNU_SOURCE
#include "client/import/git_history.h"

#include <git2.h>
#include <stdio.h>

#include "common/buf.h"
#include "common/map.h"
#include "common/text.h"

enum {
    NONE = UINT32_MAX,
    /* Pairs of added and deleted files up to which renames are looked for by likeness; above, by equal content alone. A commit that
     * moves a whole tree would take minutes otherwise. */
    PAIRS_MAX = 1000000,
};

typedef struct node {
    const git_oid *oid; /* in history->arena */
    git_oid tree;
    uint32_t first_parent; /* node, or NONE */
    uint32_t parents;      /* beginning of its parents in history->parents */
    uint32_t parent_count;
    uint32_t order; /* place in the chain, from 1; 0: off it */
    bool is_read, is_missing, has_tree;
} node;

struct cl_git_history {
    git_repository *repository;
    git_odb *objects;
    hd_arena *arena; /* oids: keys of `known` */
    hd_map known;    /* oid → node */
    node *nodes;
    uint32_t node_count, node_capacity;
    uint32_t *parents;
    uint32_t parent_count, parent_capacity;
    uint32_t *order; /* nodes that are there, oldest first */
    uint32_t order_count;
    uint32_t missing;
    char *name;
};

static hd_status fail_git(hd_error *error, hd_status status, const char *what) {
    const git_error *last = git_error_last();
    return hd_error_set(error, status, "git", "%s: %s", what,
                        last != NULL && last->message != NULL ? last->message : "no reason told");
}

/* ---- the walk ---- */

static uint32_t intern(cl_git_history *h, const git_oid *oid) {
    hd_str key = {(const char *)oid->id, sizeof(oid->id)};
    uint32_t index = hd_map_get(&h->known, key);
    if (index != HD_MAP_NONE) return index;
    git_oid *kept = hd_arena_alloc(h->arena, sizeof(*kept));
    bool is_new;
    HD_CHECK(kept != NULL); /* the arena has no cap */
    *kept = *oid;
    if (h->node_count == h->node_capacity) {
        h->node_capacity = HD_MAX(1024u, h->node_capacity * 2);
        h->nodes = hd_realloc(h->nodes, h->node_capacity * sizeof(*h->nodes));
    }
    key.data = (const char *)kept->id;
    HD_CHECK(hd_map_put(&h->known, key, h->node_count, &index, &is_new) == HD_OK);
    h->nodes[h->node_count++] = (node){.oid = kept, .first_parent = NONE};
    return index;
}

static void add_parent(cl_git_history *h, uint32_t parent) {
    if (h->parent_count == h->parent_capacity) {
        h->parent_capacity = HD_MAX(1024u, h->parent_capacity * 2);
        h->parents = hd_realloc(h->parents, h->parent_capacity * sizeof(*h->parents));
    }
    h->parents[h->parent_count++] = parent;
}

/* A commit's bytes, copied into the arena. False: it is not there, or is no commit. */
static bool read_object(cl_git_history *h, const git_oid *oid, hd_arena *arena, hd_str *bytes_out) {
    git_odb_object *object;
    if (git_odb_read(&object, h->objects, oid) != 0) return false;
    bool is_commit = git_odb_object_type(object) == GIT_OBJECT_COMMIT;
    hd_str bytes = {git_odb_object_data(object), git_odb_object_size(object)};
    is_commit = is_commit && hd_arena_dup(arena, bytes, bytes_out) == HD_OK;
    git_odb_object_free(object);
    return is_commit;
}

/* Reads what the walk needs of a commit: its tree and its parents. */
static void read_node(cl_git_history *h, uint32_t index, hd_arena *scratch) {
    hd_arena_mark mark = hd_arena_get_mark(scratch);
    cl_git_commit commit;
    hd_str bytes;
    git_oid oid;
    node *n = &h->nodes[index];
    n->is_read = true;
    n->parents = h->parent_count;
    if (!read_object(h, n->oid, scratch, &bytes) || cl_git_commit_parse(scratch, bytes, &commit) != HD_OK) {
        n->is_missing = true;
        h->missing++;
    } else {
        n->has_tree = commit.tree.data != NULL && git_oid_fromstrn(&n->tree, commit.tree.data, commit.tree.size) == 0;
        for (uint32_t i = 0; i < commit.parent_count; i++) {
            if (git_oid_fromstrn(&oid, commit.parents[i].data, commit.parents[i].size) != 0) continue;
            uint32_t parent = intern(h, &oid);
            n = &h->nodes[index]; /* interning may have moved it */
            add_parent(h, parent);
            n->parent_count++;
        }
    }
    hd_arena_rollback(scratch, mark);
}

typedef struct frame {
    uint32_t node, next; /* next parent to look at */
} frame;

static void walk(cl_git_history *h, uint32_t head) {
    hd_arena *scratch = hd_arena_new(0);
    size_t depth = 0, capacity = 1024;
    frame *stack = hd_alloc(capacity * sizeof(*stack));
    uint32_t order_capacity = 0;
    stack[depth++] = (frame){head, 0};
    read_node(h, head, scratch);
    while (depth > 0) {
        frame *top = &stack[depth - 1];
        const node *n = &h->nodes[top->node];
        if (top->next < n->parent_count) {
            uint32_t parent = h->parents[n->parents + top->next++];
            if (h->nodes[parent].is_read) continue;
            read_node(h, parent, scratch);
            if (depth == capacity) {
                capacity *= 2;
                stack = hd_realloc(stack, capacity * sizeof(*stack));
            }
            stack[depth++] = (frame){parent, 0};
            continue;
        }
        depth--;
        if (n->is_missing) continue;
        if (h->order_count == order_capacity) {
            order_capacity = HD_MAX(1024u, order_capacity * 2);
            h->order = hd_realloc(h->order, order_capacity * sizeof(*h->order));
        }
        h->order[h->order_count++] = top->node;
    }
    hd_free(stack);
    hd_arena_free(scratch);
}

/* First parents, as far as they are there; then the chain from the newest commit back, numbered from its oldest. */
static void mark_chain(cl_git_history *h, uint32_t head) {
    for (uint32_t i = 0; i < h->node_count; i++) {
        node *n = &h->nodes[i];
        if (n->parent_count > 0 && !h->nodes[h->parents[n->parents]].is_missing) n->first_parent = h->parents[n->parents];
    }
    uint32_t length = 0;
    for (uint32_t i = head; i != NONE; i = h->nodes[i].first_parent) length++;
    for (uint32_t i = head; i != NONE; i = h->nodes[i].first_parent) h->nodes[i].order = length--;
}

/* ---- opening ---- */

/* The last piece of the repository's own path, without ".git": "/work/heddle/.git/" and "/srv/heddle.git/" are "heddle". */
static hd_str get_folder_name(const char *path) {
    hd_str name = hd_str_of(path);
    for (;;) {
        while (name.size > 0 && name.data[name.size - 1] == '/') name.size--;
        if (name.size < 4 || memcmp(name.data + name.size - 4, ".git", 4) != 0) break;
        name.size -= 4;
    }
    const char *slash = name.size > 0 ? memrchr(name.data, '/', name.size) : NULL;
    if (slash != NULL) name = (hd_str){slash + 1, name.size - (size_t)(slash + 1 - name.data)};
    return name.size > 0 ? name : HD_STR("repository");
}

static void make_default_name(cl_git_history *h, const char *branch) {
    hd_buf name = {0};
    hd_buf_add_str(&name, get_folder_name(git_repository_commondir(h->repository)));
    hd_buf_printf(&name, "/%s", branch);
    h->name = hd_str_to_c(hd_buf_get(&name));
    hd_buf_fini(&name);
}

/* The commit that a reference's target or a revision leads to. The library parses a commit only where there is no way around it (a
 * tag, an expression): it refuses some that are read here. */
static bool peel(cl_git_history *h, const git_oid *target, git_oid *commit_out) {
    git_object *object = NULL, *commit = NULL;
    size_t size;
    git_object_t type;
    if (commit_out != target) *commit_out = *target;
    if (git_odb_read_header(&size, &type, h->objects, target) != 0 || type == GIT_OBJECT_COMMIT)
        return true; /* the walk will tell */
    bool is_found = git_object_lookup(&object, h->repository, target, GIT_OBJECT_ANY) == 0 &&
                    git_object_peel(&commit, object, GIT_OBJECT_COMMIT) == 0;
    if (is_found) *commit_out = *git_object_id(commit);
    git_object_free(commit);
    git_object_free(object);
    return is_found;
}

/* A name of a reference first, then any other way to say a commit. */
static bool find_ref(cl_git_history *h, const char *ref, git_oid *head_out) {
    git_reference *named = NULL, *direct = NULL;
    git_object *object = NULL;
    bool is_found = false;
    if (strlen(ref) == GIT_OID_HEXSZ && git_oid_fromstr(head_out, ref) == 0 && git_odb_exists(h->objects, head_out) == 1)
        return peel(h, head_out, head_out);
    if (git_reference_dwim(&named, h->repository, ref) == 0 && git_reference_resolve(&direct, named) == 0)
        is_found = peel(h, git_reference_target(direct), head_out);
    else if (git_revparse_single(&object, h->repository, ref) == 0)
        is_found = peel(h, git_object_id(object), head_out);
    git_object_free(object);
    git_reference_free(named);
    git_reference_free(direct);
    return is_found;
}

/* The commit that `ref` (NULL: HEAD) stands for, and what the branch is called. */
static hd_status find_head(cl_git_history *h, const char *path, const char *ref, git_oid *head_out, hd_error *error) {
    git_reference *head = NULL;
    char what[320];
    if (ref != NULL) {
        make_default_name(h, ref);
        snprintf(what, sizeof(what), "%.200s: no commit is called \"%.40s\"", path, ref);
        return find_ref(h, ref, head_out) ? HD_OK : fail_git(error, HD_ARGUMENT, what);
    }
    int code = git_repository_head(&head, h->repository);
    if (code == GIT_EUNBORNBRANCH || code == GIT_ENOTFOUND)
        return hd_error_set(error, HD_ARGUMENT, "git", "%s has no commits yet", path);
    if (code != 0) return fail_git(error, HD_ARGUMENT, path);
    bool is_detached = git_repository_head_detached(h->repository) == 1;
    make_default_name(h, is_detached ? "HEAD" : git_reference_shorthand(head));
    bool is_found = peel(h, git_reference_target(head), head_out);
    git_reference_free(head);
    return is_found ? HD_OK : fail_git(error, HD_ARGUMENT, path);
}

static hd_status open_repository(cl_git_history *h, const char *path, hd_error *error) {
    if (git_repository_open_ext(&h->repository, path, 0, NULL) != 0) {
        const git_error *last = git_error_last();
        return hd_error_set(error, HD_ARGUMENT, "git", "%s is no git repository that can be read: %s", path,
                            last != NULL && last->message != NULL ? last->message : "no reason told");
    }
    if (git_repository_odb(&h->objects, h->repository) != 0) return fail_git(error, HD_STORE_CORRUPT, path);
    return HD_OK;
}

hd_status cl_git_history_open(const char *path, const char *ref, cl_git_history **history_out, hd_error *error) {
    git_oid head;
    *history_out = NULL;
    if (git_libgit2_init() < 0) return fail_git(error, HD_INTERNAL, "the git library does not start");
    /* Whose repository it is does not matter to one who only reads objects of it: no hook and no setting of it is run. */
    git_libgit2_opts(GIT_OPT_SET_OWNER_VALIDATION, 0);
    cl_git_history *h = hd_alloc_zero(1, sizeof(*h));
    h->arena = hd_arena_new(0);
    hd_map_init(&h->known, NULL);
    hd_status status = open_repository(h, path, error);
    if (status == HD_OK) status = find_head(h, path, ref, &head, error);
    if (status == HD_OK) {
        uint32_t index = intern(h, &head);
        walk(h, index);
        if (h->nodes[index].is_missing)
            status = hd_error_set(error, HD_STORE_CORRUPT, "git", "%s: the newest commit cannot be read", path);
        else
            mark_chain(h, index);
    }
    if (status != HD_OK) {
        cl_git_history_free(h);
        return status;
    }
    *history_out = h;
    return HD_OK;
}

void cl_git_history_free(cl_git_history *h) {
    if (h == NULL) return;
    git_odb_free(h->objects);
    git_repository_free(h->repository);
    hd_map_fini(&h->known);
    hd_arena_free(h->arena);
    hd_free(h->nodes);
    hd_free(h->parents);
    hd_free(h->order);
    hd_free(h->name);
    hd_free(h);
    git_libgit2_shutdown();
}

uint32_t cl_git_history_count(const cl_git_history *h) {
    return h->order_count;
}
uint32_t cl_git_history_missing(const cl_git_history *h) {
    return h->missing;
}
const char *cl_git_history_name(const cl_git_history *h) {
    return h->name;
}

void cl_git_history_hash(const cl_git_history *h, uint32_t index, char hash_out[CL_GIT_HASH_TEXT + 1]) {
    git_oid_tostr(hash_out, CL_GIT_HASH_TEXT + 1, h->nodes[h->order[index]].oid);
}

/* ---- changes ---- */

static char get_status(git_delta_t status) {
    switch (status) {
    case GIT_DELTA_ADDED: return 'A';
    case GIT_DELTA_DELETED: return 'D';
    case GIT_DELTA_RENAMED: return 'R';
    case GIT_DELTA_TYPECHANGE: return 'T';
    default: return 'M';
    }
}

/* Turns pairs of a deleted and an added file into renames. A failure (content that is not here, as in a partial clone) leaves them as
 * they are. */
static void find_renames(git_diff *diff, cl_git_warn *warn, void *self) {
    size_t added = 0, deleted = 0;
    for (size_t i = 0; i < git_diff_num_deltas(diff); i++) {
        git_delta_t status = git_diff_get_delta(diff, i)->status;
        added += status == GIT_DELTA_ADDED;
        deleted += status == GIT_DELTA_DELETED;
    }
    if (added == 0 || deleted == 0) return;
    git_diff_find_options options;
    if (git_diff_find_options_init(&options, GIT_DIFF_FIND_OPTIONS_VERSION) != 0) return;
    options.flags = GIT_DIFF_FIND_RENAMES;
    if (added > PAIRS_MAX / deleted) options.flags |= GIT_DIFF_FIND_EXACT_MATCH_ONLY;
    if (git_diff_find_similar(diff, &options) != 0)
        warn(self, HD_STR("renames could not be looked for: a file's content is not here"));
}

static hd_status take_changes(const git_diff *diff, hd_arena *arena, cl_git_event *event_out) {
    size_t count = git_diff_num_deltas(diff);
    cl_git_change *changes;
    HD_ALLOC(changes, arena, count);
    for (size_t i = 0; i < count; i++) {
        const git_diff_delta *delta = git_diff_get_delta(diff, i);
        changes[i].status = get_status(delta->status);
        bool is_old = delta->status == GIT_DELTA_DELETED;
        HD_TRY(hd_arena_dup(arena, hd_str_of(is_old ? delta->old_file.path : delta->new_file.path), &changes[i].path));
        if (delta->status == GIT_DELTA_RENAMED) HD_TRY(hd_arena_dup(arena, hd_str_of(delta->old_file.path), &changes[i].old_path));
    }
    event_out->changes = changes;
    event_out->change_count = (uint32_t)count;
    return HD_OK;
}

/* Against the first parent; without one, all files are new. */
static hd_status read_changes(cl_git_history *h, const node *n, hd_arena *arena, cl_git_warn *warn, void *self,
                              cl_git_event *event_out) {
    const node *parent = n->first_parent != NONE ? &h->nodes[n->first_parent] : NULL;
    git_tree *old_tree = NULL, *new_tree = NULL;
    git_diff *diff = NULL;
    git_diff_options options;
    HD_CHECK(git_diff_options_init(&options, GIT_DIFF_OPTIONS_VERSION) == 0);
    options.flags = GIT_DIFF_INCLUDE_TYPECHANGE | GIT_DIFF_SKIP_BINARY_CHECK;
    hd_status status = HD_OK;
    bool is_read = n->has_tree && git_tree_lookup(&new_tree, h->repository, &n->tree) == 0;
    if (is_read && parent != NULL) is_read = parent->has_tree && git_tree_lookup(&old_tree, h->repository, &parent->tree) == 0;
    is_read = is_read && git_diff_tree_to_tree(&diff, h->repository, old_tree, new_tree, &options) == 0;
    if (is_read) {
        find_renames(diff, warn, self);
        status = take_changes(diff, arena, event_out);
    } else {
        warn(self, HD_STR("the files it changed cannot be read; it comes without them"));
    }
    git_diff_free(diff);
    git_tree_free(old_tree);
    git_tree_free(new_tree);
    return status;
}

static hd_status format_hash(hd_arena *arena, const git_oid *oid, const char **hash_out) {
    char *hash;
    HD_ALLOC(hash, arena, CL_GIT_HASH_TEXT + 1);
    git_oid_tostr(hash, CL_GIT_HASH_TEXT + 1, oid);
    *hash_out = hash;
    return HD_OK;
}

hd_status cl_git_history_read(cl_git_history *h, uint32_t index, hd_arena *arena, cl_git_warn *warn, void *self,
                              cl_git_event *event_out, bool *is_on_chain_out) {
    const node *n = &h->nodes[h->order[index]];
    cl_git_commit *commit;
    hd_str bytes;
    *event_out = (cl_git_event){.order_index = n->order};
    *is_on_chain_out = n->order > 0;
    HD_ALLOC(commit, arena, 1);
    HD_TRY(format_hash(arena, n->oid, &event_out->hash));
    if (n->first_parent != NONE) HD_TRY(format_hash(arena, h->nodes[n->first_parent].oid, &event_out->first_parent));
    if (!read_object(h, n->oid, arena, &bytes)) return HD_STORE_CORRUPT; /* it was there when the walk came by */
    HD_TRY(cl_git_commit_parse(arena, bytes, commit));
    event_out->commit = commit;
    return read_changes(h, n, arena, warn, self, event_out);
}
