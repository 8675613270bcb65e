use std::collections::BTreeSet;

use super::*;

/// Field with its leaf, the other replica's leaf, and sets with their members.
struct Of<T> {
    field: Field,
    leaves: [Leaf<T>; 2],
    log: Vec<Step<T>>,
    members: Vec<Members<T>>,
}

impl<T: Address> Of<T> {
    fn new(sets: usize) -> Self {
        let mut field = Field::new();
        (0..sets).for_each(|_| _ = field.new_set());
        let members = (0..sets).map(|_| Members::default()).collect();
        Self { field, leaves: [Leaf::new(), Leaf::new()], log: Vec::new(), members }
    }

    fn change(&mut self, set: usize, [lo, hi]: [T; 2], on: bool, most: usize) -> Result<(), TooManyClasses> {
        let members = &mut self.members[set];
        let is_other = if on { members.insert(lo, hi) } else { members.remove(lo, hi) };
        if !is_other {
            return Ok(());
        }
        let mut target = Target { leaf: &mut self.leaves[0], log: &mut self.log };
        self.field.refresh(&self.members[set], [lo, hi], set as u32, most, &mut target)
    }

    fn rule(&mut self, rule: u16, sets: &[u32], negated: bool, on: bool) {
        let mut target = Target { leaf: &mut self.leaves[0], log: &mut self.log };
        match on {
            true => self.field.add_rule(rule, sets, negated, &mut target),
            false => self.field.remove_rule(rule, sets, negated, &mut target),
        }
    }

    /// Returns the starts with the signatures behind them.
    fn list(&self) -> Vec<(T, &[u32])> {
        let all = self.leaves[0].tree.list().into_iter();
        all.map(|(start, class)| (start, &*self.field.all[class as usize].signature)).collect()
    }
}

/// Returns the addresses from `lo` to `hi` of 8 bits, in the upper bits of an address of 32.
fn wide([lo, hi]: [u32; 2]) -> [u32; 2] {
    [lo << 24, hi << 24 | 0xFF_FFFF]
}

#[test]
fn worked_values_have_these_pieces() {
    let mut of = Of::new(2);
    let (a, b) = (0, 1);
    let mut is = |set: usize, range: [u32; 2], on: bool, wanted: &[(u32, &[u32])], classes: usize| {
        of.change(set, wide(range), on, usize::MAX).expect("no cap");
        let wanted: Vec<(u32, &[u32])> = wanted.iter().map(|&(start, of)| (start << 24, of)).collect();
        assert_eq!(of.list(), wanted);
        assert_eq!(of.field.classes(), classes);
    };
    is(a, [16, 31], true, &[(0, &[]), (16, &[0]), (32, &[])], 2);
    is(b, [24, 24], true, &[(0, &[]), (16, &[0]), (24, &[0, 1]), (25, &[0]), (32, &[])], 3);
    is(a, [16, 31], false, &[(0, &[]), (24, &[1]), (25, &[])], 2);
    is(a, [20, 40], true, &[(0, &[]), (20, &[0]), (24, &[0, 1]), (25, &[0]), (41, &[])], 3);
    is(a, [30, 50], true, &[(0, &[]), (20, &[0]), (24, &[0, 1]), (25, &[0]), (51, &[])], 3);
    is(a, [20, 40], false, &[(0, &[]), (24, &[1]), (25, &[]), (30, &[0]), (51, &[])], 3);
    is(a, [255, 255], true, &[(0, &[]), (24, &[1]), (25, &[]), (30, &[0]), (51, &[]), (255, &[0])], 3);
    is(b, [24, 24], false, &[(0, &[]), (30, &[0]), (51, &[]), (255, &[0])], 2);
    is(a, [0, 255], true, &[(0, &[0])], 1);
}

/// Changes that exceed the cap on classes are refused, and changing everything back leaves what was there.
#[test]
fn a_cap_on_classes_refuses_changes() {
    let mut of = Of::new(8);
    for set in 0..3u32 {
        of.change(set as usize, [set * 10, set * 10 + 15], true, 6).expect("at most six classes");
    }
    let before: Vec<(u32, Vec<u32>)> = of.list().into_iter().map(|(start, of)| (start, of.to_vec())).collect();
    assert_eq!(of.field.classes(), 6);
    assert_eq!(of.change(3, [0, 100], true, 6), Err(TooManyClasses));
    of.change(3, [0, 100], false, usize::MAX).expect("it goes back");
    let after: Vec<(u32, Vec<u32>)> = of.list().into_iter().map(|(start, of)| (start, of.to_vec())).collect();
    assert_eq!((after, of.field.classes()), (before, 6));
}

/// Pieces, rows and numbers of classes equal those of plain lists after each commit, in both replicas.
fn is_lists<T: Address>(place: impl Fn(u32) -> T, start: u32) {
    let mut state = u64::from(start) + 17;
    let mut random = |below: u32| {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (state >> 33) as u32 % below
    };
    const SETS: usize = 6;
    let mut of = Of::new(SETS);
    let mut lists = vec![BTreeSet::new(); SETS];
    let mut rules: Vec<Option<(Vec<u32>, bool)>> = vec![None; 200];
    for commit in 0..400 {
        for _ in 0..random(6) {
            let (set, lo) = (random(SETS as u32) as usize, random(256));
            let hi = match random(4) {
                0 => lo | 15,
                1 => lo + random(256 - lo),
                _ => lo,
            };
            // Narrow windows meet more members again.
            let [lo, hi] = if random(2) == 0 { [lo % 12, (hi % 12).max(lo % 12)] } else { [lo, hi] };
            let (range, on) = ([place(start + lo), place(start + hi)], random(2) == 0);
            of.change(set, range, on, usize::MAX).expect("no cap");
            if on {
                lists[set].insert(range)
            } else {
                lists[set].remove(&range)
            };
        }
        let rule = random(200) as u16;
        match rules[usize::from(rule)].take() {
            Some((sets, negated)) => of.rule(rule, &sets, negated, false),
            None => {
                let mut sets: Vec<u32> = (0..SETS as u32).filter(|_| random(3) == 0).collect();
                if sets.is_empty() {
                    sets.push(random(SETS as u32));
                }
                let negated = random(3) == 0;
                of.rule(rule, &sets, negated, true);
                rules[usize::from(rule)] = Some((sets, negated));
            }
        }
        let steps = std::mem::take(&mut of.log);
        steps.into_iter().for_each(|step| of.leaves[1].apply(step));
        let holds = |set: &BTreeSet<[T; 2]>, at: T| set.iter().any(|&[lo, hi]| lo <= at && at <= hi);
        let mut signatures = BTreeSet::new();
        let edges = [Some(T::ENDS[0]), Some(T::ENDS[1]), place(start).previous(), place(start + 255).next()];
        for at in (0..256).map(|at| place(start + at)).chain(edges.into_iter().flatten()) {
            let signature: Vec<u32> = (0..SETS).filter(|&set| holds(&lists[set], at)).map(|set| set as u32).collect();
            for leaf in &of.leaves {
                let class = [leaf.tree.piece(at).class];
                assert_eq!(&*of.field.all[class[0] as usize].signature, &signature[..], "commit {commit}");
                let row: Vec<u16> = (0..200u16)
                    .filter(|rule| leaf.word(class[0], usize::from(rule / 64)) >> (rule % 64) & 1 == 1)
                    .collect();
                let wanted = (0..200u16).filter(|&rule| {
                    let Some((sets, negated)) = &rules[usize::from(rule)] else { return false };
                    sets.iter().any(|set| signature.contains(set)) != *negated
                });
                assert!(wanted.eq(row), "commit {commit}");
            }
            signatures.insert(signature);
        }
        assert_eq!(of.field.classes(), signatures.len());
        assert!(of.list().windows(2).all(|pair| pair[0].1 != pair[1].1), "equal neighbours");
        of.leaves.iter().for_each(|leaf| leaf.tree.check_invariants());
    }
    assert!(of.field.all.len() <= 1 << SETS);
}

#[test]
fn leaves_are_what_lists_say() {
    for start in [0, 1 << 24, u32::MAX - 255] {
        is_lists(|at| at, start);
        is_lists(|at| u128::from(at) | u128::MAX << 32, start);
        is_lists(u128::from, start);
    }
}
