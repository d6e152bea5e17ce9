//! Bodies that were compressed on their way (RFC 9110, section 8.4).
use crate::journey::Fields;
use crate::transport::Outcome;
use brotli_decompressor::Decompressor;
use flate2::bufread::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use std::io::Read;

/// Codings one over the other at most.
const MAX_CODINGS: usize = 4;
/// Of brotli's input buffer.
const BROTLI_BYTES: usize = 4096;

/// Buffers, kept from one body to the next.
#[derive(Clone, Debug, Default)]
pub struct Buffers {
    decoded: Vec<u8>,
    spare: Vec<u8>,
}

/// A larger buffer is not kept.
const KEPT_BYTES: usize = 1 << 20;

impl Buffers {
    /// The body as it was before it was compressed: as it is, if it was not. A bomb ends at `limit`, as `too_large`.
    pub fn decode<'a>(
        &'a mut self,
        fields: &Fields,
        body: &'a [u8],
        limit: u64,
    ) -> Result<&'a [u8], Outcome> {
        if body.is_empty() {
            return Ok(body);
        }
        let mut codings = [""; MAX_CODINGS];
        let mut count = 0;
        for line in fields.all(b"content-encoding") {
            let line = std::str::from_utf8(line).map_err(|_| Outcome::Protocol)?;
            for coding in line.split(',').map(str::trim) {
                if !coding.is_empty() && !coding.eq_ignore_ascii_case("identity") {
                    *codings.get_mut(count).ok_or(Outcome::Protocol)? = coding;
                    count += 1;
                }
            }
        }
        if count == 0 {
            return Ok(body);
        }
        self.decoded.shrink_to(KEPT_BYTES);
        self.spare.shrink_to(KEPT_BYTES);
        // The last is the outermost.
        for (at, coding) in codings[..count].iter().rev().enumerate() {
            std::mem::swap(&mut self.decoded, &mut self.spare);
            let from = if at == 0 { body } else { &self.spare };
            decode(coding, from, limit, &mut self.decoded)?;
        }
        Ok(&self.decoded)
    }
}

fn decode(coding: &str, from: &[u8], limit: u64, to: &mut Vec<u8>) -> Result<(), Outcome> {
    let is = |name: &str| coding.eq_ignore_ascii_case(name);
    if is("gzip") || is("x-gzip") {
        read(MultiGzDecoder::new(from), limit, to)
    } else if is("deflate") {
        // Zlib by the book; without its header by some servers, which every browser bears.
        let has_header = from.len() >= 2
            && from[0] & 0x0f == 8
            && u16::from_be_bytes([from[0], from[1]]).is_multiple_of(31);
        if has_header {
            read(ZlibDecoder::new(from), limit, to)
        } else {
            read(DeflateDecoder::new(from), limit, to)
        }
    } else if is("br") {
        read(Decompressor::new(from, BROTLI_BYTES), limit, to)
    } else {
        Err(Outcome::Protocol)
    }
}

fn read(decoder: impl Read, limit: u64, to: &mut Vec<u8>) -> Result<(), Outcome> {
    to.clear();
    match decoder.take(limit + 1).read_to_end(to) {
        Ok(length) if length as u64 > limit => Err(Outcome::TooLarge),
        Ok(_) => Ok(()),
        Err(_) => Err(Outcome::Protocol),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use proptest::prelude::*;
    use std::io::Write as _;

    /// "hello, hello, hello, hello!" by the reference encoder of brotli.
    const BROTLI: [u8; 25] = [
        0x1b, 0x1a, 0x00, 0xf8, 0x8d, 0x94, 0x6e, 0xde, 0x44, 0x09, 0x52, 0x86, 0xd6, 0x21, 0x2c, 0x6c, 0x6f,
        0x4a, 0x91, 0x79, 0x22, 0x81, 0xbb, 0x5a, 0x00,
    ];

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory")
    }

    fn zlib(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory")
    }

    fn deflate(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory")
    }

    fn decode(codings: &[&str], body: &[u8], limit: u64) -> Result<Vec<u8>, Outcome> {
        let mut fields = Fields::default();
        for coding in codings {
            fields.push(b"Content-Encoding", coding.as_bytes());
        }
        Buffers::default().decode(&fields, body, limit).map(<[u8]>::to_vec)
    }

    #[test]
    fn what_was_compressed_comes_back() {
        let text = b"hello, hello, hello, hello!".to_vec();
        for (coding, body) in [
            (&[][..], text.clone()),
            (&["identity"], text.clone()),
            (&["gzip"], gzip(&text)),
            (&["X-GZIP"], gzip(&text)),
            (&["gzip"], [gzip(&text[..7]), gzip(&text[7..])].concat()),
            (&["deflate"], zlib(&text)),
            (&["deflate"], deflate(&text)),
            (&["br"], BROTLI.to_vec()),
            (&["deflate, gzip"], gzip(&zlib(&text))),
            (&["br, gzip"], gzip(&BROTLI)),
            (&["gzip", "identity, gzip"], gzip(&gzip(&text))),
        ] {
            assert_eq!(decode(coding, &body, 1000), Ok(text.clone()), "{coding:?}");
        }
        assert_eq!(decode(&["gzip"], b"", 1000), Ok(Vec::new()));
    }

    #[test]
    fn what_cannot_be_decoded_is_protocol() {
        let good = gzip(b"hello, hello");
        for body in [&good[..good.len() - 1], &good[..5], b"hello", &[&good[..], b"rest"].concat()] {
            assert_eq!(decode(&["gzip"], body, 1000), Err(Outcome::Protocol));
        }
        for coding in ["zstd", "gzip,gzip,gzip,gzip,gzip", "gz ip"] {
            assert_eq!(decode(&[coding], &good, 1000), Err(Outcome::Protocol), "{coding}");
        }
        assert_eq!(decode(&["br"], b"\xff\xff\xff", 1000), Err(Outcome::Protocol));
        assert_eq!(decode(&["br"], &BROTLI[..BROTLI.len() - 3], 1000), Err(Outcome::Protocol));
        assert_eq!(decode(&["deflate"], &deflate(b"hello, hello")[..4], 1000), Err(Outcome::Protocol));
    }

    #[test]
    fn a_bomb_ends_at_the_limit() {
        let zeros = vec![0; 10_000_000];
        for (coding, body) in
            [("gzip", gzip(&zeros)), ("deflate", zlib(&zeros)), ("gzip, gzip", gzip(&gzip(&zeros)))]
        {
            assert!(body.len() < 20_000);
            assert_eq!(decode(&[coding], &body, 100_000), Err(Outcome::TooLarge), "{coding}");
            assert_eq!(decode(&[coding], &body, zeros.len() as u64).map(|d| d.len()), Ok(zeros.len()));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_decoded(body in proptest::collection::vec(any::<u8>(), 0..300)) {
            for coding in ["gzip", "deflate", "br"] {
                let decoded = decode(&[coding], &body, 5000);
                prop_assert!(decoded.is_err() || decoded.is_ok_and(|d| d.len() <= 5000));
            }
        }

        #[test]
        fn damaged_bodies_never_pass_the_limit(body in proptest::collection::vec(0..4_u8, 0..500), at: prop::sample::Index, byte: u8) {
            for (coding, mut packed) in [("gzip", gzip(&body)), ("deflate", deflate(&body)), ("deflate", zlib(&body)), ("br", BROTLI.to_vec())] {
                let at = at.index(packed.len());
                packed[at] = byte;
                if let Ok(decoded) = decode(&[coding], &packed, 600) {
                    prop_assert!(decoded.len() <= 600);
                }
            }
        }
    }
}
