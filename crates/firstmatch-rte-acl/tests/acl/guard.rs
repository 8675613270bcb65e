//! Keys between pages that nobody may read: a kernel that touches a byte outside the fields ends the process.

use firstmatch_rte_acl::*;
use firstmatch_testkit::rng::Rng;

use crate::oracle;
use crate::random::Owned;
use crate::script::Layout;

const PAGE: usize = 4096;

/// One readable page between two that are not.
struct Guarded(*mut u8);

impl Guarded {
    fn new() -> Self {
        // SAFETY: a new mapping, of which the middle is then made readable.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let start = libc::mmap(std::ptr::null_mut(), 3 * PAGE, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            let page = start.byte_add(PAGE);
            assert_eq!(libc::mprotect(page, PAGE, libc::PROT_READ | libc::PROT_WRITE), 0);
            Self(page.cast())
        }
    }

    /// Copies the span of a key to the page's start or end; returns the pointer for the lookup.
    fn place(&self, key: &[u8], span: (usize, usize), at_end: bool) -> *const u8 {
        let bytes = &key[span.0..span.1];
        let offset = if at_end { PAGE - bytes.len() } else { 0 };
        // SAFETY: the bytes fit the page.
        unsafe {
            let to = self.0.add(offset);
            to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            to.wrapping_sub(span.0)
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping is not used any more.
        unsafe { libc::munmap(self.0.sub(PAGE).cast(), 3 * PAGE) };
    }
}

/// Looks keys of spans from 1 to over 64 bytes up, at both ends of a page, with results at the end of another.
#[test]
fn no_byte_outside_the_fields_is_touched() {
    let (pages, results) = ([(); 3].map(|()| Guarded::new()), Guarded::new());
    let mut spans = std::collections::BTreeSet::new();
    for seed in 0..1500 {
        let rng = &mut Rng::new(seed);
        let groups = 1 + rng.below(9);
        let layout = if rng.percent(50) { Layout::plain(rng, groups) } else { Layout::odd(rng, groups) };
        spans.insert(layout.span.1 - layout.span.0);
        let context = Owned::new("guarded", layout.rule_size, 20);
        let rules: Vec<_> = (1..12).map(|at| layout.rule(rng, 1, at, at as u32)).collect();
        assert_eq!(context.add(&rules), 0);
        if context.build(&layout, 1) == -libc::ENOMEM {
            continue;
        }
        let keys: Vec<_> = pages.iter().map(|_| layout.key(rng)).collect();
        for at_end in [false, true] {
            let mut data: Vec<_> =
                pages.iter().zip(&keys).map(|(page, key)| page.place(key, layout.span, at_end)).collect();
            for num in 1..=data.len() {
                // SAFETY: the end of the page has room for the results.
                let out = unsafe { results.0.add(PAGE - 4 * num).cast::<u32>() };
                // SAFETY: keys of whole spans, and room for the results.
                let code = unsafe { rte_acl_classify(context.0, data.as_mut_ptr(), out, num as u32, 1) };
                assert_eq!(code, 0);
                for (at, key) in keys[..num].iter().enumerate() {
                    // SAFETY: within the room for results.
                    let result = unsafe { out.add(at).read() };
                    assert_eq!(result, oracle::answer(&layout.defs, &rules, 0, key), "{:?}", layout.defs);
                }
            }
        }
    }
    assert!((1..=40).all(|span| spans.contains(&span)) && spans.last() > Some(&64), "{spans:?}");
}
