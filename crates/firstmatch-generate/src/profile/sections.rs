//! Sections of parameter files, in ClassBench's format and in the short form.

use std::fmt;

use super::{Flags, LengthPair, PortClass, PortPair, Profile};

/// Fault in a parameter file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterError {
    file: String,
    line: usize,
    column: usize,
    message: String,
}

impl ParameterError {
    /// Returns the line, counted from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// Returns the column in characters, counted from 1.
    pub fn column(&self) -> usize {
        self.column
    }
}

impl fmt::Display for ParameterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)
    }
}

impl std::error::Error for ParameterError {}

/// Reads a file section by section: `take` gets the lines of each.
///
/// `is_known` tells the names of sections. The result has the names that were seen, and the last word.
pub(super) fn each<'t>(
    text: &'t str,
    is_known: impl Fn(&str) -> bool,
    mut take: impl FnMut(&str, &[Word<'t>]) -> Result<(), Fault>,
) -> Result<(Vec<&'t str>, Word<'t>), Fault> {
    let mut section: Option<&str> = None;
    let mut seen: Vec<&str> = Vec::new();
    let mut last = Word { text: "", line: 1, column: 1 };
    for (line, number) in text.lines().zip(1..) {
        let words = words(line, number);
        let Some(&first) = words.first() else { continue };
        last = *words.last().unwrap_or(&first);
        if first.text.starts_with('#') {
            section = None;
        } else if let Some(name) = first.text.strip_prefix('-') {
            if !is_known(name) || words.len() > 1 {
                let wrong = if is_known(name) { words[1] } else { first };
                return Err(wrong.fault("the name of a section alone on its line, as `-scale` or `-wc_em`"));
            }
            if seen.contains(&name) {
                return Err(first.fault("a section that was not there before"));
            }
            seen.push(name);
            section = Some(name);
        } else {
            let Some(section) = section else { return Err(first.fault("a line that opens a section, as `-scale`")) };
            take(section, &words)?;
        }
    }
    Ok((seen, last))
}

const CODES: [(&str, PortClass); 5] = [
    ("wc", PortClass::Wildcard),
    ("lo", PortClass::Low),
    ("hi", PortClass::High),
    ("em", PortClass::Exact),
    ("ar", PortClass::Range),
];

pub(super) fn port_pair(name: &str) -> Option<PortPair> {
    let class = |code: &str| CODES.iter().find(|(own, _)| *own == code).map(|(_, class)| *class);
    let (source, destination) = name.split_once('_')?;
    Some(PortPair::new(class(source)?, class(destination)?))
}

pub(super) fn pair_name(pair: PortPair) -> String {
    let code = |class| CODES.iter().find(|(_, own)| *own == class).map_or("", |(code, _)| code);
    format!("{}_{}", code(pair.source), code(pair.destination))
}

/// Part of a line without blanks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word<'t> {
    text: &'t str,
    line: usize,
    column: usize,
}

/// Fault at a place of a file.
#[derive(Debug)]
pub(super) struct Fault {
    at: usize,
    column: usize,
    message: String,
}

impl Fault {
    /// Names the file.
    pub(super) fn of(self, file: &str) -> ParameterError {
        ParameterError { file: file.to_owned(), line: self.at, column: self.column, message: self.message }
    }
}

fn words(line: &str, number: usize) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return words;
        }
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let column = line[..line.len() - rest.len()].chars().count() + 1;
        words.push(Word { text: &rest[..end], line: number, column });
        rest = &rest[end..];
    }
}

impl<'t> Word<'t> {
    /// Returns a fault that ends here.
    pub(super) fn says(self, message: String) -> Fault {
        Fault { at: self.line, column: self.column, message }
    }

    pub(super) fn fault(self, expected: &str) -> Fault {
        let shown: String = self.text.chars().take(40).collect();
        Fault { at: self.line, column: self.column, message: format!("`{shown}` is not {expected}") }
    }

    /// Splits the word at the first separator `by`.
    pub(super) fn split(self, by: char, expected: &str) -> Result<(Self, Self), Fault> {
        let (one, other) = self.text.split_once(by).ok_or_else(|| self.fault(expected))?;
        let column = self.column + one.chars().count() + 1;
        Ok((Self { text: one, ..self }, Self { text: other, line: self.line, column }))
    }

    pub(super) fn number(self, most: u32, what: &str) -> Result<u32, Fault> {
        let number = self.text.parse().ok().filter(|&number: &u32| number <= most);
        number.ok_or_else(|| self.fault(&format!("{what}, a number from 0 to {most}")))
    }

    pub(super) fn ports(self) -> Result<PortPair, Fault> {
        port_pair(self.text).ok_or_else(|| self.fault("a pair of port classes, as `wc_em`"))
    }

    pub(super) fn weight(self) -> Result<f64, Fault> {
        let weight = self.text.parse().ok().filter(|weight: &f64| weight.is_finite() && *weight >= 0.0);
        weight.ok_or_else(|| self.fault("a weight, a number from 0"))
    }

    pub(super) fn share(self) -> Result<f64, Fault> {
        let share = self.text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
        share.ok_or_else(|| self.fault("a share, a number from 0 to 1"))
    }

    fn hex(self) -> Result<u16, Fault> {
        let digits = self.text.strip_prefix("0x").or_else(|| self.text.strip_prefix("0X"));
        let value = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
        value.ok_or_else(|| self.fault("16 bits in hexadecimal, as `0x1000`"))
    }
}

/// Returns exactly `N` words, or a fault.
pub(super) fn columns<'w, 't, const N: usize>(words: &'w [Word<'t>], what: &str) -> Result<&'w [Word<'t>; N], Fault> {
    let found = words.get(..N).and_then(|found| found.try_into().ok());
    match (found, words.get(N)) {
        (Some(found), None) => Ok(found),
        (_, Some(more)) => Err(more.fault(&format!("the end of the line: expected {what}"))),
        (None, None) => Err(words[0].fault(&format!("{what}: the line ends too early"))),
    }
}

/// Returns the number of a line that has nothing else.
pub(super) fn number(words: &[Word<'_>], most: u32, what: &str) -> Result<u32, Fault> {
    let [number] = columns(words, &format!("{what} alone"))?;
    number.number(most, what)
}

/// Adds prefix lengths to those of a pair of port classes.
pub(super) fn add_lengths(all: &mut Vec<(PortPair, Vec<LengthPair>)>, pair: PortPair, own: Vec<LengthPair>) {
    match all.iter_mut().find(|(of, _)| *of == pair) {
        Some((_, all)) => all.extend(own),
        None => all.push((pair, own)),
    }
}

/// Returns a protocol, with 0 as the wildcard.
pub(super) fn number_of(word: Word<'_>) -> Result<Option<u8>, Fault> {
    let number = word.number(255, "a protocol")? as u8;
    Ok((number != 0).then_some(number))
}

/// Reads flags and their weight; for example, `0x1000/0x1000,0.5`.
pub(super) fn flags<'t>(
    word: Word<'t>,
    weight: impl Fn(Word<'t>) -> Result<f64, Fault>,
) -> Result<(Flags, f64), Fault> {
    let (test, share) = word.split(',', "flags and their share, as `0x1000/0x1000,0.5`")?;
    let (value, mask) = test.split('/', "flags under a mask, as `0x1000/0x1000`")?;
    let (value, mask) = (value.hex()?, mask.hex()?);
    Ok((Flags { value: value & mask, mask }, weight(share)?))
}

/// Returns a profile under its name, checked as a whole.
///
/// Each number was in its bounds. Still wrong may be shares that sum to zero, or a class without ports.
pub(super) fn checked(name: &str, mut profile: Profile, end: Word<'_>) -> Result<Profile, Fault> {
    profile.name = name.to_owned();
    profile.check().map_err(|error| end.says(error.to_string()))?;
    Ok(profile)
}
