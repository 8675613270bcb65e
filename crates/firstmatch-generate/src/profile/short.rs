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

use super::sections::{Fault, ParameterError, Word, checked, columns, each, flags, number_of, port_pair};
use super::{Flags, LengthPair, PortPair, Ports, Profile, Protocol, Repeats, Tree};

const SECTIONS: [&str; 12] =
    ["scale", "fields", "prots", "flags", "sports", "dports", "rest", "snest", "sskew", "dnest", "dskew", "pcorr"];

/// Reads a profile.
///
/// # Errors
/// If the text has a fault: the error has the place of the first one.
pub(super) fn parse(name: &str, text: &str) -> Result<Profile, ParameterError> {
    let mut reader = Reader::default();
    let is_known = |section: &str| SECTIONS.contains(&section) || port_pair(section).is_some();
    let read = each(text, is_known, |section, words| reader.line(section, words));
    read.and_then(|(_, last)| checked(name, reader.profile(), last)).map_err(|fault| fault.of(name))
}

/// Contents of the sections read so far.
#[derive(Default)]
struct Reader {
    scale: Option<u32>,
    has_no_protocol: bool,
    protocols: Vec<Protocol>,
    ports: [Ports; 2],
    lengths: Vec<(PortPair, Vec<LengthPair>)>,
    rest: Vec<LengthPair>,
    nesting: [Option<u8>; 2],
    levels: [Vec<(usize, f64, f64)>; 2],
    correlation: Vec<(usize, f64)>,
}

impl Reader {
    fn line(&mut self, section: &str, words: &[Word<'_>]) -> Result<(), Fault> {
        let side = usize::from(section.starts_with('d'));
        match section {
            "scale" => {
                let [number] = columns(words, "the number of rules alone")?;
                self.scale = Some(number.number(u32::MAX, "a number of rules")?);
            }
            "fields" => {
                let [number] = columns(words, "the number of fields alone")?;
                self.has_no_protocol = match number.text() {
                    "4" => true,
                    "5" => false,
                    _ => return Err(number.fault("4 or 5, the number of fields")),
                };
            }
            "prots" => {
                let [number, weight, ..] = words else {
                    return Err(words[0].fault("a protocol and its weight"));
                };
                let pair = |word: &Word<'_>| {
                    let (pair, weight) = word.split(',', "a pair of port classes and its weight, as `wc_em,65`")?;
                    Ok((pair.ports()?, weight.weight()?))
                };
                let ports = words[2..].iter().map(pair).collect::<Result<_, Fault>>()?;
                let (number, share) = (number_of(*number)?, weight.weight()?);
                self.protocols.push(Protocol { number, share, ports, flags: Vec::new() });
            }
            "flags" => {
                let number = number_of(words[0])?;
                let all = words[1..].iter().map(|word| flags(*word, Word::weight));
                let all = all.collect::<Result<Vec<(Flags, f64)>, Fault>>()?;
                let of = self.protocols.iter_mut().find(|of| of.number == number);
                of.ok_or_else(|| words[0].fault("a protocol of the section `-prots`"))?.flags = all;
            }
            "sports" | "dports" => {
                let [services, ranges, others] = columns(words, "services, ranges and unlisted ports")?;
                let services = services.number(SERVICES.len() as u32, "a number of services")? as usize;
                let ranges = ranges.number(RANGES.len() as u32, "a number of ranges")? as usize;
                self.ports[side] = ports(services, ranges, others.number(1000, "a number of ports")? as usize);
            }
            "snest" | "dnest" => {
                let [number] = columns(words, "the bound on nesting alone")?;
                self.nesting[side] = Some(number.number(33, "a bound on nesting")? as u8);
            }
            "sskew" | "dskew" => {
                let [level, branching, skew] = columns(words, "a level, the branching and the skew")?;
                let level = level.number(31, "a level")? as usize;
                self.levels[side].push((level, branching.share()?, skew.share()?));
            }
            "pcorr" => {
                let [level, share] = columns(words, "a level and a probability")?;
                self.correlation.push((level.number(31, "a level")? as usize, share.share()?));
            }
            _ => {
                let own = words.iter().map(lengths).collect::<Result<Vec<_>, Fault>>()?;
                match port_pair(section) {
                    None => self.rest.extend(own),
                    Some(pair) => match self.lengths.iter_mut().find(|(of, _)| *of == pair) {
                        Some((_, all)) => all.extend(own),
                        None => self.lengths.push((pair, own)),
                    },
                }
            }
        }
        Ok(())
    }

    fn profile(self) -> Profile {
        let first = self.lengths.first().map_or_else(Vec::new, |(_, own)| own.clone());
        let [source_ports, destination_ports] = self.ports;
        let [source, destination] =
            [0, 1].map(|side| Tree { nesting: self.nesting[side], ..Tree::of_levels(&self.levels[side]) });
        let correlation = std::array::from_fn(|at| {
            self.correlation.iter().rev().find(|(first, _)| *first <= at).map_or(0.0, |(_, share)| *share)
        });
        Profile {
            name: String::new(),
            protocols: self.protocols,
            has_protocol: !self.has_no_protocol,
            ports_everywhere: false,
            source_ports,
            destination_ports,
            lengths: if self.rest.is_empty() { first } else { self.rest },
            lengths_of: self.lengths,
            source,
            destination,
            correlation,
            scale: self.scale,
            repeats: Repeats::Never,
        }
    }
}

/// Reads a pair of prefix lengths and its weight.
fn lengths(word: &Word<'_>) -> Result<LengthPair, Fault> {
    let (pair, weight) = word.split(',', "two prefix lengths and their weight, as `16/24,8`")?;
    let (source, destination) = pair.split('/', "two prefix lengths, as `16/24`")?;
    let length = |word: Word<'_>| Ok(word.number(32, "a prefix length")? as u8);
    Ok(LengthPair::new(length(source)?, length(destination)?, weight.weight()?))
}

/// Returns the first services and ranges of the lists, and `others` unlisted values of each class.
fn ports(services: usize, ranges: usize, others: usize) -> Ports {
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
    use crate::profile::{FULL_PROFILES, PROFILES};

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
        assert_eq!(profile.destination_ports, ports(2, 1, 3));
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
