//! Column chunks of few different values, encoded by ourselves.
//!
//! More than half of the columns are constant in most runs, and the rest of these has a handful of values for which the
//! row already has a number. The `parquet` crate would hash every string of every row; here a chunk is a dictionary and
//! run lengths of numbers, at a fraction of a nanosecond a row.

use super::rle;
use bytes::Bytes;
use parquet::basic::{Compression, Encoding, PageType};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::errors::Result;
use parquet::file::metadata::{ColumnChunkMetaData, PageEncodingStats};
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

/// "Null" among the codes.
pub const NULL: u16 = u16::MAX;

/// The values that codes stand for.
pub enum Values {
    /// `int32`
    I32(Vec<i32>),
    /// `int64`
    I64(Vec<i64>),
    /// UTF-8.
    Text(Vec<String>),
    /// `bool`: codes are 0 and 1, there is no dictionary.
    Bool,
}

/// An encoded chunk, to be appended to a row group.
pub struct Chunk {
    /// Its pages.
    pub bytes: Bytes,
    /// What the footer says about it.
    pub close: ColumnCloseResult,
}

/// Encodes one code per row: an index into the values, or [`NULL`] where the column may be null.
pub fn encode(descriptor: &ColumnDescPtr, values: &Values, codes: &[u16]) -> Result<Chunk> {
    let mut sink = TrackedWrite::new(Vec::new());
    let mut pages = SerializedPageWriter::new(&mut sink);
    let mut uncompressed = 0;
    let mut dictionary_offset = None;
    let mut page_stats = Vec::new();
    if let Some(page) = dictionary_page(values) {
        let spec = pages.write_page(page)?;
        uncompressed += spec.uncompressed_size;
        dictionary_offset = Some(spec.offset as i64);
        page_stats.push(page_stat(PageType::DICTIONARY_PAGE, Encoding::PLAIN));
    }
    let nullable = descriptor.max_def_level() > 0;
    let (page, encoding) = data_page(values, codes, nullable);
    let spec = pages.write_page(page)?;
    uncompressed += spec.uncompressed_size;
    page_stats.push(page_stat(PageType::DATA_PAGE, encoding));
    let data_offset = spec.offset as i64;

    let bytes = Bytes::from(sink.into_inner()?);
    let encodings = vec![Encoding::PLAIN, Encoding::RLE, encoding];
    let metadata = ColumnChunkMetaData::builder(descriptor.clone())
        .set_compression(Compression::UNCOMPRESSED)
        .set_encodings(encodings)
        .set_num_values(codes.len() as i64)
        .set_total_compressed_size(bytes.len() as i64)
        .set_total_uncompressed_size(uncompressed as i64)
        .set_data_page_offset(data_offset)
        .set_dictionary_page_offset(dictionary_offset)
        .set_page_encoding_stats(page_stats)
        .set_statistics(statistics(values, codes))
        .build()?;
    let close = ColumnCloseResult {
        bytes_written: bytes.len() as u64,
        rows_written: codes.len() as u64,
        metadata,
        bloom_filter: None,
        column_index: None,
        offset_index: None,
    };
    Ok(Chunk { bytes, close })
}

fn page_stat(page_type: PageType, encoding: Encoding) -> PageEncodingStats {
    PageEncodingStats { page_type, encoding, count: 1 }
}

fn dictionary_page(values: &Values) -> Option<CompressedPage> {
    let (buf, num_values): (Vec<u8>, usize) = match values {
        Values::I32(values) => (values.iter().flat_map(|v| v.to_le_bytes()).collect(), values.len()),
        Values::I64(values) => (values.iter().flat_map(|v| v.to_le_bytes()).collect(), values.len()),
        Values::Text(values) => {
            let mut buf = Vec::new();
            for value in values {
                put_sized(&mut buf, value.as_bytes());
            }
            (buf, values.len())
        }
        Values::Bool => return None,
    };
    let size = buf.len();
    let page = Page::DictionaryPage {
        buf: Bytes::from(buf),
        num_values: num_values as u32,
        encoding: Encoding::PLAIN,
        is_sorted: false,
    };
    Some(CompressedPage::new(page, size))
}

fn data_page(values: &Values, codes: &[u16], nullable: bool) -> (CompressedPage, Encoding) {
    let mut buf = Vec::new();
    if nullable {
        put_sized(&mut buf, &rle::encode(codes.iter().map(|&code| u16::from(code != NULL)), 1));
    }
    let present = codes.iter().copied().filter(|&code| code != NULL);
    let width = match values {
        Values::I32(values) => rle::bit_width(values.len()),
        Values::I64(values) => rle::bit_width(values.len()),
        Values::Text(values) => rle::bit_width(values.len()),
        Values::Bool => 1,
    };
    let encoded = rle::encode(present, width);
    let encoding = if matches!(values, Values::Bool) {
        put_sized(&mut buf, &encoded);
        Encoding::RLE
    } else {
        buf.push(width);
        buf.extend_from_slice(&encoded);
        Encoding::RLE_DICTIONARY
    };
    let size = buf.len();
    let page = Page::DataPage {
        buf: Bytes::from(buf),
        num_values: codes.len() as u32,
        encoding,
        def_level_encoding: Encoding::RLE,
        rep_level_encoding: Encoding::RLE,
        statistics: None,
    };
    (CompressedPage::new(page, size), encoding)
}

fn put_sized(buf: &mut Vec<u8>, bytes: &[u8]) {
    buf.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    buf.extend_from_slice(bytes);
}

/// Least, greatest and number of nulls, so that readers can skip the chunk.
fn statistics(values: &Values, codes: &[u16]) -> Statistics {
    let nulls = Some(codes.iter().filter(|&&code| code == NULL).count() as u64);
    let mut used = vec![false; usize::from(NULL) + 1];
    for &code in codes {
        used[usize::from(code)] = true;
    }
    let used = |i: usize| used[i];
    match values {
        Values::I32(all) => {
            let (min, max) = bounds(all, used);
            Statistics::int32(min, max, None, nulls, false)
        }
        Values::I64(all) => {
            let (min, max) = bounds(all, used);
            Statistics::int64(min, max, None, nulls, false)
        }
        Values::Text(all) => {
            let (min, max) = bounds(all, used);
            let array = |text: String| ByteArray::from(text.into_bytes());
            Statistics::byte_array(min.map(array), max.map(array), None, nulls, false)
        }
        Values::Bool => {
            let (min, max) = bounds(&[false, true], used);
            Statistics::boolean(min, max, None, nulls, false)
        }
    }
}

fn bounds<T: Ord + Clone>(all: &[T], used: impl Fn(usize) -> bool) -> (Option<T>, Option<T>) {
    let mut present: Vec<&T> = all.iter().enumerate().filter(|(i, _)| used(*i)).map(|(_, v)| v).collect();
    present.sort_unstable();
    (present.first().map(|&v| v.clone()), present.last().map(|&v| v.clone()))
}
