//! One field of the rules of live sets, on the writer's side: sets, signatures and classes.
//!
//! The *signature* of an address is the list of sets that hold it. Addresses of one signature have one *class*, however
//! many members the sets have. For example, 16 to 31 in a and 24 in b give three classes: none, {a} and {a, b}.
//!
//! A change of a member toggles one set in the pieces that the member covers. Each piece gets the class of its new
//! signature and joins equal neighbours. The steps are logged, so that the other replica needs no signatures.
//!
//! # Invariants
//! - Neighbouring pieces have different classes, and a class has at least one piece (`leaves_are_what_lists_say`).
//! - Class 0 is that of no set. It keeps its number without a piece, too.

use std::collections::HashMap;

use super::leaf::{Leaf, Step};
use super::rows::Bits;
use crate::rule::{Address, Members};

/// Error: there would be more classes than are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooManyClasses;

/// Writer's part of a field.
#[derive(Debug, Default)]
pub(super) struct Field {
    sets: Vec<SetRules>,
    free_sets: Vec<u32>,
    /// Rules with a negated condition.
    negated: Bits,
    classes: HashMap<Box<[u32]>, u32>,
    all: Vec<Class>,
    free: Vec<u32>,
    /// Classes that lost a piece, or came and may have none.
    touched: Vec<u32>,
    /// Working memory for a signature.
    signature: Vec<u32>,
}

/// Rules that test a set.
#[derive(Debug, Default)]
struct SetRules {
    plain: Vec<u16>,
    negated: Vec<u16>,
}

#[derive(Debug, Default)]
struct Class {
    signature: Box<[u32]>,
    pieces: usize,
}

/// Leaf and log that a change is applied to.
#[derive(Debug)]
pub(super) struct Target<'a, T> {
    pub(super) leaf: &'a mut Leaf<T>,
    pub(super) log: &'a mut Vec<Step<T>>,
}

impl<T: Address> Target<'_, T> {
    pub(super) fn apply(&mut self, step: Step<T>) {
        self.leaf.apply(step);
        self.log.push(step);
    }
}

impl Field {
    pub(super) fn new() -> Self {
        let mut field = Self::default();
        field.all.push(Class { signature: Box::default(), pieces: 1 });
        field.classes.insert(Box::default(), 0);
        field
    }

    /// Number of classes with a piece.
    #[cfg(test)]
    pub(super) fn classes(&self) -> usize {
        self.classes.len() - usize::from(self.all[0].pieces == 0)
    }

    /// Returns about the heap bytes.
    pub(super) fn bytes(&self) -> usize {
        let signatures: usize = self.all.iter().map(|class| 2 * size_of_val(&*class.signature)).sum();
        signatures + self.all.capacity() * size_of::<Class>() + self.classes.capacity() * size_of::<(Box<[u32]>, u32)>()
    }

    /// Returns the number of a new set, which no address is in.
    pub(super) fn new_set(&mut self) -> u32 {
        self.free_sets.pop().unwrap_or_else(|| {
            self.sets.push(SetRules::default());
            (self.sets.len() - 1) as u32
        })
    }

    /// Frees the number of a set that no address is in and no rule tests.
    pub(super) fn free_set(&mut self, set: u32) {
        self.free_sets.push(set);
    }

    /// Puts the addresses of a member into its set, or takes out those that no other member holds.
    ///
    /// `members` are those of the set after the change.
    ///
    /// # Errors
    /// As [`Self::toggle`].
    pub(super) fn refresh<T: Address>(
        &mut self,
        members: &Members<T>,
        [lo, hi]: [T; 2],
        set: u32,
        most: usize,
        target: &mut Target<'_, T>,
    ) -> Result<(), TooManyClasses> {
        if members.has(lo, hi) {
            return self.toggle([lo, hi], set, true, most, target);
        }
        members.gaps(lo, hi, |lo, hi| self.toggle([lo, hi], set, false, most, target))
    }

    /// Puts the addresses from `lo` to `hi` into a set, or takes them out.
    ///
    /// # Errors
    /// If there would be more than `most` classes; some pieces may have been changed then.
    pub(super) fn toggle<T: Address>(
        &mut self,
        [lo, hi]: [T; 2],
        set: u32,
        on: bool,
        most: usize,
        target: &mut Target<'_, T>,
    ) -> Result<(), TooManyClasses> {
        let mut at = lo;
        let done = loop {
            let piece = target.leaf.tree.piece(at);
            let end = piece.next.and_then(Address::previous).map_or(hi, |end| end.min(hi));
            match self.toggled(piece.class, set, on, most, target) {
                Ok(class) if class != piece.class => self.cut(piece.start, [at, end], [piece.class, class], target),
                Ok(_) => {}
                Err(error) => break Err(error),
            }
            match end.next() {
                Some(next) if end < hi => at = next,
                _ => break Ok(()),
            }
        };
        self.free_unused();
        done
    }

    /// Gives the addresses from `lo` to `hi`, all in the piece at `start`, another class.
    fn cut<T: Address>(&mut self, start: T, [lo, hi]: [T; 2], [old, new]: [u32; 2], target: &mut Target<'_, T>) {
        let before = if lo == start { lo.previous() } else { None };
        let is_joined = before.is_some_and(|before| target.leaf.tree.piece(before).class == new);
        if lo != start {
            self.put(lo, new, None, target);
        } else if is_joined {
            self.delete(lo, old, target);
        } else {
            self.put(lo, new, Some(old), target);
        }
        let Some(behind) = hi.next() else { return };
        let piece = target.leaf.tree.piece(behind);
        if piece.start != behind {
            self.put(behind, old, None, target);
        } else if piece.class == new {
            self.delete(behind, new, target);
        }
    }

    fn put<T: Address>(&mut self, start: T, class: u32, old: Option<u32>, target: &mut Target<'_, T>) {
        self.all[class as usize].pieces += 1;
        old.into_iter().for_each(|old| self.lose_piece(old));
        target.apply(Step::Put(start, class));
    }

    fn delete<T: Address>(&mut self, start: T, class: u32, target: &mut Target<'_, T>) {
        self.lose_piece(class);
        target.apply(Step::Delete(start));
    }

    fn lose_piece(&mut self, class: u32) {
        self.all[class as usize].pieces -= 1;
        self.touched.push(class);
    }

    /// Returns the class whose signature is that of `class` with or without a set.
    fn toggled<T: Address>(
        &mut self,
        class: u32,
        set: u32,
        on: bool,
        most: usize,
        target: &mut Target<'_, T>,
    ) -> Result<u32, TooManyClasses> {
        let old = &self.all[class as usize].signature;
        self.signature.clear();
        self.signature.extend_from_slice(old);
        match (old.binary_search(&set), on) {
            (Err(at), true) => self.signature.insert(at, set),
            (Ok(at), false) => _ = self.signature.remove(at),
            _ => return Ok(class),
        }
        if let Some(&known) = self.classes.get(&self.signature[..]) {
            return Ok(known);
        }
        if self.classes.len() >= most {
            return Err(TooManyClasses);
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.all.push(Class::default());
            (self.all.len() - 1) as u32
        });
        let signature: Box<[u32]> = self.signature.as_slice().into();
        self.all[number as usize] = Class { signature: signature.clone(), pieces: 0 };
        self.classes.insert(signature, number);
        self.touched.push(number);
        target.apply(Step::Clear(number));
        self.row(number).iter().for_each(|rule| target.apply(Step::Bit(number, rule, true)));
        Ok(number)
    }

    /// Returns the rules whose condition the addresses of a class meet.
    fn row(&self, class: u32) -> Bits {
        let mut row = self.negated.clone();
        for &set in &self.all[class as usize].signature {
            let SetRules { plain, negated } = &self.sets[set as usize];
            negated.iter().for_each(|&rule| row.set(rule, false));
            plain.iter().for_each(|&rule| row.set(rule, true));
        }
        row
    }

    fn free_unused(&mut self) {
        while let Some(class) = self.touched.pop() {
            let of = &mut self.all[class as usize];
            if of.pieces == 0 && class != 0 {
                let signature = std::mem::take(&mut of.signature);
                // It may have been touched twice, and be free by now.
                if self.classes.remove(&signature).is_some_and(|number| number == class) {
                    self.free.push(class);
                } else if signature.is_empty() {
                    self.classes.insert(signature, 0);
                }
            }
        }
    }

    /// Adds a rule with a condition on the field: that an address is in one of `sets` or, if negated, in none.
    pub(super) fn add_rule<T: Address>(&mut self, rule: u16, sets: &[u32], negated: bool, target: &mut Target<'_, T>) {
        if negated {
            self.negated.set(rule, true);
        }
        for &set in sets {
            let SetRules { plain, negated: unlike } = &mut self.sets[set as usize];
            if negated { unlike } else { plain }.push(rule);
        }
        target.apply(Step::Tested(true));
        self.set_bits(rule, sets, negated, true, target);
    }

    /// Removes a rule that was added with these sets.
    pub(super) fn remove_rule<T: Address>(
        &mut self,
        rule: u16,
        sets: &[u32],
        negated: bool,
        target: &mut Target<'_, T>,
    ) {
        self.set_bits(rule, sets, negated, false, target);
        target.apply(Step::Tested(false));
        for &set in sets {
            let SetRules { plain, negated: unlike } = &mut self.sets[set as usize];
            if negated { unlike } else { plain }.retain(|&of| of != rule);
        }
        self.negated.set(rule, false);
    }

    /// Sets the bit of a rule in every class that meets its condition.
    fn set_bits<T: Address>(&mut self, rule: u16, sets: &[u32], negated: bool, on: bool, target: &mut Target<'_, T>) {
        for &class in self.classes.values() {
            let signature = &self.all[class as usize].signature;
            let is_in = sets.iter().any(|set| signature.binary_search(set).is_ok());
            if is_in != negated {
                target.apply(Step::Bit(class, rule, on));
            }
        }
    }
}

#[cfg(test)]
mod tests;
