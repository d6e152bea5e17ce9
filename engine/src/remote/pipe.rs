//! stdin and stdout as one stream: the connection of a helper to whoever started it.
use std::io::{self, Read, Write};

/// Reads from stdin, writes to stdout.
pub struct Pipe(io::Stdin, io::Stdout);

impl Pipe {
    /// Those of this process.
    pub fn of_process() -> Self {
        Self(io::stdin(), io::stdout())
    }
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.1.flush()
    }
}
