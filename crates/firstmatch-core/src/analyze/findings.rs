//! Rules that never decide, and rules that change no verdict.

use super::analysis::{Analysis, Answer, List, SHARED};
use super::cover::{Cover, search};
use super::one_sided::Classified;
use super::piece::{Piece, and, overlap};
use super::tree::Among;
use crate::policy::Verdict;
use crate::rule::{FieldValues, RuleId, tested_fields};

/// Number of rules of another verdict that are looked for one by one, before all others are collected at once.
const SINGLY: usize = 8;

/// Kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// No packet meets the rule's conditions.
    Unmatchable,
    /// An earlier rule has the same conditions.
    Duplicate,
    /// Earlier rules together take all packets of the rule.
    Shadowed,
    /// The rule decides, but without it every packet would get the same verdict.
    Redundant,
    /// An earlier rule takes packets that the rule would decide otherwise; [`Analysis::overlaps`] looks for these.
    Overlap,
    /// A cap ended a question about the rule, or the rule is [beyond the limits](Analysis::beyond).
    Undecided,
}

impl Kind {
    /// All kinds, in the order of the enum.
    pub const ALL: [Self; 6] =
        [Self::Unmatchable, Self::Duplicate, Self::Shadowed, Self::Redundant, Self::Overlap, Self::Undecided];

    /// Returns the name, for example `shadowed`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unmatchable => "unmatchable",
            Self::Duplicate => "duplicate",
            Self::Shadowed => "shadowed",
            Self::Redundant => "redundant",
            Self::Overlap => "overlap",
            Self::Undecided => "undecided",
        }
    }
}

/// Finding about a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// Kind of the finding.
    pub kind: Kind,
    /// Rule that it is about.
    pub rule: RuleId,
    /// Rules that cause it, in order of priority.
    ///
    /// For a shadowed rule they take all its packets, and none of them can be left out unless a cap ended the search.
    /// For a redundant rule they are the later rules that take a whole box of it; without any, the default verdict or
    /// several rules do.
    pub by: Vec<RuleId>,
    /// Packet of the rule, unless it is unmatchable or beyond the limits.
    ///
    /// A rule in `by` decides it if the finding is that the rule never decides. Otherwise the rule itself does, unless a
    /// cap ended the search.
    pub packet: Option<FieldValues>,
    /// Whether the rule must stay nevertheless, because packets that hide a field which it tests are unknown by it.
    ///
    /// Without the rule some of these packets would be classified and get another verdict.
    pub must_stay: bool,
}

/// Findings about a rule set, in order of priority.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Findings; at most one per rule.
    pub findings: Vec<Finding>,
    /// Number of rules that were looked at.
    pub rules: usize,
    /// Regions that all questions looked at.
    pub work: u64,
    /// Number of questions that a cap ended, beside those with a finding.
    pub undecided: usize,
    /// Rules [beyond the limits](Analysis::beyond).
    ///
    /// Each has the finding [`Kind::Undecided`], unless packets of the other family show that it is needed.
    pub beyond: Vec<RuleId>,
}

impl Report {
    /// Whether every question was decided.
    pub fn is_complete(&self) -> bool {
        self.undecided == 0 && self.findings.iter().all(|finding| finding.kind != Kind::Undecided)
    }
}

impl Analysis<'_> {
    /// Finds the rules that never decide and those that change no verdict.
    ///
    /// All rules that are found can be removed together, but for those that must stay. Rules are only called redundant
    /// if some rule states an action, because otherwise all verdicts are the same. The last rules are not if they give
    /// every packet of a family the default verdict: such a rule states the default.
    pub fn check(mut self) -> Report {
        let never: Vec<Option<Finding>> = (0..self.rules.len() as u32).map(|rank| self.shadowed(rank)).collect();
        let mut stays = vec![false; self.rules.len()];
        let needed: Vec<Vec<bool>> = (0..self.lists.len()).map(|list| self.needed(list)).collect();
        loop {
            let mut found = self.find(never.clone(), &stays);
            // Rules that are kept make others needed, so that all are asked about once more.
            if !self.keep(&needed, &mut stays) {
                for (finding, &stays) in found.iter_mut().zip(&stays) {
                    finding.iter_mut().for_each(|finding| finding.must_stay = stays);
                }
                let (rules, work, beyond) = (self.rules.len(), self.work.done, self.beyond());
                return Report { findings: found.into_iter().flatten().collect(), rules, work, undecided: 0, beyond };
            }
        }
    }

    /// Adds to `stays` removed rules without which packets would be classified and get another verdict.
    ///
    /// `needed` are the fields that all rules need, by list. Returns whether it adds some. Those are all removed rules
    /// that test a field which such packets hide.
    fn keep(&mut self, needed: &[Vec<bool>], stays: &mut [bool]) -> bool {
        let mut has_more = false;
        for (list, all) in needed.iter().enumerate() {
            let rest = self.needed(list);
            if rest == *all {
                continue;
            }
            for hiding in self.classified_alone(list, &rest, (all, self.fragments)) {
                if matches!(self.other_verdict(list, &hiding, &rest, self.unknown), Classified::None) {
                    continue;
                }
                for (rank, rule) in self.rules.iter().enumerate().filter(|(rank, _)| self.removed[*rank]) {
                    let tested = tested_fields(std::iter::once(*rule), &self.lists[list].schema);
                    if hiding.fields.iter().any(|&field| tested[field]) && !stays[rank] {
                        (stays[rank], has_more) = (true, true);
                    }
                }
            }
        }
        has_more
    }

    /// Returns the findings, of which `never` are rules that never decide, and notes which rules can be removed.
    fn find(&mut self, never: Vec<Option<Finding>>, stays: &[bool]) -> Vec<Option<Finding>> {
        let mut found = never;
        // A rule that never decides may still be the later rule that another one falls to; it makes no difference.
        for ((removed, finding), stays) in self.removed.iter_mut().zip(&found).zip(stays) {
            *removed = !stays && finding.as_ref().is_some_and(|finding| finding.kind != Kind::Undecided);
        }
        let has_actions = self.rules.iter().any(|rule| Verdict::from(rule.action) != Verdict::Match);
        if has_actions {
            let mut is_end = true;
            for rank in (0..self.rules.len() as u32).rev() {
                if found[rank as usize].is_some() || stays[rank as usize] {
                    continue;
                }
                is_end &= self.repeats_default(rank);
                if is_end {
                    continue;
                }
                let (answer, by) = self.redundant(rank);
                let kind = match answer {
                    Answer::Yes => Kind::Redundant,
                    Answer::No => continue,
                    Answer::Undecided => Kind::Undecided,
                };
                self.removed[rank as usize] = kind == Kind::Redundant;
                found[rank as usize] = Some(self.finding(kind, rank, by));
            }
        }
        found
    }

    /// Whether a rule gives all packets, or all of a family, the default verdict.
    fn repeats_default(&self, rank: u32) -> bool {
        let is_whole = |(list, of): (&List, Vec<Piece>)| {
            of.iter().zip(list.schema.words()).all(|(piece, word)| *piece == Piece::interval(0, word.max))
        };
        let boxes = |list| self.boxes(list, rank).into_iter().map(move |of| (&self.lists[list], of));
        self.verdict(rank) == self.default && (0..self.lists.len()).flat_map(boxes).all(is_whole)
    }

    fn finding(&mut self, kind: Kind, rank: u32, mut by: Vec<u32>) -> Finding {
        by.sort_unstable();
        by.dedup();
        let packet = self.example(kind, rank, &by);
        let by = by.iter().map(|&rank| self.rules[rank as usize].id).collect();
        Finding { kind, rule: self.rules[rank as usize].id, by, packet, must_stay: false }
    }

    /// Returns a packet of a rule that is decided as its finding says.
    ///
    /// Of a rule that never decides, one of `by` decides it, if possible one of another verdict. Of others, the rule
    /// itself decides it, if possible before one of `by`.
    fn example(&mut self, kind: Kind, rank: u32, by: &[u32]) -> Option<FieldValues> {
        let mut asked: Vec<(u32, Option<u32>)> = by.iter().map(|&other| (other, Some(other))).collect();
        if matches!(kind, Kind::Shadowed | Kind::Duplicate) {
            asked.sort_by_key(|&(taker, _)| self.verdict(taker) == self.verdict(rank));
        } else {
            asked.push((rank, None));
        }
        asked.push((0, None));
        asked.into_iter().find_map(|(before, other)| self.packet_of(rank, before, other))
    }

    /// Returns a packet of a rule, and of another one if asked for, that no other rule before a rank matches.
    fn packet_of(&mut self, rank: u32, before: u32, other: Option<u32>) -> Option<FieldValues> {
        for list in 0..self.lists.len() {
            let others = other.map(|other| self.boxes(list, other));
            for of in self.boxes(list, rank) {
                let shared: Vec<Vec<Piece>> = match &others {
                    Some(others) => others.iter().filter_map(|region| and(&of, region)).collect(),
                    None => vec![of],
                };
                for of in shared {
                    if let Cover::Free(mut key) = self.cover(list, &of, before, Some(rank)) {
                        self.lists[list].possible.settle(&mut key, &of);
                        return Some(self.values(list, &key));
                    }
                }
            }
        }
        None
    }

    /// Returns the finding that a rule never decides, or cannot be decided about.
    fn shadowed(&mut self, rank: u32) -> Option<Finding> {
        let mut is_undecided = self.is_beyond(rank);
        for list in 0..self.lists.len() {
            for of in self.boxes(list, rank) {
                match self.cover(list, &of, rank, None) {
                    Cover::Covered => {}
                    Cover::Free(_) => return None,
                    Cover::Undecided => is_undecided = true,
                }
            }
        }
        if is_undecided {
            return Some(self.finding(Kind::Undecided, rank, Vec::new()));
        }
        let by = self.causes(rank);
        let kind = match by[..] {
            // It has only impossible keys.
            [] => Kind::Unmatchable,
            [one] if self.is_equal(one, rank) => Kind::Duplicate,
            _ => Kind::Shadowed,
        };
        Some(self.finding(kind, rank, by))
    }

    /// Whether two rules have the same regions.
    fn is_equal(&self, one: u32, other: u32) -> bool {
        (0..self.lists.len()).all(|list| self.boxes(list, one) == self.boxes(list, other))
    }

    /// Returns rules that together take all packets of a rule; one of them decides some of these.
    ///
    /// It tries at most `Limits::causes` times to leave some of them out, later rules first. If that is not enough,
    /// there may be more rules than needed; otherwise none can be left out.
    fn causes(&mut self, rank: u32) -> Vec<u32> {
        let mut by = self.holders(rank).unwrap_or_else(|| self.overlapping(rank));
        // The last rule of the shortest beginning that suffices decides the packets that those before it leave.
        let (mut from, mut to, mut tries) = (0, by.len(), 0);
        while from < to {
            let middle = from.midpoint(to);
            tries += 1;
            if self.suffice(&by[..middle], rank) { to = middle } else { from = middle + 1 }
        }
        by.truncate(to);
        // All others at first, then halves and single rules, because most rules of a long list are not needed.
        let mut step = by.len().saturating_sub(1);
        while step > 0 && tries < self.limits.causes {
            let mut end = by.len() - 1;
            while end > 0 && tries < self.limits.causes {
                let from = end.saturating_sub(step);
                let kept = [&by[..from], &by[end..]].concat();
                tries += 1;
                if self.suffice(&kept, rank) {
                    by = kept;
                }
                end = from;
            }
            step = if step == 1 { 0 } else { step.div_ceil(2) };
        }
        by
    }

    /// Returns the first rule that holds each box of a rule, unless there is none or it decides nothing of the box.
    fn holders(&mut self, rank: u32) -> Option<Vec<u32>> {
        let mut by = Vec::new();
        for list in 0..self.lists.len() {
            for of in self.boxes(list, rank) {
                let holder = self.lists[list].tree.holder(&of, self.among(0, rank))?;
                let Cover::Free(_) = self.cover(list, &of, holder, None) else { return None };
                by.push(holder);
            }
        }
        by.sort_unstable();
        by.dedup();
        Some(by)
    }

    /// Returns the rules before a rule that overlap it.
    fn overlapping(&self, rank: u32) -> Vec<u32> {
        let mut by = Vec::new();
        for list in 0..self.lists.len() {
            let tree = &self.lists[list].tree;
            for of in self.boxes(list, rank) {
                tree.overlaps(&of, self.among(0, rank), |region| {
                    by.push(tree.rank(region));
                    false
                });
            }
        }
        by.sort_unstable();
        by.dedup();
        by
    }

    /// Whether some rules take all packets of a rule.
    fn suffice(&mut self, by: &[u32], rank: u32) -> bool {
        let mut work = self.work;
        let covered = (0..self.lists.len()).all(|list| {
            let List { tree, regions, possible, .. } = &self.lists[list];
            self.boxes(list, rank).iter().all(|of| {
                let own = by.iter().flat_map(|&rank| regions[rank as usize].clone()).map(|region| tree.region(region));
                let entries = own.chain(possible.boxes.chunks_exact(of.len())).filter(|entry| overlap(entry, of));
                search(of, &entries.flatten().copied().collect::<Vec<_>>(), &mut work) == Cover::Covered
            })
        });
        self.work = work;
        covered
    }

    /// Returns whether every packet of a rule gets the same verdict without it, and the later rules that then match
    /// first.
    fn redundant(&mut self, rank: u32) -> (Answer, Vec<u32>) {
        let start = if self.is_beyond(rank) { Answer::Undecided } else { Answer::Yes };
        let (mut answer, mut by) = (start, Vec::new());
        for list in 0..self.lists.len() {
            for of in self.boxes(list, rank) {
                match self.redundant_box(list, &of, rank, &mut by) {
                    Answer::Yes => {}
                    Answer::No => return (Answer::No, Vec::new()),
                    Answer::Undecided => answer = Answer::Undecided,
                }
            }
        }
        (answer, by)
    }

    /// Returns the answer for one box of a rule.
    ///
    /// Without the rule, a packet of it goes to the first other match. So each later rule of another verdict must meet
    /// the box only in packets that earlier rules take, and the same holds for the rule or the default behind them all.
    fn redundant_box(&mut self, list: usize, of: &[Piece], rank: u32, by: &mut Vec<u32>) -> Answer {
        let own = self.verdict(rank);
        let count = self.rules.len() as u32;
        let end = self.lists[list].tree.holder(of, self.among(rank + 1, count));
        let below = end.unwrap_or(count);
        let bit = self.verdicts[rank as usize];
        let of_others = if bit == SHARED { u64::MAX } else { !bit };
        let mut answer = Answer::Yes;
        // Most rules are needed because of the first rule of another verdict, so the first ones are looked for one by
        // one.
        let mut from = rank + 1;
        let mut left = Vec::new();
        for tries in 0.. {
            let among = Among { of: of_others, ..self.among(from, below) };
            let List { tree, .. } = &self.lists[list];
            if tries == SINGLY {
                let most = self.limits.pairs;
                tree.overlaps(of, among, |region| {
                    left.push(tree.rank(region));
                    left.len() > most
                });
                if left.len() > most {
                    return Answer::Undecided;
                }
                left.sort_unstable_by(|one, other| other.cmp(one));
                left.dedup();
            }
            let next = if tries < SINGLY { tree.next(of, among) } else { left.pop() };
            let Some(other) = next else { break };
            from = other + 1;
            if self.verdict(other) == own {
                continue;
            }
            for shared in self.boxes(list, other).iter().filter_map(|region| and(of, region)) {
                match self.cover(list, &shared, other, Some(rank)) {
                    Cover::Covered => {}
                    Cover::Free(_) => return Answer::No,
                    Cover::Undecided => answer = Answer::Undecided,
                }
            }
        }
        let among = Among { of: of_others, ..self.among(rank + 1, below) };
        if self.lists[list].beyond_at(of, among).any(|other| self.verdict(other) != own) {
            answer = Answer::Undecided;
        }
        let verdict = end.map_or(self.default, |end| self.verdict(end));
        if verdict != own {
            match self.cover(list, of, below, Some(rank)) {
                Cover::Covered => {}
                Cover::Free(_) => return Answer::No,
                Cover::Undecided => answer = Answer::Undecided,
            }
        } else if let Some(end) = end {
            by.push(end);
        }
        answer
    }
}
