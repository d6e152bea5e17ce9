//! A sorted group of rows → one row group of the file.

use super::chunk::{self, NULL, Values};
use super::schema::{COLUMNS, Column, Content};
use super::select::Picked;
use super::source::Names;
use crate::record::names::NameKind;
use crate::record::row::NONE_U32;
use parquet::data_type::{DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::ColumnDescPtr;
use std::collections::HashMap;
use std::hash::Hash;
use std::io::Write;

/// Buffers that are used again for every column and group.
#[derive(Default)]
pub struct Columns {
    i32s: Vec<i32>,
    i64s: Vec<i64>,
    levels: Vec<i16>,
    codes: Vec<u16>,
}

impl Columns {
    /// Writes a group; `names` by log.
    pub fn write<W: Write + Send>(
        &mut self,
        file: &mut SerializedFileWriter<W>,
        rows: &[Picked],
        names: &[Names],
    ) -> Result<()> {
        let descriptors: Vec<ColumnDescPtr> = file.schema_descr().columns().to_vec();
        let mut group = file.next_row_group()?;
        for (column, descriptor) in COLUMNS.iter().zip(&descriptors) {
            match column.content {
                Content::I64(get) => self.write_i64(&mut group, descriptor, rows, get)?,
                Content::I32(get) => self.write_i32(&mut group, descriptor, rows, column, get)?,
                _ => {
                    let values = self.encode_few(column, rows, names)?;
                    append(&mut group, descriptor, &values, &self.codes)?;
                }
            }
        }
        group.close()?;
        Ok(())
    }

    fn write_i64<W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
        descriptor: &ColumnDescPtr,
        rows: &[Picked],
        get: fn(&crate::record::row::Row) -> i64,
    ) -> Result<()> {
        self.i64s.clear();
        self.i64s.extend(rows.iter().map(|picked| get(&picked.row)));
        if let Some(&first) = self.i64s.first().filter(|&first| self.i64s.iter().all(|v| v == first)) {
            return self.append_constant(group, descriptor, &Values::I64(vec![first]), rows.len());
        }
        write_values::<Int64Type, W>(group, &self.i64s, None)
    }

    fn write_i32<W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
        descriptor: &ColumnDescPtr,
        rows: &[Picked],
        column: &Column,
        get: fn(&crate::record::row::Row) -> u32,
    ) -> Result<()> {
        // Times of more than half an hour, all a column of int32 can hold, are that long and no longer.
        let clamp = |v: u32| i32::try_from(v).unwrap_or(i32::MAX);
        let raw = rows.iter().map(|picked| get(&picked.row));
        let first = raw.clone().next().unwrap_or_default();
        if raw.clone().all(|v| v == first) {
            let (values, code) = if column.nullable && first == NONE_U32 {
                (Vec::new(), NULL)
            } else {
                (vec![clamp(first)], 0)
            };
            self.codes.clear();
            self.codes.resize(rows.len(), code);
            return append(group, descriptor, &Values::I32(values), &self.codes);
        }
        self.i32s.clear();
        if !column.nullable {
            self.i32s.extend(raw.map(clamp));
            return write_values::<Int32Type, W>(group, &self.i32s, None);
        }
        self.i32s.extend(raw.clone().filter(|&v| v != NONE_U32).map(clamp));
        self.levels.clear();
        self.levels.extend(raw.map(|v| i16::from(v != NONE_U32)));
        write_values::<Int32Type, W>(group, &self.i32s, Some(&self.levels))
    }

    fn append_constant<W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
        descriptor: &ColumnDescPtr,
        values: &Values,
        rows: usize,
    ) -> Result<()> {
        self.codes.clear();
        self.codes.resize(rows, 0);
        append(group, descriptor, values, &self.codes)
    }

    /// Fills the codes of a column of few values; returns what they stand for.
    fn encode_few(&mut self, column: &Column, rows: &[Picked], names: &[Names]) -> Result<Values> {
        self.codes.clear();
        match column.content {
            Content::Code(get) => {
                let mut table = Table::default();
                self.codes.extend(rows.iter().map(|picked| {
                    get(&picked.row).map_or(NULL, |value| table.code(0, value, || i32::from(value)))
                }));
                Ok(Values::I32(table.checked(column)?))
            }
            Content::Name(kind, get) => {
                let mut table = Table::default();
                self.codes.extend(rows.iter().map(|picked| {
                    get(&picked.row)
                        .map_or(NULL, |id| table.code(picked.log, id, || name(names, picked.log, kind, id)))
                }));
                Ok(Values::Text(table.checked(column)?))
            }
            Content::Word(words, get) => {
                self.codes.extend(rows.iter().map(|picked| u16::from(get(&picked.row))));
                Ok(Values::Text(words.iter().map(|&word| word.to_owned()).collect()))
            }
            Content::Bool(get) => {
                self.codes.extend(rows.iter().map(|picked| get(&picked.row).map_or(NULL, u16::from)));
                Ok(Values::Bool)
            }
            Content::I64(_) | Content::I32(_) => {
                Err(ParquetError::General(format!("{} has many values", column.name)))
            }
        }
    }
}

/// The name of an id; a log that was cut off before its names still has ids.
fn name(names: &[Names], log: u8, kind: NameKind, id: u16) -> String {
    names[usize::from(log)].get(&(kind, id)).cloned().unwrap_or_else(|| format!("#{id}"))
}

/// Values in the order in which they came, and the code of each id, by log and id; [`NULL`] where it has none yet.
struct Table<T> {
    values: Vec<T>,
    known: HashMap<T, u16>,
    codes: Vec<Vec<u16>>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { values: Vec::new(), known: HashMap::new(), codes: Vec::new() }
    }
}

impl<T: Clone + Eq + Hash> Table<T> {
    /// The code of a value; ids of different logs may stand for the same value.
    fn code(&mut self, log: u8, id: u16, value: impl FnOnce() -> T) -> u16 {
        let (log, id) = (usize::from(log), usize::from(id));
        if let Some(&code) = self.codes.get(log).and_then(|codes| codes.get(id)).filter(|&&code| code != NULL)
        {
            return code;
        }
        let value = value();
        let next = self.values.len() as u16;
        let code = *self.known.entry(value.clone()).or_insert(next);
        if code == next {
            self.values.push(value);
        }
        self.codes.resize_with(self.codes.len().max(log + 1), Vec::new);
        let codes = &mut self.codes[log];
        codes.resize(codes.len().max(id + 1), NULL);
        codes[id] = code;
        code
    }

    fn checked(self, column: &Column) -> Result<Vec<T>> {
        if self.values.len() >= usize::from(NULL) {
            return Err(ParquetError::General(format!("{} has more than {NULL} values", column.name)));
        }
        Ok(self.values)
    }
}

fn append<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    descriptor: &ColumnDescPtr,
    values: &Values,
    codes: &[u16],
) -> Result<()> {
    let chunk = chunk::encode(descriptor, values, codes)?;
    group.append_column(&chunk.bytes, chunk.close)
}

fn write_values<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<()> {
    let missing = || ParquetError::General("the schema has fewer columns".to_owned());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}
