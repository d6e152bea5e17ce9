//! Feeds: tables from which every iteration takes a row. A million rows are one buffer and one list of offsets.
use super::csv_strict::Strict;
use super::cursor::{Node, Object};
use super::parse::Context;
use super::unique;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

/// Rows are numbered with 32 bits, and so are the bytes of a table.
const MAX: usize = u32::MAX as usize;
/// Columns of a table.
const MAX_COLUMNS: usize = 1024;

/// A table, and which row an iteration takes.
#[derive(Clone, Debug)]
pub struct Feed {
    /// Its name in templates.
    pub name: String,
    /// Which row.
    pub order: Order,
    /// The rows.
    pub table: Arc<Table>,
}

/// Which row an iteration takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Iteration k of the workload takes row k modulo their number.
    Sequential,
    /// One drawn evenly.
    Random,
    /// User k keeps row k.
    UniquePerUser,
}

/// Rows of cells.
#[derive(Debug)]
pub struct Table {
    columns: Vec<String>,
    cells: String,
    /// Where each cell ends, row by row.
    ends: Vec<u32>,
    /// Whether cells are JSON: numbers and truth values keep their type.
    pub is_json: bool,
}

impl Table {
    fn new(columns: Vec<String>, is_json: bool) -> Self {
        Self { columns, cells: String::new(), ends: Vec::new(), is_json }
    }

    /// Names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Place of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.ends.len() / self.columns.len()
    }

    /// A cell: its text, or its JSON.
    pub fn cell(&self, row: usize, column: usize) -> &str {
        let at = row * self.columns.len() + column;
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        &self.cells[start..self.ends[at] as usize]
    }

    /// Ends the cell that was written last.
    fn end_cell(&mut self) -> Result<(), String> {
        if self.cells.len() > MAX {
            return Err(format!("more than {MAX} bytes of cells; a feed has to fit into memory"));
        }
        self.ends.push(self.cells.len() as u32);
        Ok(())
    }

    fn finish(mut self) -> Result<Self, String> {
        if self.ends.is_empty() {
            return Err("no rows: a feed needs at least one".into());
        }
        self.cells.shrink_to_fit();
        self.ends.shrink_to_fit();
        Ok(self)
    }
}

pub fn feeds(o: &Object<'_>, context: &Context<'_>) -> Option<Vec<Feed>> {
    let read: Vec<_> = o.entries().iter().map(|(name, node)| feed(name, node, context)).collect();
    read.into_iter().collect()
}

fn feed(name: &str, node: &Node<'_>, context: &Context<'_>) -> Option<Feed> {
    let mut o = node.object()?;
    let file = o.required("file");
    let path = file.as_ref().and_then(Node::name).map(|name| context.files.path(&name));
    let by_ending = path.as_ref().and_then(|p| p.extension()).is_some_and(|e| e == "jsonl" || e == "ndjson");
    let is_json =
        o.optional("format").map_or(Some(by_ending), |n| n.choice(&[("csv", false), ("jsonl", true)]));
    let orders = [
        ("sequential", Order::Sequential),
        ("random", Order::Random),
        ("unique-per-user", Order::UniquePerUser),
    ];
    let order = o.optional("order").map_or(Some(Order::Sequential), |n| n.choice(&orders));
    let delimiter = o.optional("delimiter").map_or(Some(b','), |n| delimiter(&n));
    o.finish();
    let (file, path) = (file?, path?);
    let table = if is_json? { read_jsonl(&path) } else { read_csv(&path, delimiter?) };
    let table = table.map_err(|message| file.problem(message)).ok()?;
    Some(Feed { name: name.to_owned(), order: order?, table: Arc::new(table) })
}

fn delimiter(node: &Node<'_>) -> Option<u8> {
    match node.str()?.as_bytes() {
        [byte] if byte.is_ascii() && !b"\"\r\n".contains(byte) => Some(*byte),
        _ => {
            node.problem("one ASCII character is expected that is no quotation mark and no line end");
            None
        }
    }
}

fn open(path: &Path) -> Result<BufReader<File>, String> {
    let fail = |e| format!("cannot read {}: {e}", path.display());
    let file = File::open(path).map_err(fail)?;
    if !file.metadata().map_err(fail)?.is_file() {
        return Err(format!("cannot read {}: it is no regular file", path.display()));
    }
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let mut mark = [0; 3];
    let count = reader.read(&mut mark).map_err(fail)?;
    if mark[..count] != *b"\xef\xbb\xbf" {
        reader.rewind().map_err(fail)?;
    }
    Ok(reader)
}

/// The first row names the columns; every row has as many cells.
fn read_csv(path: &Path, delimiter: u8) -> Result<Table, String> {
    let shown = path.display();
    let at = |line: u64, column: usize, message: &str| format!("{shown}:{line}:{column}: {message}");
    let mut reader =
        csv::ReaderBuilder::new().delimiter(delimiter).from_reader(Strict::new(open(path)?, delimiter));
    let header = reader.headers().map_err(|e| csv_error(path, &e))?;
    let columns: Vec<_> = header.iter().map(|name| name.trim().to_owned()).collect();
    check_columns(&columns).map_err(|(column, message)| at(1, column, &message))?;
    let mut table = Table::new(columns, false);
    let mut record = csv::StringRecord::new();
    while reader.read_record(&mut record).map_err(|e| csv_error(path, &e))? {
        for cell in &record {
            table.cells.push_str(cell);
            table.end_cell().map_err(|e| at(reader.position().line(), 1, &e))?;
        }
    }
    table.finish().map_err(|message| format!("{shown}: {message}"))
}

/// The column of what is wrong is the number of its cell.
fn csv_error(path: &Path, error: &csv::Error) -> String {
    if let csv::ErrorKind::Io(error) = error.kind() {
        let shown = path.display();
        return match error.kind() {
            // Its place is in the message.
            std::io::ErrorKind::InvalidData => format!("{shown}:{error}"),
            _ => format!("cannot read {shown}: {error}"),
        };
    }
    let line = error.position().map_or(1, |at| at.line() + blank_lines(path, at.byte()));
    let (cell, message) = match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => (
            (*expected_len.min(len) + 1) as usize,
            format!("{len} cells in a table of {expected_len} columns"),
        ),
        csv::ErrorKind::Utf8 { err, .. } => (err.field() + 1, "this cell is not UTF-8".to_owned()),
        _ => (1, error.to_string()),
    };
    format!("{}:{line}:{cell}: {message}", path.display())
}

/// Empty lines from a place in a file on: the reader counts them, but names the first of them for the row behind them.
fn blank_lines(path: &Path, from: u64) -> u64 {
    let Ok(mut file) = File::open(path) else { return 0 };
    if file.seek(SeekFrom::Start(from)).is_err() {
        return 0;
    }
    let bytes = BufReader::new(file).bytes().map_while(Result::ok);
    bytes.take_while(|byte| matches!(byte, b'\r' | b'\n')).filter(|byte| *byte == b'\n').count() as u64
}

fn check_columns(columns: &[String]) -> Result<(), (usize, String)> {
    if columns.is_empty() {
        return Err((1, "an empty file: the first row has to name the columns".into()));
    }
    if columns.len() > MAX_COLUMNS {
        return Err((MAX_COLUMNS + 1, format!("{} columns; at most {MAX_COLUMNS} are read", columns.len())));
    }
    for (place, name) in columns.iter().enumerate() {
        if name.is_empty() {
            return Err((place + 1, "a column without a name".into()));
        }
        if let Some(first) = columns[..place].iter().position(|other| other == name) {
            return Err((
                place + 1,
                format!("a second column named \"{name}\"; the first is column {}", first + 1),
            ));
        }
    }
    Ok(())
}

/// Every line is an object, all with the same keys; empty lines are left out.
fn read_jsonl(path: &Path) -> Result<Table, String> {
    let mut reader = open(path)?;
    let (mut line, mut number) = (Vec::new(), 0_u64);
    let mut table: Option<Table> = None;
    loop {
        line.clear();
        number += 1;
        let bytes = (&mut reader).take(MAX as u64).read_until(b'\n', &mut line);
        if bytes.map_err(|e| format!("cannot read {}: {e}", path.display()))? == 0 {
            break;
        }
        if !line.trim_ascii().is_empty() {
            add_json_row(&mut table, &line)
                .map_err(|(column, message)| format!("{}:{number}:{column}: {message}", path.display()))?;
        }
    }
    let table =
        table.ok_or_else(|| format!("{}: an empty file: a feed needs at least one row", path.display()))?;
    table.finish().map_err(|message| format!("{}: {message}", path.display()))
}

fn add_json_row(table: &mut Option<Table>, line: &[u8]) -> Result<(), (usize, String)> {
    let row = unique::from_slice(line).map_err(|e| (e.column(), format!("no JSON object: {e}")))?;
    let Value::Object(row) = row else {
        return Err((1, "no JSON object; each line is one, such as {\"name\": \"a\"}".into()));
    };
    if table.is_none() {
        let columns: Vec<_> = row.keys().cloned().collect();
        if columns.is_empty() {
            return Err((1, "an object without keys".into()));
        }
        check_columns(&columns).map_err(|(_, message)| (1, message))?;
        *table = Some(Table::new(columns, true));
    }
    let Some(table) = table else { return Ok(()) };
    if let Some(name) = row.keys().find(|key| table.column(key).is_none()) {
        return Err((1, format!("the key \"{name}\", which the first row does not have")));
    }
    for place in 0..table.columns.len() {
        let Some(value) = row.get(&table.columns[place]) else {
            return Err((1, format!("the key \"{}\" is missing", table.columns[place])));
        };
        table.cells.push_str(&value.to_string());
        table.end_cell().map_err(|message| (1, message))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, bytes: impl AsRef<[u8]>) -> Result<Table, String> {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        let table = if name.ends_with("csv") { read_csv(&path, b',') } else { read_jsonl(&path) };
        table.map_err(|message| message.replace(&format!("{}", path.display()), "F"))
    }

    #[test]
    fn tables_are_read() {
        let table = read("a.csv", "\u{feff}name, age\r\nAda,36\r\n\"Grace, \"\"G\"\"\",\n").expect("a table");
        assert_eq!(
            (table.columns(), table.rows(), table.is_json),
            (&["name".into(), "age".into()][..], 2, false)
        );
        let cells: Vec<_> = (0..4).map(|i| table.cell(i / 2, i % 2)).collect();
        assert_eq!(cells, ["Ada", "36", "Grace, \"G\"", ""]);
        let table =
            read("a.jsonl", "{\"a\": 1, \"b\": \"x\"}\n\n{\"b\": [1, 2], \"a\": null}").expect("a table");
        let cells: Vec<_> = (0..4).map(|i| table.cell(i / 2, i % 2)).collect();
        assert_eq!((cells, table.is_json), (vec!["1", "\"x\"", "null", "[1,2]"], true));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let cases: [(&str, &[u8], &str); 26] = [
            ("a.csv", b"", "F:1:1: an empty file"),
            ("a.csv", b"a,b\n", "F: no rows"),
            ("a.csv", b"a,b\n1,2\n1\n", "F:3:2: 1 cells in a table of 2 columns"),
            ("a.csv", b"a,b\n1,2\n\n1,2,3\n", "F:4:3: 3 cells"),
            ("a.csv", b"a,b\n1,\xff\n", "F:2:2: this cell is not UTF-8"),
            ("a.csv", b"a,b,a\n1,2,3\n", "F:1:3: a second column named \"a\"; the first is column 1"),
            ("a.csv", b"a,,b\n1,2,3\n", "F:1:2: a column without a name"),
            ("a.csv", b"a,b\n1,\"2\n3,4\n", "F:2:2: a quotation mark that is never closed"),
            ("a.csv", b"\"a,b\n1,2\n", "F:1:1: a quotation mark that is never closed"),
            ("a.csv", b"a,b\n\"1\n\",\"2\"x\n3,4\n", "F:3:2: text behind the quotation mark"),
            ("a.csv", b"a,b\n\"1\" ,2\n", "F:2:1: text behind the quotation mark"),
            ("a.csv", b"a,b\r1,2\r3,4\r", "F:1:2: a carriage return without a line feed"),
            ("a.csv", b"a,b\r\n1,2\r", "F:2:2: a carriage return without a line feed"),
            ("a.csv", b"a,b\n1,2\n3\n\"4", "F:3:2: 1 cells"),
            ("a.jsonl", b"", "F: an empty file"),
            ("a.jsonl", b"{\"a\": 1}\n{\"a\": }\n", "F:2:7: no JSON object"),
            ("a.jsonl", b"{\"a\": 1}\n[1]\n", "F:2:1: no JSON object"),
            (
                "a.jsonl",
                b"{\"a\": 1}\n{\"b\": 1}\n",
                "F:2:1: the key \"b\", which the first row does not have",
            ),
            ("a.jsonl", b"{\"a\": 1, \"b\": 2}\n{\"a\": 1}\n", "F:2:1: the key \"b\" is missing"),
            ("a.jsonl", b"{}\n", "F:1:1: an object without keys"),
            (
                "a.jsonl",
                b"{\"a\": 1}\n{\"a\": 1, \"a\": 2}\n",
                "F:2:12: no JSON object: the key \"a\" is there twice",
            ),
            ("a.jsonl", b"{\"a\": {\"b\": 1, \"b\": 2}}\n", "the key \"b\" is there twice"),
            ("a.jsonl", b"{\"a\": 1}\r{\"a\": 2}\r", "F:1:10: no JSON object"),
            ("a.jsonl", b"{\"a\": NaN}\n", "F:1:"),
            ("a.jsonl", b"{\"a\": 1}\n\xff\n", "F:2:1: no JSON object"),
            ("a.jsonl", b"{\"a\": \"\xff\"}\n", "F:1:"),
        ];
        for (name, bytes, expected) in cases {
            let message = read(name, bytes).expect_err(expected);
            assert!(message.contains(expected), "{expected}: {message}");
        }
    }

    #[test]
    fn quotations_may_hold_anything() {
        let text = "a,b\r\n\"1,\r\n\"\"\",x\"y\n\n\"\",\"\r\"\n\"end\",\"\"";
        let table = read("a.csv", text).expect("a table");
        let cells: Vec<_> = (0..6).map(|i| table.cell(i / 2, i % 2)).collect();
        assert_eq!(cells, ["1,\r\n\"", "x\"y", "", "\r", "end", ""]);
        // Larger than what is read at once, so that it is cut anywhere.
        let rows = "\"a \"\"b\"\"\",\"c\r\nd\"\r\n".repeat(20_000);
        let table = read("a.csv", format!("a,b\n{rows}")).expect("a table");
        assert_eq!(
            (table.rows(), table.cell(19_999, 0), table.cell(19_999, 1)),
            (20_000, "a \"b\"", "c\r\nd")
        );
        let message = read("a.csv", format!("a,b\n{rows}1,2\n\"x\"y,3\n")).expect_err("wrong");
        assert!(message.starts_with("F:40003:1: text behind"), "{message}");
    }
}
