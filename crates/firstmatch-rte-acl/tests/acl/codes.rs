//! Error codes, and what each function leaves behind.

use std::ffi::CString;
use std::ptr::{null, null_mut};

use firstmatch_rte_acl::abi::{Config, FieldDef, MemHook, Param, RuleName, RuleResults};
use firstmatch_rte_acl::*;

use crate::random::Owned;

const EINVAL: i32 = -libc::EINVAL;
const ENOMEM: i32 = -libc::ENOMEM;
const ERANGE: i32 = -libc::ERANGE;
const ENOTSUP: i32 = -libc::ENOTSUP;

/// Returns a rule of two fields, of which the first has one byte and the second four.
fn rule(mask: u32, priority: i32, userdata: u32, fields: [[u64; 2]; 2]) -> Vec<u8> {
    let mut rule = [mask, priority as u32, userdata, 0].iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>();
    rule.extend(fields.iter().flatten().flat_map(|number| number.to_ne_bytes()));
    rule
}

fn any(mask: u32, priority: i32, userdata: u32) -> Vec<u8> {
    rule(mask, priority, userdata, [[0, 0], [0, 0]])
}

/// Returns a configuration of a mask of one byte and a prefix of four, for rules of 48 bytes.
fn config() -> Config {
    let mut config = Config { num_categories: 1, num_fields: 2, defs: [FieldDef::default(); 64], max_size: 0 };
    config.defs[0] = FieldDef { kind: 2, size: 1, field_index: 0, input_index: 0, offset: 0 };
    config.defs[1] = FieldDef { kind: 0, size: 4, field_index: 1, input_index: 1, offset: 1 };
    config
}

fn build(context: &Owned, config: &Config) -> i32 {
    // SAFETY: a configuration.
    unsafe { rte_acl_build(context.0, config) }
}

const KEY: [u8; 5] = [6, 10, 0, 0, 1];

fn lookup(context: &Owned) -> Result<u32, i32> {
    context.classify(&[KEY.to_vec()], 1).map(|results| results[0])
}

#[test]
fn a_name_is_created_once() {
    let first = Owned::new("once", 48, 10);
    let param = Param { name: c"once".as_ptr(), socket_id: 12345, rule_size: 0, max_rule_num: 0 };
    // SAFETY: parameters with a name, and names.
    unsafe {
        assert_eq!(rte_acl_create(&raw const param), first.0);
        assert_eq!(rte_acl_find_existing(c"once".as_ptr()), first.0);
        assert!(rte_acl_find_existing(c"nobody".as_ptr()).is_null());
        assert!(rte_acl_find_existing(null()).is_null());
        assert!(rte_acl_create(null()).is_null());
        assert!(rte_acl_create(&Param { name: null(), ..param }).is_null());
        rte_acl_free(null_mut());
        // No handle: nothing happens.
        rte_acl_free(first.0.cast::<u8>().wrapping_add(64).cast());
    }
}

/// Names are kept to 31 bytes but compared over 32, so that a longer name is never found.
#[test]
fn long_names_are_cut_as_the_original_cuts_them() {
    let long = "n".repeat(31);
    let whole = Owned::new(&long, 48, 10);
    let find = |name: &str| {
        let name = CString::new(name).expect("no NUL");
        // SAFETY: a name.
        unsafe { rte_acl_find_existing(name.as_ptr()) }
    };
    assert_eq!(find(&long), whole.0);
    let longer = [Owned::new(&"m".repeat(32), 48, 10), Owned::new(&"m".repeat(32), 48, 10)];
    assert_ne!(longer[0].0, longer[1].0);
    assert!(find(&"m".repeat(32)).is_null());
    assert_eq!(find(&"m".repeat(31)), longer[0].0);
}

#[test]
fn rules_are_added_all_or_none() {
    let context = Owned::new("added", 48, 3);
    let good = || any(1, 1, 7);
    assert_eq!(context.add(&[]), 0);
    for wrong in [any(0, 1, 7), any(0xFFFF_0000, 1, 7), any(1, 0, 7), any(1, -1, 7), any(1, 1 << 29, 7)] {
        assert_eq!(context.add(&[good(), wrong]), EINVAL);
    }
    assert_eq!(context.add(&[good(), good(), good(), good()]), ENOMEM);
    assert_eq!(context.add(&[any(0x1_0001, (1 << 29) - 1, 8), good()]), 0);
    assert_eq!((context.add(&[good(), good()]), context.add(&[good()]), context.add(&[good()])), (ENOMEM, 0, ENOMEM));
    assert_eq!((build(&context, &config()), lookup(&context)), (0, Ok(8)));
    // SAFETY: null is refused.
    unsafe {
        assert_eq!(rte_acl_add_rules(context.0, null(), 0), EINVAL);
        assert_eq!(rte_acl_add_rules(null_mut(), good().as_ptr().cast(), 1), EINVAL);
    }
    let [no_size, no_room] = [Owned::new("no size", 0, 3), Owned::new("no room", 48, 0)];
    assert_eq!((no_size.add(&[good()]), no_room.add(&[good()])), (EINVAL, ENOMEM));
}

#[test]
fn a_wrong_configuration_leaves_the_table() {
    let context = Owned::new("wrong", 48, 10);
    assert_eq!((lookup(&context), context.add(&[any(1, 1, 7)]), build(&context, &config())), (Err(EINVAL), 0, 0));
    let changed = |change: &dyn Fn(&mut Config)| {
        let mut config = config();
        change(&mut config);
        (build(&context, &config), lookup(&context))
    };
    let wrong: [&dyn Fn(&mut Config); 9] = [
        &|config| config.num_categories = 0,
        &|config| config.num_categories = 17,
        &|config| config.num_fields = 0,
        &|config| config.num_fields = 65,
        &|config| config.num_fields = u32::MAX,
        &|config| config.defs[1].kind = 3,
        &|config| config.defs[1].size = 3,
        &|config| config.defs[0].size = 0,
        // It would lie behind the end of a rule.
        &|config| config.defs[1].field_index = 2,
    ];
    for change in wrong {
        assert_eq!(changed(change), (EINVAL, Ok(7)));
    }
    // SAFETY: null is refused.
    unsafe {
        assert_eq!(rte_acl_build(context.0, null()), EINVAL);
        assert_eq!(rte_acl_build(null_mut(), &config()), EINVAL);
    }
    // Definitions may name one field of a rule twice, and come in any order.
    assert_eq!(changed(&|config| config.defs[1].field_index = 0), (0, Ok(7)));
    assert_eq!(changed(&|config| config.defs.swap(0, 1)), (0, Ok(7)));
}

#[test]
fn a_failed_build_leaves_no_table() {
    let context = Owned::new("failed", 48, 1000);
    let good = config();
    let fails = |rules: &[Vec<u8>], config: &Config, code: i32| {
        // SAFETY: a live handle.
        unsafe { rte_acl_reset(context.0) };
        assert_eq!(lookup(&context), Err(EINVAL));
        assert_eq!((context.add(&[any(1, 1, 7)]), build(&context, &good), lookup(&context)), (0, 0, Ok(7)));
        assert_eq!(context.add(rules), 0);
        assert_eq!((build(&context, config), lookup(&context)), (code, Err(EINVAL)));
    };
    fails(&[], &Config { max_size: 1, ..good }, ERANGE);
    // A prefix longer than its field.
    fails(&[rule(1, 1, 8, [[0, 0], [0, 33]])], &good, EINVAL);
    let mut range = good;
    range.defs[1].kind = 1;
    fails(&[rule(1, 1, 8, [[0, 0], [9, 8]])], &range, EINVAL);
    // SAFETY: a live handle.
    unsafe { rte_acl_reset(context.0) };
    assert_eq!(build(&context, &good), EINVAL);
    assert_eq!((context.add(&[any(2, 1, 7)]), build(&context, &good)), (0, EINVAL));
    assert_eq!(build(&context, &Config { num_categories: 2, ..good }), 0);
    assert_eq!(build(&context, &Config { num_categories: 2, max_size: usize::MAX, ..good }), 0);
}

/// A range of 64 bits is up to three regions, so that many of them are too many.
#[test]
fn a_rule_of_too_many_regions_is_refused() {
    let size = 16 + 16 * 8;
    let context = Owned::new("regions", size, 10);
    let mut config = Config { num_categories: 1, num_fields: 8, defs: [FieldDef::default(); 64], max_size: 0 };
    for (index, def) in (0..).zip(&mut config.defs[..8]) {
        *def = FieldDef { kind: 1, size: 8, field_index: index, input_index: index, offset: 8 * u32::from(index) };
    }
    let mut rule = vec![0; size];
    (rule[0], rule[4], rule[8]) = (1, 1, 9);
    for field in rule[16..].chunks_exact_mut(16) {
        field[..8].copy_from_slice(&5u64.to_ne_bytes());
        field[8..].copy_from_slice(&(u64::MAX - 5).to_ne_bytes());
    }
    assert_eq!((context.add(&[rule]), build(&context, &config)), (0, ENOMEM));
    config.num_fields = 7;
    assert_eq!(build(&context, &config), 0);
    let key = |last: u64| [[77u64; 6].as_slice(), &[last]].concat().iter().flat_map(|n| n.to_be_bytes()).collect();
    assert_eq!(context.classify(&[key(5), key(4), key(u64::MAX - 5), key(u64::MAX)], 1), Ok(vec![9, 0, 9, 0]));
}

#[test]
fn lookups_check_their_arguments() {
    let context = Owned::new("lookups", 48, 10);
    let (mut data, mut results) = ([KEY.as_ptr(), null(), KEY.as_ptr()], [5u32; 64]);
    let mut call = |ctx: *const Context, num: u32, categories: u32| {
        // SAFETY: keys or null, and room for all results.
        unsafe { rte_acl_classify(ctx, data.as_mut_ptr(), results.as_mut_ptr(), num, categories) }
    };
    // Without a table, no keys are valid and a key is not.
    assert_eq!([call(context.0, 0, 1), call(context.0, 1, 1)], [0, EINVAL]);
    assert_eq!((context.add(&[any(1, 1, 7)]), build(&context, &config())), (0, 0));
    assert_eq!([call(context.0, 1, 1), call(context.0, 1, 0), call(context.0, 1, 16)], [0; 3]);
    assert_eq!([2, 3, 5, 17, 20, u32::MAX].map(|categories| call(context.0, 1, categories)), [EINVAL; 6]);
    assert_eq!([call(null(), 1, 1), call(null(), 0, 1), call(context.0, 3, 1)], [EINVAL; 3]);
    let odd = context.0.cast::<u8>().wrapping_add(1).cast();
    assert_eq!(call(odd, 1, 1), EINVAL);
    // A null key is found before any result is written.
    assert_eq!(results[..3], [7, 0, 0]);
    assert_eq!(results[16..], [5; 48]);
    // SAFETY: null is refused.
    unsafe {
        assert_eq!(rte_acl_classify(context.0, null_mut(), null_mut(), 0, 1), 0);
        assert_eq!(rte_acl_classify(context.0, null_mut(), results.as_mut_ptr(), 1, 1), EINVAL);
        assert_eq!(rte_acl_classify(context.0, data.as_mut_ptr(), null_mut(), 1, 1), EINVAL);
        assert_eq!(rte_acl_classify_scalar(context.0, data.as_mut_ptr(), results.as_mut_ptr(), 1, 1), 0);
    }
}

#[test]
fn algorithms_are_those_of_the_architecture() {
    let context = Owned::new("algorithms", 48, 10);
    assert_eq!((context.add(&[any(1, 1, 7)]), build(&context, &config())), (0, 0));
    let set = |number| {
        // SAFETY: a handle or null.
        unsafe { rte_acl_set_ctx_classify(context.0, number) }
    };
    let classify = |number| {
        let (mut data, mut result) = ([KEY.as_ptr()], [0]);
        // SAFETY: one key and one result.
        let code = unsafe { rte_acl_classify_alg(context.0, data.as_mut_ptr(), result.as_mut_ptr(), 1, 1, number) };
        (code, result[0])
    };
    assert_eq!((set(0), set(1), classify(0), classify(1)), (0, 0, (0, 7), (0, 7)));
    assert_eq!([set(-1), set(8), set(99), set(i32::MIN)], [EINVAL; 4]);
    assert_eq!((classify(99), classify(-1)), ((EINVAL, 0), (EINVAL, 0)));
    // Altivec is on neither x86 nor ARM; without DPDK vectors of 512 bits may not be used.
    assert_eq!((set(5), classify(5), set(7)), (ENOTSUP, (ENOTSUP, 0), ENOTSUP));
    #[cfg(target_arch = "x86_64")]
    assert_eq!((set(4), classify(2).1), (ENOTSUP, 7));
}

#[test]
fn hooks_are_kept() {
    unsafe extern "C" fn zalloc(
        _: *mut std::ffi::c_char,
        _: usize,
        _: usize,
        _: i32,
        _: *mut libc::c_void,
    ) -> *mut libc::c_void {
        null_mut()
    }
    unsafe extern "C" fn free(_: *mut libc::c_void, _: *mut libc::c_void) {}
    let context = Owned::new("hooks", 48, 10);
    let mut out = MemHook { zalloc: None, free: None, udata: null_mut() };
    let hook = MemHook { zalloc: Some(zalloc), free: Some(free), udata: context.0.cast() };
    // SAFETY: hooks, or null.
    unsafe {
        assert_eq!(rte_acl_get_mem_hook(context.0, &raw mut out), 0);
        assert!(out.zalloc.is_none());
        assert_eq!(rte_acl_set_mem_hook(context.0, &MemHook { free: None, ..hook }), EINVAL);
        assert_eq!(
            (rte_acl_set_mem_hook(context.0, null()), rte_acl_get_mem_hook(context.0, null_mut())),
            (EINVAL, EINVAL)
        );
        assert_eq!(rte_acl_set_mem_hook(context.0, &raw const hook), 0);
        assert_eq!(rte_acl_get_mem_hook(context.0, &raw mut out), 0);
    }
    assert!(out.udata == context.0.cast() && out.zalloc.is_some() && out.free.is_some());
}

#[test]
fn bytes_are_those_of_rules_and_table() {
    let context = Owned::new("bytes", 48, 1000);
    let bytes = || {
        // SAFETY: a live handle.
        unsafe { firstmatch_acl_bytes(context.0) }
    };
    let empty = bytes();
    let rules: Vec<_> = (0..1000).map(|at| rule(1, 1, at, [[0, 0], [u64::from(at), 32]])).collect();
    assert_eq!(context.add(&rules), 0);
    assert!(bytes() - empty >= 48_000, "{}", bytes());
    assert_eq!(build(&context, &config()), 0);
    let built = bytes();
    // Rules are packed: two bytes of user data, two of the address.
    assert!((20_000..200_000).contains(&built), "{built}");
    // SAFETY: a live handle, and one that is not.
    unsafe {
        rte_acl_reset(context.0);
        assert_eq!((bytes(), firstmatch_acl_bytes(null())), (empty, 0));
        let version = std::ffi::CStr::from_ptr(firstmatch_acl_version()).to_str().expect("text");
        assert_eq!(version, concat!("firstmatch-rte-acl ", env!("CARGO_PKG_VERSION")));
    }
}

#[test]
fn changes_are_seen_after_a_commit() {
    let context = Owned::new("changes", 48, 10);
    let commit = || {
        // SAFETY: a live handle.
        unsafe { firstmatch_acl_commit(context.0) }
    };
    let remove = |priority, userdata| {
        // SAFETY: a live handle.
        unsafe { firstmatch_acl_remove(context.0, priority, userdata) }
    };
    assert_eq!(commit(), EINVAL);
    let rules = [any(1, 1, 7), any(1, 2, 8), any(1, 2, 9), any(1, 2, 9)];
    assert_eq!((context.add(&rules), build(&context, &config()), lookup(&context)), (0, 0, Ok(9)));
    assert_eq!((remove(1, 9), remove(2, 9), remove(2, 9)), (0, 2, 0));
    assert_eq!((lookup(&context), commit(), lookup(&context)), (Ok(9), 0, Ok(8)));
    assert_eq!((context.add(&[any(1, 3, 5)]), commit(), lookup(&context)), (0, 0, Ok(5)));
    assert_eq!([remove(3, 5), remove(2, 8), remove(1, 7)], [1; 3]);
    // The last rule can go, too: then every key answers 0, in batches of every size.
    assert_eq!((lookup(&context), commit(), lookup(&context)), (Ok(5), 0, Ok(0)));
    assert_eq!(context.classify(&vec![KEY.to_vec(); 200], 4), Ok(vec![0; 800]));
    assert_eq!((context.add(&[any(1, 3, 6)]), lookup(&context), commit(), lookup(&context)), (0, Ok(0), 0, Ok(6)));
    // A rule of a category that is not built decides nothing, either.
    assert_eq!((remove(3, 6), context.add(&[any(2, 3, 6)]), commit(), lookup(&context)), (1, 0, 0, Ok(0)));
    // The original's build refuses to build without rules, and leaves no table.
    assert_eq!((build(&context, &config()), lookup(&context)), (EINVAL, Err(EINVAL)));
    // SAFETY: null is refused.
    let codes = unsafe { [firstmatch_acl_remove(null_mut(), 1, 7), firstmatch_acl_commit(null_mut())] };
    assert_eq!(codes, [EINVAL; 2]);
}

#[test]
fn many_rules_are_removed_at_once() {
    let context = Owned::new("many", 48, 1000);
    let rules: Vec<_> = (0..1000).map(|at| any(1, 1 + at % 500, at as u32 % 250)).collect();
    assert_eq!((context.add(&rules), build(&context, &config()), lookup(&context)), (0, 0, Ok(249)));
    let remove = |rules: &[[u32; 2]]| {
        let name = |&[priority, userdata]: &[u32; 2]| RuleName { priority: priority as i32, userdata };
        let names: Vec<_> = rules.iter().map(name).collect();
        // SAFETY: a live handle and whole structs.
        unsafe { firstmatch_acl_remove_rules(context.0, names.as_ptr(), names.len() as u32) }
    };
    // Rules 499 and 999 have priority 500 and user data 249; no rule has priority 500 and another one.
    assert_eq!((remove(&[]), remove(&[[500, 0], [1001, 249]]), remove(&[[500, 249], [500, 249]])), (0, 0, 2));
    let names: Vec<_> = (1..=499).rev().filter(|priority| priority % 10 != 0).map(|p| [p, (p - 1) % 250]).collect();
    assert_eq!((remove(&names), remove(&names)), (2 * 450, 0));
    // SAFETY: a live handle.
    assert_eq!((unsafe { firstmatch_acl_commit(context.0) }, lookup(&context)), (0, Ok(489 % 250)));
    // SAFETY: null is refused.
    unsafe {
        assert_eq!(firstmatch_acl_remove_rules(null_mut(), null(), 0), EINVAL);
        assert_eq!(firstmatch_acl_remove_rules(context.0, null(), 1), EINVAL);
        assert_eq!(firstmatch_acl_remove_rules(context.0, null(), 0), 0);
    }
}

#[test]
fn a_copy_has_the_rules_and_goes_its_own_way() {
    let context = Owned::new("copied", 48, 3);
    let copy = |name: &str| {
        let name = CString::new(name).expect("no NUL");
        // SAFETY: a live handle and a name.
        unsafe { firstmatch_acl_copy(context.0, name.as_ptr()) }
    };
    // SAFETY: a live handle.
    assert_eq!((context.add(&[any(1, 1, 7)]), unsafe { firstmatch_acl_set_counting(context.0, 1) }), (0, 0));
    assert_eq!((build(&context, &config()), context.add(&[any(1, 2, 8)]), lookup(&context)), (0, 0, Ok(7)));
    let other = Owned(copy("a copy"));
    assert!(!other.0.is_null() && copy("a copy").is_null() && copy("copied").is_null());
    assert_eq!(lookup(&other), Err(EINVAL));
    // SAFETY: live handles.
    let commit = |context: &Owned| unsafe { firstmatch_acl_commit(context.0) };
    let counts = |context: &Owned| {
        // SAFETY: live handles.
        [7, 8].map(|userdata| unsafe { firstmatch_acl_count(context.0, userdata as i32 - 6, userdata) })
    };
    assert_eq!((commit(&other), lookup(&other), lookup(&context)), (0, Ok(8), Ok(7)));
    assert_eq!((counts(&context), counts(&other)), ([2, 0], [0, 1]));
    // SAFETY: a live handle.
    assert_eq!(unsafe { firstmatch_acl_remove(other.0, 2, 8) }, 1);
    assert_eq!((commit(&other), lookup(&other), commit(&context), lookup(&context)), (0, Ok(7), 0, Ok(8)));
    // It has the same room as the original.
    assert_eq!((context.add(&[any(1, 3, 9)]), context.add(&[any(1, 3, 9)])), (0, ENOMEM));
    assert_eq!((other.add(&[any(1, 3, 9), any(1, 3, 9)]), other.add(&[any(1, 3, 9)])), (0, ENOMEM));
    // SAFETY: null is refused, and what is no handle.
    unsafe {
        assert!(firstmatch_acl_copy(null(), c"nothing".as_ptr()).is_null());
        assert!(firstmatch_acl_copy(context.0, null()).is_null());
    }
}

#[test]
fn results_are_counted_from_a_build_on() {
    let context = Owned::new("counted", 48, 10);
    let counts = || {
        // SAFETY: a live handle.
        [7, 8].map(|userdata| unsafe { firstmatch_acl_count(context.0, userdata as i32, userdata) })
    };
    let set = |on| {
        // SAFETY: a live handle.
        unsafe { firstmatch_acl_set_counting(context.0, on) }
    };
    assert_eq!((context.add(&[any(1, 7, 7), any(1, 8, 8)]), build(&context, &config())), (0, 0));
    assert_eq!((lookup(&context), counts(), set(1), lookup(&context), counts()), (Ok(8), [0; 2], 0, Ok(8), [0; 2]));
    // SAFETY: a live handle.
    let commit = || unsafe { firstmatch_acl_commit(context.0) };
    assert_eq!((commit(), lookup(&context), lookup(&context), counts()), (0, Ok(8), Ok(8), [0, 2]));
    // SAFETY: a live handle.
    assert_eq!(unsafe { firstmatch_acl_remove(context.0, 8, 8) }, 1);
    assert_eq!((commit(), lookup(&context), counts()), (0, Ok(7), [1, 0]));
    // A rule keeps its count in a commit and a build, and the results of the removed one are still known.
    assert_eq!(
        (commit(), counts(), build(&context, &config()), lookup(&context), counts()),
        (0, [1, 0], 0, Ok(7), [2, 0])
    );
    let rules = |room: u32| {
        let (mut out, mut removed) = ([RuleResults::default(); 3], 9);
        // SAFETY: a live handle, and room for that many.
        let number = unsafe { firstmatch_acl_count_rules(context.0, out.as_mut_ptr(), room, &raw mut removed) };
        (number, out[0], out[1], removed)
    };
    let [seven, none] = [RuleResults { priority: 7, userdata: 7, results: 2 }, RuleResults::default()];
    assert_eq!((rules(3), rules(0)), ((1, seven, none, 2), (1, none, none, 2)));
    assert_eq!((context.add(&[any(1, 9, 9)]), commit(), lookup(&context)), (0, 0, Ok(9)));
    let nine = RuleResults { priority: 9, userdata: 9, results: 1 };
    assert_eq!((rules(1), rules(2)), ((2, seven, none, 2), (2, seven, nine, 2)));
    // Rules of the old table count until the new ones are built, and then as removed.
    // SAFETY: a live handle.
    unsafe { rte_acl_reset_rules(context.0) };
    assert_eq!((lookup(&context), rules(3).3, context.add(&[any(1, 7, 7)])), (Ok(9), 2, 0));
    assert_eq!((build(&context, &config()), lookup(&context)), (0, Ok(7)));
    assert_eq!(rules(3), (1, RuleResults { results: 1, ..seven }, none, 6));
    assert_eq!((set(0), commit(), lookup(&context), counts()), (0, 0, Ok(7), [0; 2]));
    assert_eq!((rules(3), set(1), commit(), rules(3).3), ((0, none, none, 0), 0, 0, 0));
    // SAFETY: null is refused.
    unsafe {
        assert_eq!(firstmatch_acl_count_rules(null(), null_mut(), 0, null_mut()), EINVAL);
        assert_eq!(firstmatch_acl_count_rules(context.0, null_mut(), 1, null_mut()), EINVAL);
        assert_eq!(firstmatch_acl_count_rules(context.0, null_mut(), 0, null_mut()), 1);
        assert_eq!(firstmatch_acl_set_counting(null_mut(), 1), EINVAL);
        assert_eq!(firstmatch_acl_count(null(), 7, 7), 0);
    }
}

#[test]
fn explanations_name_the_rule_that_decides() {
    let context = Owned::new("explained", 48, 10);
    let explain = |category, size: usize| {
        let mut out = vec![b'x'; 100];
        // SAFETY: a whole key, and room for the sentence.
        let code = unsafe { firstmatch_acl_explain(context.0, KEY.as_ptr(), category, out.as_mut_ptr().cast(), size) };
        let end = out.iter().position(|&byte| byte == 0).unwrap_or(0);
        (code, String::from_utf8_lossy(&out[..end]).into_owned())
    };
    assert_eq!(explain(0, 100).0, EINVAL);
    let rules = [any(1, 1, 7), any(3, 2, 8), rule(1, 9, 9, [[5, 0xFF], [0, 0]])];
    assert_eq!((context.add(&rules), build(&context, &Config { num_categories: 3, ..config() })), (0, 0));
    let text = "category 0: rule 1 by addition, priority 2, userdata 8";
    assert_eq!(explain(0, 100), (text.len() as i32, text.to_owned()));
    assert_eq!(explain(0, 11), (text.len() as i32, "category 0".to_owned()));
    assert_eq!((explain(0, 0), explain(16, 100).0), ((text.len() as i32, String::new()), EINVAL));
    assert_eq!((explain(2, 100).1, explain(15, 100).1), ("category 2: no rule".into(), "category 15: no rule".into()));
    // SAFETY: null is refused.
    unsafe {
        assert_eq!(firstmatch_acl_explain(context.0, null(), 0, null_mut(), 0), EINVAL);
        assert_eq!(firstmatch_acl_explain(context.0, KEY.as_ptr(), 0, null_mut(), 1), EINVAL);
    }
}
