/* Stands for DPDK's <rte_acl.h> where that is not installed, so that tests can compile examples. */
#ifndef RTE_ACL_H
#define RTE_ACL_H

#include <stddef.h>
#include <stdint.h>

#define RTE_ACL_MAX_FIELDS 64

enum { RTE_ACL_FIELD_TYPE_MASK = 0, RTE_ACL_FIELD_TYPE_RANGE, RTE_ACL_FIELD_TYPE_BITMASK };

union rte_acl_field_types {
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
};

struct rte_acl_field_def {
    uint8_t type;
    uint8_t size;
    uint8_t field_index;
    uint8_t input_index;
    uint32_t offset;
};

struct rte_acl_config {
    uint32_t num_categories;
    uint32_t num_fields;
    struct rte_acl_field_def defs[RTE_ACL_MAX_FIELDS];
    size_t max_size;
};

struct rte_acl_field {
    union rte_acl_field_types value;
    union rte_acl_field_types mask_range;
};

struct rte_acl_rule_data {
    uint32_t category_mask;
    int32_t priority;
    uint32_t userdata;
};

#define RTE_ACL_RULE_DEF(name, count) \
    struct name { \
        struct rte_acl_rule_data data; \
        struct rte_acl_field field[count]; \
    }

struct rte_acl_param {
    const char *name;
    int socket_id;
    uint32_t rule_size;
    uint32_t max_rule_num;
};

struct rte_acl_ctx;
struct rte_acl_rule;

struct rte_acl_ctx *rte_acl_create(const struct rte_acl_param *param);
void rte_acl_free(struct rte_acl_ctx *ctx);
int rte_acl_add_rules(struct rte_acl_ctx *ctx, const struct rte_acl_rule *rules, uint32_t num);
int rte_acl_build(struct rte_acl_ctx *ctx, const struct rte_acl_config *cfg);
int rte_acl_classify(const struct rte_acl_ctx *ctx, const uint8_t **data, uint32_t *results, uint32_t num,
                     uint32_t categories);

#endif
