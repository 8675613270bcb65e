//! Sessions of threads, which only this crate sees.

use std::ffi::CString;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::abi::{Config, FieldDef, Param};
use crate::*;

/// Contexts with one rule for every key of four bytes.
struct Contexts(Vec<*mut Context>);

#[expect(unsafe_code, reason = "functions of C over memory of the test")]
impl Contexts {
    fn new(prefix: &str, count: usize) -> Self {
        let rule: [u32; 8] = [1, 1, 42, 0, 0, 0, 0, 0];
        let build = |at: usize| {
            let name = CString::new(format!("{prefix}{at}")).expect("no NUL");
            let param = Param { name: name.as_ptr(), socket_id: 0, rule_size: 32, max_rule_num: 1 };
            // SAFETY: whole structs and rules.
            unsafe {
                let context = rte_acl_create(&raw const param);
                assert_eq!(rte_acl_add_rules(context, rule.as_ptr().cast(), 1), 0);
                context
            }
        };
        let contexts = Self((0..count).map(build).collect());
        (0..count).for_each(|at| contexts.build(at));
        contexts
    }

    fn build(&self, at: usize) {
        let mut config = Config { num_categories: 1, num_fields: 1, defs: [FieldDef::default(); 64], max_size: 0 };
        config.defs[0].size = 4;
        // SAFETY: a configuration.
        assert_eq!(unsafe { rte_acl_build(self.0[at], &raw const config) }, 0);
    }

    fn look_up(&self, at: usize) {
        let key = [0u8; 4];
        let (mut data, mut results) = ([key.as_ptr()], [0]);
        // SAFETY: one key and one result.
        let code = unsafe { rte_acl_classify(self.0[at], data.as_mut_ptr(), results.as_mut_ptr(), 1, 1) };
        assert_eq!((code, results), (0, [42]));
    }

    fn free(&self, at: usize) {
        // SAFETY: no lookup uses it.
        unsafe { rte_acl_free(self.0[at]) }
    }
}

/// A thread keeps one session for each table in use, and drops those of retired tables at its next call.
#[test]
fn sessions_of_retired_tables_are_dropped() {
    let _alone = alone();
    let contexts = Contexts::new("retired", 3);
    for _ in 0..2 {
        (0..3).for_each(|at| contexts.look_up(at));
        assert_eq!(session::sessions_and_steps().0, 3);
    }
    (0..3).for_each(|at| contexts.build(at));
    contexts.look_up(1);
    assert_eq!(session::sessions_and_steps().0, 1);
    contexts.look_up(0);
    contexts.free(0);
    // A call for a table that stayed lets go of those that went, too.
    contexts.look_up(1);
    assert_eq!(session::sessions_and_steps().0, 1);
    (1..3).for_each(|at| contexts.free(at));
}

/// The number of contexts does not add to the steps of a lookup, nor to those behind a build of another context.
#[test]
fn sessions_are_found_in_a_constant_number_of_steps() {
    let _alone = alone();
    let count = retired::ROOM * 2;
    let contexts = Contexts::new("steps", count);
    (0..count).for_each(|at| contexts.look_up(at));
    let (sessions, before) = session::sessions_and_steps();
    assert_eq!(sessions, count);
    for at in (0..count).chain((0..count).rev()) {
        contexts.look_up(at);
    }
    assert_eq!(session::sessions_and_steps(), (count, before));
    // Each build is one step, and the context's own new session none.
    for at in (0..count).step_by(7) {
        contexts.build(at);
        contexts.look_up(count - 1);
        contexts.look_up(at);
    }
    assert_eq!(session::sessions_and_steps(), (count, before + count.div_ceil(7)));
    // Beyond the log's room, every session is looked at once.
    (0..count).for_each(|at| contexts.build(at));
    contexts.look_up(0);
    assert_eq!(session::sessions_and_steps().0, 1);
    (0..count).for_each(|at| contexts.free(at));
}

/// Keeps these tests apart, because both count what builds of this process do.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
