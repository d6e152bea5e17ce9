//! Reads header blocks.
use super::table::{Dynamic, STATIC};
use super::{Malformed, huffman};

/// Of the dynamic table: the default, which this side never changes.
const TABLE_BYTES: usize = 4096;
/// An integer of more bits is a mistake or an attack.
const MOST_INTEGER: usize = 1 << 28;
/// Buffers that have grown beyond this are not kept.
const KEPT_BYTES: usize = 4096;

/// One side of a connection's header compression.
pub struct Decoder {
    dynamic: Dynamic,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { dynamic: Dynamic::new(TABLE_BYTES), name: Vec::new(), value: Vec::new() }
    }
}

impl Decoder {
    /// Reads a whole block; `field` is given each name and value.
    pub fn decode(&mut self, block: &[u8], mut field: impl FnMut(&[u8], &[u8])) -> Result<(), Malformed> {
        let mut input = Input(block);
        let mut begun = false;
        while let Some(first) = input.0.first().copied() {
            if first & 0x80 != 0 {
                let index = input.integer(7)?;
                let (name, value) = lookup(&self.dynamic, index)?;
                field(name, value);
            } else if first & 0xe0 == 0x20 {
                let most = input.integer(5)?;
                // Only at the beginning of a block, and never above what this side allows.
                if begun || most > TABLE_BYTES {
                    return Err(Malformed);
                }
                self.dynamic.resize(most);
                continue;
            } else {
                self.literal(&mut input, first & 0x40 != 0, &mut field)?;
            }
            begun = true;
        }
        self.name.shrink_to(KEPT_BYTES);
        self.value.shrink_to(KEPT_BYTES);
        Ok(())
    }

    fn literal(
        &mut self,
        input: &mut Input<'_>,
        indexed: bool,
        field: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Malformed> {
        let index = input.integer(if indexed { 6 } else { 4 })?;
        let name = if index == 0 {
            input.text(&mut self.name)?
        } else if index <= STATIC.len() {
            STATIC[index - 1].0
        } else {
            // It may be evicted by the field that is named after it.
            self.name.clear();
            self.name.extend_from_slice(lookup(&self.dynamic, index)?.0);
            &self.name
        };
        let value = input.text(&mut self.value)?;
        field(name, value);
        if indexed {
            self.dynamic.insert(name, value);
        }
        Ok(())
    }

    #[cfg(test)]
    fn table_size(&self) -> usize {
        self.dynamic.size()
    }
}

fn lookup(dynamic: &Dynamic, index: usize) -> Result<(&[u8], &[u8]), Malformed> {
    let at = index.checked_sub(1).ok_or(Malformed)?;
    match STATIC.get(at) {
        Some(entry) => Ok(*entry),
        None => dynamic.get(at - STATIC.len()).ok_or(Malformed),
    }
}

/// What is left of a block.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// An integer whose first byte has so many bits for it (section 5.1).
    fn integer(&mut self, prefix: u32) -> Result<usize, Malformed> {
        let (first, mut rest) = self.0.split_first().ok_or(Malformed)?;
        let most = (1 << prefix) - 1;
        let mut value = usize::from(*first) & most;
        if value == most {
            let mut shift = 0;
            loop {
                let (byte, after) = rest.split_first().ok_or(Malformed)?;
                rest = after;
                value += usize::from(byte & 0x7f) << shift;
                shift += 7;
                // Zeros without an end are as wrong as too large a number.
                if value > MOST_INTEGER || shift > 35 {
                    return Err(Malformed);
                }
                if byte & 0x80 == 0 {
                    break;
                }
            }
        }
        self.0 = rest;
        Ok(value)
    }

    /// A text (section 5.2), decoded into `buffer` only if it is coded.
    fn text<'b>(&mut self, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], Malformed>
    where
        'a: 'b,
    {
        let coded = self.0.first().ok_or(Malformed)? & 0x80 != 0;
        let length = self.integer(7)?;
        let (text, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        if !coded {
            return Ok(text);
        }
        buffer.clear();
        huffman::decode(text, buffer)?;
        Ok(buffer)
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
