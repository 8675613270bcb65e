//! Rules as the caller gave them, packed without loss.
//!
//! A rule of five fields takes 96 bytes in C, but most of them are the same in every rule. Only bytes that differ
//! somewhere are kept for each rule; all others are read from a template, the first rule. Any configuration can
//! therefore be built from packed rules. For example, an IPv4 5-tuple keeps some 26 bytes: addresses, lengths, ports,
//! protocol, and the low bytes of priority and user data.
//!
//! Rules are added to a tail of whole rules, which the next build packs.

use std::collections::TryReserveError;

use crate::abi::RULE_HEAD;

/// Number of bytes of a rule that have a meaning before its first field.
const DATA: usize = 12;

/// Head of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) category_mask: u32,
    pub(crate) priority: i32,
    pub(crate) userdata: u32,
}

impl Head {
    /// Reads the head of a rule of at least 12 bytes.
    pub(crate) fn of(rule: &[u8]) -> Self {
        let word = |at: usize| rule[at..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        Self { category_mask: word(0), priority: word(4) as i32, userdata: word(8) }
    }
}

/// Rules of a context, in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// Bytes of a whole rule.
    stride: usize,
    /// First rule, whose bytes count where `varying` has none.
    template: Vec<u8>,
    /// Positions of the bytes that differ between rules, ascending.
    varying: Vec<u32>,
    /// Bytes at the varying positions, rule after rule.
    packed: Vec<u8>,
    /// Number of packed rules.
    packed_rules: usize,
    /// Whole rules that are not packed yet.
    tail: Vec<u8>,
}

impl Kept {
    /// Builds a list without rules of `stride` bytes.
    pub(crate) fn new(stride: usize) -> Self {
        Self { stride, ..Self::default() }
    }

    /// Returns a copy of the list.
    ///
    /// # Errors
    /// If there is no memory.
    pub(crate) fn copy(&self) -> Result<Self, TryReserveError> {
        fn copy<T: Copy>(from: &[T]) -> Result<Vec<T>, TryReserveError> {
            let mut to = Vec::new();
            to.try_reserve_exact(from.len())?;
            to.extend_from_slice(from);
            Ok(to)
        }
        let [template, packed, tail] = [&self.template, &self.packed, &self.tail].map(|bytes| copy(bytes));
        let (stride, packed_rules, varying) = (self.stride, self.packed_rules, copy(&self.varying)?);
        Ok(Self { stride, template: template?, varying, packed: packed?, packed_rules, tail: tail? })
    }

    /// Number of rules.
    pub(crate) fn len(&self) -> usize {
        self.packed_rules + self.tail.len().checked_div(self.stride).unwrap_or(0)
    }

    /// Number of bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.template.capacity() + self.varying.capacity() * 4 + self.packed.capacity() + self.tail.capacity()
    }

    /// Removes every rule and frees the memory.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.stride);
    }

    /// Makes room for `count` more rules.
    ///
    /// # Errors
    /// If there is no memory.
    pub(crate) fn reserve(&mut self, count: usize) -> Result<(), TryReserveError> {
        self.tail.try_reserve(count.saturating_mul(self.stride))
    }

    /// Adds a whole rule, for which there is room.
    pub(crate) fn push(&mut self, rule: &[u8]) {
        let start = self.tail.len();
        self.tail.extend_from_slice(rule);
        // Padding has no meaning and may hold anything.
        let padding = DATA.min(rule.len())..RULE_HEAD.min(rule.len());
        self.tail[start..][padding].fill(0);
    }

    /// Writes the rule of index `index`, which must be there, to `rule`, which has the length of a whole rule.
    pub(crate) fn read(&self, index: usize, rule: &mut [u8]) {
        match index.checked_sub(self.packed_rules) {
            Some(behind) => rule.copy_from_slice(&self.tail[behind * self.stride..][..self.stride]),
            None => {
                rule.copy_from_slice(&self.template);
                let bytes = &self.packed[index * self.varying.len()..][..self.varying.len()];
                self.varying.iter().zip(bytes).for_each(|(&at, &byte)| rule[at as usize] = byte);
            }
        }
    }

    /// Returns the head of the rule of index `index`, which must be there.
    pub(crate) fn head(&self, index: usize) -> Head {
        match index.checked_sub(self.packed_rules) {
            Some(behind) => Head::of(&self.tail[behind * self.stride..]),
            None => self.packed_head(self.heads(), index),
        }
    }

    /// Returns the positions of the bytes of a head that differ between rules.
    fn heads(&self) -> &[u32] {
        &self.varying[..self.varying.partition_point(|&at| (at as usize) < DATA)]
    }

    /// Returns the head of a packed rule, of which `heads` are the positions that differ.
    #[inline]
    fn packed_head(&self, heads: &[u32], index: usize) -> Head {
        let mut head = [0; DATA];
        head.copy_from_slice(&self.template[..DATA]);
        let bytes = &self.packed[index * self.varying.len()..][..heads.len()];
        heads.iter().zip(bytes).for_each(|(&at, &byte)| head[at as usize] = byte);
        Head::of(&head)
    }

    /// Removes the rules that `is_removed` says so of, by index and head; returns their number.
    ///
    /// It asks for each rule once, in their order.
    ///
    /// # Errors
    /// If there is no memory; no rule is asked for then.
    pub(crate) fn remove(&mut self, mut is_removed: impl FnMut(usize, Head) -> bool) -> Result<usize, TryReserveError> {
        self.pack()?;
        let (width, count) = (self.varying.len(), self.packed_rules);
        // Rules from `first` on stay and are to be moved behind the `left` first ones.
        let (mut left, mut first) = (0, 0);
        let heads = self.heads().to_vec();
        for index in 0..count {
            if is_removed(index, self.packed_head(&heads, index)) {
                self.packed.copy_within(first * width..index * width, left * width);
                left += index - first;
                first = index + 1;
            }
        }
        self.packed.copy_within(first * width..count * width, left * width);
        left += count - first;
        self.packed.truncate(left * width);
        self.packed_rules = left;
        Ok(count - left)
    }

    /// Packs the tail.
    ///
    /// # Errors
    /// If there is no memory; the rules are then as before.
    pub(crate) fn pack(&mut self) -> Result<(), TryReserveError> {
        if self.tail.is_empty() {
            return Ok(());
        }
        let template = if self.template.is_empty() { &self.tail[..self.stride] } else { &self.template[..] };
        let mut differs = vec![0; self.stride];
        self.varying.iter().for_each(|&at| differs[at as usize] = 1);
        for rule in self.tail.chunks_exact(self.stride) {
            differs.iter_mut().zip(rule).zip(template).for_each(|((differs, byte), first)| *differs |= byte ^ first);
        }
        let varying: Vec<u32> = (0..).zip(&differs).filter(|&(_, &differs)| differs != 0).map(|(at, _)| at).collect();
        let mut packed = Vec::new();
        packed.try_reserve_exact(self.len() * varying.len())?;
        let mut first = Vec::new();
        first.try_reserve_exact(self.stride)?;
        first.extend_from_slice(template);
        let mut rule = vec![0; self.stride];
        for index in 0..self.len() {
            self.read(index, &mut rule);
            packed.extend(varying.iter().map(|&at| rule[at as usize]));
        }
        let packed_rules = self.len();
        *self = Self { stride: self.stride, template: first, varying, packed, packed_rules, tail: Vec::new() };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use firstmatch_testkit::rng::Rng;

    use super::*;

    #[test]
    fn packed_rules_are_read_as_they_were_added() {
        let mut rng = Rng::new(1);
        for round in 0..200 {
            let stride = 12 + rng.below(120);
            let (mut kept, mut rules) = (Kept::new(stride), Vec::<Vec<u8>>::new());
            let common = rng.bytes(stride);
            let varying: Vec<_> = (0..stride).filter(|_| rng.percent(20)).collect();
            for _ in 0..rng.below(5) {
                let count = rng.below(20);
                kept.reserve(count).expect("memory");
                for _ in 0..count {
                    let mut rule = common.clone();
                    varying.iter().filter(|_| round % 2 == 0 || rng.below(9) > 6).for_each(|&at| rule[at] ^= at as u8);
                    kept.push(&rule);
                    rule[DATA..RULE_HEAD.min(stride)].fill(0);
                    rules.push(rule);
                }
                if rng.percent(70) {
                    kept.pack().expect("memory");
                    assert!(kept.tail.is_empty());
                }
            }
            assert_eq!(kept.len(), rules.len());
            let mut out = vec![0; stride];
            for (index, rule) in rules.iter().enumerate() {
                kept.read(index, &mut out);
                assert_eq!(&out, rule);
                assert_eq!(kept.head(index), Head::of(rule));
            }
            kept.clear();
            assert_eq!((kept.len(), kept.bytes()), (0, 0));
        }
    }

    #[test]
    fn removed_rules_leave_the_others_in_order() {
        let mut kept = Kept::new(32);
        let rule = |userdata: u32| [[0; 8].as_slice(), &userdata.to_ne_bytes(), &[userdata as u8; 20]].concat();
        let mut expected: Vec<u32> = Vec::new();
        for round in 0..3 {
            kept.reserve(100).expect("memory");
            (0..100).for_each(|at| kept.push(&rule(100 * round + at)));
            expected.extend(100 * round..100 * (round + 1));
            let before = expected.len();
            expected.retain(|userdata| userdata % 3 != round);
            let removed = kept.remove(|_, head| head.userdata % 3 == round).expect("memory");
            assert_eq!(removed, before - expected.len());
            let mut out = vec![0; 32];
            let left = (0..kept.len()).map(|index| {
                kept.read(index, &mut out);
                assert_eq!(out[12..16], [0; 4]);
                assert_eq!(out[16], out[8]);
                Head::of(&out).userdata
            });
            assert_eq!(left.collect::<Vec<_>>(), expected);
        }
        assert!(expected.len() > 50);
        assert_eq!(kept.remove(|_, _| true).expect("memory"), expected.len());
        assert_eq!((kept.len(), kept.remove(|_, _| true).expect("memory")), (0, 0));
    }

    #[test]
    fn constant_bytes_take_no_memory() {
        let mut kept = Kept::new(96);
        kept.reserve(1000).expect("memory");
        for index in 0..1000u32 {
            let mut rule = [7; 96];
            rule[16..20].copy_from_slice(&index.to_ne_bytes());
            kept.push(&rule);
        }
        kept.pack().expect("memory");
        assert_eq!((kept.varying.len(), kept.packed.len()), (2, 2000));
        assert_eq!(kept.bytes(), 2000 + kept.varying.capacity() * 4 + 96);
    }
}
