//! Sums of flows, packets and bytes by rule.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use firstmatch::core::Verdict;
use firstmatch::{Decision, Firewall, RuleId};
use firstmatch_columns::Status;

use crate::classify::{outcome_of, outcomes};
use crate::work::Collect;

/// Flows, packets and bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Sums([u64; 3]);

impl Sums {
    #[inline]
    fn add(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, value)| *sum = sum.saturating_add(value));
    }
}

/// Sums of one thread.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Sums of rules, by slot.
    rules: Vec<(Option<Hit>, Sums)>,
    /// Sums of rules whose slots others have taken.
    retired: Vec<(Hit, Sums)>,
    /// Sums of the policy's verdict where no rule matched.
    default: Sums,
    /// Sums of rows that were not classified, by outcome.
    unclassified: BTreeMap<i8, Sums>,
    /// Packets and bytes of the rows of the block, and its first row.
    weights: [Vec<u64>; 2],
    has_weights: [bool; 2],
    first: usize,
}

/// Rule with what its decisions say of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Hit {
    rule: RuleId,
    line: Option<u32>,
    verdict: Verdict,
}

impl Tally {
    #[inline]
    fn weight(&self, row: usize) -> Sums {
        let of = |index: usize| if self.has_weights[index] { self.weights[index][row - self.first] } else { 0 };
        Sums([1, of(0), of(1)])
    }
}

impl Collect for Tally {
    fn begin(&mut self, _: usize) {}

    const WEIGHS: bool = true;

    fn weigh(&mut self, first: usize, weights: [Option<&[u64]>; 2]) {
        self.first = first;
        for ((own, has), sizes) in self.weights.iter_mut().zip(&mut self.has_weights).zip(weights) {
            *has = sizes.is_some();
            own.clear();
            own.extend_from_slice(sizes.unwrap_or_default());
        }
    }

    #[inline]
    fn decided(&mut self, row: usize, decision: &Decision) {
        let weight = self.weight(row);
        let Some(rule) = decision.rule else {
            if decision.outcome.is_classified() {
                self.default.add(weight);
            } else {
                self.unclassified.entry(decision.outcome as i8).or_default().add(weight);
            }
            return;
        };
        let slot = rule.slot();
        if slot >= self.rules.len() {
            self.rules.resize(slot + 1, (None, Sums::default()));
        }
        let (hit, sums) = &mut self.rules[slot];
        if hit.is_none_or(|hit| hit.rule != rule) {
            if let Some(old) = hit.take() {
                self.retired.push((old, std::mem::take(sums)));
            }
            *hit = Some(Hit { rule, line: decision.line.map(u32::from), verdict: decision.verdict });
        }
        sums.add(weight);
    }

    fn undecided(&mut self, row: usize, status: Status) {
        let weight = self.weight(row);
        self.unclassified.entry(outcome_of(status).0).or_default().add(weight);
    }

    fn end(&mut self, _: usize) {}
}

/// Rule, verdict, outcome of rows that were not classified, and sums.
type Row<'a> = (Option<Hit>, Option<Verdict>, Option<&'a str>, Sums);

/// Returns the sums of all threads: a row for each live rule in order, for rules that were removed meanwhile, for the
/// policy's default, and for each outcome of rows that were not classified.
pub(crate) fn table(firewall: &Firewall, tallies: &[Tally], has_weights: [bool; 2]) -> RecordBatch {
    let mut by_rule: BTreeMap<RuleId, (Hit, Sums)> = BTreeMap::new();
    let (mut default, mut unclassified) = (Sums::default(), BTreeMap::<i8, Sums>::new());
    for tally in tallies {
        let live = tally.rules.iter().filter_map(|(hit, sums)| Some(((*hit)?, *sums)));
        for (hit, sums) in live.chain(tally.retired.iter().copied()) {
            by_rule.entry(hit.rule).or_insert((hit, Sums::default())).1.add(sums);
        }
        default.add(tally.default);
        tally.unclassified.iter().for_each(|(&outcome, &sums)| unclassified.entry(outcome).or_default().add(sums));
    }
    let mut rows: Vec<Row<'_>> = Vec::new();
    let update = firewall.update();
    for rule in update.rules() {
        let hit = Hit { rule: rule.id, line: rule.line.map(u32::from), verdict: rule.action.into() };
        let sums = by_rule.remove(&rule.id).map_or_else(Sums::default, |(_, sums)| sums);
        rows.push((Some(hit), Some(hit.verdict), None, sums));
    }
    rows.extend(by_rule.into_values().map(|(hit, sums)| (Some(hit), Some(hit.verdict), None, sums)));
    rows.push((None, Some(firewall.policy().default), None, default));
    let names = outcomes();
    for (outcome, sums) in unclassified {
        let others = names.len() as i8 - 3;
        // As in the column of verdicts: null where the row lacks or garbles a value.
        let is_null = outcome >= others || names[outcome as usize] == "lacks-field";
        let verdict = (!is_null).then_some(firewall.policy().unknown);
        rows.push((None, verdict, Some(names[outcome as usize]), sums));
    }
    let sums = |index: usize| -> ArrayRef {
        let has = index == 0 || has_weights[index - 1];
        let of = |row: &Row<'_>| has.then(|| i64::try_from(row.3.0[index]).unwrap_or(i64::MAX));
        Arc::new(rows.iter().map(of).collect::<Int64Array>())
    };
    let label = |row: &Row<'_>| row.0.and_then(|hit| firewall.label(hit.rule));
    let columns: [(&str, DataType, ArrayRef); 8] = [
        ("line", DataType::Int32, Arc::new(rows.iter().map(|row| Some(row.0?.line? as i32)).collect::<Int32Array>())),
        (
            "rule",
            DataType::Int64,
            Arc::new(rows.iter().map(|row| Some(row.0?.rule.get() as i64)).collect::<Int64Array>()),
        ),
        (
            "verdict",
            DataType::Utf8,
            Arc::new(rows.iter().map(|row| row.1.map(|it| it.to_string())).collect::<StringArray>()),
        ),
        ("label", DataType::Utf8, Arc::new(rows.iter().map(label).collect::<StringArray>())),
        ("outcome", DataType::Utf8, Arc::new(rows.iter().map(|row| row.2).collect::<StringArray>())),
        ("flows", DataType::Int64, sums(0)),
        ("packets", DataType::Int64, sums(1)),
        ("bytes", DataType::Int64, sums(2)),
    ];
    let fields: Vec<Field> = columns.iter().map(|(name, of, _)| Field::new(*name, of.clone(), true)).collect();
    let arrays = columns.into_iter().map(|(_, _, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).expect("the columns of the schema")
}
