//! Random rules and keys beside the oracle: ties, categories, resets and rebuilds.

use std::ffi::CString;

use firstmatch_rte_acl::abi::Param;
use firstmatch_rte_acl::*;
use firstmatch_testkit::rng::Rng;

use crate::oracle;
use crate::script::Layout;

/// Context that is freed at the end of its test.
pub(crate) struct Owned(pub(crate) *mut Context);

impl Owned {
    pub(crate) fn new(name: &str, rule_size: usize, max_rule_num: u32) -> Self {
        let name = CString::new(name).expect("no NUL");
        let param = Param { name: name.as_ptr(), socket_id: -1, rule_size: rule_size as u32, max_rule_num };
        // SAFETY: parameters with a name.
        let context = unsafe { rte_acl_create(&raw const param) };
        assert!(!context.is_null());
        Self(context)
    }

    pub(crate) fn add(&self, rules: &[Vec<u8>]) -> i32 {
        let bytes = rules.concat();
        // SAFETY: whole rules.
        unsafe { rte_acl_add_rules(self.0, bytes.as_ptr().cast(), rules.len() as u32) }
    }

    pub(crate) fn build(&self, layout: &Layout, categories: u32) -> i32 {
        // SAFETY: a configuration.
        unsafe { rte_acl_build(self.0, &layout.config(categories)) }
    }

    /// Returns the results of a lookup of whole keys.
    pub(crate) fn classify(&self, keys: &[Vec<u8>], categories: u32) -> Result<Vec<u32>, i32> {
        let mut pointers: Vec<_> = keys.iter().map(Vec::as_ptr).collect();
        let mut results = vec![0xDEAD; keys.len() * categories as usize];
        let (data, num) = (pointers.as_mut_ptr(), keys.len() as u32);
        // SAFETY: pointers to whole keys, and room for all results.
        match unsafe { rte_acl_classify(self.0, data, results.as_mut_ptr(), num, categories) } {
            0 => Ok(results),
            code => Err(code),
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: it is not used any more.
        unsafe { rte_acl_free(self.0) }
    }
}

/// Draws masks of categories: few distinct ones, so that engines are shared or split in every way.
fn masks(rng: &mut Rng, categories: u32) -> Vec<u32> {
    let all = u32::MAX >> (32 - categories);
    let count = 1 + rng.below(4);
    (0..count)
        .map(|_| if rng.percent(30) { 0xFFFF } else { rng.next() as u32 & all | 1 << rng.below(categories as usize) })
        .collect()
}

/// Numbers of lookups in all, with an answer, and with an answer other than that of the first category.
#[derive(Default)]
struct Seen {
    lookups: usize,
    found: usize,
    several: usize,
}

fn check(context: &Owned, layout: &Layout, rules: &[Vec<u8>], built: u32, rng: &mut Rng, seen: &mut Seen) {
    let keys: Vec<_> = (0..rng.any_of(&[1, 2, 31, 64, 65, 130])).map(|_| layout.key(rng)).collect();
    let asked = rng.any_of(&[1, 4, 8, 16]);
    let results = context.classify(&keys, asked).expect("a table");
    for (key, results) in keys.iter().zip(results.chunks(asked as usize)) {
        for (category, &result) in (0..).zip(results) {
            let expected = if category < built { oracle::answer(&layout.defs, rules, category, key) } else { 0 };
            assert_eq!(result, expected, "category {category} of {built}, {:?}", layout.defs);
            seen.several += usize::from(result != results[0]);
        }
        seen.lookups += 1;
        seen.found += usize::from(results[0] != 0);
    }
}

/// Walks random contexts through additions, builds with more or fewer categories, and resets.
#[test]
fn answers_are_those_of_the_oracle() {
    let mut seen = Seen::default();
    for seed in 0..400 {
        let rng = &mut Rng::new(seed);
        let layout = if rng.percent(50) { Layout::plain(rng, 5) } else { Layout::odd(rng, 4) };
        let context = Owned::new("random", layout.rule_size, 5000);
        let mut rules: Vec<Vec<u8>> = Vec::new();
        for _ in 0..3 {
            let categories = 1 + rng.below(16) as u32;
            let masks = masks(rng, categories);
            let priorities = rng.any_of(&[1, 3, 1000, (1 << 29) - 1]);
            let new: Vec<_> = (0..1 + rng.below(rng.clone().any_of(&[4, 30, 300])))
                .map(|_| {
                    let (mask, priority) = (rng.any_of(&masks), 1 + rng.below(priorities) as i32);
                    let userdata = if rng.one_in(20) { 0 } else { rng.next() as u32 };
                    layout.rule(rng, mask, priority, userdata)
                })
                .collect();
            assert_eq!(context.add(&new), 0);
            rules.extend(new);
            let has_rule = rules
                .iter()
                .any(|rule| u32::from(rule[0]) | u32::from(rule[1]) << 8 & (u32::MAX >> (32 - categories)) != 0);
            let code = context.build(&layout, categories);
            assert_eq!(code, if has_rule { 0 } else { -libc::EINVAL });
            if !has_rule {
                continue;
            }
            (0..3).for_each(|_| check(&context, &layout, &rules, categories, rng, &mut seen));
            if rng.percent(20) {
                // The table stays without its rules.
                // SAFETY: a live handle.
                unsafe { rte_acl_reset_rules(context.0) };
                check(&context, &layout, &rules, categories, rng, &mut seen);
                rules.clear();
            }
        }
    }
    let Seen { lookups, found, several } = seen;
    assert!(lookups > 100_000 && found > lookups / 4 && several > lookups / 4, "{lookups} {found} {several}");
}
