//! Freed handles, in a process of their own, because another test might get the memory of one for a new context.
#![expect(unsafe_code, reason = "functions of C; every pointer leads to memory of the test")]

use firstmatch_rte_acl::abi::{Config, FieldDef, Param};
use firstmatch_rte_acl::*;

const EINVAL: i32 = -libc::EINVAL;

#[test]
fn a_freed_handle_is_refused() {
    let param = Param { name: c"freed".as_ptr(), socket_id: 0, rule_size: 32, max_rule_num: 2 };
    let mut config = Config { num_categories: 1, num_fields: 1, defs: [FieldDef::default(); 64], max_size: 0 };
    config.defs[0].size = 4;
    let (rule, key): ([u32; 8], [u8; 4]) = ([1, 1, 42, 0, 0, 0, 0, 0], [0; 4]);
    let (mut data, mut result) = ([key.as_ptr()], [0]);
    // SAFETY: whole structs, rules, keys and results; the memory of a handle stays readable.
    unsafe {
        let context = rte_acl_create(&raw const param);
        let mut calls = || {
            [
                rte_acl_add_rules(context, rule.as_ptr().cast(), 1),
                rte_acl_build(context, &raw const config),
                rte_acl_classify(context, data.as_mut_ptr(), result.as_mut_ptr(), 1, 1),
                rte_acl_classify(context, data.as_mut_ptr(), result.as_mut_ptr(), 0, 1),
                rte_acl_set_ctx_classify(context, 1),
            ]
        };
        assert_eq!(calls(), [0; 5]);
        rte_acl_free(context);
        assert_eq!(calls(), [EINVAL; 5]);
        rte_acl_reset(context);
        rte_acl_reset_rules(context);
        rte_acl_dump(context);
        rte_acl_free(context);
        // The memory is used again, without rules and table.
        let again = rte_acl_create(&raw const param);
        assert_eq!(again, context);
        assert_eq!(rte_acl_build(again, &raw const config), EINVAL);
        assert_eq!(rte_acl_classify(again, data.as_mut_ptr(), result.as_mut_ptr(), 1, 1), EINVAL);
        rte_acl_free(again);
    }
}
