use firstmatch::rule::{Caps, lower};
use firstmatch::{Classifier, KeyBuf, RuleSet, format};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;

const IPV4: &str = "family ipv4\n\
    deny tcp src 10.1.0.0/16 dport 22\n\
    permit tcp src 10.0.0.0/8 dport 20-25\n\
    permit proto not { 6, 17 } dst 192.0.2.7\n\
    permit udp src 0.0.0.3-0.0.0.9 sport 53\n\
    deny src not 10.0.0.0/8 dst 192.0.2.0/24\n";
const IPV6: &str = "family ipv6\n\
    deny tcp src 2001:db8::/33 dport 22\n\
    permit tcp src 2001:db8::/32\n\
    deny proto 58\n";

/// Both forms of it, all algorithms, against `linear`: keys at the corners of regions and beside them.
#[test]
fn it_answers_as_linear_does() {
    for text in [IPV4, IPV6] {
        let file = format::parse(text, &format::Options::default()).expect("good rules");
        let lowered =
            Arc::new(lower(&file.rules, &file.rules.schemas()[0], &Caps::default()).expect("within the caps"));
        let linear = firstmatch::linear::Linear::build(&lowered, &Default::default()).expect("it is built");
        let mut random = Pcg64::seed_from_u64(3);
        let mut keys = KeyBuf::new(lowered.schema());
        for _ in 0..5000 {
            let region = lowered.regions().get(random.random_range(0..lowered.regions().len()));
            let lanes = lowered.schema().lanes().iter().enumerate();
            for ((index, lane), word) in lanes.zip(keys.push()) {
                let corner = if random.random() { region.lo[index] } else { region.hi[index] };
                *word = match random.random_range(0..8) {
                    0 => corner.saturating_sub(1),
                    1 => (corner + u32::from(corner < lane.max)).min(lane.max),
                    _ => corner,
                };
            }
        }
        let mut want = vec![None; keys.len()];
        linear.classify_batch(&mut linear.scratch(), keys.keys(), &mut want);
        assert!(want.iter().flatten().count() > 2000 && want.iter().any(Option::is_none));
        for max_size in [0, 1 << 20] {
            let table = Arc::new(Table::build(&lowered, max_size, Some(16 << 20)).expect("it is built"));
            let algorithms: Vec<_> = ALGORITHMS.into_iter().filter(|&(_, number)| table.has(number)).collect();
            assert!(algorithms.len() >= 2, "{algorithms:?}");
            for (name, algorithm) in algorithms {
                let figures = Figures { seconds: 0.0, run_bytes: 0, peak_bytes: 0 };
                let acl = RteAcl { table: Arc::clone(&table), algorithm, figures };
                for batch in [1, 31, 33, 5000] {
                    let (mut got, mut lane) = (vec![None; keys.len()], acl.lane(keys.keys()));
                    for from in (0..keys.len()).step_by(batch) {
                        let to = keys.len().min(from + batch);
                        acl.classify_batch(&mut acl.scratch(), keys.keys().slice(from, to), &mut got[from..to]);
                        lane.classify(from, to);
                    }
                    assert!(got == want, "{name}, batches of {batch}");
                    assert!(lane.answers() == want, "{name}, a lane, batches of {batch}");
                }
            }
        }
    }
}

#[test]
fn rules_beyond_it_are_refused() {
    let schema = Schema::openflow();
    let lowered = Arc::new(lower(&RuleSet::new(schema.clone()), &schema, &Caps::default()).expect("within the caps"));
    let error = Table::build(&lowered, 0, Some(1 << 20)).expect_err("it has no such fields");
    assert!(error.to_string().contains("beyond it"), "{error}");
}
