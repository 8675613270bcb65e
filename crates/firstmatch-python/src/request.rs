//! Options of a call, and the columns of a table that fill the fields of rules.

use std::collections::BTreeMap;

use arrow_schema::{DataType, Fields, Schema};
use firstmatch::core::schema::{Field, Source};
use firstmatch::net::source::NEXT_HEADER_COLUMN;
use firstmatch_columns::{Bytes, Cells, Column, Content, Integers, NumberText, Values};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyString};

use crate::arrays::accepts;
use crate::error::ColumnError;
use crate::logs::{FIVE, PRESETS, Preset};

/// Column of frames, which decide before any other column.
pub(crate) const FRAME: &str = "frame";
/// Names of the columns that say how much traffic a row stands for.
const WEIGHTS: [&str; 2] = ["packets", "bytes"];

/// Options of a call over a table.
#[derive(Debug, Default)]
pub(crate) struct Request {
    columns: BTreeMap<String, Vec<String>>,
    constants: BTreeMap<String, Py<PyAny>>,
    absent: Vec<String>,
    preset: Option<&'static Preset>,
    /// Whether bad rows have no verdict; otherwise the first one is an error.
    pub(crate) keeps_bad_rows: bool,
    pub(crate) has_plain_strings: bool,
    pub(crate) has_labels: bool,
    is_swapped: bool,
    pub(crate) threads: Option<usize>,
}

/// Values of one field, before a batch is there.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    Absent,
    Constant(Cells),
    Columns(Vec<Leaf>),
}

/// Column of a table that is no struct.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    /// Name, with those of the structs around it before dots.
    pub(crate) name: String,
    pub(crate) path: Vec<usize>,
    data_type: DataType,
    pub(crate) content: Content,
}

/// Columns that fill the fields of rules.
#[derive(Clone, Debug)]
pub(crate) struct Mapping {
    /// Origin of each field.
    pub(crate) fields: Vec<Origin>,
    /// Columns of packets and bytes.
    pub(crate) weights: [Vec<Leaf>; 2],
    /// Column of frames, which then decide alone, and of their link types.
    pub(crate) frame: Option<(Leaf, Option<Leaf>)>,
}

impl Request {
    /// Reads the keyword arguments of a call; `allowed` are those that it has.
    pub(crate) fn new(call: &str, options: Option<&Bound<'_, PyDict>>, allowed: &[&str]) -> PyResult<Self> {
        let mut request = Self::default();
        for (key, value) in options.into_iter().flatten() {
            let key: String = key.extract()?;
            if !allowed.contains(&&*key) {
                let error = format!("{call}() has no option {key}; it has {}", allowed.join(", "));
                return Err(PyTypeError::new_err(error));
            }
            if value.is_none() {
                continue;
            }
            request.set(&key, &value)?;
        }
        Ok(request)
    }

    fn set(&mut self, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let of = |expected: &str| {
            let shown = value.repr().map_or_else(|_| String::new(), |text| text.to_string());
            PyValueError::new_err(format!("{key}={shown}: expected {expected}"))
        };
        match key {
            "columns" => {
                for (field, name) in value.cast::<PyDict>().map_err(|_| of("a dict of fields and names of columns"))? {
                    let names = match name.extract::<String>() {
                        Ok(name) => vec![name],
                        Err(_) => name.extract().map_err(|_| of("a name, or a list of names, for each field"))?,
                    };
                    self.columns.insert(field.extract()?, names);
                }
            }
            "constants" => {
                for (field, one) in value.cast::<PyDict>().map_err(|_| of("a dict of fields and values"))? {
                    self.constants.insert(field.extract()?, one.unbind());
                }
            }
            "absent" => {
                if value.is_instance_of::<PyString>() {
                    return Err(of("a list of fields"));
                }
                self.absent = value.try_iter()?.map(|field| field?.extract()).collect::<PyResult<_>>()?;
            }
            "preset" => {
                let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
                let name: String = value.extract()?;
                self.preset = Some(Preset::by_name(&name).ok_or_else(|| of(&format!("one of {}", names.join(", "))))?);
            }
            "errors" => {
                self.keeps_bad_rows = match value.extract::<String>().as_deref() {
                    Ok("raise") => false,
                    Ok("null") => true,
                    _ => return Err(of("\"raise\" or \"null\"")),
                };
            }
            "strings" => {
                self.has_plain_strings = match value.extract::<String>().as_deref() {
                    Ok("dictionary") => false,
                    Ok("plain") => true,
                    _ => return Err(of("\"dictionary\" or \"plain\"")),
                };
            }
            "labels" => self.has_labels = value.extract()?,
            "swap" => self.is_swapped = value.extract()?,
            _ => {
                let threads = value.extract().ok().filter(|&threads| threads > 0);
                self.threads = Some(threads.ok_or_else(|| of("1 or more"))?);
            }
        }
        Ok(())
    }

    /// Returns the columns that fill `fields`, of which `tested` says whether a rule tests them.
    pub(crate) fn map(&self, py: Python<'_>, schema: &Schema, fields: &[Field], tested: &[bool]) -> PyResult<Mapping> {
        let mut leaves = Vec::new();
        leaves_of(schema.fields(), "", &[], &mut leaves);
        self.check_names(fields)?;
        let mut mapping = Mapping { fields: Vec::new(), weights: [Vec::new(), Vec::new()], frame: None };
        let preset = self.preset.map_or_else(|| self.preset_of(&leaves, fields), Ok)?;
        for (weight, (name, own)) in mapping.weights.iter_mut().zip(WEIGHTS.iter().zip(preset.weights)) {
            let named = self.columns.get(*name);
            *weight = match named {
                Some(names) => named_leaves(&leaves, names)?,
                None => found_leaves(&leaves, own)?,
            };
            let content = Content::Number { max: u64::MAX.into(), text: NumberText::Decimal };
            weight.iter_mut().for_each(|leaf| leaf.content = content);
            weight.iter().try_for_each(check)?;
        }
        if let Some(frame) = self.frame_of(&leaves)? {
            mapping.frame = Some(frame);
            return Ok(mapping);
        }
        for (field, &is_tested) in fields.iter().zip(tested) {
            mapping.fields.push(self.origin(py, &leaves, preset, field, is_tested)?);
        }
        if self.is_swapped {
            let at = |source| fields.iter().position(|field| field.source() == Some(source));
            for (one, other) in [(Source::Src, Source::Dst), (Source::SrcPort, Source::DstPort)] {
                if let (Some(one), Some(other)) = (at(one), at(other)) {
                    mapping.fields.swap(one, other);
                }
            }
        }
        Ok(mapping)
    }

    /// Refuses names that are no field.
    fn check_names(&self, fields: &[Field]) -> PyResult<()> {
        let names: Vec<&str> = fields.iter().map(Field::name).collect();
        let options = [
            ("columns", self.columns.keys().collect::<Vec<_>>()),
            ("constants", self.constants.keys().collect()),
            ("absent", self.absent.iter().collect()),
        ];
        for (option, given) in options {
            let is_known = |name: &&String| {
                names.contains(&name.as_str())
                    || option == "columns" && [FRAME, "packets", "bytes"].contains(&name.as_str())
            };
            if let Some(unknown) = given.into_iter().find(|name| !is_known(name)) {
                // A field that no rule tests may be said to be absent or to have a value.
                if option != "columns" && Source::by_name(unknown).is_some() {
                    continue;
                }
                let error = format!("{option}: there is no field {unknown}; the rules have {}", names.join(", "));
                return Err(ColumnError::new_err(error));
            }
        }
        Ok(())
    }

    /// Returns the log that a table is: the one with the most of the five fields.
    fn preset_of(&self, leaves: &[Leaf], fields: &[Field]) -> PyResult<&'static Preset> {
        let found = |preset: &Preset| -> PyResult<Vec<Vec<usize>>> {
            let mut all = Vec::new();
            for field in FIVE {
                let source = fields.iter().find(|of| of.name() == field).and_then(Field::source);
                let leaves = found_leaves(leaves, &preset.columns_of(field, source))?;
                all.extend(leaves.into_iter().take(1).map(|leaf| leaf.path));
            }
            Ok(all)
        };
        let (mut best, mut most, mut tied) = (&PRESETS[0], found(&PRESETS[0])?, None);
        for preset in &PRESETS[1..] {
            let columns = found(preset)?;
            if columns.len() > most.len() {
                (best, most, tied) = (preset, columns, None);
            } else if columns.len() == most.len() && !columns.is_empty() && columns != most {
                tied = Some(preset);
            }
        }
        // Fields that the caller names need no column of a log.
        match tied {
            Some(other) if !FIVE.iter().all(|field| self.is_named(field)) => Err(ColumnError::new_err(format!(
                "the columns may be those of {} or of {}; say which: preset=\"{}\"",
                best.name, other.name, best.name
            ))),
            _ => Ok(best),
        }
    }

    fn is_named(&self, field: &str) -> bool {
        self.columns.contains_key(field)
            || self.constants.contains_key(field)
            || self.absent.iter().any(|name| name == field)
    }

    /// Returns the column of frames and that of their link types, if the table has one.
    fn frame_of(&self, leaves: &[Leaf]) -> PyResult<Option<(Leaf, Option<Leaf>)>> {
        let named = self.columns.get(FRAME);
        let frame = match named {
            Some(names) => named_leaves(leaves, names)?.into_iter().next(),
            // Other logs have a struct or a number of this name.
            None => leaves.iter().find(|leaf| leaf.name == FRAME && is_binary(&leaf.data_type)).cloned(),
        };
        let Some(frame) = frame else { return Ok(None) };
        if !is_binary(&frame.data_type) {
            let error = format!("column \"{}\" is {}, which is no frame", frame.name, frame.type_name());
            return Err(ColumnError::new_err(error));
        }
        let mut link = found_leaves(leaves, &["link"])?.into_iter().next();
        if let Some(link) = &mut link {
            link.content = Content::Number { max: u32::MAX.into(), text: NumberText::Decimal };
            check(link)?;
        }
        Ok(Some((frame, link)))
    }

    fn origin(
        &self,
        py: Python<'_>,
        leaves: &[Leaf],
        preset: &Preset,
        field: &Field,
        is_tested: bool,
    ) -> PyResult<Origin> {
        let name = field.name();
        let content = self.content(preset, field);
        if let Some(names) = self.columns.get(name) {
            return columns(named_leaves(leaves, names)?, content);
        }
        if let Some(value) = self.constants.get(name) {
            return Ok(Origin::Constant(constant(value.bind(py), field, content)?));
        }
        if self.absent.iter().any(|absent| absent == name) {
            return match field.is_optional() {
                true => Ok(Origin::Absent),
                false => Err(ColumnError::new_err(format!("absent: every packet has {name}"))),
            };
        }
        let mut found = found_leaves(leaves, &preset.columns_of(name, field.source()))?;
        // tshark states the first header behind IPv6's, which may be an extension header.
        let next_header =
            found.iter().position(|leaf| leaf.name == NEXT_HEADER_COLUMN && field.source() == Some(Source::Proto));
        let own = found_leaves(leaves, &[name])?;
        let is_sum = preset.is_flow && field.source() == Some(Source::TcpFlags);
        if found.is_empty() && !is_sum {
            found.clone_from(&own);
        }
        if !found.is_empty() {
            let mut origin = columns(found, content)?;
            if let (Origin::Columns(leaves), Some(at)) = (&mut origin, next_header) {
                leaves[at].content = Content::Number { max: u8::MAX.into(), text: NumberText::NextHeader };
            }
            return Ok(origin);
        }
        if field.is_optional() && !is_tested {
            // No rule asks for it, so any value will do.
            let one = Column::new(1, [], Values::Integers(Integers::U8(&[0])));
            return Ok(Origin::Constant(decoded(&one, content)));
        }
        let columns = leaves.iter().map(|leaf| leaf.name.as_str()).collect::<Vec<_>>().join(", ");
        let (why, ways) = match field.is_optional() {
            _ if is_sum && !own.is_empty() => (
                format!(
                    "rules test {name}, and column \"{}\" has the flags of all packets of a flow together",
                    own[0].name
                ),
                format!(
                    "classify the first packet (constants={{\"{name}\": 2}}), take the column all the same \
                     (columns={{\"{name}\": \"{}\"}}), or say that no row has flags (absent=[\"{name}\"])",
                    own[0].name
                ),
            ),
            true => (
                format!("rules test {name}, and no column is known for it; the columns are {columns}"),
                format!(
                    "name one (columns={{\"{name}\": …}}), give all rows a value (constants={{\"{name}\": …}}), or say \
                     that no row has it (absent=[\"{name}\"])"
                ),
            ),
            false => (
                format!("no column is known for {name}; the columns are {columns}"),
                format!("name it: columns={{\"{name}\": …}}"),
            ),
        };
        Err(ColumnError::new_err(format!("{why}; {ways}")))
    }

    fn content(&self, preset: &Preset, field: &Field) -> Content {
        match Content::of(field) {
            Content::Number { max, .. } if preset.has_hex_flags && field.source() == Some(Source::TcpFlags) => {
                Content::Number { max, text: NumberText::Hexadecimal }
            }
            content => content,
        }
    }
}

impl Leaf {
    pub(crate) fn type_name(&self) -> String {
        crate::arrays::type_name(&self.data_type)
    }
}

fn is_binary(of: &DataType) -> bool {
    matches!(of, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

fn columns(mut leaves: Vec<Leaf>, content: Content) -> PyResult<Origin> {
    leaves.iter_mut().for_each(|leaf| leaf.content = content);
    leaves.iter().try_for_each(check)?;
    Ok(Origin::Columns(leaves))
}

fn check(leaf: &Leaf) -> PyResult<()> {
    accepts(&leaf.data_type, leaf.content)
        .map_err(|why| ColumnError::new_err(format!("column \"{}\" is {why}", leaf.name)))
}

/// Lists the columns that are no structs.
fn leaves_of(fields: &Fields, prefix: &str, path: &[usize], leaves: &mut Vec<Leaf>) {
    for (index, field) in fields.iter().enumerate() {
        let name = format!("{prefix}{}", field.name());
        let path = [path, &[index]].concat();
        match field.data_type() {
            DataType::Struct(children) => leaves_of(children, &format!("{name}."), &path, leaves),
            of => leaves.push(Leaf { name, path, data_type: of.clone(), content: Content::Address }),
        }
    }
}

/// Returns the column of a name: as it is written, otherwise with `.`, `-` and `_` taken as one.
fn leaf_of<'a>(leaves: &'a [Leaf], name: &str) -> PyResult<Option<&'a Leaf>> {
    let exact: Vec<&Leaf> = leaves.iter().filter(|leaf| leaf.name == name).collect();
    let plain = |name: &str| name.replace(['.', '-'], "_");
    let found = if exact.is_empty() {
        let name = plain(name);
        leaves.iter().filter(|leaf| plain(&leaf.name) == name).collect()
    } else {
        exact
    };
    match found[..] {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        [one, other, ..] => {
            let error = format!("two columns may be meant by {name}: \"{}\" and \"{}\"", one.name, other.name);
            Err(ColumnError::new_err(error))
        }
    }
}

fn found_leaves(leaves: &[Leaf], names: &[&str]) -> PyResult<Vec<Leaf>> {
    let mut found: Vec<Leaf> = Vec::new();
    for name in names {
        if let Some(leaf) = leaf_of(leaves, name)?
            && found.iter().all(|known| known.path != leaf.path)
        {
            found.push(leaf.clone());
        }
    }
    Ok(found)
}

fn named_leaves(leaves: &[Leaf], names: &[String]) -> PyResult<Vec<Leaf>> {
    let one = |name: &String| {
        leaf_of(leaves, name)?.cloned().ok_or_else(|| {
            let known = leaves.iter().map(|leaf| leaf.name.as_str()).collect::<Vec<_>>().join(", ");
            ColumnError::new_err(format!("there is no column {name}; the columns are {known}"))
        })
    };
    names.iter().map(one).collect()
}

fn decoded(column: &Column<'_>, content: Content) -> Cells {
    let mut cells = Cells::default();
    cells.decode(column, 0..1, content);
    cells
}

/// Returns a value of Python's as a field has it: a number, or text or bytes as in a column.
pub(crate) fn constant(value: &Bound<'_, PyAny>, field: &Field, content: Content) -> PyResult<Cells> {
    let name = field.name();
    let shown = || value.repr().map_or_else(|_| String::new(), |text| text.to_string());
    let bad = || ColumnError::new_err(format!("{} is no {name}{}", shown(), range_of(content)));
    let cells = if value.is_instance_of::<PyInt>() {
        let number: u64 = value.extract().map_err(|_| bad())?;
        decoded(&Column::new(1, [], Values::Integers(Integers::U64(&[number]))), content)
    } else if let Ok(bytes) = value.cast::<PyBytes>() {
        let bytes = bytes.as_bytes();
        decoded(&Column::new(1, [], Values::Binary(Bytes::Fixed(bytes, bytes.len()))), content)
    } else {
        // Addresses of Python's `ipaddress` are written as text.
        let text = value.str()?.to_string();
        decoded(&Column::new(1, [], Values::Text(Bytes::Fixed(text.as_bytes(), text.len()))), content)
    };
    match cells.get(0) {
        Ok(Some(_)) => Ok(cells),
        _ => Err(bad()),
    }
}

/// Returns the range of a field's numbers, for messages.
pub(crate) fn range_of(content: Content) -> String {
    match content {
        Content::Number { max, text: NumberText::Decimal | NumberText::Hexadecimal } => format!("; it is 0 to {max}"),
        _ => String::new(),
    }
}
