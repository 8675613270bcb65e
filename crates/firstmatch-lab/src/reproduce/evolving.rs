//! Worked examples of Storm: the root of a tree, the check of a box, and boxes that evolve packet by packet.

use anyhow::{Context, ensure};
use firstmatch_core::cache::rule::{BoxCheck, Config, RuleCache};
use firstmatch_core::engines::cut_tree::{self, CutTree, Method};
use firstmatch_core::rule::{Lowered, Priority};
use firstmatch_core::{Classifier, KeyBuf, Probe};
use serde::Deserialize;

/// Box to be checked against the tree of HyperCuts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Checked {
    /// Rules of the box's action, from 1.
    own: Vec<usize>,
    /// Smallest value of each key word.
    lo: Vec<u32>,
    /// Largest value of each key word.
    hi: Vec<u32>,
}

impl Checked {
    /// Checks the box; ids count from 0, and that of none is the number of rules, as in the paper.
    pub(super) fn outcome(&self, lowered: &Lowered) -> anyhow::Result<String> {
        let words = lowered.schema().words().len();
        ensure!(self.lo.len() == words && self.hi.len() == words, "expected {words} values in `lo` and `hi`");
        let tree = CutTree::build(lowered, &cut_tree::Config::paper(Method::HyperCuts))?;
        let mut probe = Probe::new(&self.lo, &self.hi);
        let check = BoxCheck::of(&tree, &mut probe, |rule| self.own.contains(&(rule.slot() + 1)));
        let id = |priority: Option<Priority>| {
            lowered.by_rule().take_while(|(rule, _)| Some(rule.priority) != priority).count()
        };
        let is_accepted = if check.accepts() { "accepted" } else { "refused" };
        Ok(format!("match {}, conflict {}; {is_accepted}", id(check.matched), id(check.conflict)))
    }
}

/// Returns the fields that the root of a tree cuts, and the number of its children, from the tree as text.
pub(super) fn root(structure: &str) -> anyhow::Result<String> {
    let cuts = structure.strip_prefix('[').and_then(|text| text.split_once(':')).context("the root is a leaf")?.0;
    let (mut names, mut children) = (Vec::new(), 1);
    for cut in cuts.split(' ').filter(|cut| !cut.contains(['{', '}'])) {
        let (name, parts) = cut.split_once('/').with_context(|| format!("`{cut}` is no cut"))?;
        names.push(name.to_uppercase());
        children *= parts.parse::<usize>()?;
    }
    Ok(format!("{}; {children} children", names.join(" and ")))
}

/// Takes each packet as a sample, and returns what it does to the boxes.
pub(super) fn steps(inner: Box<dyn Classifier>, lowered: &Lowered, keys: &KeyBuf) -> anyhow::Result<String> {
    let mut config = Config::paper();
    config.sample = [1; 2];
    let cache = RuleCache::over(inner, lowered, &config)?;
    let boxes = RuleCache::<Box<dyn Classifier>>::boxes;
    let (mut scratch, mut steps) = (cache.scratch(), Vec::new());
    for at in 0..keys.len() {
        let before = boxes(&scratch);
        cache.classify(&mut scratch, keys.keys().slice(at, at + 1));
        let after = boxes(&scratch);
        let weight = |number: usize| before.get(number).map_or(0, |of| of.weight);
        let number = (0..after.len()).find(|&number| after[number].weight > weight(number));
        let what = number.map(|number| match before.get(number) {
            None => format!("makes box {}", number + 1),
            Some(old) if (&old.lo, &old.hi) != (&after[number].lo, &after[number].hi) => {
                format!("enlarges box {}", number + 1)
            }
            Some(_) => format!("lies in box {}", number + 1),
        });
        steps.push(format!("P{} {}", at + 1, what.unwrap_or_else(|| "is in no box".to_owned())));
    }
    Ok(steps.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_read_from_structures() {
        assert_eq!(root("[f2/4 f4/2: {r1} {r2}]").expect("a root"), "F2 and F4; 8 children");
        assert_eq!(root("[src/16 {r3 r4}: {r1} {r2}]").expect("a root"), "SRC; 16 children");
        assert!(root("{r1 r2}").is_err_and(|error| error.to_string() == "the root is a leaf"));
    }

    /// A packet that lies in a box neither makes nor enlarges one.
    #[test]
    fn packets_change_boxes() {
        let text = "schema {\n x 4 range\n}\nmatch x 4-5\nmatch x 1-9\n";
        let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default()).expect("rules").rules;
        let lowered = firstmatch_core::rule::lower(&rules, &rules.schemas()[0], &Default::default()).expect("few");
        let inner = firstmatch_core::engines::linear::Linear::build(&lowered, &Default::default()).expect("no budget");
        let mut keys = KeyBuf::new(lowered.schema());
        [6, 8, 7, 2, 0].into_iter().for_each(|x| keys.push()[0] = x);
        let said = steps(Box::new(inner), &lowered, &keys).expect("no level is forced");
        assert_eq!(said, "P1 makes box 1; P2 enlarges box 1; P3 lies in box 1; P4 makes box 2; P5 is in no box");
        for (lo, said) in [(6, "match 1, conflict 2; accepted"), (5, "match 2, conflict 0; refused")] {
            let check = Checked { own: vec![2], lo: vec![lo], hi: vec![8] };
            assert_eq!(check.outcome(&lowered).expect("one word"), said);
        }
        let check = Checked { own: vec![2], lo: vec![1, 2], hi: vec![8] };
        assert!(check.outcome(&lowered).is_err());
    }
}
