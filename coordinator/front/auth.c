/* Bearer keys. What is compared is a hash of the key (cluster/catalog_cache.c), in constant time; the key itself is never logged. */
#include "coordinator/front/auth.h"

enum { KEY_MAX = 512 }; /* no key of ours, and no admin key that is accepted, is longer */

/* The token of "Bearer TOKEN"; the scheme's name in any case. Absent string where it is something else. */
static hd_str parse_bearer(const char *header) {
    static const hd_str scheme = {"bearer", 6};
    hd_str text = hd_str_of(header);
    if (text.size <= scheme.size || !hd_str_is_equal_nocase((hd_str){text.data, scheme.size}, scheme)) return (hd_str){0};
    size_t from = scheme.size, to = text.size;
    if (text.data[from] != ' ') return (hd_str){0};
    while (from < to && text.data[from] == ' ') from++;
    while (to > from && text.data[to - 1] == ' ') to--;
    return from == to ? (hd_str){0} : (hd_str){text.data + from, to - from};
}

hd_status co_auth_check(co_catalog *catalog, const char *header, co_principal *principal_out, const co_org **org_out,
                        hd_error *error) {
    *org_out = NULL;
    if (header == NULL) return hd_error_set(error, HD_UNAUTHORIZED, "auth", "no key was given; send Authorization: Bearer KEY");
    hd_str key = parse_bearer(header);
    if (key.data == NULL)
        return hd_error_set(error, HD_UNAUTHORIZED, "auth", "the Authorization header is not of the form Bearer KEY");
    if (key.size > KEY_MAX || co_catalog_authenticate(catalog, key, principal_out) != HD_OK)
        return hd_error_set(error, HD_UNAUTHORIZED, "auth", "the key is not known");
    if (principal_out->is_cluster_admin) return HD_OK;
    if (co_catalog_get_org(catalog, principal_out->org, org_out) != HD_OK)
        return hd_error_set(error, HD_UNAUTHORIZED, "auth", "the key is not known"); /* its org has gone this moment */
    if (!(*org_out)->is_suspended) return HD_OK;
    co_org_release(*org_out);
    *org_out = NULL;
    return hd_error_set(error, HD_FORBIDDEN, "auth", "the org is suspended");
}
