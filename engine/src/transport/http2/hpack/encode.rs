//! Writes header blocks that depend on nothing that was sent before: they can be rendered once and sent on any connection.
use super::huffman;
use super::table::STATIC;

/// Fields that must not end up in the tables of an intermediary (section 7.1.3).
const SENSITIVE: [&[u8]; 3] = [b"authorization", b"cookie", b"proxy-authorization"];

/// Tells the decoder of the other side that no dynamic table is used: what is due before the first block after it allowed
/// less than the default (RFC 9113, section 4.3.1).
pub fn encode_no_table(out: &mut Vec<u8>) {
    out.push(0x20);
}

/// Appends a field; its name is sent in lower case.
pub fn encode_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let same = |known: &[u8]| known.eq_ignore_ascii_case(name);
    let mut index = 0;
    for (at, (known, known_value)) in STATIC.iter().enumerate() {
        if same(known) {
            if *known_value == value && !value.is_empty() {
                integer(at + 1, 7, 0x80, out);
                return;
            }
            index = if index == 0 { at + 1 } else { index };
        } else if index > 0 {
            break;
        }
    }
    let never = SENSITIVE.iter().any(|name| same(name));
    integer(index, 4, if never { 0x10 } else { 0 }, out);
    if index == 0 {
        text(&name.to_ascii_lowercase(), out);
    }
    text(value, out);
}

fn integer(value: usize, prefix: u32, flags: u8, out: &mut Vec<u8>) {
    let most = (1 << prefix) - 1;
    if value < most {
        out.push(flags | value as u8);
        return;
    }
    out.push(flags | most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// The shorter of the two forms.
fn text(bytes: &[u8], out: &mut Vec<u8>) {
    let coded = huffman::encoded_len(bytes);
    if coded < bytes.len() {
        integer(coded, 7, 0x80, out);
        huffman::encode(bytes, out);
    } else {
        integer(bytes.len(), 7, 0, out);
        out.extend_from_slice(bytes);
    }
}
