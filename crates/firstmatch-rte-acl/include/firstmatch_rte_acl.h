/* Functions of firstmatch's librte_acl beside those of DPDK's <rte_acl.h>. C99 and C++. */
#ifndef FIRSTMATCH_RTE_ACL_H
#define FIRSTMATCH_RTE_ACL_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rte_acl_ctx;

/* Returns the name and version of this library, so that a program can tell whose functions it calls. */
const char *firstmatch_acl_version(void);

/* Returns the bytes of a context on the heap, its rules and its table; 0 for a handle that is not live. */
size_t firstmatch_acl_bytes(const struct rte_acl_ctx *ctx);

#ifdef __cplusplus
}
#endif

#endif
