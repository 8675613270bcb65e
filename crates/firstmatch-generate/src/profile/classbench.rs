//! ClassBench parameter files.
//!
//! A file consists of sections. A line that starts with `-` opens a section by its name, and a line that starts with
//! `#` ends it. Columns are separated by blanks, which may also end a line. Each section occurs once, in any order:
//!
//! | section | lines |
//! |---|---|
//! | `-scale` | the number of rules that the figures were taken from |
//! | `-prots` | a protocol (0 is the wildcard), its share, the shares of its 25 pairs of port classes ([`PortPair::ALL`]) |
//! | `-flags` | a protocol, then `value/mask,share` any number of times, in hexadecimal |
//! | `-extra` | the number of further fields: only 0 can be read |
//! | `-spar -spem -dpar -dpem` | a share and `lo:hi`: source and destination ports, ranges and single ports |
//! | `-wc_wc` … `-em_em` | by pair of port classes: `total,share` of the sum of both prefix lengths, then `source,share` of the source's part |
//! | `-snest -dnest` | the most prefixes that may nest |
//! | `-sskew -dskew` | a level of the tree, the probabilities of one child and of two, the skew |
//! | `-pcorr` | a level from 1, the probability that the two addresses of a rule agree there too |

pub use super::sections::ParameterError;
use super::sections::{
    Fault, Word, add_lengths, checked, columns, each, flags, number, number_of, pair_name, port_pair,
};
use super::{Flags, LengthPair, Level, PortClass, PortPair, Ports, Profile, Protocol, Tree};

/// Reads a parameter file.
///
/// `file` is its name in messages. The profile gets the name up to the last dot or `_seed`; for example, `acl1_seed`
/// gives `acl1`.
///
/// # Errors
/// If the text has a fault: the error has the place of the first one and says what was expected there.
pub fn parse(file: &str, text: &str) -> Result<Profile, ParameterError> {
    let mut reader = Reader::default();
    let is_known = |name: &str| SECTIONS.contains(&name) || port_pair(name).is_some();
    let read = each(text, is_known, |section, words| reader.line(section, words));
    let profile = read.and_then(|(seen, last)| {
        let mut all = SECTIONS.into_iter().map(str::to_owned).chain(PortPair::ALL.map(pair_name));
        match all.find(|name| !seen.contains(&name.as_str())) {
            Some(name) => Err(last.says(format!("the file ends without the section `-{name}`"))),
            None => checked(name_of(file), reader.profile(last)?, last),
        }
    });
    profile.map_err(|fault| fault.of(file))
}

/// Returns the name of the profile of a file: its own up to the last dot or `_seed`.
fn name_of(file: &str) -> &str {
    let base = file.rsplit(['/', '\\']).next().unwrap_or(file);
    let stem = base.strip_suffix("_seed").or_else(|| base.rsplit_once('.').map(|(stem, _)| stem));
    stem.unwrap_or(base)
}

/// Names of the sections, without the 25 sections of prefix lengths.
const SECTIONS: [&str; 13] =
    ["scale", "prots", "flags", "extra", "spar", "spem", "dpar", "dpem", "snest", "sskew", "dnest", "dskew", "pcorr"];

/// A protocol and its flags by weight.
type FlagsOf = (Option<u8>, Vec<(Flags, f64)>);

/// Contents of the sections read so far.
#[derive(Default)]
struct Reader {
    scale: Option<u32>,
    protocols: Vec<Protocol>,
    flags: Vec<FlagsOf>,
    /// Ports of the source and of the destination.
    ports: [Ports; 2],
    lengths: Vec<(PortPair, Vec<LengthPair>)>,
    nesting: [Option<u8>; 2],
    levels: [Vec<(usize, Level)>; 2],
    correlation: Vec<(usize, f64)>,
}

impl Reader {
    fn line(&mut self, section: &str, words: &[Word<'_>]) -> Result<(), Fault> {
        let side = usize::from(section.starts_with('d'));
        match section {
            "scale" => self.scale = Some(number(words, u32::MAX, "a number of rules")?),
            "prots" => self.protocol(words)?,
            "flags" => {
                let all = words[1..].iter().map(|word| flags(*word, Word::share));
                self.flags.push((number_of(words[0])?, all.collect::<Result<_, Fault>>()?));
            }
            "extra" => _ = number(words, 0, "a file without further fields")?,
            "spar" | "spem" | "dpar" | "dpem" => self.port(side, section.ends_with("em"), words)?,
            "snest" | "dnest" => self.nesting[side] = Some(number(words, 33, "a bound on nesting")? as u8),
            "sskew" | "dskew" => {
                let [level, one, two, skew] = columns(words, "a level, two probabilities and a skew")?;
                let level = level.number(32, "a level")? as usize;
                one.share()?;
                self.levels[side].push((level, Level { branching: two.share()?, skew: skew.share()? }));
            }
            "pcorr" => {
                let [level, share] = columns(words, "a level and a probability")?;
                self.correlation.push((level.number(32, "a level")? as usize, share.share()?));
            }
            pair => self.length(pair, words)?,
        }
        Ok(())
    }

    fn protocol(&mut self, words: &[Word<'_>]) -> Result<(), Fault> {
        let [number, share, pairs @ ..] = words else {
            return Err(words[0].fault("a protocol, its share and 25 shares of pairs of port classes"));
        };
        if pairs.len() != PortPair::ALL.len() {
            let what = format!("the first of 27 columns: the line has {}", words.len());
            return Err(words[0].fault(&what));
        }
        let mut ports = Vec::new();
        for (pair, word) in PortPair::ALL.into_iter().zip(pairs) {
            let share = word.share()?;
            if share > 0.0 {
                ports.push((pair, share));
            }
        }
        let number = number_of(*number)?;
        self.protocols.push(Protocol { number, share: share.share()?, ports, flags: Vec::new() });
        Ok(())
    }

    fn port(&mut self, side: usize, exact: bool, words: &[Word<'_>]) -> Result<(), Fault> {
        let [share, range] = columns(words, "a share and ports, as `0.5 80:80`")?;
        let share = share.share()?;
        let (lo, hi) = range.split(':', "ports, as `80:80`")?;
        let (lo, hi) = (lo.number(65535, "a port")? as u16, hi.number(65535, "a port")? as u16);
        match (exact, PortClass::of(lo, hi)) {
            (true, PortClass::Exact) => self.ports[side].exact.push((lo, share)),
            (false, PortClass::Range) if lo < hi => self.ports[side].ranges.push(((lo, hi), share)),
            (true, _) => return Err(range.fault("one port, as `80:80`")),
            (false, _) => return Err(range.fault("a range that is neither one port nor a class of its own")),
        }
        Ok(())
    }

    fn length(&mut self, pair: &str, words: &[Word<'_>]) -> Result<(), Fault> {
        let expected = "a length and its share, as `64,0.25`";
        let (total, share) = words[0].split(',', expected)?;
        let (total, share) = (total.number(64, "the sum of two prefix lengths")?, share.share()?);
        if words.len() < 2 {
            return Err(words[0].fault("followed by the source's part of it"));
        }
        let mut own = Vec::new();
        for word in &words[1..] {
            let (source, part) = word.split(',', expected)?;
            let length = source.number(32, "a prefix length")?;
            let destination = total.checked_sub(length).filter(|&length| length <= 32);
            let Some(destination) = destination else {
                return Err(source.fault(&format!("the source's part of {total}: both lengths are 0 to 32")));
            };
            own.push(LengthPair::new(length as u8, destination as u8, share * part.share()?));
        }
        // `parse` has already checked the name of the section.
        let Some(pair) = port_pair(pair) else { return Ok(()) };
        add_lengths(&mut self.lengths, pair, own);
        Ok(())
    }

    fn profile(self, end: Word<'_>) -> Result<Profile, Fault> {
        let missing = |what: &str| end.says(what.to_owned());
        let scale = self.scale.filter(|&scale| scale > 0);
        let scale = scale.ok_or_else(|| missing("`-scale` has no number above 0"))?;
        let used = self.protocols.iter().flat_map(|protocol| &protocol.ports).map(|(pair, _)| *pair);
        for pair in used {
            if !self.lengths.iter().any(|(of, _)| *of == pair) {
                let name = pair_name(pair);
                return Err(missing(&format!("a protocol has rules of `{name}`, but `-{name}` has no prefix lengths")));
            }
        }
        let tree = |side: usize| {
            let mut tree = Tree::of_levels(&[]);
            for &(level, of) in self.levels[side].iter().filter(|(level, _)| *level < 32) {
                tree.levels[level] = of;
            }
            tree.nesting = self.nesting[side].filter(|&most| most > 0);
            tree
        };
        let (source, destination) = (tree(0), tree(1));
        let mut correlation = [0.0; 32];
        for &(level, share) in &self.correlation {
            // Level 1 is the first bit.
            if let Some(at) = level.checked_sub(1).and_then(|level| correlation.get_mut(level)) {
                *at = share;
            }
        }
        let mut protocols = self.protocols;
        for protocol in &mut protocols {
            let own = self.flags.iter().find(|(number, _)| *number == protocol.number);
            protocol.flags = own.map_or_else(Vec::new, |(_, flags)| flags.clone());
        }
        let [source_ports, destination_ports] = self.ports;
        Ok(Profile {
            name: String::new(),
            has_protocol: true,
            ports_everywhere: true,
            protocols,
            source_ports,
            destination_ports,
            lengths: self.lengths.iter().flat_map(|(_, own)| own.clone()).collect(),
            lengths_of: self.lengths,
            source,
            destination,
            correlation,
            scale: Some(scale),
            repeats: super::Repeats::Never,
        })
    }
}
