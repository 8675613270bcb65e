//! Flow logs whose rows are lines of columns: AWS, Zeek (with `#fields`) and nfdump (CSV).

use super::super::cells::Cells;
use super::super::lines::Fault;
use super::columns::{AWS_VERSION_2, Header, Named, is_header};
use super::row::RowValues;
use super::{FlowFormat, RowKind, values};

/// Reader of the rows of one file.
pub(super) struct Delimited {
    format: FlowFormat,
    named: Named,
    cells: Cells,
    /// Places of the columns; `None` until they are known.
    header: Option<Header>,
    /// Whether the rows have ended, so that lines up to the next header are passed over.
    is_over: bool,
}

impl Delimited {
    pub(super) fn new(format: FlowFormat, named: Named) -> Self {
        Self { format, named, cells: Cells::new(b' '), header: None, is_over: false }
    }

    /// Whether the columns are known, so that a fault is one of a row.
    pub(super) fn has_columns(&self) -> bool {
        self.header.is_some()
    }

    /// Reads a line into `row`.
    #[inline]
    pub(super) fn read(&mut self, line: &[u8], row: &mut RowValues) -> Result<RowKind, Fault> {
        if line.first() == Some(&b'#') {
            return self.comment(line);
        }
        if self.header.is_none() && self.begin(line)? || self.is_over && !self.begins_again(line)? {
            return Ok(RowKind::None);
        }
        self.cells.read(line)?;
        self.values(line, row).or_else(|fault| self.no_row(line, fault))
    }

    /// Reads the values of the cells.
    #[inline]
    fn values(&self, line: &[u8], row: &mut RowValues) -> Result<RowKind, Fault> {
        let Some(Header { wanted, count }) = &self.header else { return Ok(RowKind::None) };
        if self.cells.len() != *count {
            return Err(self.wrong_count(line, *count));
        }
        values::read(self.format, wanted, |index| self.cells.get(index), row)
    }

    #[cold]
    fn wrong_count(&self, line: &[u8], count: usize) -> Fault {
        let (start, end) = (self.cells.end_of(line, count), line.trim_ascii_end().len());
        let message = format!("this line has {} columns", self.cells.len());
        let expected =
            format!("{count}, as the first line {}", if self.named.order.is_empty() { "has" } else { "of --columns" });
        Fault::new(start, end.saturating_sub(start), message, Some(&expected))
    }

    /// Finds out whether a line that is no row is one that belongs between rows: a header again, or an end of rows.
    #[cold]
    fn no_row(&mut self, line: &[u8], fault: Fault) -> Result<RowKind, Fault> {
        if is_header(&self.cells, self.format, &self.named) {
            self.header = Some(Header::of_line(line, &self.cells, self.format, &self.named)?);
            return Ok(RowKind::None);
        }
        let text = line.trim_ascii();
        if self.format == FlowFormat::Nfdump && matches!(text, b"Summary" | b"No matched flows" | b"No matching flows")
        {
            self.is_over = true;
            return Ok(RowKind::None);
        }
        Err(fault)
    }

    /// Takes a line behind the end of rows; returns whether rows begin again after it.
    #[cold]
    fn begins_again(&mut self, line: &[u8]) -> Result<bool, Fault> {
        if self.cells.read(line).is_ok() && is_header(&self.cells, self.format, &self.named) {
            self.header = Some(Header::of_line(line, &self.cells, self.format, &self.named)?);
            self.is_over = false;
        }
        Ok(false)
    }

    /// Finds the columns by the first line; returns whether that line is no row.
    #[cold]
    fn begin(&mut self, line: &[u8]) -> Result<bool, Fault> {
        self.cells = Cells::new(separator(line));
        self.cells.read(line)?;
        let is_named = is_header(&self.cells, self.format, &self.named);
        let given: Vec<&str> = self.named.order.iter().map(|name| &**name).collect();
        let known = match (&*given, self.format) {
            ([], _) if is_named || self.cells.iter().all(|cell| super::columns::is_name(&cell)) => {
                self.header = Some(Header::of_line(line, &self.cells, self.format, &self.named)?);
                return Ok(true);
            }
            ([], FlowFormat::Aws) if self.cells.len() == AWS_VERSION_2.len() => &AWS_VERSION_2[..],
            ([], _) => {
                let message = "this line does not name the columns".to_owned();
                return Err(Fault::new(0, line.trim_ascii_end().len(), message, Some(unnamed(self.format))));
            }
            (given, _) => given,
        };
        let header = Header::new(known, self.format, &self.named);
        self.header = Some(header.map_err(|(message, expected)| Fault::new(0, 0, message, Some(&expected)))?);
        Ok(is_named)
    }

    /// Takes a line that starts with `#`, which is one of the header in Zeek.
    #[cold]
    fn comment(&mut self, line: &[u8]) -> Result<RowKind, Fault> {
        if self.format != FlowFormat::Zeek {
            return Ok(RowKind::None);
        }
        let line = line.trim_ascii_end();
        if let Some(path) = line.strip_prefix(b"#path\t")
            && !path.starts_with(b"conn")
        {
            let message = format!("this is the log {} of Zeek", String::from_utf8_lossy(path));
            self.header = None;
            return Err(Fault::new(6, path.len(), message, Some("the log conn")));
        }
        if let Some(names) = line.strip_prefix(b"#fields\t") {
            self.cells = Cells::new(b'\t');
            self.header = None;
            self.cells.read(names)?;
            self.header = Some(Header::of_line(line, &self.cells, self.format, &self.named)?);
        }
        Ok(RowKind::None)
    }
}

/// Returns the description of the line that names the columns of a format.
fn unnamed(format: FlowFormat) -> &'static str {
    match format {
        FlowFormat::Aws => "the names of the columns, 14 columns of version 2, or --columns with all of them",
        FlowFormat::Zeek => "a line #fields that names the columns, or --columns with all of them",
        _ => "the names of the columns, as nfdump -o csv writes them, or --columns with all of them",
    }
}

/// Returns the byte between the columns: a tab, a comma, a semicolon or a blank.
fn separator(line: &[u8]) -> u8 {
    let line = line.trim_ascii();
    [b'\t', b',', b';'].into_iter().find(|byte| line.contains(byte)).unwrap_or(b' ')
}
