//! What CSV leaves to its readers to guess, found while the bytes go by: quotation marks and ends of lines.
use std::io::{self, Read};

/// Hands bytes on up to the first that has only one good reading in a lenient one.
pub struct Strict<R> {
    inner: R,
    delimiter: u8,
    state: State,
    /// Of the next byte; the cell is what is told as the column.
    line: u64,
    cell: usize,
    /// Where the quotation began that is open.
    opened: (u64, usize),
    wrong: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// At the begin of a cell.
    Begin,
    /// In a cell without quotation marks around it.
    Plain,
    Quoted,
    /// Behind a quotation mark in a quoted cell: its end, or the first of two.
    Closed,
    /// Behind a carriage return.
    Return,
}

impl<R: Read> Strict<R> {
    pub fn new(inner: R, delimiter: u8) -> Self {
        let (state, opened, wrong) = (State::Begin, (1, 1), None);
        Self { inner, delimiter, state, line: 1, cell: 1, opened, wrong }
    }

    /// Takes a byte in; what is wrong with it, and where.
    fn take(&mut self, byte: u8) -> Result<(), String> {
        self.state = match (self.state, byte) {
            (State::Return, b'\n') => self.end_line(),
            (State::Return, _) => return Err(self.lone_return()),
            (State::Quoted, b'"') => State::Closed,
            (State::Quoted, b'\n') => {
                self.line += 1;
                State::Quoted
            }
            (State::Quoted, _) | (State::Closed, b'"') => State::Quoted,
            (State::Begin, b'"') => {
                self.opened = (self.line, self.cell);
                State::Quoted
            }
            (_, b'\n') => self.end_line(),
            (_, b'\r') => State::Return,
            (_, byte) if byte == self.delimiter => {
                self.cell += 1;
                State::Begin
            }
            (State::Closed, _) => {
                let what =
                    "text behind the quotation mark that ends a cell; one inside of it is written twice";
                return Err(at(self.line, self.cell, what));
            }
            (State::Begin | State::Plain, _) => State::Plain,
        };
        Ok(())
    }

    fn end_line(&mut self) -> State {
        self.line += 1;
        self.cell = 1;
        State::Begin
    }

    fn lone_return(&self) -> String {
        at(self.line, self.cell, "a carriage return without a line feed; lines end with LF or with CR LF")
    }

    /// What is wrong with an end of the file here.
    fn end(&self) -> Result<(), String> {
        match self.state {
            State::Quoted => Err(at(self.opened.0, self.opened.1, "a quotation mark that is never closed")),
            State::Return => Err(self.lone_return()),
            _ => Ok(()),
        }
    }
}

fn at(line: u64, cell: usize, what: &str) -> String {
    format!("{line}:{cell}: {what}")
}

impl<R: Read> Read for Strict<R> {
    /// What is wrong is an error of the read after the one that gives all that is before it: rows are judged in their order.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(wrong) = &self.wrong {
            return Err(io::Error::new(io::ErrorKind::InvalidData, wrong.clone()));
        }
        let count = self.inner.read(buffer)?;
        if count == 0 && !buffer.is_empty() {
            return self.end().map(|()| 0).map_err(|wrong| io::Error::new(io::ErrorKind::InvalidData, wrong));
        }
        for (good, byte) in buffer[..count].iter().enumerate() {
            if let Err(wrong) = self.take(*byte) {
                self.wrong = Some(wrong);
                // Nothing at all would be the end of the file.
                return if good > 0 { Ok(good) } else { self.read(buffer) };
            }
        }
        Ok(count)
    }
}
