//! What was said, and what it was worth, as a table of columns.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use serde_json::{Map, Value};

use super::run::lines;
use super::{Observer, RunEnd};
use crate::error::{Error, Result};

/// Rows that are held in memory at a time.
const ROWS: usize = 20_000;

/// Writes `completions.parquet` when the run ends: see [`write_parquet`]. What cannot be written is a warning, not an error.
#[derive(Debug)]
pub struct ParquetWriter {
    folder: PathBuf,
}

impl ParquetWriter {
    /// For the run in that folder, which keeps `completions.jsonl`.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }
}

impl Observer for ParquetWriter {
    fn name(&self) -> &str {
        "parquet"
    }

    fn on_end(&mut self, _step: u64, _end: RunEnd) -> Result<()> {
        if let Err(error) = write_parquet(&self.folder) {
            tracing::warn!("no Parquet file: {error}");
        }
        Ok(())
    }
}

/// Writes `completions.parquet` in a run's folder, and returns its path: the rows and columns of
/// [`completions.jsonl`](super::CompletionsLog), a column null where a line has no such field. It is written beside and renamed.
///
/// ```no_run
/// grpo_train::observe::write_parquet("runs/additions")?;
/// # Ok::<(), grpo_train::Error>(())
/// ```
///
/// # Errors
/// No completions in that folder; a file that cannot be read or written.
pub fn write_parquet(folder: impl AsRef<Path>) -> Result<PathBuf> {
    let (from, to) = (folder.as_ref().join("completions.jsonl"), folder.as_ref().join("completions.parquet"));
    let columns = columns(&from)?;
    let beside = folder.as_ref().join("completions.parquet.new");
    let failed = |error: ParquetError| Error::io(&beside)(std::io::Error::other(error));
    let file = File::create(&beside).map_err(Error::io(&beside))?;
    let fields = columns.iter().map(|column| column.field().map(Arc::new)).collect::<std::result::Result<_, _>>().map_err(failed)?;
    let schema = Type::group_type_builder("completions").with_fields(fields).build().map_err(failed)?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties)).map_err(failed)?;

    let mut rows = Vec::new();
    let mut written = Ok(());
    lines(&from, |line| {
        rows.push(serde_json::from_slice::<Map<String, Value>>(line).ok()?);
        if rows.len() == ROWS {
            let chunk = std::mem::take(&mut rows);
            written = std::mem::replace(&mut written, Ok(())).and_then(|()| write(&mut writer, &columns, &chunk));
        }
        Some(())
    })?;
    written.and_then(|()| write(&mut writer, &columns, &rows)).map_err(failed)?;
    let file = writer.into_inner().map_err(failed)?;
    file.sync_data().map_err(Error::io(&beside))?;
    std::fs::rename(&beside, &to).map_err(Error::io(&to))?;
    Ok(to)
}

/// A column by its name.
struct Column {
    name: String,
    kind: Kind,
}

/// What a column holds.
#[derive(Clone, Copy)]
enum Kind {
    Count,
    Text,
    Number,
}

impl Column {
    fn new(name: &str) -> Self {
        let kind = match name {
            "step" | "group" | "completion" | "tokens" => Kind::Count,
            "prompt" | "text" | "finish" => Kind::Text,
            _ => Kind::Number,
        };
        Self { name: name.to_owned(), kind }
    }

    fn field(&self) -> std::result::Result<Type, ParquetError> {
        let (physical, logical) = match self.kind {
            Kind::Count => (Physical::INT64, None),
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Kind::Number => (Physical::DOUBLE, None),
        };
        Type::primitive_type_builder(&self.name, physical).with_logical_type(logical).with_repetition(Repetition::OPTIONAL).build()
    }
}

/// The columns of a file: those that every line has, then every other field that some line has, by name.
fn columns(path: &Path) -> Result<Vec<Column>> {
    let fixed = ["step", "group", "completion", "prompt", "text", "tokens", "finish"];
    let (mut more, mut rows) = (BTreeSet::new(), 0);
    lines(path, |line| {
        let line: Map<String, Value> = serde_json::from_slice(line).ok()?;
        rows += 1;
        more.extend(line.into_iter().map(|(name, _)| name).filter(|name| !fixed.contains(&name.as_str())));
        Some(())
    })?;
    if rows == 0 {
        return Err(Error::invalid("completions", format!("none in {}", path.display())));
    }
    Ok(fixed.into_iter().chain(more.iter().map(String::as_str)).map(Column::new).collect())
}

/// One group of rows.
fn write(
    writer: &mut SerializedFileWriter<File>,
    columns: &[Column],
    rows: &[Map<String, Value>],
) -> std::result::Result<(), ParquetError> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut group = writer.next_row_group()?;
    for Column { name, kind } in columns {
        let Some(mut column) = group.next_column()? else { break };
        let fields = rows.iter().map(|row| row.get(name));
        match kind {
            Kind::Count => put::<Int64Type>(&mut column, fields.map(|field| field?.as_i64()))?,
            Kind::Text => put::<ByteArrayType>(&mut column, fields.map(|field| Some(ByteArray::from(field?.as_str()?))))?,
            Kind::Number => put::<DoubleType>(&mut column, fields.map(|field| field?.as_f64()))?,
        }
        column.close()?;
    }
    group.close().map(|_| ())
}

/// The values that are there, and at which rows (level 1) they stand.
fn put<T: DataType>(
    column: &mut SerializedColumnWriter<'_>,
    fields: impl Iterator<Item = Option<T::T>>,
) -> std::result::Result<(), ParquetError> {
    let fields: Vec<_> = fields.collect();
    let levels: Vec<i16> = fields.iter().map(|field| i16::from(field.is_some())).collect();
    let values: Vec<T::T> = fields.into_iter().flatten().collect();
    column.typed::<T>().write_batch(&values, Some(&levels), None).map(|_| ())
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::Field;

    use super::*;

    #[test]
    fn every_line_is_a_row_and_what_a_line_lacks_is_null() {
        let folder = tempfile::tempdir().unwrap();
        let missing = write_parquet(folder.path()).unwrap_err().to_string();
        assert!(missing.contains("completions.jsonl"), "{missing}");

        let line = |i: usize| {
            let mut line = serde_json::json!({
                "step": i / 8, "group": i / 4, "completion": i % 4, "prompt": "1 + 1 =", "text": format!("{i}\n\"ü\""), "tokens": 2,
                "finish": "end_token", "rewards/exact": 0.25 * i as f64, "advantage": -1.5,
            });
            if i.is_multiple_of(3) {
                line["rewards/format"] = 1.0.into();
            }
            line
        };
        let count = ROWS + 7;
        let text: String = (0..count).map(|i| format!("{}\n", line(i))).collect();
        std::fs::write(folder.path().join("completions.jsonl"), text + "{\"step\": 9, \"gro").unwrap();
        let path = write_parquet(folder.path()).unwrap();
        assert!(!folder.path().join("completions.parquet.new").exists());

        let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        assert_eq!(reader.metadata().file_metadata().num_rows(), count as i64);
        for (i, row) in reader.get_row_iter(None).unwrap().enumerate() {
            let row = row.unwrap();
            for (name, field) in row.get_column_iter() {
                let value = match field {
                    Field::Null => Value::Null,
                    Field::Long(count) => (*count).into(),
                    Field::Double(number) => (*number).into(),
                    Field::Str(text) => text.as_str().into(),
                    other => panic!("{name} is {other:?}"),
                };
                assert_eq!(&value, line(i).get(name).unwrap_or(&Value::Null), "{name} of {i}");
            }
            assert_eq!(row.len(), 10);
        }
    }
}
