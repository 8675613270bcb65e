//! Short form of parameter files, in which the built-in profiles are written.
//!
//! A file has the sections of [ClassBench's format](super::classbench), and every weight counts against the others of
//! its list, so percentages do as well as shares. Sections may be missing, and these are shorter:
//!
//! | section | lines |
//! |---|---|
//! | `-fields` | 4 for rules without a field for the protocol; 5 if missing |
//! | `-prots` | a protocol (0 is the wildcard), its weight, then `pair,weight` for the pairs of port classes that occur |
//! | `-sports -dports` | how many ports are in use: listed services, listed ranges, and unlisted ones of each |
//! | `-wc_wc` … `-em_em` | `source/destination,weight` for pairs of prefix lengths |
//! | `-rest` | the same for all other pairs of port classes; if missing, those of the first section hold |
//! | `-sskew -dskew` | a level of the tree, the branching and the skew from there on |
//! | `-pcorr` | a level from 0, the probability that the two addresses of a rule agree from there on |

use super::sections::{
    Fault, ParameterError, Word, add_lengths, checked, columns, each, flags, number, number_of, port_pair,
};
use super::{Flags, LengthPair, Level, Ports, Profile, Protocol, Repeats, Tree};

const SECTIONS: [&str; 12] =
    ["scale", "fields", "prots", "flags", "sports", "dports", "rest", "snest", "sskew", "dnest", "dskew", "pcorr"];

/// Reads a profile.
///
/// # Errors
/// If the text has a fault: the error has the place of the first one.
pub(super) fn parse(name: &str, text: &str) -> Result<Profile, ParameterError> {
    let mut profile = empty();
    let is_known = |section: &str| SECTIONS.contains(&section) || port_pair(section).is_some();
    let read = each(text, is_known, |section, words| line(&mut profile, section, words));
    let checked = read.and_then(|(_, last)| {
        if let ([], Some((_, first))) = (&profile.lengths[..], profile.lengths_of.first()) {
            profile.lengths = first.clone();
        }
        checked(name, profile, last)
    });
    checked.map_err(|fault| fault.of(name))
}

/// Returns a profile without figures.
fn empty() -> Profile {
    Profile {
        name: String::new(),
        protocols: Vec::new(),
        has_protocol: true,
        ports_everywhere: false,
        source_ports: Ports::default(),
        destination_ports: Ports::default(),
        lengths: Vec::new(),
        lengths_of: Vec::new(),
        source: Tree::of_levels(&[]),
        destination: Tree::of_levels(&[]),
        correlation: [0.0; 32],
        scale: None,
        repeats: Repeats::Never,
    }
}

/// Reads a line of a section into `profile`.
fn line(profile: &mut Profile, section: &str, words: &[Word<'_>]) -> Result<(), Fault> {
    let (ports, tree) = match section.starts_with('d') {
        false => (&mut profile.source_ports, &mut profile.source),
        true => (&mut profile.destination_ports, &mut profile.destination),
    };
    match section {
        "scale" => profile.scale = Some(number(words, u32::MAX, "a number of rules")?),
        "fields" => {
            let [count] = columns(words, "the number of fields alone")?;
            profile.has_protocol = match count.number(u32::MAX, "a number of fields")? {
                4 => false,
                5 => true,
                _ => return Err(count.fault("4 or 5, the number of fields")),
            };
        }
        "prots" => profile.protocols.push(protocol(words)?),
        "flags" => {
            let number = number_of(words[0])?;
            let all = words[1..].iter().map(|word| flags(*word, Word::weight));
            let all = all.collect::<Result<Vec<(Flags, f64)>, Fault>>()?;
            let of = profile.protocols.iter_mut().find(|of| of.number == number);
            of.ok_or_else(|| words[0].fault("a protocol of the section `-prots`"))?.flags = all;
        }
        "sports" | "dports" => {
            let [services, ranges, others] = columns(words, "services, ranges and unlisted ports")?;
            let services = services.number(SERVICES.len() as u32, "a number of services")? as usize;
            let ranges = ranges.number(RANGES.len() as u32, "a number of ranges")? as usize;
            *ports = listed(services, ranges, others.number(1000, "a number of ports")? as usize);
        }
        "snest" | "dnest" => tree.nesting = Some(number(words, 33, "a bound on nesting")? as u8),
        "sskew" | "dskew" => {
            let [level, branching, skew] = columns(words, "a level, the branching and the skew")?;
            let level = level.number(31, "a level")? as usize;
            tree.levels[level..].fill(Level { branching: branching.share()?, skew: skew.share()? });
        }
        "pcorr" => {
            let [level, share] = columns(words, "a level and a probability")?;
            profile.correlation[level.number(31, "a level")? as usize..].fill(share.share()?);
        }
        _ => {
            let own = words.iter().map(lengths).collect::<Result<Vec<_>, Fault>>()?;
            match port_pair(section) {
                None => profile.lengths.extend(own),
                Some(pair) => add_lengths(&mut profile.lengths_of, pair, own),
            }
        }
    }
    Ok(())
}

/// Reads a protocol with its weight and its pairs of port classes.
fn protocol(words: &[Word<'_>]) -> Result<Protocol, Fault> {
    let [number, weight, pairs @ ..] = words else { return Err(words[0].fault("a protocol and its weight")) };
    let pair = |word: &Word<'_>| {
        let (pair, weight) = word.split(',', "a pair of port classes and its weight, as `wc_em,65`")?;
        Ok((pair.ports()?, weight.weight()?))
    };
    let ports = pairs.iter().map(pair).collect::<Result<_, Fault>>()?;
    Ok(Protocol { number: number_of(*number)?, share: weight.weight()?, ports, flags: Vec::new() })
}

/// Reads a pair of prefix lengths and its weight.
fn lengths(word: &Word<'_>) -> Result<LengthPair, Fault> {
    let (pair, weight) = word.split(',', "two prefix lengths and their weight, as `16/24,8`")?;
    let (source, destination) = pair.split('/', "two prefix lengths, as `16/24`")?;
    let length = |word: Word<'_>| Ok(word.number(32, "a prefix length")? as u8);
    Ok(LengthPair::new(length(source)?, length(destination)?, weight.weight()?))
}

/// Returns the first services and ranges of the lists, and `others` unlisted values of each class.
fn listed(services: usize, ranges: usize, others: usize) -> Ports {
    let all = services + ranges + 2 * others;
    Ports {
        exact: weigh(&SERVICES[..services]),
        ranges: weigh(&RANGES[..ranges]),
        // Unlisted values are as frequent as the rarer half of the listed ones.
        other: if others == 0 { 0.0 } else { others as f64 / all as f64 },
        pool: others,
    }
}

/// Services in the registry of IANA and a few common vendor ports.
///
/// The more frequent a service is in published lists, the further it is to the front.
const SERVICES: [u16; 48] = [
    80, 443, 53, 22, 25, 123, 161, 514, 21, 23, 110, 143, 389, 445, 139, 3389, 69, 1433, 1521, 8080, 137, 138, 135,
    162, 636, 993, 995, 179, 111, 2049, 20, 88, 3306, 5060, 500, 4500, 1812, 1813, 587, 5432, 8443, 6000, 3128, 1723,
    5190, 49, 873, 119,
];

/// Ranges of ports in use.
///
/// They are those of active and passive FTP, NetBIOS, SNMP, RADIUS, X11, SIP, RTP, traceroute and dynamic ports.
const RANGES: [(u16, u16); 16] = [
    (20, 21),
    (137, 139),
    (1025, 65535),
    (161, 162),
    (6000, 6063),
    (8000, 8099),
    (1812, 1813),
    (5060, 5061),
    (33434, 33600),
    (3000, 3010),
    (16384, 32767),
    (49152, 65535),
    (5000, 5100),
    (135, 139),
    (2010, 2019),
    (10000, 20000),
];

/// Weighs the k-th value, counted from 1, with 1/k.
fn weigh<T: Copy>(values: &[T]) -> Vec<(T, f64)> {
    (1..).zip(values).map(|(rank, &value)| (value, 1.0 / f64::from(rank))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{FULL_PROFILES, PROFILES, PortPair};

    const TEXT: &str = "-scale\n7\n-prots\n6 87.5 wc_em,65 wc_wc,22\n0 8 wc_wc,100\n-flags\n6 0x0200/0x1200,9\n\
        -dports\n2 1 3\n-wc_em\n32/32,85 24/22,4\n-rest\n0/16,1\n-sskew\n0 0.5 1\n8 0.25 0\n-pcorr\n4 0.5\n";

    #[test]
    fn every_built_in_profile_is_right() {
        for name in PROFILES.iter().chain(&FULL_PROFILES) {
            let profile: Profile = name.parse().expect("it is there");
            assert_eq!((&profile.name[..], profile.check()), (*name, Ok(())));
        }
    }

    #[test]
    fn sections_are_read() {
        let profile = parse("of", TEXT).expect("no fault");
        assert_eq!((profile.scale, profile.has_protocol, profile.protocols.len()), (Some(7), true, 2));
        assert_eq!((profile.protocols[0].share, profile.protocols[0].flags[0].1), (87.5, 9.0));
        assert_eq!(profile.protocols[0].ports[1], (PortPair::NONE, 22.0));
        assert_eq!(profile.destination_ports, listed(2, 1, 3));
        assert_eq!((profile.destination_ports.exact.len(), profile.destination_ports.other), (2, 3.0 / 9.0));
        assert_eq!(profile.lengths_of[0].1[1], LengthPair::new(24, 22, 4.0));
        assert_eq!(profile.lengths, [LengthPair::new(0, 16, 1.0)]);
        let levels = [0, 7, 8, 31].map(|level| profile.source.levels[level].branching);
        assert_eq!((levels, profile.source.nesting), ([0.5, 0.5, 0.25, 0.25], None));
        assert_eq!([3, 4, 31].map(|level| profile.correlation[level]), [0.0, 0.5, 0.5]);
        // Without the rest, the first pair's lengths are those of the others.
        let without = parse("of", &TEXT.replace("-rest\n0/16,1\n", "")).expect("no fault");
        assert_eq!(without.lengths, without.lengths_of[0].1);
    }

    #[test]
    fn faults_have_their_place() {
        for (old, new, place, says) in [
            ("wc_em,65", "wc_xx,65", (4, 8), "`wc_xx` is not a pair of port classes"),
            ("wc_em,65", "wc_em,-1", (4, 14), "`-1` is not a weight"),
            ("6 0x0200", "17 0x0200", (7, 1), "`17` is not a protocol of the section"),
            ("2 1 3", "49 1 3", (9, 1), "`49` is not a number of services"),
            ("2 1 3", "2 1", (9, 1), "the line ends too early"),
            ("24/22", "24/33", (11, 13), "`33` is not a prefix length"),
            ("8 0.25", "32 0.25", (16, 1), "`32` is not a level"),
            ("-scale\n7", "-fields\n6", (2, 1), "`6` is not 4 or 5"),
            ("6 87.5 wc_em,65 wc_wc,22\n0 8 wc_wc,100", "1 1 wc_em,1", (6, 1), "`6` is not a protocol of the section"),
            ("-dports\n2 1 3\n", "", (16, 3), "there are no destination ports of class Exact"),
        ] {
            let bad = TEXT.replacen(old, new, 1);
            assert_ne!(bad, TEXT, "{old}");
            let error = parse("of", &bad).expect_err(new);
            assert_eq!((error.line(), error.column()), place, "{error}");
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
