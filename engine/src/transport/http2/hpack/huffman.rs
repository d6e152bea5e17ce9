//! The Huffman code of HPACK (RFC 7541, appendix B).
use super::Malformed;

/// Length of the code of each byte. The code is canonical: the lengths alone determine it.
#[rustfmt::skip]
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

/// The longest code, which is also that of the end of the string: 30 ones, never to be sent.
const LONGEST: u32 = 30;
/// Codes up to this length are found at once; all that is usual in headers is among them.
const FAST_BITS: u32 = 10;

const CODE: Code = Code::new();

/// The code, and how it is read.
struct Code {
    /// Of each byte, without leading zeros.
    codes: [u32; 256],
    /// For every beginning of a text: byte | length << 8; 0 if the code is longer.
    fast: [u16; 1 << FAST_BITS],
    /// Bytes in the order of their codes.
    order: [u8; 256],
    /// By length: the first code, how many there are, and the place of the first in `order`.
    first: [u32; LONGEST as usize + 1],
    count: [u32; LONGEST as usize + 1],
    place: [u32; LONGEST as usize + 1],
}

impl Code {
    #[allow(clippy::large_types_passed_by_value, reason = "it is made by the compiler")]
    const fn new() -> Self {
        let mut all = Self {
            codes: [0; 256],
            fast: [0; 1 << FAST_BITS],
            order: [0; 256],
            first: [0; LONGEST as usize + 1],
            count: [0; LONGEST as usize + 1],
            place: [0; LONGEST as usize + 1],
        };
        let (mut code, mut rank, mut length) = (0_u32, 0, 1);
        while length <= LONGEST {
            code <<= 1;
            all.first[length as usize] = code;
            all.place[length as usize] = rank as u32;
            let mut byte = 0;
            while byte < 256 {
                if LENGTHS[byte] as u32 == length {
                    all.codes[byte] = code;
                    all.order[rank] = byte as u8;
                    all.count[length as usize] += 1;
                    if length <= FAST_BITS {
                        let mut at = code << (FAST_BITS - length);
                        while at < (code + 1) << (FAST_BITS - length) {
                            all.fast[at as usize] = byte as u16 | (length as u16) << 8;
                            at += 1;
                        }
                    }
                    code += 1;
                    rank += 1;
                }
                byte += 1;
            }
            length += 1;
        }
        all
    }

    /// The byte and the length of its code at the beginning of `bits`.
    fn longer(&self, bits: u64) -> Option<(u8, u32)> {
        (FAST_BITS + 1..=LONGEST).find_map(|length| {
            let code = (bits >> (64 - length)) as u32;
            let rank = code.checked_sub(self.first[length as usize])?;
            let known = rank < self.count[length as usize];
            known.then(|| (self.order[(self.place[length as usize] + rank) as usize], length))
        })
    }
}

static TABLES: Code = CODE;

/// Appends the decoded text.
pub fn decode(input: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    let start = out.len();
    // The shortest codes have five bits.
    out.resize(start + input.len() * 8 / 5 + 1, 0);
    let written = decode_into(input, &mut out[start..]);
    out.truncate(start + *written.as_ref().unwrap_or(&0));
    written.map(|_| ())
}

fn decode_into(input: &[u8], out: &mut [u8]) -> Result<usize, Malformed> {
    // The next bits of the text, from the highest on, and how many of them are certain.
    let (mut bits, mut have) = (0_u64, 0_u32);
    let (mut at, mut written) = (0, 0);
    loop {
        if let Some(word) = input.get(at..at + 8) {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(word);
            bits |= u64::from_be_bytes(bytes) >> have;
            at += ((63 - have) / 8) as usize;
            have |= 0b11_1000;
        } else {
            while have <= 56 && at < input.len() {
                bits |= u64::from(input[at]) << (56 - have);
                have += 8;
                at += 1;
            }
        }
        let last = at == input.len();
        while have >= LONGEST || (last && have > 0) {
            let fast = TABLES.fast[(bits >> (64 - FAST_BITS)) as usize];
            let (byte, length) = if fast != 0 {
                (fast as u8, u32::from(fast >> 8))
            } else {
                TABLES.longer(bits).unwrap_or((0, u32::MAX))
            };
            if length > have {
                // What is left is padding: fewer than eight ones.
                let ones = bits >> (64 - have) == (1 << have) - 1;
                return if last && have < 8 && ones { Ok(written) } else { Err(Malformed) };
            }
            out[written] = byte;
            written += 1;
            bits <<= length;
            have -= length;
        }
        if last {
            return Ok(written);
        }
    }
}

/// Bytes that the code of a text needs.
pub fn encoded_len(text: &[u8]) -> usize {
    text.iter().map(|byte| usize::from(LENGTHS[usize::from(*byte)])).sum::<usize>().div_ceil(8)
}

/// Appends the code of a text.
pub fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut bits, mut have) = (0_u64, 0_u32);
    for byte in text {
        let length = u32::from(LENGTHS[usize::from(*byte)]);
        bits = bits << length | u64::from(TABLES.codes[usize::from(*byte)]);
        have += length;
        while have >= 8 {
            have -= 8;
            out.push((bits >> have) as u8);
        }
    }
    if have > 0 {
        let padding = 8 - have;
        out.push((bits << padding) as u8 | ((1 << padding) - 1) as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(input: &[u8]) -> Result<Vec<u8>, Malformed> {
        let mut out = b"before".to_vec();
        decode(input, &mut out)?;
        Ok(out.split_off(6))
    }

    #[test]
    fn padding_is_ones_and_short() {
        assert_eq!(decoded(&[0x1f]).unwrap(), b"a");
        // 'a' = 00011, then padding of 010, of zeros, and of more than a byte.
        for wrong in [&[0x1a][..], &[0x18], &[0x1f, 0xff], &[0xff], &[0xff, 0xff, 0xff, 0xff]] {
            assert!(decoded(wrong).is_err(), "{wrong:x?}");
        }
        assert_eq!(decoded(&[]).unwrap(), b"");
    }

    #[test]
    fn every_byte_has_a_code_of_its_own() {
        for byte in 0..=255 {
            let mut code = Vec::new();
            encode(&[byte], &mut code);
            assert_eq!((code.len(), decoded(&code).unwrap()), (encoded_len(&[byte]), vec![byte]));
        }
        // The end of the string is no byte.
        assert!(decoded(&[0xff, 0xff, 0xff, 0xfc]).is_err());
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut code = Vec::new();
            encode(&text, &mut code);
            prop_assert_eq!(code.len(), encoded_len(&text));
            prop_assert_eq!(decoded(&code).unwrap(), text);
        }

        #[test]
        fn only_codes_are_decoded(code in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(text) = decoded(&code) {
                let mut again = Vec::new();
                encode(&text, &mut again);
                prop_assert_eq!(again, code);
            }
        }
    }
}
