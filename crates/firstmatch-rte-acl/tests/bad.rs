//! Freed handles and bad arguments, in a process of their own, because another test might get the memory of a freed
//! handle for a new context.
#![expect(unsafe_code, reason = "functions of C; every pointer leads to memory of the test")]

use std::ffi::c_char;
use std::process::Command;
use std::ptr::{null, null_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use firstmatch_rte_acl::abi::{Config, FieldDef, Param, RuleResults};
use firstmatch_rte_acl::*;
use firstmatch_testkit::rng::Rng;

const EINVAL: i32 = -libc::EINVAL;

#[test]
fn a_freed_handle_is_refused() {
    let _alone = lock();
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

/// Arguments that a call may get, of which most are wrong.
struct Pool {
    rng: Rng,
    /// Live and freed handles, null, and memory that is no handle.
    handles: Vec<*mut Context>,
    /// Memory of keys, rules and configurations, so that no pointer of the caller leads nowhere.
    memory: Vec<u64>,
}

const EACH: usize = 512;

impl Pool {
    fn handle(&mut self) -> *mut Context {
        let handle = self.rng.any_of(&self.handles);
        if self.rng.one_in(50) { handle.cast::<u8>().wrapping_add(1 + self.rng.below(63)).cast() } else { handle }
    }

    /// Returns a number that is often at a limit.
    fn number(&mut self) -> u32 {
        let random = self.rng.next() as u32;
        let near = self.rng.any_of(&[0u32, 1, 4, 16, 64, 1 << 29, 1 << 31]);
        if self.rng.one_in(4) { random } else { near.wrapping_add(self.rng.below(3) as u32).wrapping_sub(1) }
    }

    /// Writes a rule or configuration: bytes that are near the limits of its numbers.
    fn fill(&mut self) {
        let small = self.rng.percent(70);
        for at in 0..self.memory.len() {
            let (low, high) = (self.number(), self.number());
            let word = if small { low % 5 } else { low };
            self.memory[at] = u64::from(word) | u64::from(if small { high % 9 } else { high }) << 32;
        }
    }

    /// Writes a configuration whose offsets stay in the memory of keys.
    fn config(&mut self) -> Config {
        let [num_categories, num_fields] = [(); 2].map(|()| if self.rng.one_in(8) { self.number() } else { 1 });
        let mut config = Config { num_categories, num_fields, defs: [FieldDef::default(); 64], max_size: 0 };
        config.max_size = if self.rng.one_in(8) { self.number() as usize } else { 0 };
        for def in &mut config.defs {
            let limit = if self.rng.one_in(30) { 256 } else { 3 };
            let [kind, field_index, input_index] = [(); 3].map(|()| self.rng.below(limit) as u8);
            let size = if self.rng.one_in(20) { self.number() as u8 } else { self.rng.any_of(&[1, 2, 4, 8]) };
            *def = FieldDef { kind, size, field_index, input_index, offset: self.rng.below(EACH) as u32 };
        }
        config
    }

    /// Calls a function; returns its code, or 0 if it has none.
    fn call(&mut self) -> i32 {
        let (ctx, is_null) = (self.handle(), self.rng.one_in(10));
        let memory = if is_null { null() } else { self.memory.as_ptr() };
        // SAFETY: null, or memory that is longer than whatever is read or written: `EACH` bytes and 512 for the fields
        // of a key, eight rules of at most `EACH` bytes, 64 results. Counts beyond that come with null alone.
        unsafe {
            match self.rng.below(40) {
                0 => rte_acl_free(ctx),
                1 => rte_acl_reset(ctx),
                2 => rte_acl_reset_rules(ctx),
                3 => _ = firstmatch_acl_bytes(ctx),
                4 => {
                    let name: [c_char; 3] = [b'a' as c_char + self.rng.below(4) as c_char, 0, 0];
                    let name = if self.rng.one_in(10) { null() } else { name.as_ptr() };
                    let rule_size = self.rng.any_of(&[0, 1, 15, 16, 31, 32, 64, EACH as u32]);
                    let param = Param { name, socket_id: self.number() as i32, rule_size, max_rule_num: self.number() };
                    let found = if is_null { rte_acl_find_existing(name) } else { rte_acl_create(&raw const param) };
                    let at = self.rng.below(self.handles.len());
                    self.handles[at] = found;
                }
                5 => return rte_acl_set_ctx_classify(ctx, self.number() as i32),
                6..10 => {
                    self.fill();
                    let num = if is_null { self.number() } else { self.rng.below(9) as u32 };
                    return rte_acl_add_rules(ctx, memory.cast(), num);
                }
                10..15 => {
                    let config = self.config();
                    return rte_acl_build(ctx, if is_null { null() } else { &raw const config });
                }
                15 => {
                    self.fill();
                    let num = if is_null { self.number() } else { self.rng.below(9) as u32 };
                    return firstmatch_acl_remove_rules(ctx, memory.cast(), num).min(0);
                }
                16 => {
                    let (mut out, mut removed) = ([RuleResults::default(); 8], 0);
                    let out = if is_null { null_mut() } else { out.as_mut_ptr() };
                    let room = if is_null { self.number() } else { self.rng.below(9) as u32 };
                    let removed = if self.rng.one_in(2) { null_mut() } else { &raw mut removed };
                    return firstmatch_acl_count_rules(ctx, out, room, removed).min(0);
                }
                17 => {
                    let name: [c_char; 3] = [b'a' as c_char + self.rng.below(8) as c_char, 0, 0];
                    let copy = firstmatch_acl_copy(ctx, if is_null { null() } else { name.as_ptr() });
                    let at = self.rng.below(self.handles.len());
                    self.handles[at] = copy;
                }
                18 => return firstmatch_acl_commit(ctx),
                19 => return firstmatch_acl_set_counting(ctx, i32::from(self.rng.one_in(2))),
                kind => {
                    let mut data = [memory.cast::<u8>(); 4];
                    data[self.rng.below(4)] = self.memory.as_ptr().cast();
                    let mut results = [0; 64];
                    let all = self.rng.one_in(10);
                    let data = if all { null_mut() } else { data.as_mut_ptr() };
                    let num = if all { self.number() } else { self.rng.below(5) as u32 };
                    let out = if self.rng.one_in(10) { null_mut() } else { results.as_mut_ptr() };
                    let categories = if self.rng.one_in(3) { self.number() } else { 1 };
                    return match kind % 2 {
                        0 => rte_acl_classify(ctx, data, out, num, categories),
                        _ => rte_acl_classify_alg(ctx, data, out, num, categories, self.number() as i32 % 9),
                    };
                }
            }
        }
        0
    }
}

/// Calls functions with bad arguments, `BAD_CALLS` times: each answers with a code, and none ends the process.
#[test]
fn bad_arguments_get_a_code_each() {
    let _alone = lock();
    let calls = std::env::var("BAD_CALLS").map_or(200_000, |number| number.parse().expect("a number"));
    let memory = vec![0; EACH];
    // Memory of zeros is no handle.
    let zeros = vec![0u64; 64];
    let no_handle = zeros.as_ptr().wrapping_add(zeros.as_ptr().align_offset(64)).cast_mut().cast();
    let mut pool = Pool { rng: Rng::new(11), handles: vec![null_mut(); 12], memory };
    pool.handles[0] = no_handle;
    let mut seen = std::collections::BTreeMap::<i32, usize>::new();
    for _ in 0..calls {
        *seen.entry(pool.call()).or_default() += 1;
    }
    let codes: Vec<_> = seen.keys().copied().collect();
    let known = [-libc::ENOTSUP, -libc::ERANGE, EINVAL, -libc::ENOMEM, 0];
    assert!(codes.iter().all(|code| known.contains(code)), "{seen:?}");
    assert!(calls < 100_000 || codes == known, "every code comes: {seen:?}");
    for handle in pool.handles {
        // SAFETY: handles, and what is none is ignored.
        unsafe { rte_acl_free(handle) };
    }
}

/// Keeps the tests of this file apart, because one's freed handle would be another's new one.
fn lock() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the other tests under Valgrind, which finds reads of freed or unwritten memory, and lost memory.
#[test]
fn valgrind_finds_nothing() {
    let found = Command::new("valgrind").arg("--version").output();
    if !found.is_ok_and(|found| found.status.success()) {
        let is_ci = std::env::var_os("CI").is_some_and(|ci| !ci.is_empty());
        assert!(!is_ci, "there is no valgrind (apt-get install valgrind)");
        firstmatch_testkit::skip("librte_acl under Valgrind: there is no valgrind (apt-get install valgrind)");
        return;
    }
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--quiet", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite"]);
    valgrind.arg(std::env::current_exe().expect("this program")).args(["handle", "bad_arguments"]);
    let output = valgrind.env("BAD_CALLS", "5000").output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
