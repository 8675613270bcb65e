/* Rules that change beside lookups, by the functions that firstmatch has beside those of <rte_acl.h>.
 *
 * cc -o changes changes.c $(pkg-config --cflags libdpdk) -Iout/include out/libfirstmatch_rte_acl.so
 *
 * out is the folder of link.sh. DPDK's headers are needed, and its libraries are not.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_acl.h>

#include <firstmatch_rte_acl.h>

/* The part of a packet that the rules look at: a protocol, and a destination in network order. */
struct key {
    uint8_t protocol;
    uint8_t destination[4];
};

/* Type, bytes, index in a rule, group and offset of each field. */
static const struct rte_acl_field_def fields[2] = {
    {RTE_ACL_FIELD_TYPE_BITMASK, 1, 0, 0, offsetof(struct key, protocol)},
    {RTE_ACL_FIELD_TYPE_MASK, 4, 1, 1, offsetof(struct key, destination)},
};

RTE_ACL_RULE_DEF(rule, 2);

static void check(int code, const char *what) {
    if (code < 0) {
        fprintf(stderr, "%s: %s\n", what, strerror(-code));
        exit(1);
    }
}

/* Adds a rule: priority and user data are its name, and a larger priority wins. */
static void add(struct rte_acl_ctx *ctx, int32_t priority, uint32_t userdata, uint32_t destination, uint32_t length) {
    struct rule rule;
    memset(&rule, 0, sizeof rule);
    rule.data.category_mask = 1;
    rule.data.priority = priority;
    rule.data.userdata = userdata;
    rule.field[1].value.u32 = destination;
    rule.field[1].mask_range.u32 = length;
    check(rte_acl_add_rules(ctx, (const struct rte_acl_rule *)&rule, 1), "rte_acl_add_rules");
}

static void look_up(const struct rte_acl_ctx *ctx, const char *name) {
    static const struct key keys[2] = {{6, {10, 0, 0, 1}}, {6, {192, 0, 2, 7}}};
    const uint8_t *data[2] = {(const uint8_t *)&keys[0], (const uint8_t *)&keys[1]};
    uint32_t results[2];
    check(rte_acl_classify(ctx, data, results, 2, 1), "rte_acl_classify");
    printf("%s: 10.0.0.1 is %" PRIu32 ", 192.0.2.7 is %" PRIu32 "\n", name, results[0], results[1]);
}

int main(void) {
    struct rte_acl_param param = {"rules", -1, sizeof(struct rule), 100};
    struct rte_acl_config config;
    struct rte_acl_ctx *rules = rte_acl_create(&param), *copy;
    struct firstmatch_acl_results counted[100];
    uint64_t removed;
    char sentence[200];
    uint8_t key[sizeof(struct key)] = {6, 10, 0, 0, 1};
    int count;

    if (rules == NULL) {
        fprintf(stderr, "rte_acl_create: no memory\n");
        return 1;
    }
    memset(&config, 0, sizeof config);
    config.num_categories = 1;
    config.num_fields = 2;
    memcpy(config.defs, fields, sizeof fields);

    add(rules, 1, 1, 0x0A000000, 8);  /* 10.0.0.0/8 */
    add(rules, 2, 2, 0x0A000000, 24); /* 10.0.0.0/24 */
    add(rules, 1, 3, 0xC0000200, 24); /* 192.0.2.0/24 */
    check(firstmatch_acl_set_counting(rules, 1), "firstmatch_acl_set_counting");
    check(rte_acl_build(rules, &config), "rte_acl_build");
    look_up(rules, "built");

    /* Changes are seen after a commit, which builds a new table while other threads look up in the old one. */
    {
        const struct firstmatch_acl_rule gone[2] = {{2, 2}, {1, 3}};
        check(firstmatch_acl_remove_rules(rules, gone, 2), "firstmatch_acl_remove_rules");
    }
    add(rules, 9, 4, 0xC0000207, 32); /* 192.0.2.7 */
    look_up(rules, "not yet committed");
    check(firstmatch_acl_commit(rules), "firstmatch_acl_commit");
    look_up(rules, "committed");

    count = firstmatch_acl_count_rules(rules, counted, 100, &removed);
    check(count, "firstmatch_acl_count_rules");
    for (int at = 0; at < count; at++)
        printf("priority %" PRId32 ", userdata %" PRIu32 ": %" PRIu64 " results\n", counted[at].priority,
               counted[at].userdata, counted[at].results);
    printf("removed rules: %" PRIu64 " results\n", removed);

    check(firstmatch_acl_explain(rules, key, 0, sentence, sizeof sentence), "firstmatch_acl_explain");
    printf("%s\n", sentence);

    /* A copy goes its own way, so that another rule set is ready before it is used. */
    copy = firstmatch_acl_copy(rules, "copy");
    if (copy == NULL) {
        fprintf(stderr, "firstmatch_acl_copy: no memory\n");
        return 1;
    }
    check(firstmatch_acl_remove(copy, 1, 1), "firstmatch_acl_remove");
    check(firstmatch_acl_commit(copy), "firstmatch_acl_commit");
    look_up(copy, "copy");
    look_up(rules, "original");
    rte_acl_free(copy);
    rte_acl_free(rules);
    return 0;
}
