//! Search trees that turn with traffic (`npf`): edges, rotations and heights through stages of packets.

mod optimal;
#[cfg(test)]
mod tests;
mod traffic;

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, ensure};
use firstmatch_core::engines::interval_tree::{Batches, Config, Npf, Shape, Shapes};
use firstmatch_core::engines::linear::{self, Linear};
use firstmatch_core::rule::{ExpansionLimits, Lowered, lower};
use firstmatch_core::{Classifier, Engine, KeyBuf, Match, RuleSet};
use firstmatch_formats::Options;
use firstmatch_generate::trace::{self, Coverage};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde::Deserialize;

use super::lists::{Bias, Plan};
use super::{Emit, Measured, NEARBY, Outcome, mean};
use crate::digest::Running;
use crate::table::table;
use crate::workload;
use traffic::{NONE, Order, Traffic};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Adapt {
    /// Sets of one field, by the number of values, each of which a rule has.
    #[serde(default)]
    values: Vec<u16>,
    /// Generated sets beside these, each with as many headers as rules.
    #[serde(default)]
    profiles: Vec<String>,
    #[serde(default)]
    sizes: Vec<usize>,
    /// Share of their headers that match no rule.
    #[serde(default)]
    unmatched: f64,
    /// Entropies of the popularity of headers, which follows Zipf's law, in bits.
    bits: Vec<f64>,
    stages: Vec<Stage>,
    trees: Vec<Tree>,
    /// Whether the edges of each window are kept beside the record.
    #[serde(default)]
    course: bool,
    pub(super) claims: Vec<About>,
}

/// Packets of one popularity.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stage {
    /// Packets of a window, and number of windows.
    packets: usize,
    #[serde(default = "one")]
    windows: usize,
    /// Change of the popularity before it; the last stage may have several, each of which is run.
    #[serde(default = "same")]
    orders: Vec<Order>,
}

fn one() -> usize {
    1
}

fn same() -> Vec<Order> {
    vec![Order::Same]
}

/// Form of the engine.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tree {
    name: String,
    form: Form,
    threshold: Option<u32>,
    sample: Option<u32>,
    #[serde(default = "yes")]
    bypass: bool,
    /// Whether every second batch of the last stage is not counted, so that both are timed in the same trees.
    #[serde(default)]
    alternates: bool,
    /// Weights by which trees are rebuilt before each stage; they do not turn then.
    weights: Option<Weights>,
}

fn yes() -> bool {
    true
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Form {
    Paper,
    Defended,
    /// The engine's default, one key at a time.
    Ours,
    /// Huffman trees over the intervals of each word, whose leaves alone answer, by `weights`; all of them are searched.
    Huffman,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Weights {
    /// Shares of the traffic of the stage before.
    Former,
    /// Random for each interval.
    Random,
}

/// Subject of a claim; about the last stage, if nothing else is said.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct About {
    pub(super) id: String,
    of: Of,
    tree: String,
    #[serde(default)]
    against: Vec<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Of {
    /// Most edges per search of a tree.
    Edges,
    /// The least and the most edges per packet, in all trees together.
    Packet,
    /// The same beside the entropy, where it is the largest share of it.
    Entropy,
    /// Per cent of the edges that are saved of each other tree's, for each order: the mean over the sets.
    Saved,
    /// The least and the most per cent of the edges that are saved of another tree's.
    Range,
    /// Per cent more edges than another tree has in all stages, the mean over the sets.
    More,
    /// Greatest height.
    Height,
    /// Whether the first window of all has most rotations, as text.
    Settles,
    /// Smallest and largest extra time of counted packets over the cases, in per cent.
    Counting,
    /// Most nodes per search of a tree.
    Nodes,
}

/// Counts and times of some packets.
#[derive(Clone, Debug, Default)]
struct Window {
    packets: f64,
    edges: f64,
    /// Trees searched.
    trees: f64,
    rotations: f64,
    /// Edges to the deepest node of any tree, after the packets.
    height: f64,
    /// Nanoseconds of the packets in batches that are counted, and of the others.
    nanos: [f64; 2],
}

impl Window {
    fn per_packet(&self) -> f64 {
        self.edges / self.packets
    }

    /// Returns the per cent that counted packets take longer than others, if they took `factor` times as long.
    fn longer(&self, factor: f64) -> f64 {
        let [counted, frozen] = self.nanos;
        100.0 * (factor * counted / frozen - 1.0)
    }
}

/// Windows of all trees under one traffic.
#[derive(Debug)]
struct Case {
    set: String,
    bits: f64,
    order: Order,
    /// Mean edges, in all trees together, of optimal static trees and of balanced ones, by window.
    optimal: Vec<f64>,
    balanced: Vec<f64>,
    /// By tree.
    courses: Vec<Vec<Window>>,
}

/// Packets of a batch.
const BATCH: usize = 4000;

/// Rule set with its headers.
struct Bench<'a> {
    lowered: &'a Lowered,
    pool: KeyBuf,
    answers: Vec<Option<Match>>,
}

pub(super) fn run(run: &Adapt, seeds: Option<&Path>, out: &mut dyn Write, emit: Emit<'_>) -> anyhow::Result<()> {
    run.check()?;
    let (mut cases, mut digest) = (Vec::new(), Running::default());
    for &values in &run.values {
        let set = of_values(values)?;
        let lowered = lower(&set, &set.schemas()[0], &ExpansionLimits::default())?;
        let mut pool = KeyBuf::new(lowered.schema());
        (0..values).for_each(|value| pool.push()[0] = value.into());
        digest.add_rules(&set);
        run.set(&format!("{values} values"), &Bench::new(&lowered, pool)?, &mut cases)?;
    }
    if !run.profiles.is_empty() {
        let plan = Plan { profiles: &run.profiles, sizes: &run.sizes, lists: 1, bias: Bias::default(), seeds };
        plan.each(|place, set| {
            let (headers, seed) = (set.len(), place.seed);
            let config = trace::Config {
                headers,
                seed,
                unmatched: run.unmatched,
                coverage: Coverage::Drawn,
                ..Default::default()
            };
            let mut work = workload::drawn(&set, &config)?;
            let pool = std::mem::replace(&mut work.keys, KeyBuf::new(work.lowered.schema()));
            let bench = Bench::new(&work.lowered, pool)?;
            digest.add_rules(&set);
            let name = format!("{} {}", run.profiles[place.profile], run.sizes[place.size]);
            run.set(&name, &bench, &mut cases)
        })?;
    }
    run.print(&cases, out)?;
    let digest = digest.finish();
    let mut course = run.course.then(|| run.course(&cases));
    run.claims.iter().try_for_each(|about| {
        let measured = |factor| run.about(about, &cases, factor).with_context(|| format!("claim `{}`", about.id));
        let mut outcome = Outcome::exact(&about.id, measured(1.0)?, &digest);
        if matches!(about.of, Of::Counting) {
            let nearby = NEARBY.map(|factor| Ok((measured(factor)?, outcome.reach)));
            outcome.nearby = nearby.into_iter().collect::<anyhow::Result<_>>()?;
        }
        outcome.course = course.take();
        emit(outcome)
    })
}

/// Returns `count` rules over one field: the rule of index i matches the value i, the last all values from there on.
fn of_values(count: u16) -> anyhow::Result<RuleSet> {
    ensure!(count > 1, "`values`: expected two at least");
    let mut text = "schema {\n value 16 range\n}\n".to_owned();
    (0..count - 1).try_for_each(|value| writeln!(text, "match value {value}"))?;
    writeln!(text, "match value {}-65535", count - 1)?;
    Ok(firstmatch_formats::parse(&text, &Options::default())?.rules)
}

impl<'a> Bench<'a> {
    fn new(lowered: &'a Lowered, pool: KeyBuf) -> anyhow::Result<Self> {
        let linear = Linear::build(lowered, &linear::Config::default())?;
        let mut answers = vec![None; pool.len()];
        linear.classify_batch(&mut linear.scratch(), pool.keys(), &mut answers);
        Ok(Self { lowered, pool, answers })
    }

    /// Returns the weight of each interval of a word by the shares of headers.
    fn weights(&self, shapes: &Shapes, word: usize, shares: &[f64]) -> Vec<f64> {
        let starts: Vec<u32> = shapes.shape(word).iter().flat_map(|shape| shape.depths()).map(|(lo, _)| lo).collect();
        let mut weights = vec![0.0; starts.len()];
        for (header, share) in shares.iter().enumerate() {
            let value = self.pool.keys().row(header)[word];
            weights[starts.partition_point(|&start| start <= value) - 1] += share;
        }
        weights
    }
}

impl Weights {
    /// Returns the weight of each interval.
    fn of(self, shares: &[f64], random: &mut Pcg64) -> Vec<u32> {
        let weight = |share: &f64| match self {
            Self::Former => (share * 1e9) as u32,
            Self::Random => random.random_range(0..1000),
        };
        shares.iter().map(weight).collect()
    }
}

impl Tree {
    fn build(&self, lowered: &Lowered) -> anyhow::Result<Npf> {
        let mut config = match self.form {
            Form::Paper | Form::Huffman => Config::paper(),
            Form::Defended => Config::defended(),
            Form::Ours => Config::default(),
        };
        config.batches = Batches::Turn;
        config.bypass = self.bypass;
        config.threshold = self.threshold.unwrap_or(config.threshold);
        config.sample = self.sample.unwrap_or(config.sample);
        Npf::build(lowered, &config).with_context(|| self.name.clone())
    }
}

impl Adapt {
    fn check(&self) -> anyhow::Result<()> {
        ensure!(!self.values.is_empty() || !self.profiles.is_empty(), "expected `values`, or `profiles` and `sizes`");
        ensure!(!self.bits.is_empty() && !self.trees.is_empty(), "there is no entropy, or no tree");
        let Some((last, before)) = self.stages.split_last() else { anyhow::bail!("`stages`: expected one at least") };
        ensure!(!last.orders.is_empty(), "`orders`: expected one at least");
        ensure!(before.iter().all(|stage| stage.orders.len() == 1), "`orders`: only the last stage has several");
        let coded = |tree: &Tree| tree.form != Form::Huffman || tree.weights.is_some();
        ensure!(self.trees.iter().all(coded), "`weights`: Huffman trees need them");
        let whole = |stage: &Stage| stage.packets > 0 && stage.windows > 0;
        ensure!(self.stages.iter().all(whole), "`stages`: expected packets and windows above 0");
        Ok(())
    }

    /// Returns the order of each stage if the last one has this.
    fn orders(&self, last: Order) -> impl Iterator<Item = (&Stage, Order)> {
        let end = self.stages.len() - 1;
        self.stages.iter().enumerate().map(move |(at, stage)| (stage, if at == end { last } else { stage.orders[0] }))
    }

    /// Sends all traffics through all trees over one set.
    fn set(&self, name: &str, bench: &Bench<'_>, cases: &mut Vec<Case>) -> anyhow::Result<()> {
        let built = self.trees.iter().map(|tree| tree.build(bench.lowered)).collect::<anyhow::Result<Vec<_>>>()?;
        let words = bench.lowered.schema().words().len();
        for &bits in &self.bits {
            for &order in &self.stages[self.stages.len() - 1].orders {
                let traffic = || Traffic::new(bench.pool.keys(), bits, 1);
                let courses = self.trees.iter().zip(&built).map(|(tree, npf)| {
                    let course = match (tree.form, tree.weights) {
                        (Form::Huffman, Some(weights)) => {
                            self.coded(weights, &npf.new_scratch(), bench, traffic()?, order)
                        }
                        _ => self.send(tree, npf, bench, traffic()?, order),
                    };
                    course.with_context(|| tree.name.clone())
                });
                let mut case = Case {
                    set: name.to_owned(),
                    bits,
                    order,
                    optimal: Vec::new(),
                    balanced: Vec::new(),
                    courses: courses.collect::<anyhow::Result<_>>()?,
                };
                let (mut traffic, shapes) = (traffic()?, built[0].new_scratch());
                for (stage, order) in self.orders(order) {
                    traffic.change(order);
                    let shares = traffic.shares();
                    let of = |word| {
                        let weights = bench.weights(&shapes, word, shares.as_ref()?);
                        let depths = shapes.shape(word).map(Shape::depths).unwrap_or_default();
                        let balanced =
                            depths.iter().zip(&weights).map(|(&(_, depth), weight)| f64::from(depth) * weight);
                        Some((optimal::edges(&weights), balanced.sum::<f64>()))
                    };
                    let both: Option<Vec<(f64, f64)>> = (0..words).map(of).collect();
                    let sum =
                        |get: fn(&(f64, f64)) -> f64| both.as_ref().map_or(f64::NAN, |both| both.iter().map(get).sum());
                    case.optimal.extend(vec![sum(|both| both.0); stage.windows]);
                    case.balanced.extend(vec![sum(|both| both.1); stage.windows]);
                }
                cases.push(case);
            }
        }
        Ok(())
    }

    /// Sends all stages through the trees of one scratch.
    fn send(
        &self,
        tree: &Tree,
        npf: &Npf,
        bench: &Bench<'_>,
        mut traffic: Traffic<'_>,
        last: Order,
    ) -> anyhow::Result<Vec<Window>> {
        let (mut shapes, words) = (npf.new_scratch(), bench.lowered.schema().words().len());
        let (mut keys, mut course) = (KeyBuf::new(bench.lowered.schema()), Vec::new());
        let (mut headers, mut answers, mut random) = ([0; BATCH], [None; BATCH], Pcg64::seed_from_u64(2));
        for (at, (stage, order)) in self.orders(last).enumerate() {
            let former = traffic.shares();
            traffic.change(order);
            if let Some(weights) = tree.weights {
                shapes.freeze(true);
                for word in 0..words {
                    let former = former.as_ref().context("the traffic before depends on the trees")?;
                    let weights = weights.of(&bench.weights(&shapes, word, former), &mut random);
                    shapes.rebuild(word, &weights);
                }
            }
            let alternates = tree.alternates && at + 1 == self.stages.len();
            for _ in 0..stage.windows {
                let mut window = sums(&shapes, words);
                for (batch, from) in (0..stage.packets).step_by(BATCH).enumerate() {
                    let count = BATCH.min(stage.packets - from);
                    traffic.fill(&shapes, &mut keys, &mut headers[..count]);
                    let is_frozen = alternates && batch % 2 == 1;
                    if alternates {
                        shapes.freeze(is_frozen);
                    }
                    let best = &mut answers[..count];
                    best.fill(None);
                    let start = Instant::now();
                    npf.improve(&mut shapes, &keys.keys(), best);
                    window.nanos[usize::from(is_frozen)] -= start.elapsed().as_nanos() as f64;
                    let is_right = |(&header, found): (&u32, &Option<Match>)| {
                        header == NONE || bench.answers[header as usize] == *found
                    };
                    ensure!(headers.iter().zip(&*best).all(is_right), "it gives other answers than linear");
                }
                course.push(sums(&shapes, words).since(&window, stage.packets));
            }
        }
        Ok(course)
    }

    /// Returns the steps of all stages in Huffman trees, which are known from the weights of their leaves.
    fn coded(
        &self,
        weights: Weights,
        shapes: &Shapes,
        bench: &Bench<'_>,
        mut traffic: Traffic<'_>,
        last: Order,
    ) -> anyhow::Result<Vec<Window>> {
        let (words, mut random, mut course) =
            (bench.lowered.schema().words().len(), Pcg64::seed_from_u64(2), Vec::new());
        for (stage, order) in self.orders(last) {
            let former = traffic.shares();
            traffic.change(order);
            let (former, now) = former.zip(traffic.shares()).context("the traffic depends on the trees")?;
            let (mut edges, mut height) = (0.0, 0);
            for word in 0..words {
                let depths = optimal::huffman(&weights.of(&bench.weights(shapes, word, &former), &mut random));
                height = height.max(depths.iter().copied().max().unwrap_or(0));
                let of = bench.weights(shapes, word, &now);
                edges += of.iter().zip(depths).map(|(weight, depth)| weight * f64::from(depth)).sum::<f64>();
            }
            let packets = stage.packets as f64;
            let (edges, trees, height) = (edges * packets, words as f64 * packets, f64::from(height));
            course.extend(vec![Window { packets, edges, trees, height, ..Window::default() }; stage.windows]);
        }
        Ok(course)
    }

    fn print(&self, cases: &[Case], out: &mut dyn Write) -> anyhow::Result<()> {
        let head = [
            "set",
            "bits",
            "order",
            "trees",
            "packets",
            "edges",
            "trees searched",
            "rotations",
            "height",
            "ns a packet",
        ];
        let mut table = table(head);
        for case in cases {
            let place = [case.set.clone(), case.bits.to_string(), format!("{:?}", case.order).to_lowercase()];
            let last = case.optimal.len() - 1;
            for (name, edges) in [("balanced", case.balanced[last]), ("optimal", case.optimal[last])] {
                // It is not known where packets depend on the trees.
                let edges = if edges.is_nan() { String::new() } else { format!("{edges:.2}") };
                let rest = [name.to_owned(), String::new(), edges];
                table.add_row(place.iter().cloned().chain(rest).chain(vec![String::new(); 4]));
            }
            for (tree, course) in self.trees.iter().zip(&case.courses) {
                // Stages of many windows are a course, of which the first and the last are shown.
                let shown = (0..=last).filter(|&at| last < FEW || at == 0 || at == last);
                for window in shown.map(|at| &course[at]) {
                    let Window { packets, trees, rotations, height, nanos, .. } = window;
                    let numbers = [window.per_packet(), trees / packets, *rotations, *height];
                    let numbers = numbers.map(|number| format!("{number:.2}"));
                    let mut ns = format!("{:.0}", nanos.iter().sum::<f64>() / packets);
                    if nanos[1] > 0.0 {
                        ns += &format!(", counted {:+.1} %", window.longer(1.0));
                    }
                    let rest = [tree.name.clone(), packets.to_string()].into_iter().chain(numbers).chain([ns]);
                    table.add_row(place.iter().cloned().chain(rest));
                }
            }
        }
        writeln!(out, "{table}")?;
        Ok(())
    }

    /// Returns edges a packet by window, of the first case, as lines of numbers.
    fn course(&self, cases: &[Case]) -> String {
        // Numbers need no quotes, names may.
        let names = self.trees.iter().map(|tree| format!("\"{}\"", tree.name.replace('"', "\"\"")));
        let mut text = format!("packets,{},optimal static,balanced\n", names.collect::<Vec<_>>().join(","));
        let (case, mut sent) = (&cases[0], 0.0);
        for at in 0..case.optimal.len() {
            sent += case.courses[0][at].packets;
            let edges = case.courses.iter().map(|course| course[at].per_packet());
            let edges: Vec<String> =
                edges.chain([case.optimal[at], case.balanced[at]]).map(|edges| format!("{edges:.3}")).collect();
            text += &format!("{sent},{}\n", edges.join(","));
        }
        text
    }

    /// Returns the numbers of a claim, where batches that are counted take `factor` times as long as measured.
    fn about(&self, about: &About, cases: &[Case], factor: f64) -> anyhow::Result<Measured> {
        let place = |name: &String| {
            let found = self.trees.iter().position(|tree| tree.name == *name);
            found.with_context(|| format!("there is no tree `{name}`"))
        };
        let own = place(&about.tree)?;
        let others = about.against.iter().map(place).collect::<anyhow::Result<Vec<_>>>()?;
        let other = || others.first().copied().context("expected a tree in `against`");
        let last = |case: &Case, tree: usize| case.courses[tree][case.optimal.len() - 1].clone();
        let all = |case: &Case, tree: usize| case.courses[tree].iter().map(|window| window.edges).sum::<f64>();
        let most = |get: &dyn Fn(&Case) -> f64| Measured::Numbers(vec![cases.iter().map(get).fold(0.0, f64::max)]);
        let ends = |numbers: Vec<f64>| {
            let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
            Measured::Numbers(vec![least, numbers.into_iter().fold(f64::NEG_INFINITY, f64::max)])
        };
        let saved = |case: &Case, other: usize| 100.0 * (1.0 - last(case, own).edges / last(case, other).edges);
        let per_tree = |window: &Window| window.edges / window.trees;
        Ok(match about.of {
            Of::Edges => most(&|case| per_tree(&last(case, own))),
            Of::Packet => ends(cases.iter().map(|case| last(case, own).per_packet()).collect()),
            Of::Nodes => most(&|case| 1.0 + per_tree(&last(case, own))),
            Of::Height => most(&|case| last(case, own).height),
            Of::Entropy => {
                let share = |case: &&Case| per_tree(&last(case, own)) / case.bits;
                let worst = cases.iter().max_by(|a, b| share(a).total_cmp(&share(b))).context("there is no case")?;
                Measured::Numbers(vec![per_tree(&last(worst, own)), worst.bits])
            }
            Of::Saved => {
                let orders = &self.stages[self.stages.len() - 1].orders;
                let of = |other: usize, order: &Order| {
                    mean(cases.iter().filter(|case| case.order == *order).map(|case| saved(case, other)))
                };
                let numbers = others.iter().flat_map(|&other| orders.iter().map(move |order| of(other, order)));
                Measured::Numbers(numbers.collect())
            }
            Of::Range => {
                let other = other()?;
                ends(cases.iter().map(|case| saved(case, other)).collect())
            }
            Of::More => {
                let other = other()?;
                let more = |case: &Case| 100.0 * (all(case, own) / all(case, other) - 1.0);
                Measured::Numbers(vec![mean(cases.iter().map(more))])
            }
            Of::Settles => {
                let rate = |window: &Window| window.rotations / window.packets;
                let is_settled = |case: &Case| rate(&case.courses[own][0]) > 10.0 * rate(&last(case, own));
                let text = if cases.iter().all(is_settled) { "many at first, then few" } else { "not fewer" };
                Measured::Text(text.to_owned())
            }
            Of::Counting => ends(cases.iter().map(|case| last(case, own).longer(factor)).collect()),
        })
    }
}

/// Number of windows of which each is printed.
const FEW: usize = 6;

/// Returns the sums over all trees of a scratch so far.
fn sums(shapes: &Shapes, words: usize) -> Window {
    let mut sums = Window::default();
    for shape in (0..words).filter_map(|word| shapes.shape(word)) {
        let counters = shape.counters();
        sums.edges += counters.edges as f64;
        sums.trees += counters.lookups as f64;
        sums.rotations += counters.rotations as f64;
        sums.height = sums.height.max(shape.height() as f64);
    }
    sums
}

impl Window {
    /// Returns the sums since `before`, whose times are negative.
    fn since(&self, before: &Self, packets: usize) -> Self {
        Self {
            packets: packets as f64,
            edges: self.edges - before.edges,
            trees: self.trees - before.trees,
            rotations: self.rotations - before.rotations,
            height: self.height,
            nanos: before.nanos.map(|nanos| -nanos),
        }
    }
}
