//! The class `Firewall`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};

use firstmatch::core::schema::{Field, Schema};
use firstmatch::formats::{self, Fields, Options, RuleFile};
use firstmatch::net::source;
use firstmatch::{Builder, Rebuilds};
use pyo3::exceptions::{PyOSError, PyUserWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::capsule;
use crate::capture;
use crate::classify::Form;
use crate::error::{Fault, faulty, guarded, refused};
use crate::explain;
use crate::questions;
use crate::request::{Origin, Request};
use crate::stream::ClassifiedStream;
use crate::table::{Stream, Table};
use crate::tally::{self, Tally};
use crate::update::Update;
use crate::work::{Work, tested};

const TALLY: [&str; 7] = ["columns", "constants", "absent", "preset", "errors", "swap", "threads"];
const CLASSIFY: [&str; 9] =
    ["columns", "constants", "absent", "preset", "errors", "strings", "labels", "swap", "threads"];

/// Rules, and the engine that finds the first one that matches.
///
/// It may be used by several threads, is made by `from_text` or `from_file`, and can be pickled until its rules are
/// changed.
#[pyclass(frozen, module = "firstmatch")]
pub(crate) struct Firewall {
    pub(crate) inner: firstmatch::Firewall,
    text: String,
    /// Texts of the files that the rules include, by name.
    included: BTreeMap<String, String>,
    engine: Option<String>,
    memory_limit: Option<usize>,
    /// Number of changes since the engine was built.
    pub(crate) changes: AtomicUsize,
}

/// Reads rules of any format; `included` has the texts of included files, or `folder` where they lie.
pub(crate) fn read(
    name: &str,
    text: &str,
    fields: Fields,
    folder: Option<&std::path::Path>,
    included: &Mutex<BTreeMap<String, String>>,
) -> PyResult<RuleFile> {
    let options = Options { fields, ..Options::default() };
    if formats::json::is_json(text) {
        let read = formats::json::read(text, &options);
        return read.map(|read| read.file).map_err(|error| faulty(name, &error.faults, error.more));
    }
    let load = |file: &str| {
        let mut known = included.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = known.get(file) {
            return Ok(text.clone());
        }
        let folder = folder.ok_or("rules in a string include no file; from_file() reads them")?;
        let text = source::read_text(&folder.join(file)).map_err(|error| error.to_string())?;
        known.insert(file.to_owned(), text.clone());
        Ok(text)
    };
    formats::parse_with(text, &options, &load).map_err(|error| faulty(name, error.faults(), error.more()))
}

impl Firewall {
    fn build(
        py: Python<'_>,
        name: &str,
        text: String,
        folder: Option<&std::path::Path>,
        included: BTreeMap<String, String>,
        engine: Option<String>,
        memory_limit: Option<usize>,
    ) -> PyResult<Self> {
        let included = Mutex::new(included);
        let inner = py.detach(|| {
            guarded(|| {
                let file = read(name, &text, Fields::Used, folder, &included)?;
                let is_ours = |field: &Field| field.source().is_none();
                let has_own = file.rules.schemas().iter().flat_map(Schema::fields).any(is_ours);
                // Without a thread of its own a firewall survives `fork`.
                let mut builder: Builder =
                    firstmatch::Firewall::builder().rebuilds(Rebuilds::Caller).values_only(has_own);
                if let Some(engine) = &engine {
                    builder = builder.engine(engine).map_err(|error| refused(&error))?;
                }
                if let Some(bytes) = memory_limit {
                    builder = builder.memory_limit(bytes);
                }
                builder.build_file(file).map_err(|error| refused(&error))
            })
        })?;
        let included = included.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(Self { inner, text, included, engine, memory_limit, changes: AtomicUsize::new(0) })
    }

    /// Returns the rules with all fields as they were read; `None` if they were changed since.
    pub(crate) fn reread(&self) -> PyResult<Option<RuleFile>> {
        if self.inner.generation() > 0 {
            return Ok(None);
        }
        read("", &self.text, Fields::All, None, &Mutex::new(self.included.clone())).map(Some)
    }

    fn work(&self, table: &Bound<'_, PyAny>, request: &Request) -> PyResult<(Work, capsule::Reader)> {
        let reader = capsule::reader(table)?;
        Ok((Work::new(table.py(), &self.inner, request, &reader)?, reader))
    }
}

/// Tells of bad rows in one warning.
fn warn(py: Python<'_>, work: &Work) -> PyResult<()> {
    let Some(first) = &work.first_bad else { return Ok(()) };
    let rows = if work.bad == 1 { "1 row has".to_owned() } else { format!("{} rows have", work.bad) };
    let message = std::ffi::CString::new(format!("{rows} no verdict: {}", first.text()).replace('\0', " "))?;
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &message, 1)
}

// The documentation of methods is Python's: examples in it are run by `./ci.sh python`.
#[pymethods]
impl Firewall {
    /// Returns a firewall of rules in text: firstmatch's own format, a ClassBench filter set, or JSON.
    ///
    /// `engine` names the engine that finds rules; by default the one that suits the rules is measured. `memory_limit`
    /// bounds its bytes.
    ///
    /// >>> import firstmatch
    /// >>> firstmatch.Firewall.from_text("deny tcp dport 23\npermit src 10.0.0.0/8\n")
    /// <Firewall of 2 rules>
    ///
    /// All faults of a text are in one `RuleError`:
    ///
    /// >>> firstmatch.Firewall.from_text("permit tpc\ndeny dport 99999\n")
    /// Traceback (most recent call last):
    /// firstmatch.RuleError: 1:8: unknown field or protocol `tpc`; did you mean `tcp`?
    /// 2:12: 99999 is too large for dport; expected a number up to 65535
    #[staticmethod]
    #[pyo3(signature = (text, *, engine=None, memory_limit=None))]
    fn from_text(py: Python<'_>, text: String, engine: Option<String>, memory_limit: Option<usize>) -> PyResult<Self> {
        Self::build(py, "", text, None, BTreeMap::new(), engine, memory_limit)
    }

    /// Returns a firewall of a rule file, plain or compressed by gzip or zstd, with the files that it includes.
    ///
    /// The formats and options are those of `from_text`. Raises `RuleError` for faults, and `OSError` if the file cannot
    /// be read.
    #[staticmethod]
    #[pyo3(signature = (path, *, engine=None, memory_limit=None))]
    fn from_file(py: Python<'_>, path: PathBuf, engine: Option<String>, memory_limit: Option<usize>) -> PyResult<Self> {
        let name = path.display().to_string();
        let text = py.detach(|| source::read_text(&path));
        let text = text.map_err(|error| match error.diagnostic() {
            Some(fault) => faulty(&name, std::slice::from_ref(fault), 0),
            None => PyOSError::new_err(error.to_string()),
        })?;
        let folder = path.parent().unwrap_or(std::path::Path::new(""));
        Self::build(py, &name, text, Some(folder), BTreeMap::new(), engine, memory_limit)
    }

    #[staticmethod]
    fn _restore(
        py: Python<'_>,
        text: String,
        included: BTreeMap<String, String>,
        engine: Option<String>,
        memory_limit: Option<usize>,
    ) -> PyResult<Self> {
        Self::build(py, "", text, None, included, engine, memory_limit)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let this = slf.get();
        if this.inner.generation() > 0 {
            return Err(PyValueError::new_err("a firewall whose rules were changed cannot be pickled"));
        }
        let restore = slf.getattr("_restore")?;
        let state = (&this.text, this.included.clone(), &this.engine, this.memory_limit);
        PyTuple::new(slf.py(), [restore, state.into_pyobject(slf.py())?.into_any()])
    }

    /// Returns verdict, rule, line and outcome of each row of a table, in its order.
    ///
    /// `table` is a pyarrow Table, RecordBatch or RecordBatchReader, a Polars or pandas DataFrame, a DuckDB relation, or
    /// anything else that offers a stream of Arrow. A reader is consumed. Columns of common logs are known by name;
    /// `columns_for` shows which are taken.
    ///
    /// >>> import firstmatch, pyarrow as pa
    /// >>> firewall = firstmatch.Firewall.from_text("deny tcp dport 23\npermit src 10.0.0.0/8\n")
    /// >>> flows = pa.table({
    /// ...     "srcaddr": ["10.0.0.1", "10.0.0.1", "192.0.2.7", None], "dstaddr": ["192.0.2.7"] * 4,
    /// ...     "srcport": [50000] * 4, "dstport": [23, 443, 443, 443], "protocol": [6] * 4,
    /// ... })
    /// >>> firewall.classify(flows)
    /// verdict  rule  line  outcome
    /// deny     1     1     complete
    /// permit   2     2     complete
    /// deny     null  null  complete
    /// null     null  null  lacks-field
    /// (4 rows)
    ///
    /// The verdict is that of the rule, or of the policy where no rule matches. A row in which an address or the protocol
    /// is null has none: null in, null out. A null in another field means that the packet lacks it. Fields that packets
    /// of a row's protocol lack are absent whatever their columns have; for example, ports exist in TCP, UDP, UDP-Lite,
    /// SCTP and DCCP alone.
    ///
    /// The result is joined to the table by its library: `flows.append_column("verdict", …)` of pyarrow, `hstack` of
    /// Polars, `firstmatch.pandas.classify` for pandas, a positional join in DuckDB.
    ///
    /// - `columns`: names of columns by field, for example `{"src": "client"}`; of several, the first that is not null.
    /// - `constants`: values by field that all rows have, for example `{"tcp_flags": 2}`.
    /// - `absent`: fields that no row has.
    /// - `preset`: the log that the table is, one of `firstmatch.presets()`; by default the one of most columns.
    /// - `errors`: `"raise"` raises `RowError` for the first value that its field cannot have; `"null"` gives such rows
    ///   no verdict, an outcome that says why (`bad-address`, `bad-number`, `mixed-families`), and one warning.
    /// - `strings`: `"dictionary"` or `"plain"` text in the result.
    /// - `labels`: adds the labels of rules.
    /// - `swap`: classifies the answers, from destination to source.
    /// - `threads`: by default one for each core for tables of 10⁶ rows or more, otherwise one.
    ///
    /// An update that is committed beside a call is seen from some block of 2,048 rows on.
    #[pyo3(signature = (table, **options), text_signature = "(self, table, *, columns=None, constants=None, absent=(), preset=None, errors='raise', strings='dictionary', labels=False, swap=False, threads=None)")]
    fn classify(&self, table: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Table> {
        let py = table.py();
        let request = Request::new("classify", options, &CLASSIFY)?;
        let (mut work, mut reader) = self.work(table, &request)?;
        let form = Form::new(&self.inner, &request);
        let batches = py.detach(|| {
            guarded(|| {
                let mut all = Vec::new();
                loop {
                    let batches = work.pull(&mut reader)?;
                    if batches.is_empty() {
                        return Ok(all);
                    }
                    all.extend(form.decide(&self.inner, &mut work, &batches).map_err(|fault| fault.error())?);
                }
            })
        })?;
        warn(py, &work)?;
        Ok(Table::new(Arc::clone(form.schema()), form.batches(batches)))
    }

    /// Returns flows, packets and bytes by rule.
    ///
    /// Options are those of `classify`. A row of the result is a rule, in their order, also one without a flow. Then come
    /// the policy's default, where no rule matched, and one row for each outcome of flows that were not classified. Packets
    /// and bytes are null if the table has no such columns. Sums beyond 2^63 - 1 stay there.
    ///
    /// >>> import firstmatch, pyarrow as pa
    /// >>> firewall = firstmatch.Firewall.from_text('deny tcp dport 23 label "no telnet"\npermit src 10.0.0.0/8\n')
    /// >>> flows = pa.table({
    /// ...     "srcaddr": ["10.0.0.1", "10.0.0.1", "192.0.2.7"], "dstaddr": ["192.0.2.7"] * 3, "srcport": [50000] * 3,
    /// ...     "dstport": [23, 443, 443], "protocol": [6] * 3, "packets": [1, 12, 3], "bytes": [60, 9000, 180],
    /// ... })
    /// >>> firewall.tally(flows)
    /// line  rule  verdict  label      outcome  flows  packets  bytes
    /// 1     1     deny     no telnet  null     1      1        60
    /// 2     2     permit   null       null     1      12       9000
    /// null  null  deny     null       null     1      3        180
    /// (3 rows)
    ///
    /// Memory does not grow with the table if it is a reader or a relation: it holds some batches at a time.
    #[pyo3(signature = (table, **options), text_signature = "(self, table, *, columns=None, constants=None, absent=(), preset=None, errors='raise', swap=False, threads=None)")]
    fn tally(&self, table: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Table> {
        let py = table.py();
        let request = Request::new("tally", options, &TALLY)?;
        let (mut work, mut reader) = self.work(table, &request)?;
        let tallies = py.detach(|| {
            guarded(|| {
                let mut tallies: Vec<Tally> = (0..work.threads()).map(|_| Tally::default()).collect();
                loop {
                    let batches = work.pull(&mut reader)?;
                    if batches.is_empty() {
                        return Ok(tallies);
                    }
                    work.run(&batches, &mut tallies).map_err(|fault| fault.error())?;
                }
            })
        })?;
        warn(py, &work)?;
        Ok(Table::of(tally::table(&self.inner, &tallies, work.has_weights())))
    }

    /// Returns what `classify` does as a stream: rows are decided as they are read, and memory holds some batches.
    ///
    /// >>> import firstmatch, pyarrow as pa
    /// >>> firewall = firstmatch.Firewall.from_text("deny tcp dport 23\npermit\n")
    /// >>> flows = pa.table({"src": ["10.0.0.1"], "dst": ["192.0.2.7"], "sport": [50000], "dport": [23], "proto": [6]})
    /// >>> stream = firewall.classify_stream(flows.to_reader())
    /// >>> [batch.num_rows for batch in pa.RecordBatchReader.from_stream(stream)]
    /// [1]
    #[pyo3(signature = (reader, **options), text_signature = "(self, reader, *, columns=None, constants=None, absent=(), preset=None, errors='raise', strings='dictionary', labels=False, swap=False, threads=None)")]
    fn classify_stream(&self, reader: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Stream> {
        let request = Request::new("classify_stream", options, &CLASSIFY)?;
        let (work, reader) = self.work(reader, &request)?;
        let form = Form::new(&self.inner, &request);
        Ok(Stream::new(Box::new(ClassifiedStream::new(self.inner.clone(), work, form, reader))))
    }

    /// Returns the columns of a table that `classify` and `tally` would take, by field. No row is read.
    ///
    /// >>> import firstmatch, pyarrow as pa
    /// >>> firewall = firstmatch.Firewall.from_text("deny tcp dport 23\npermit\n")
    /// >>> zeek = pa.schema([("id.orig_h", "string"), ("id.orig_p", "int32"), ("id.resp_h", "string"),
    /// ...     ("id.resp_p", "int32"), ("proto", "string"), ("orig_pkts", "int64")])
    /// >>> firewall.columns_for(zeek)["dport"]
    /// ['id.resp_p']
    #[pyo3(signature = (table, **options), text_signature = "(self, table, *, columns=None, constants=None, absent=(), preset=None, swap=False)")]
    fn columns_for<'py>(
        &self,
        table: &Bound<'py, PyAny>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<BTreeMap<String, Vec<String>>> {
        let request = Request::new("columns_for", options, &["columns", "constants", "absent", "preset", "swap"])?;
        let schema = capsule::schema(table)?;
        let decoder = firstmatch_columns::Decoder::new(&self.inner.schemas(), None, true);
        let mapping = request.map(table.py(), &schema, decoder.fields(), &tested(&self.inner, &decoder))?;
        let names = |leaves: &[crate::request::Leaf]| leaves.iter().map(|leaf| leaf.name.clone()).collect::<Vec<_>>();
        let fields = decoder.fields().iter().zip(&mapping.fields).filter_map(|(field, origin)| match origin {
            Origin::Columns(leaves) => Some((field.name().to_owned(), names(leaves))),
            _ => None,
        });
        let mut all: BTreeMap<String, Vec<String>> = fields.collect();
        for (name, leaves) in ["packets", "bytes"].into_iter().zip(&mapping.weights) {
            if !leaves.is_empty() {
                all.insert(name.to_owned(), names(leaves));
            }
        }
        if let Some((frame, _)) = &mapping.frame {
            all.insert("frame".to_owned(), vec![frame.name.clone()]);
        }
        Ok(all)
    }

    /// Returns the packets of a capture (pcap or pcapng) with the decisions on them, as a stream.
    ///
    /// The frames decide, as in the program: later fragments, packets cut short and frames that are not IP are unknown,
    /// and get the policy's verdict for unknown packets. `ts` is the time in nanoseconds; `headers=False` leaves out the
    /// columns of header fields.
    #[pyo3(signature = (path, *, headers=true))]
    fn classify_capture(&self, py: Python<'_>, path: PathBuf, headers: bool) -> PyResult<Stream> {
        let reader = py.detach(|| capture::classified(self.inner.clone(), &path, headers))?;
        Ok(Stream::new(reader))
    }

    /// Returns the verdict on one packet in words, and the rule that gives it.
    ///
    /// Fields are numbers or text, as in rules.
    ///
    /// >>> import firstmatch
    /// >>> firewall = firstmatch.Firewall.from_text("deny tcp dport 23\npermit src 10.0.0.0/8\n")
    /// >>> print(firewall.explain(src="10.0.0.1", dst="192.0.2.7", proto="tcp", sport=50000, dport=443))
    /// permit: rule 2 of line 2, `permit src 10.0.0.0/8`
    /// the packet has src 10.0.0.1, dst 192.0.2.7, sport 50000, dport 443, proto 6 (tcp)
    #[pyo3(signature = (**fields), text_signature = "(self, *, src, dst, proto, sport=None, dport=None, **fields)")]
    fn explain(&self, py: Python<'_>, fields: Option<&Bound<'_, PyDict>>) -> PyResult<String> {
        explain::packet(py, &self.inner, fields)
    }

    /// Returns the rules, the first to match first: line, number, verdict, label and text.
    ///
    /// >>> import firstmatch
    /// >>> firstmatch.Firewall.from_text("deny tcp dport 23\npermit src 10.0.0.0/8\n").rules()
    /// line  rule  verdict  label  text
    /// 1     1     deny     null   deny tcp dport 23
    /// 2     2     permit   null   permit src 10.0.0.0/8
    /// (2 rows)
    fn rules(&self) -> Table {
        Table::of(questions::rules(&self.inner))
    }

    /// Returns the rules that never decide, and those without which no verdict changes, with the lines that are the
    /// reason and a packet as an example.
    ///
    /// >>> import firstmatch
    /// >>> found = firstmatch.Firewall.from_text("permit tcp\npermit udp\ndeny tcp dport 23\n").check().to_pydict()
    /// >>> found["kind"], found["line"], found["by"]
    /// (['shadowed'], [3], ['1'])
    fn check(&self, py: Python<'_>) -> PyResult<Table> {
        py.detach(|| guarded(|| questions::check(&self.inner))).map(Table::of)
    }

    /// Returns the differences of two policies, with a packet as an example of each. None are proved for every packet: an
    /// empty table says that both always give the same verdict.
    ///
    /// >>> import firstmatch
    /// >>> before = firstmatch.Firewall.from_text("permit tcp src 10.0.0.0/8\n")
    /// >>> after = firstmatch.Firewall.from_text("permit tcp src 10.0.0.0/9\n")
    /// >>> found = before.diff(after).to_pydict()
    /// >>> found["kind"], found["verdict_before"], found["verdict_after"]
    /// (['rules'], ['permit'], ['deny'])
    /// >>> len(before.diff(before))
    /// 0
    ///
    /// Rows of the kind `rules` are two rules, or the default of a policy; `one-sided` are packets that one policy alone
    /// classifies; `unknown` are packets that neither does; `undecided` says that a limit ended a question.
    fn diff(&self, py: Python<'_>, after: &Bound<'_, Self>) -> PyResult<Table> {
        let after = after.get();
        py.detach(|| guarded(|| questions::diff(self, after))).map(Table::of)
    }

    /// Returns the members of a live set: those of IPv4, then those of IPv6, each in order.
    ///
    /// >>> import firstmatch
    /// >>> firstmatch.Firewall.from_text("live set bad = { 192.0.2.7, 192.0.2.1 }\ndeny src $bad\n").members("bad")
    /// ['192.0.2.1', '192.0.2.7']
    fn members(&self, py: Python<'_>, set: &str) -> PyResult<Vec<String>> {
        py.detach(|| {
            let id = self.inner.update().set(set).map_err(|error| refused(&error));
            let found = self.inner.set(set).map(|set| set.members()).unwrap_or_default();
            id.map(|_| found.iter().map(ToString::to_string).collect())
        })
    }

    /// Begins changes of the rules, which are made together at the end of a `with` block, or not at all.
    ///
    /// >>> import firstmatch
    /// >>> firewall = firstmatch.Firewall.from_text("permit src 10.0.0.0/8\n")
    /// >>> with firewall.update() as update:
    /// ...     update.prepend("deny tcp dport 23")
    /// >>> len(firewall), len(update.inserted)
    /// (2, 1)
    ///
    /// New rules test fields that the rules tested when they were read.
    fn update(slf: &Bound<'_, Self>) -> Update {
        Update::new(slf.clone().unbind())
    }

    /// Names of the fields that a table fills.
    #[getter]
    fn fields(&self) -> Vec<String> {
        let decoder = firstmatch_columns::Decoder::new(&self.inner.schemas(), None, true);
        decoder.fields().iter().map(|field| field.name().to_owned()).collect()
    }

    /// Warnings about the rules: valid rules that look like mistakes.
    #[getter]
    fn warnings(&self) -> Vec<Fault> {
        self.inner.warnings().iter().map(Fault::from).collect()
    }

    /// Text of the rules as it was read.
    #[getter]
    fn text(&self) -> &str {
        &self.text
    }

    fn __len__(&self) -> usize {
        self.inner.len()
    }

    fn __repr__(&self) -> String {
        let rules = self.inner.len();
        let changed = if self.inner.generation() > 0 { ", changed" } else { "" };
        format!("<Firewall of {rules} rule{}{changed}>", if rules == 1 { "" } else { "s" })
    }
}
