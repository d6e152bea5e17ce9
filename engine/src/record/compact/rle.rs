//! Parquet's hybrid of run lengths and bit packing, for small numbers: levels, booleans, dictionary indices.

/// A run has to be this long to be worth one: bit-packed values come in groups of eight.
const GROUP: usize = 8;

/// The fewest bits that hold every code below `codes`; at least one, which every reader takes.
pub fn bit_width(codes: usize) -> u8 {
    (usize::BITS - codes.saturating_sub(1).leading_zeros()).max(1) as u8
}

/// Encodes all values with `width` bits each.
pub fn encode(values: impl IntoIterator<Item = u16>, width: u8) -> Vec<u8> {
    let mut encoder = Encoder { out: Vec::new(), width, literals: Vec::new() };
    let mut values = values.into_iter();
    let Some(mut value) = values.next() else { return encoder.out };
    let mut length = 1usize;
    for next in values {
        if next == value {
            length += 1;
        } else {
            encoder.run(value, length);
            (value, length) = (next, 1);
        }
    }
    encoder.run(value, length);
    encoder.flush_literals();
    encoder.out
}

struct Encoder {
    out: Vec<u8>,
    width: u8,
    literals: Vec<u16>,
}

impl Encoder {
    fn run(&mut self, value: u16, length: usize) {
        // Only the last group may be padded, so a group that was begun is filled up first.
        let to_fill = (GROUP - self.literals.len() % GROUP) % GROUP;
        let literal = if length - to_fill.min(length) >= GROUP { to_fill } else { length };
        self.literals.extend(std::iter::repeat_n(value, literal));
        if literal == length {
            return;
        }
        self.flush_literals();
        self.varint((length - literal) << 1);
        let bytes = usize::from(self.width).div_ceil(8);
        self.out.extend_from_slice(&value.to_le_bytes()[..bytes]);
    }

    fn flush_literals(&mut self) {
        if self.literals.is_empty() {
            return;
        }
        self.varint(self.literals.len().div_ceil(GROUP) << 1 | 1);
        let padded = self.literals.len().next_multiple_of(GROUP);
        self.literals.resize(padded, 0);
        let (mut bits, mut filled) = (0u64, 0u8);
        for &value in &self.literals {
            bits |= u64::from(value) << filled;
            filled += self.width;
            while filled >= 8 {
                self.out.push(bits as u8);
                bits >>= 8;
                filled -= 8;
            }
        }
        self.literals.clear();
    }

    fn varint(&mut self, mut value: usize) {
        while value >= 0x80 {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A plain reading of the specification.
    fn decode(bytes: &[u8], width: u8, count: usize) -> Vec<u16> {
        let (mut at, mut values) = (0, Vec::new());
        while values.len() < count {
            let (mut header, mut shift) = (0usize, 0);
            loop {
                header |= usize::from(bytes[at] & 0x7f) << shift;
                shift += 7;
                at += 1;
                if bytes[at - 1] < 0x80 {
                    break;
                }
            }
            if header & 1 == 0 {
                let low = u16::from(bytes[at]);
                let value = if width > 8 { low | u16::from(bytes[at + 1]) << 8 } else { low };
                at += usize::from(width).div_ceil(8);
                values.extend(std::iter::repeat_n(value, header >> 1));
            } else {
                let n = (header >> 1) * 8;
                for i in 0..n {
                    let bit = |k: usize| {
                        u16::from(
                            bytes[at + (i * usize::from(width) + k) / 8]
                                >> ((i * usize::from(width) + k) % 8)
                                & 1,
                        )
                    };
                    values.push((0..usize::from(width)).map(|k| bit(k) << k).sum());
                }
                at += n * usize::from(width) / 8;
            }
        }
        assert_eq!(at, bytes.len());
        values.truncate(count);
        values
    }

    proptest! {
        #[test]
        fn decoding_gives_the_values_back(
            runs in prop::collection::vec((0u16..1000, prop_oneof![1usize..4, 1usize..40]), 0..30),
            codes in 1000usize..5000,
        ) {
            let values: Vec<u16> = runs.iter().flat_map(|&(value, n)| std::iter::repeat_n(value, n)).collect();
            let width = bit_width(codes);
            prop_assert_eq!(decode(&encode(values.iter().copied(), width), width, values.len()), values);
        }
    }

    #[test]
    fn a_constant_column_is_a_few_bytes() {
        assert_eq!(encode(std::iter::repeat_n(0, 1 << 18), 1).len(), 4);
        assert_eq!(
            (bit_width(0), bit_width(1), bit_width(2), bit_width(3), bit_width(256), bit_width(257)),
            (1, 1, 1, 2, 8, 9)
        );
    }
}
