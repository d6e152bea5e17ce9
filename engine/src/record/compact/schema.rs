//! Columns of the Parquet file; docs/formats.md, section 2.

use super::source::LogFile;
use crate::record::names::{NameKind, RunInfo};
use crate::record::row::{NONE_INSTANCE, NONE_U32, Row, flags};
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::errors::Result;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::{ColumnPath, Type};
use std::sync::Arc;

/// What a column is made of.
#[derive(Clone, Copy)]
pub enum Content {
    /// `int64`
    I64(fn(&Row) -> i64),
    /// `int32`; [`NONE_U32`] is null where the column is nullable.
    I32(fn(&Row) -> u32),
    /// `int32` of few values; `None` is null.
    Code(fn(&Row) -> Option<u16>),
    /// A name; `None` is null.
    Name(NameKind, fn(&Row) -> Option<u16>),
    /// One of two words.
    Word([&'static str; 2], fn(&Row) -> bool),
    /// `bool`; `None` is null.
    Bool(fn(&Row) -> Option<bool>),
}

/// A column.
pub struct Column {
    /// Its name; the unit is in it.
    pub name: &'static str,
    /// May it be null?
    pub nullable: bool,
    /// Where its values come from.
    pub content: Content,
    /// Encoding of its values where they vary; chosen by measurement, see `column` below.
    pub encoding: Encoding,
}

/// Where values vary. Measured on 1 M rows of a keep-alive run, zstd level 1, bytes a record (level 3 saves nothing):
///
/// | column | plain | dictionary | delta | byte stream split |
/// |---|---|---|---|---|
/// | `scheduled_us` (Poisson) | 1.38 | 3.47 | **0.97** | 1.33 |
/// | `lag_us` | 0.88 | 0.65 | 0.77 | **0.52** |
/// | `ttfb_us` | 1.49 | 1.30 | 1.57 | **1.22** |
/// | `after_ttfb_us` | 0.74 | 0.49 | 0.66 | **0.41** |
/// | `bytes_in` (64 sizes) | 0.76 | 0.76 | 0.90 | **0.76**, and fastest |
/// | `user` (arrival index) | 2.66 | 4.66 | **0.03** | 0.05 |
const fn column(name: &'static str, content: Content) -> Column {
    // Times scatter around a typical one: bytes of equal weight belong together.
    Column { name, nullable: false, content, encoding: Encoding::BYTE_STREAM_SPLIT }
}

impl Column {
    const fn nullable(mut self) -> Self {
        self.nullable = true;
        self
    }

    /// For what grows from row to row.
    const fn delta(mut self) -> Self {
        self.encoding = Encoding::DELTA_BINARY_PACKED;
        self
    }
}

fn has(row: &Row, flag: u8) -> bool {
    row.flags & flag != 0
}

/// All columns, in the order of the file.
pub const COLUMNS: [Column; 25] = [
    column("scheduled_us", Content::I64(|r| r.scheduled_us)).delta(),
    column("lag_us", Content::I32(|r| r.lag_us)),
    column("wait_us", Content::I32(|r| r.wait_us)),
    column("dns_us", Content::I32(|r| r.dns_us)).nullable(),
    column("connect_us", Content::I32(|r| r.connect_us)).nullable(),
    column("tls_us", Content::I32(|r| r.tls_us)).nullable(),
    column("ttfb_us", Content::I32(|r| r.ttfb_us)).nullable(),
    column("after_ttfb_us", Content::I32(|r| r.after_ttfb_us)).nullable(),
    column("status", Content::Code(|r| (r.status != 0).then_some(r.status))).nullable(),
    column("outcome", Content::Name(NameKind::Outcome, |r| Some(r.outcome.into()))),
    column("bytes_out", Content::I64(|r| r.bytes_out.into())),
    column("bytes_in", Content::I64(|r| r.bytes_in.into())),
    column("workload", Content::Name(NameKind::Workload, |r| Some(r.workload.into()))),
    column("step", Content::Name(NameKind::Step, |r| Some(r.step))),
    column("target", Content::Name(NameKind::Target, |r| Some(r.target.into()))),
    column(
        "instance",
        Content::Name(NameKind::Instance, |r| (r.instance != NONE_INSTANCE).then_some(r.instance)),
    )
    .nullable(),
    column("user", Content::I32(|r| r.user)).delta(),
    column("iteration", Content::I32(|r| r.iteration)),
    column("worker", Content::Code(|r| Some(r.worker.into()))),
    column("attempt", Content::Code(|r| Some(r.attempt.into()))),
    column("http_version", Content::Word(["1.1", "2"], |r| has(r, flags::HTTP2))),
    column("redirects", Content::Code(|r| Some((r.flags >> flags::REDIRECTS_SHIFT).into()))),
    column("reused", Content::Bool(|r| Some(has(r, flags::REUSED)))),
    column("warmup", Content::Bool(|r| Some(has(r, flags::WARMUP)))),
    column("cold", Content::Bool(|r| has(r, flags::COLD_KNOWN).then(|| has(r, flags::COLD)))).nullable(),
];

/// The schema of the file.
pub fn schema() -> Result<Arc<Type>> {
    let fields = COLUMNS.iter().map(|column| {
        let (physical, logical) = match column.content {
            Content::I64(_) => (Physical::INT64, None),
            Content::I32(_) | Content::Code(_) => (Physical::INT32, None),
            Content::Name(..) | Content::Word(..) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Content::Bool(_) => (Physical::BOOLEAN, None),
        };
        let repetition = if column.nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let field = Type::primitive_type_builder(column.name, physical);
        Ok(Arc::new(field.with_logical_type(logical).with_repetition(repetition).build()?))
    });
    let fields = fields.collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(Type::group_type_builder("request").with_fields(fields).build()?))
}

/// Compression level: of the levels that keep compaction within its budget, the one with the smallest file.
const ZSTD_LEVEL: i32 = 1;
/// One page per column and row group: a group is read as a whole.
const PAGE_BYTES: usize = 4 << 20;

/// How the file is written.
pub fn properties(run: &RunInfo, logs: &[LogFile]) -> Result<WriterProperties> {
    let mut builder = WriterProperties::builder()
        .set_created_by(format!("towtank-engine {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_data_page_size_limit(PAGE_BYTES)
        .set_data_page_row_count_limit(usize::MAX)
        .set_max_row_group_row_count(None)
        .set_sorting_columns(Some(vec![SortingColumn {
            column_idx: 0,
            descending: false,
            nulls_first: false,
        }]))
        .set_key_value_metadata(Some(metadata(run, logs)));
    for column in &COLUMNS {
        builder = builder.set_column_encoding(ColumnPath::from(column.name), column.encoding);
    }
    Ok(builder.build())
}

/// Key under which the logs that the file was made of are named.
pub const LOGS_KEY: &str = "towtank.logs";

fn metadata(run: &RunInfo, logs: &[LogFile]) -> Vec<KeyValue> {
    let json = |value: serde_json::Result<String>| value.unwrap_or_default();
    let units = serde_json::json!({
        "*_us": "microseconds",
        "scheduled_us": "microseconds on the run clock (CLOCK_MONOTONIC, zero at the start of the load)",
        "bytes_*": "bytes on the wire",
    });
    vec![
        KeyValue::new("towtank.version".to_owned(), Some("1".to_owned())),
        KeyValue::new("towtank.units".to_owned(), Some(units.to_string())),
        KeyValue::new("towtank.run".to_owned(), Some(json(serde_json::to_string(run)))),
        KeyValue::new(LOGS_KEY.to_owned(), Some(json(serde_json::to_string(logs)))),
    ]
}

const _: () = assert!(NONE_U32 == u32::MAX && NONE_INSTANCE == u16::MAX);
