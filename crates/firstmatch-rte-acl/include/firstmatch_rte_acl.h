/* Functions of firstmatch's librte_acl beside those of DPDK's <rte_acl.h>. C99 and C++. */
#ifndef FIRSTMATCH_RTE_ACL_H
#define FIRSTMATCH_RTE_ACL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rte_acl_ctx;

/* Returns the name and version of this library, so that a program can tell whose functions it calls. */
const char *firstmatch_acl_version(void);

/* Returns the bytes of a context on the heap, its rules and its table; 0 for a handle that is not live. */
size_t firstmatch_acl_bytes(const struct rte_acl_ctx *ctx);

/* Removes every rule that has this priority and this user data; returns their number, -EINVAL or -ENOMEM.
 * rte_acl_add_rules adds rules. Lookups see both after firstmatch_acl_commit. */
int firstmatch_acl_remove(struct rte_acl_ctx *ctx, int32_t priority, uint32_t userdata);

/* Rules by their priority and user data. */
struct firstmatch_acl_rule {
    int32_t priority;
    uint32_t userdata;
};

/* Removes every rule that one of num names has, all or none. Returns the number of rules that were removed, -EINVAL or
 * -ENOMEM. */
int firstmatch_acl_remove_rules(struct rte_acl_ctx *ctx, const struct firstmatch_acl_rule *rules, uint32_t num);

/* Creates a context with the rules, parameters and configuration of ctx. It has no table until firstmatch_acl_commit or
 * rte_acl_build, and no counts. Returns NULL with rte_errno EINVAL, EEXIST if there is a context of this name, or ENOMEM. */
struct rte_acl_ctx *firstmatch_acl_copy(const struct rte_acl_ctx *ctx, const char *name);

/* Counts the results of each rule from the next build or commit on, or no longer if on is 0. A rule keeps its count in later
 * builds and commits, until it is removed. Returns 0 or -EINVAL. */
int firstmatch_acl_set_counting(struct rte_acl_ctx *ctx, int on);

/* Returns the number of results that rules of this priority with this user data gave since they are counted. */
uint64_t firstmatch_acl_count(const struct rte_acl_ctx *ctx, int32_t priority, uint32_t userdata);

/* Rule and the number of its results. */
struct firstmatch_acl_results {
    int32_t priority;
    uint32_t userdata;
    uint64_t results;
};

/* Writes the rules of the table with their results, in the order of their addition, to the first room elements of out.
 * Returns the number of all rules of the table, 0 if results are not counted, or -EINVAL. Unless removed is null, it gets
 * the number of results of the rules that have left the table. Together they are all results, also beside commits. */
int firstmatch_acl_count_rules(const struct rte_acl_ctx *ctx, struct firstmatch_acl_results *out, uint32_t room,
                               uint64_t *removed);

/* Builds the table anew with the configuration of the last build, beside lookups of other threads. Without a rule, lookups
 * answer 0. Returns 0 or the codes of rte_acl_build; the old table stays if it fails. */
int firstmatch_acl_commit(struct rte_acl_ctx *ctx);

/* Writes a sentence about the rule that decides about a key in a category. Like snprintf, it writes at most size bytes
 * with a NUL and returns the length of the whole sentence; or -EINVAL without a table or for a category above 15, or
 * -ENOMEM. */
int firstmatch_acl_explain(const struct rte_acl_ctx *ctx, const uint8_t *key, uint32_t category, char *out, size_t size);

#ifdef __cplusplus
}
#endif

#endif
