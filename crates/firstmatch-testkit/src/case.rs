//! Packets with their right answers, and whether an engine gives them.

use firstmatch_core::rule::{FieldValues, Priority, RuleId, RuleSet, first_match};
use firstmatch_core::{Classifier, KeyBuf, Match, Schema, Scratch};

/// Length of the longest batch tried; every shorter one is tried too.
pub const LONGEST: usize = 65;

pub struct Case {
    pub keys: KeyBuf,
    pub packets: Vec<FieldValues>,
    pub want: Vec<Option<Match>>,
}

impl Case {
    /// Returns the packets with the oracle's answers.
    pub fn new(set: &RuleSet, schema: &Schema, packets: Vec<FieldValues>) -> Self {
        let answer = |packet: &FieldValues| {
            first_match(set, packet).map(|rule| Match { rule: rule.id, priority: rule.priority })
        };
        let want = packets.iter().map(answer).collect();
        let mut keys = KeyBuf::new(schema);
        for packet in &packets {
            keys.push_values(packet);
        }
        Self { keys, packets, want }
    }

    /// Returns how many packets match a rule, and how many match two or more.
    pub fn strength(&self, set: &RuleSet, schema: &Schema) -> (usize, usize) {
        let twice = |packet: &&FieldValues| set.iter().filter(|r| r.matches(schema, packet)).nth(1).is_some();
        (self.want.iter().flatten().count(), self.packets.iter().filter(twice).count())
    }

    fn wrong(&self, index: usize, how: &str, got: Option<Match>, want: Option<Match>) -> String {
        let row = &self.keys.keys().row(index)[..self.keys.keys().key_words()];
        format!("{how}: packet {:x?}, words {row:x?}: {got:?} instead of {want:?}", self.packets[index].values)
    }

    /// Checks all packets in one batch.
    pub fn check(&self, engine: &dyn Classifier) -> Result<(), String> {
        self.check_with(engine, &mut engine.scratch())
    }

    /// Checks all packets in one batch, with a scratch from anywhere.
    pub fn check_with(&self, engine: &dyn Classifier, scratch: &mut Scratch) -> Result<(), String> {
        self.batch(engine, scratch, 0, self.want.len())
    }

    fn batch(&self, engine: &dyn Classifier, scratch: &mut Scratch, from: usize, to: usize) -> Result<(), String> {
        // Former contents must not shine through.
        let mut out = vec![Some(rubbish()); to - from];
        engine.classify_batch(scratch, self.keys.keys().slice(from, to), &mut out);
        match out.iter().zip(&self.want[from..to]).position(|(got, want)| got != want) {
            Some(at) => Err(self.wrong(from + at, &format!("batch {from}..{to}"), out[at], self.want[from + at])),
            None => Ok(()),
        }
    }

    /// Checks batches of every length up to [`LONGEST`] at changing places, and single packets.
    ///
    /// Batches also start from matches to beat.
    pub fn check_thoroughly(&self, engine: &dyn Classifier) -> Result<(), String> {
        let count = self.want.len();
        self.check_lengths(engine, (0..=LONGEST.min(count)).chain([count]))?;
        let mut scratch = engine.scratch();
        for index in 0..count.min(LONGEST) {
            let got = engine.classify(&mut scratch, self.keys.keys().slice(index, count));
            if got != self.want[index] {
                return Err(self.wrong(index, "one packet", got, self.want[index]));
            }
        }
        Ok(())
    }

    /// Checks batches of these lengths at changing places, with one scratch.
    ///
    /// They start from nothing and from matches to beat.
    pub fn check_lengths(
        &self,
        engine: &dyn Classifier,
        lengths: impl IntoIterator<Item = usize>,
    ) -> Result<(), String> {
        let mut scratch = engine.scratch();
        let count = self.want.len();
        for length in lengths {
            let from = if length < count { length * 7 % (count - length + 1) } else { 0 };
            self.batch(engine, &mut scratch, from, from + length)?;
            self.improve(engine, &mut scratch, from, from + length)?;
        }
        Ok(())
    }

    /// Checks a batch of which each place starts from another match.
    ///
    /// In turn these are nothing, a better, a worse and an equal match.
    fn improve(&self, engine: &dyn Classifier, scratch: &mut Scratch, from: usize, to: usize) -> Result<(), String> {
        let start = |index: usize| {
            let priority = self.want[index].map_or(Priority(1 << 40), |m| m.priority);
            match (index - from) % 4 {
                0 => None,
                1 => priority.0.checked_sub(1).map(|p| Match { priority: Priority(p), ..rubbish() }),
                2 => priority.0.checked_add(1).map(|p| Match { priority: Priority(p), ..rubbish() }),
                // No two rules have one priority: an equal match is the same one.
                _ => self.want[index],
            }
        };
        let mut best: Vec<_> = (from..to).map(start).collect();
        engine.improve_batch(scratch, &self.keys.keys().slice(from, to), &mut best);
        for (index, got) in (from..to).zip(best) {
            let before = start(index);
            let want = match self.want[index] {
                Some(m) if Match::wins(m.priority, &before) => Some(m),
                _ => before,
            };
            if got != want {
                return Err(self.wrong(index, &format!("improving {before:?}, batch {from}..{to}"), got, want));
            }
        }
        Ok(())
    }
}

/// Returns a match that no engine can give, because no set here has that many slots.
fn rubbish() -> Match {
    Match { rule: RuleId::new(u32::MAX - 1, 7), priority: Priority(77) }
}
