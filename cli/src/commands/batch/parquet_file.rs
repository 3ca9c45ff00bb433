//! Writes rows as Parquet, one row group at a time.

use std::{io::Write, sync::Arc};

use parquet::{
    data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type},
    errors::ParquetError,
    file::writer::{SerializedFileWriter, SerializedRowGroupWriter},
    schema::parser::parse_message_type,
};

use super::row::{COLUMNS, Row};

/// Maximum number of rows in a row group.
const GROUP: usize = 10_000;

/// Approximate maximum size of a row group, in bytes.
const GROUP_BYTES: usize = 32 << 20;

/// A Parquet file that is being written.
pub(super) struct Parquet<W: Write + Send> {
    file: SerializedFileWriter<W>,
    buffered: Vec<Row>,
    bytes: usize,
}

impl<W: Write + Send> Parquet<W> {
    pub(super) fn begin(to: W) -> Result<Self, ParquetError> {
        let [line, id, status, answer, code, message, tokens, usd, outcome, cause] = COLUMNS;
        let schema = format!(
            "message result {{ OPTIONAL INT64 {line}; REQUIRED BINARY {id} (UTF8); REQUIRED BINARY {status} (UTF8);
             OPTIONAL BINARY {answer} (UTF8); OPTIONAL BINARY {code} (UTF8); OPTIONAL BINARY {message} (UTF8);
             OPTIONAL INT64 {tokens}; OPTIONAL DOUBLE {usd};
             OPTIONAL BINARY {outcome} (UTF8); OPTIONAL BINARY {cause} (UTF8); }}"
        );
        let schema = Arc::new(parse_message_type(&schema)?);
        Ok(Self {
            file: SerializedFileWriter::new(to, schema, Arc::default())?,
            buffered: Vec::new(),
            bytes: 0,
        })
    }

    pub(super) fn push(&mut self, row: Row) -> Result<(), ParquetError> {
        self.bytes += row.bytes();
        self.buffered.push(row);
        if self.buffered.len() < GROUP && self.bytes < GROUP_BYTES { Ok(()) } else { self.flush() }
    }

    /// Writes the buffered rows and the end of the file.
    pub(super) fn end(mut self) -> Result<W, ParquetError> {
        self.flush()?;
        self.file.into_inner()
    }

    fn flush(&mut self) -> Result<(), ParquetError> {
        let rows = std::mem::take(&mut self.buffered);
        self.bytes = 0;
        if rows.is_empty() {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        let all = |of: fn(&Row) -> &str| rows.iter().map(|row| ByteArray::from(of(row))).collect::<Vec<_>>();
        let some = |of: fn(&Row) -> Option<&str>| {
            rows.iter().map(|row| of(row).map(ByteArray::from)).collect::<Vec<_>>()
        };
        optional::<Int64Type, _>(&mut group, rows.iter().map(|row| row.line).collect())?;
        required(&mut group, &all(|row| &row.custom_id))?;
        required(&mut group, &all(|row| &row.status))?;
        optional::<ByteArrayType, _>(&mut group, some(|row| row.answer.as_deref()))?;
        optional::<ByteArrayType, _>(&mut group, some(|row| row.error_code.as_deref()))?;
        optional::<ByteArrayType, _>(&mut group, some(|row| row.error_message.as_deref()))?;
        optional::<Int64Type, _>(&mut group, rows.iter().map(|row| row.tokens).collect())?;
        optional::<DoubleType, _>(&mut group, rows.iter().map(|row| row.usd).collect())?;
        optional::<ByteArrayType, _>(&mut group, some(|row| row.outcome.as_deref()))?;
        optional::<ByteArrayType, _>(&mut group, some(|row| row.cause.as_deref()))?;
        group.close()?;
        Ok(())
    }
}

fn required<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[ByteArray],
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    column.typed::<ByteArrayType>().write_batch(values, None, None)?;
    column.close()
}

fn optional<T: parquet::data_type::DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: Vec<Option<T::T>>,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let values: Vec<T::T> = values.into_iter().flatten().collect();
    column.typed::<T>().write_batch(&values, Some(&levels), None)?;
    column.close()
}

#[test]
fn a_written_file_can_be_read() {
    use parquet::{
        file::reader::{FileReader as _, SerializedFileReader},
        record::RowAccessor as _,
    };

    let mut file = Parquet::begin(tempfile::tempfile().unwrap()).unwrap();
    for _ in 0..6_000 {
        for line in super::row::tests::lines() {
            file.push(Row::of(&line)).unwrap();
        }
    }
    let reader = SerializedFileReader::new(file.end().unwrap()).unwrap();
    assert_eq!((reader.num_row_groups(), reader.metadata().file_metadata().num_rows()), (3, 24_000));
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().take(4).map(Result::unwrap).collect();
    assert_eq!((rows[0].get_long(0).unwrap(), rows[0].get_string(3).unwrap().as_str()), (7, "a, \"b\"\nc"));
    assert_eq!((rows[1].get_long(6).unwrap(), rows[1].get_double(7).unwrap()), (7, 0.25));
    assert_eq!(rows[3].get_string(4).unwrap(), "expired_queue_wait");
    assert!(rows[3].get_string(3).is_err(), "the value is null");
    assert_eq!(
        (rows[0].get_string(8).unwrap().as_str(), rows[0].get_string(9).unwrap().as_str()),
        ("partial", "rounds")
    );
}

#[test]
fn long_rows_are_written_in_smaller_groups() {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};

    let mut file = Parquet::begin(tempfile::tempfile().unwrap()).unwrap();
    for _ in 0..65 {
        file.push(Row { answer: Some("x".repeat(1 << 20)), ..Row::default() }).unwrap();
    }
    let reader = SerializedFileReader::new(file.end().unwrap()).unwrap();
    let groups: Vec<i64> = reader.metadata().row_groups().iter().map(|group| group.num_rows()).collect();
    assert_eq!(groups, [32, 32, 1]);
}
