//! Decisions as columns.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::{ArrayRef, DictionaryArray, Int8Array, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use firstmatch::{Decision, Firewall, Outcome, Verdict};
use firstmatch_columns::Status;

use crate::request::Request;
use crate::work::{Collect, Fault, Work};

/// Outcomes beside those of packets.
const OTHERS: [&str; 3] = ["bad-address", "bad-number", "mixed-families"];

/// Returns the index of a row's outcome in [`outcomes`], and whether it has a verdict all the same.
pub(crate) fn outcome_of(status: Status) -> (i8, bool) {
    let others = Outcome::ALL.len() as i8;
    match status {
        Status::Keys => (Outcome::Complete as i8, true),
        // Null in, null out, as in SQL.
        Status::LacksField => (Outcome::LacksField as i8, false),
        Status::OtherFamily => (Outcome::OtherFamily as i8, true),
        Status::BadAddress => (others, false),
        Status::BadNumber => (others + 1, false),
        Status::MixedFamilies => (others + 2, false),
    }
}

/// Returns all outcomes, in the order of their indices.
pub(crate) fn outcomes() -> Vec<&'static str> {
    Outcome::ALL.into_iter().map(Outcome::name).chain(OTHERS).collect()
}

/// Verdicts by their index, which all threads share. They are only ever added to.
#[derive(Debug)]
pub(crate) struct Verdicts(Mutex<Vec<Verdict>>);

impl Verdicts {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(vec![Verdict::Permit, Verdict::Deny, Verdict::Match]))
    }

    fn index_of(&self, verdict: Verdict) -> i32 {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.iter().position(|known| *known == verdict);
        known.unwrap_or_else(|| {
            all.push(verdict);
            all.len() - 1
        }) as i32
    }

    fn names(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().map(ToString::to_string).collect()
    }
}

/// Columns of the result.
#[derive(Debug)]
pub(crate) struct Form {
    schema: SchemaRef,
    is_plain: bool,
    /// Label of each rule that has one, by id; `None` if there is no such column.
    labels: Option<Firewall>,
    verdicts: Verdicts,
    outcomes: ArrayRef,
}

impl Form {
    pub(crate) fn new(firewall: &Firewall, request: &Request) -> Self {
        let is_plain = request.has_plain_strings;
        let text = |key: DataType| {
            if is_plain { DataType::Utf8 } else { DataType::Dictionary(key.into(), DataType::Utf8.into()) }
        };
        let mut fields = vec![
            Field::new("verdict", text(DataType::Int32), true),
            Field::new("rule", DataType::Int64, true),
            Field::new("line", DataType::Int32, true),
            Field::new("outcome", text(DataType::Int8), false),
        ];
        if request.has_labels {
            fields.push(Field::new("label", DataType::Utf8, true));
        }
        Self {
            schema: Arc::new(Schema::new(fields)),
            is_plain,
            labels: request.has_labels.then(|| firewall.clone()),
            verdicts: Verdicts::new(),
            outcomes: Arc::new(StringArray::from(outcomes())),
        }
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Decides batches, and returns the columns of their tasks in order.
    pub(crate) fn decide(
        &self,
        firewall: &Firewall,
        work: &mut Work,
        batches: &[RecordBatch],
    ) -> Result<Vec<Columns>, Fault> {
        let mut collectors: Vec<Classified<'_>> =
            (0..work.threads()).map(|_| Classified::new(self, firewall)).collect();
        work.run(batches, &mut collectors)?;
        let mut tasks: Vec<_> = collectors.into_iter().flat_map(|collector| collector.tasks).collect();
        tasks.sort_unstable_by_key(|(task, _)| *task);
        Ok(tasks.into_iter().map(|(_, columns)| columns).collect())
    }

    /// Returns the columns as batches. All of them name the same verdicts.
    pub(crate) fn batches(&self, tasks: Vec<Columns>) -> Vec<RecordBatch> {
        tasks.into_iter().map(|columns| self.batch(columns)).collect()
    }

    /// Returns the columns of a task.
    pub(crate) fn batch(&self, task: Columns) -> RecordBatch {
        let Columns { verdict, rule, line, outcome } = task;
        let rows = verdict.len();
        let nulls = |is_there: &dyn Fn(usize) -> bool| {
            let mut bits = BooleanBufferBuilder::new(rows);
            (0..rows).for_each(|row| bits.append(is_there(row)));
            Some(NullBuffer::new(bits.finish())).filter(|nulls| nulls.null_count() > 0)
        };
        let has_verdict = nulls(&|row| verdict[row] >= 0);
        let has_rule = nulls(&|row| rule[row] != 0);
        let has_line = nulls(&|row| line[row] != 0);
        let names = self.verdicts.names();
        let mut arrays: Vec<ArrayRef> = Vec::new();
        let labels = self.labels.as_ref().map(|firewall| {
            let label = |&id: &i64| firewall.label(firstmatch::RuleId::from_u64(id as u64)?);
            Arc::new(rule.iter().map(label).collect::<StringArray>()) as ArrayRef
        });
        if self.is_plain {
            let name = |&index: &i32| usize::try_from(index).ok().and_then(|index| names.get(index));
            arrays.push(Arc::new(verdict.iter().map(name).collect::<StringArray>()));
        } else {
            // The value of a null is one of the dictionary's, so that readers which look at it find it.
            let keys = verdict.into_iter().map(|index| index.max(0)).collect::<Vec<_>>();
            let keys = Int32Array::new(keys.into(), has_verdict);
            arrays.push(Arc::new(DictionaryArray::<Int32Type>::new(keys, Arc::new(StringArray::from(names)))));
        }
        arrays.push(Arc::new(Int64Array::new(rule.into(), has_rule)));
        arrays.push(Arc::new(Int32Array::new(line.into(), has_line)));
        if self.is_plain {
            let all = outcomes();
            arrays.push(Arc::new(outcome.iter().map(|&index| Some(all[index as usize])).collect::<StringArray>()));
        } else {
            let keys = Int8Array::new(outcome.into(), None);
            arrays.push(Arc::new(DictionaryArray::<Int8Type>::new(keys, Arc::clone(&self.outcomes))));
        }
        arrays.extend(labels);
        RecordBatch::try_new(Arc::clone(&self.schema), arrays).expect("the columns of the schema")
    }
}

/// Decisions on the rows of a task; 0 stands for no rule and no line, a negative verdict for none.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    verdict: Vec<i32>,
    rule: Vec<i64>,
    line: Vec<i32>,
    outcome: Vec<i8>,
}

/// Collects decisions as columns.
#[derive(Debug)]
pub(crate) struct Classified<'a> {
    form: &'a Form,
    /// Verdict of the policy for packets that are not classified.
    unknown: i32,
    marks: HashMap<u32, i32>,
    task: Columns,
    pub(crate) tasks: Vec<(usize, Columns)>,
}

impl<'a> Classified<'a> {
    pub(crate) fn new(form: &'a Form, firewall: &Firewall) -> Self {
        let unknown = form.verdicts.index_of(firewall.policy().unknown);
        Self { form, unknown, marks: HashMap::new(), task: Columns::default(), tasks: Vec::new() }
    }

    #[inline]
    fn index_of(&mut self, verdict: Verdict) -> i32 {
        match verdict {
            Verdict::Permit => 0,
            Verdict::Deny => 1,
            Verdict::Match => 2,
            Verdict::Mark(number) => *self.marks.entry(number).or_insert_with(|| self.form.verdicts.index_of(verdict)),
        }
    }
}

impl Collect for Classified<'_> {
    fn begin(&mut self, rows: usize) {
        self.task =
            Columns { verdict: vec![-1; rows], rule: vec![0; rows], line: vec![0; rows], outcome: vec![0; rows] };
    }

    const WEIGHS: bool = false;

    fn weigh(&mut self, _: usize, _: [Option<&[u64]>; 2]) {}

    #[inline]
    fn decided(&mut self, row: usize, decision: &Decision) {
        let verdict = self.index_of(decision.verdict);
        let Columns { verdict: verdicts, rule, line, outcome } = &mut self.task;
        verdicts[row] = verdict;
        rule[row] = decision.rule.map_or(0, |id| id.get() as i64);
        line[row] = decision.line.map_or(0, |line| u32::from(line) as i32);
        outcome[row] = decision.outcome as i8;
    }

    fn undecided(&mut self, row: usize, status: Status) {
        let (outcome, has_verdict) = outcome_of(status);
        self.task.outcome[row] = outcome;
        if has_verdict {
            self.task.verdict[row] = self.unknown;
        }
    }

    fn end(&mut self, task: usize) {
        self.tasks.push((task, std::mem::take(&mut self.task)));
    }
}
