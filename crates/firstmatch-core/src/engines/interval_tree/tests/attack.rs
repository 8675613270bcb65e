//! Traffic that is meant to be slow, and comparisons of trees with the optimal ones.

use super::*;

/// Intervals that start at multiples of ten.
fn starts(count: u32) -> Vec<u32> {
    (0..count).map(|at| 10 * at).collect()
}

/// Returns Zipf weights of an entropy, by rank.
fn zipf(count: usize, bits: f64) -> Vec<f64> {
    let of = |exponent: f64| {
        let all: Vec<f64> = (1..=count).map(|rank| (rank as f64).powf(-exponent)).collect();
        let sum: f64 = all.iter().sum();
        all.iter().map(|weight| weight / sum).collect::<Vec<f64>>()
    };
    let entropy = |weights: &[f64]| -weights.iter().map(|weight| weight * weight.log2()).sum::<f64>();
    let (mut low, mut high) = (0.0, 20.0);
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        if entropy(&of(middle)) > bits { low = middle } else { high = middle }
    }
    of(low)
}

/// Returns the weights in another order.
fn shuffled(mut weights: Vec<f64>, random: &mut Random) -> Vec<f64> {
    for at in (1..weights.len()).rev() {
        weights.swap(at, random.below(at as u64 + 1) as usize);
    }
    weights
}

/// Values that are drawn by weights.
struct Drawn(Vec<f64>);

impl Drawn {
    fn new(weights: &[f64]) -> Self {
        let mut sum = 0.0;
        Self(
            weights
                .iter()
                .map(|weight| {
                    sum += weight;
                    sum
                })
                .collect(),
        )
    }

    fn key(&self, random: &mut Random) -> u32 {
        let unit = random.unit();
        10 * self.0.partition_point(|&sum| sum <= unit).min(self.0.len() - 1) as u32 + 3
    }
}

/// Returns the mean edges of the optimal static search tree (Knuth).
fn optimal(weights: &[f64]) -> f64 {
    let count = weights.len();
    let mut sums = vec![0.0];
    weights.iter().for_each(|weight| sums.push(sums[sums.len() - 1] + weight));
    let (mut cost, mut root) = (vec![vec![0.0; count + 1]; count + 2], vec![vec![0; count + 1]; count + 1]);
    for at in 0..count {
        (cost[at][at + 1], root[at][at + 1]) = (weights[at], at);
    }
    for length in 2..=count {
        for from in 0..=count - length {
            let to = from + length;
            let of = |at: usize| (cost[from][at] + cost[at + 1][to], at);
            let roots = root[from][to - 1]..=root[from + 1][to];
            let best = roots.map(of).min_by(|a, b| a.0.total_cmp(&b.0)).expect("some root");
            (cost[from][to], root[from][to]) = (best.0 + sums[to] - sums[from], best.1);
        }
    }
    cost[0][count] - 1.0
}

/// A tree under traffic.
struct Run {
    starts: Vec<u32>,
    shape: Shape,
    sampler: Sampler,
    sums: Vec<u64>,
}

impl Run {
    fn new(count: u32, config: &Config) -> Self {
        let starts = starts(count);
        let shape = Shape::new(&starts, config);
        Self { shape, sampler: Sampler::new(config), sums: vec![0; starts.len() + 1], starts }
    }

    fn send(&mut self, key: u32) {
        let is_counted = self.sampler.counts();
        let walked = self.shape.find(&self.starts, key, is_counted, &mut self.sums);
        self.sampler.add(walked.edges);
        assert_eq!(walked.interval, key / 10);
        let steps = walked.edges + 1 + if walked.is_capped { halvings(self.starts.len()) } else { 0 };
        assert!(steps <= self.shape.cap() + 1 + halvings(self.starts.len()));
    }

    /// Sends packets, and returns the mean edges.
    fn mean(&mut self, packets: u32, mut key: impl FnMut(&Shape, u32) -> u32) -> f64 {
        let before = self.shape.counters();
        for packet in 0..packets {
            let key = key(&self.shape, packet);
            self.send(key);
        }
        in_order(&self.shape);
        let after = self.shape.counters();
        (after.edges - before.edges) as f64 / f64::from(packets)
    }
}

/// Configurations that must hold under any traffic.
fn defended() -> [Config; 5] {
    let base = Config::default();
    [
        Config::defended(),
        Config { sample: 16, ..Config::defended() },
        base.clone(),
        Config { sample: 1, ..base.clone() },
        Config { dynamic: true, sample: 2, ..base },
    ]
}

const NODES: u32 = 1024;
/// Mean edges of a balanced tree over all nodes.
const BALANCED: f64 = 8.01;
const WORST: f64 = 1.6 * BALANCED;

/// Returns some of the deepest nodes' keys.
fn deepest(shape: &Shape, count: usize) -> Vec<u32> {
    let mut depths = shape.depths();
    depths.sort_unstable_by_key(|&(_, depth)| std::cmp::Reverse(depth));
    depths.iter().take(count).map(|&(start, _)| start + 1).collect()
}

/// Popularities that rise with the key turn the paper's tree into a list, but never a defended one.
#[test]
fn rising_popularities_lengthen_the_papers_walks_only() {
    let mut weights = zipf(NODES as usize, 9.5);
    weights.reverse();
    let drawn = Drawn::new(&weights);
    let best = optimal(&weights);
    assert!((7.4..7.7).contains(&best), "{best}");
    for config in [Config::paper()].into_iter().chain(defended()) {
        let (mut run, mut random) = (Run::new(NODES, &config), Random(3));
        run.mean(300_000, |_, _| drawn.key(&mut random));
        let mean = run.mean(100_000, |_, _| drawn.key(&mut random));
        if config.depth_cap.is_none() {
            assert!(mean > 25.0 && run.shape.height() > 45, "{mean}");
        } else {
            // Counters of nodes settle slowly where few packets are counted.
            let most = if config.turns == Turns::Subtrees { 1.3 * best } else { WORST };
            assert!(mean < most, "{mean} beside {best}: {config:?}");
        }
    }
}

/// An attacker who reads the shape and sends its deepest nodes gets walks little longer than those of a balanced tree.
#[test]
fn reading_the_shape_does_not_pay() {
    for config in defended() {
        let (mut run, mut random) = (Run::new(NODES, &config), Random(4));
        let mut targets = Vec::new();
        let mean = run.mean(400_000, |shape, packet| {
            if packet.is_multiple_of(4000) {
                targets = deepest(shape, 32);
            }
            targets[random.below(32) as usize]
        });
        assert!(mean <= WORST, "{mean}: {config:?}");
    }
}

/// Bursts of the rarest values among steady traffic stay below the bound.
#[test]
fn bursts_of_rare_values_do_not_pay() {
    let mut random = Random(5);
    let weights = shuffled(zipf(NODES as usize, 5.345), &mut random);
    let drawn = Drawn::new(&weights);
    let mut rarest: Vec<u32> = (0..NODES).collect();
    rarest.sort_unstable_by(|&a, &b| weights[a as usize].total_cmp(&weights[b as usize]));
    for config in defended() {
        let mut run = Run::new(NODES, &config);
        run.mean(300_000, |_, _| drawn.key(&mut random));
        let mean = run.mean(300_000, |_, packet| {
            if packet % 2 == 0 { drawn.key(&mut random) } else { 10 * rarest[packet as usize / 64 % 512] }
        });
        assert!(mean <= WORST, "{mean}: {config:?}");
    }
}

/// A list that is built on purpose, and its deepest nodes after it, stay below the bound.
#[test]
fn a_list_built_on_purpose_does_not_pay() {
    for config in defended() {
        let (mut run, mut random) = (Run::new(NODES, &config), Random(6));
        let mut targets = Vec::new();
        let mean = run.mean(500_000, |shape, packet| {
            // One node after the other, each hit more often than the one before.
            if packet < 250_000 {
                return 10 * (f64::from(packet * 4).sqrt() as u32 % NODES);
            }
            if packet.is_multiple_of(4000) {
                targets = deepest(shape, 64);
            }
            targets.get(random.below(64) as usize).copied().unwrap_or(0)
        });
        assert!(mean <= WORST, "{mean}: {config:?}");
    }
}

/// Settled trees are near the optimal ones if the popularity of a value does not depend on its position in the order.
#[test]
fn settled_trees_are_near_the_optimal() {
    for turns in [Turns::Popularity, Turns::Subtrees] {
        for seed in 1..4 {
            for bits in [1.0, 3.0, 5.345, 7.0, 8.0f64] {
                let mut random = Random(seed);
                let weights = zipf(256, bits.min(7.99));
                let weights = shuffled(weights, &mut random);
                let (best, drawn) = (optimal(&weights), Drawn::new(&weights));
                let config = Config { turns, sample: 1, ..Config::default() };
                let mut run = Run::new(256, &config);
                run.mean(60_000, |_, _| drawn.key(&mut random));
                let mean = run.mean(40_000, |_, _| drawn.key(&mut random));
                let most = if turns == Turns::Subtrees { 1.25 } else { 1.7 };
                assert!(mean <= most * best + 0.1, "{mean} beside {best} at {bits} bits: {turns:?}");
            }
        }
    }
}

/// With halving, a tree adapts sooner to a change of traffic.
#[test]
fn halving_forgets_former_traffic() {
    let mut means = Vec::new();
    for halve_after in [Some(16), None] {
        let config = Config { halve_after, sample: 1, reconstruct: None, ..Config::defended() };
        let (mut run, mut random) = (Run::new(256, &config), Random(8));
        for _ in 0..2 {
            let drawn = Drawn::new(&shuffled(zipf(256, 4.0), &mut random));
            run.mean(300_000, |_, _| drawn.key(&mut random));
        }
        let drawn = Drawn::new(&shuffled(zipf(256, 4.0), &mut random));
        means.push(run.mean(60_000, |_, _| drawn.key(&mut random)));
        assert_eq!(run.shape.counters().halvings > 0, halve_after.is_some());
    }
    assert!(means[0] < 0.9 * means[1], "{means:?}");
}

/// After any hits and halvings, a tree is a search tree of all its nodes.
#[test]
fn any_hits_leave_a_search_tree() {
    for config in configs() {
        let mut random = Random(9);
        for count in [1, 2, 3, 40] {
            let mut run = Run::new(count, &config);
            for step in 0..400u64 {
                run.send(10 * random.below(1 + step % u64::from(count)) as u32);
                if step % 10 == 0 {
                    in_order(&run.shape);
                }
                if config.turns == Turns::Subtrees {
                    sums_hold(&run.shape);
                }
            }
        }
    }
}

/// One packet in an interval is counted; walks of twice the least mean make it longer, up to 64.
#[test]
fn samplers_count_one_packet_in_an_interval() {
    let mut sampler = Sampler::new(&Config { sample: 3, ..Config::default() });
    let counted: Vec<usize> = (0..10).filter(|_| sampler.counts()).collect();
    assert_eq!(counted, [0, 3, 6, 9]);
    let mut sampler = Sampler::new(&Config { sample: 2, dynamic: true, ..Config::default() });
    let mut intervals = Vec::new();
    for edges in [5, 11, 11, 11, 11, 11, 11, 10, 10, 10] {
        (0..4096).for_each(|_| sampler.add(edges));
        intervals.push(sampler.interval);
    }
    assert_eq!(intervals, [2, 4, 8, 16, 32, 64, 64, 32, 16, 8]);
}
