//! Sessions of threads, which only this crate sees.

use crate::abi::{Config, FieldDef, Param};
use crate::*;

/// A thread keeps one session for each table in use, and drops those of retired tables at its next miss.
#[test]
#[expect(unsafe_code, reason = "functions of C over memory of the test")]
fn sessions_of_retired_tables_are_dropped() {
    let mut config = Config { num_categories: 1, num_fields: 1, defs: [FieldDef::default(); 64], max_size: 0 };
    config.defs[0].size = 4;
    let rule: [u32; 8] = [1, 1, 42, 0, 0, 0, 0, 0];
    let key = [0u8; 4];
    let contexts = [c"a", c"b", c"c"].map(|name| {
        let param = Param { name: name.as_ptr(), socket_id: 0, rule_size: 32, max_rule_num: 1 };
        // SAFETY: whole structs and rules.
        unsafe {
            let context = rte_acl_create(&raw const param);
            assert_eq!(rte_acl_add_rules(context, rule.as_ptr().cast(), 1), 0);
            assert_eq!(rte_acl_build(context, &raw const config), 0);
            context
        }
    });
    let lookup = |context: *mut Context| {
        let (mut data, mut results) = ([key.as_ptr()], [0]);
        // SAFETY: one key and one result.
        let code = unsafe { rte_acl_classify(context, data.as_mut_ptr(), results.as_mut_ptr(), 1, 1) };
        assert_eq!((code, results), (0, [42]));
    };
    for _ in 0..2 {
        contexts.into_iter().for_each(lookup);
        assert_eq!(classify::sessions(), 3);
    }
    // SAFETY: a configuration.
    let built = contexts.map(|context| unsafe { rte_acl_build(context, &raw const config) });
    assert_eq!(built, [0; 3]);
    lookup(contexts[1]);
    assert_eq!(classify::sessions(), 1);
    // SAFETY: no lookup uses them.
    contexts.into_iter().for_each(|context| unsafe { rte_acl_free(context) });
}
