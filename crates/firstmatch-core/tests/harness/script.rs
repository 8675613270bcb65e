//! Format of the files in `testdata/`; `testdata/README.md` describes it for people.

use std::net::{Ipv4Addr, Ipv6Addr};

use firstmatch_core::Schema;
use firstmatch_core::rule::{Action, Condition, FieldValues, Priority, RuleSet, RuleSpec, Test};
use firstmatch_core::schema::{Family, Field, Kind};

/// File of the corpus.
pub(crate) struct Script {
    pub(crate) name: String,
    pub(crate) schemas: Vec<Schema>,
    pub(crate) steps: Vec<(usize, Step)>,
}

/// Line of a script.
///
/// Rules are counted from 0 in the order they are written, whether or not they were refused.
pub(crate) enum Step {
    Rule { spec: RuleSpec, refused: bool },
    Remove { rule: usize, refused: bool },
    Key { packet: FieldValues, want: Option<usize> },
}

impl Script {
    pub(crate) fn read(name: &str, text: &str) -> Self {
        let mut reader = Reader::default();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("");
            let words: Vec<&str> = line.split_whitespace().collect();
            if let Some((&first, rest)) = words.split_first() {
                reader.line(index + 1, first, rest).unwrap_or_else(|what| panic!("{name}:{}: {what}", index + 1));
            }
        }
        let schemas = reader.schemas().to_vec();
        Self { name: name.into(), schemas, steps: reader.steps }
    }

    /// Returns a set without rules.
    pub(crate) fn empty_set(&self) -> RuleSet {
        match &self.schemas[..] {
            [one] => RuleSet::new(one.clone()),
            [ipv4, ipv6] => RuleSet::dual(ipv4.clone(), ipv6.clone()),
            _ => unreachable!("one schema or two"),
        }
    }
}

#[derive(Default)]
struct Reader {
    fields: Vec<Field>,
    word_bits: Option<u32>,
    schemas: Option<Vec<Schema>>,
    rules: usize,
    steps: Vec<(usize, Step)>,
}

type Read<T> = Result<T, String>;

impl Reader {
    fn line(&mut self, line: usize, first: &str, rest: &[&str]) -> Read<()> {
        match (first, rest) {
            ("schema", ["ipv4"]) => self.schemas = Some(vec![Schema::ipv4()]),
            ("schema", ["ipv6"]) => self.schemas = Some(vec![Schema::ipv6()]),
            ("schema", ["dual"]) => self.schemas = Some(vec![Schema::ipv4(), Schema::ipv6()]),
            ("schema", ["openflow"]) => self.schemas = Some(vec![Schema::openflow()]),
            ("word_bits", [bits]) => self.word_bits = Some(number(bits)? as u32),
            ("field", [name, width, kind, rest @ ..]) => {
                let field = Field::new(name, number(width)? as u32, self::kind(kind)?, None);
                self.fields.push(if rest == ["optional"] { field.optional() } else { field });
            }
            ("rule", words) => self.rule(line, words, false)?,
            ("refused", ["rule", words @ ..]) => self.rule(line, words, true)?,
            ("remove", [which]) => self.remove(line, which, false)?,
            ("refused", ["remove", which]) => self.remove(line, which, true)?,
            ("key", words) => self.key(line, words)?,
            _ => return Err(format!("{first} {rest:?} is not understood")),
        }
        Ok(())
    }

    /// Returns the schemas; from the first rule or key on no field can be added.
    fn schemas(&mut self) -> &[Schema] {
        let (fields, bits) = (&self.fields, self.word_bits.unwrap_or(32));
        self.schemas.get_or_insert_with(|| vec![Schema::with_word_bits(None, fields.clone(), bits)])
    }

    fn remove(&mut self, line: usize, which: &str, refused: bool) -> Read<()> {
        let (from, to) = which.split_once('-').unwrap_or((which, which));
        for rule in number(from)?..=number(to)? {
            self.steps.push((line, Step::Remove { rule: rule as usize - 1, refused }));
        }
        Ok(())
    }

    fn rule(&mut self, line: usize, words: &[&str], refused: bool) -> Read<()> {
        let (mut priority, mut count, mut family, mut conditions) = (None, 1, None, Vec::new());
        for word in words {
            if let Some(given) = word.strip_prefix('@') {
                priority = Some(number(given)? as u64);
            } else if let Some(times) = word.strip_prefix('x').and_then(|n| n.parse().ok()) {
                count = times;
            } else if let Some(of) = self::family(word) {
                family = Some(of);
            } else {
                conditions.push(self.condition(word)?);
            }
        }
        for _ in 0..count {
            self.rules += 1;
            let priority = priority.map_or(Priority::of_line(self.rules as u32), Priority);
            let spec = RuleSpec {
                priority,
                action: Action::Match,
                conditions: conditions.clone().into(),
                family,
                line: None,
                value: 0,
            };
            self.steps.push((line, Step::Rule { spec, refused }));
        }
        Ok(())
    }

    fn condition(&mut self, word: &str) -> Read<Condition> {
        let (name, tests) = word.split_once('=').ok_or_else(|| format!("{word} is no condition"))?;
        let negated = name.ends_with('!');
        let name = name.trim_end_matches('!');
        let schemas = self.schemas();
        let field = schemas[0].index_of(name).ok_or_else(|| format!("there is no field {name}"))?;
        let dual = schemas.len() > 1;
        let width = schemas[0].fields()[field].width();
        let tests = tests.split(',').map(|text| test(text, width, dual)).collect::<Read<_>>()?;
        Ok(Condition { field, negated, tests })
    }

    fn key(&mut self, line: usize, words: &[&str]) -> Read<()> {
        let arrow = words.iter().position(|&w| w == "->").ok_or("a key needs -> and the rule")?;
        let [want] = words[arrow + 1..] else { return Err("one rule, or none, after ->".into()) };
        let want = if want == "none" { None } else { Some(number(want)? as usize - 1) };
        let schemas = self.schemas();
        let given = words.first().and_then(|w| family(w));
        let family = given.or(schemas[0].family());
        let values = &words[usize::from(given.is_some())..arrow];
        let schema = schemas.iter().find(|s| s.family() == family).ok_or("there is no schema of this family")?;
        if values.len() != schema.fields().len() {
            return Err(format!("{} values for {} fields", values.len(), schema.fields().len()));
        }
        let value = |text: &&str| if *text == "-" { Ok(None) } else { number(text).map(Some) };
        let values = values.iter().map(value).collect::<Read<_>>()?;
        self.steps.push((line, Step::Key { packet: FieldValues { family, values }, want }));
        Ok(())
    }
}

fn kind(word: &str) -> Read<Kind> {
    match word {
        "exact" => Ok(Kind::Exact),
        "prefix" => Ok(Kind::Prefix),
        "range" => Ok(Kind::Range),
        "mask" => Ok(Kind::Mask),
        _ => Err(format!("{word} is no kind")),
    }
}

fn family(word: &str) -> Option<Family> {
    [Family::Ipv4, Family::Ipv6].into_iter().find(|family| family.name() == word)
}

/// Reads `10.0.0.1`, `2001:db8::1`, `0x1F`, `0b101`, `17` or `max128` (128 bits, all ones).
fn number(text: &str) -> Read<u128> {
    let bad = |_| format!("{text} is no number");
    if let Some(bits) = text.strip_prefix("max") {
        return bits.parse::<u32>().map(|bits| u128::MAX >> (128 - bits)).map_err(bad);
    }
    if let Some(hex) = text.strip_prefix("0x") {
        return u128::from_str_radix(hex, 16).map_err(bad);
    }
    if let Some(binary) = text.strip_prefix("0b") {
        return u128::from_str_radix(binary, 2).map_err(bad);
    }
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Ok(u128::from(address.to_bits()));
    }
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Ok(address.to_bits());
    }
    text.parse().map_err(bad)
}

/// Reads `V`, `V/LEN`, `LO-HI`, `V&MASK`, `0b1*0` or `any`.
///
/// With `@ipv4` or `@ipv6` it is for that family alone. In a dual-stack file an address is for its own family.
fn test(text: &str, width: u32, dual: bool) -> Read<(Option<Family>, Test)> {
    let (text, mut only) = match text.split_once('@') {
        Some((text, of)) => (text, Some(family(of).ok_or_else(|| format!("{of} is no family"))?)),
        None => (text, None),
    };
    let address = |family: Family, mark: char| (dual && text.contains(mark)).then_some(family);
    only = only.or(address(Family::Ipv4, '.')).or(address(Family::Ipv6, ':'));
    let width = only.filter(|_| width >= 32).map_or(width, Family::address_bits);
    let test = if text == "any" {
        Test::Range { lo: 0, hi: u128::MAX >> (128 - width) }
    } else if let Some(pattern) = text.strip_prefix("0b").filter(|p| p.contains('*')) {
        pattern_test(pattern, width)?
    } else if let Some((value, len)) = text.split_once('/') {
        Test::Prefix { value: number(value)?, len: number(len)? as u32 }
    } else if let Some((lo, hi)) = text.split_once('-') {
        Test::Range { lo: number(lo)?, hi: number(hi)? }
    } else if let Some((value, mask)) = text.split_once('&') {
        Test::Mask { value: number(value)?, mask: number(mask)? }
    } else {
        Test::Value(number(text)?)
    };
    Ok((only, test))
}

/// Reads one character a bit: a prefix if only the last are stars, else a masked value.
fn pattern_test(pattern: &str, width: u32) -> Read<Test> {
    if pattern.len() != width as usize {
        return Err(format!("{pattern} has not {width} bits"));
    }
    let value = number(&format!("0b{}", pattern.replace('*', "0")))?;
    let mask = number(&format!("0b{}", pattern.replace('0', "1").replace('*', "0")))?;
    let fixed = pattern.trim_end_matches('*');
    let prefix = !fixed.contains('*');
    Ok(if prefix { Test::Prefix { value, len: fixed.len() as u32 } } else { Test::Mask { value, mask } })
}
