//! Writes rows as Parquet, one row group at a time.

use std::{io::Write, sync::Arc};

use parquet::{
    basic::{Compression, ZstdLevel},
    data_type::{ByteArray, ByteArrayType, Int64Type},
    errors::ParquetError,
    file::{
        properties::WriterProperties,
        writer::{SerializedFileWriter, SerializedRowGroupWriter},
    },
    schema::parser::parse_message_type,
};

use super::row::{Cell, Row};

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
        let column = |(name, cell): (&str, Cell<'_>)| match cell {
            Cell::Integer(_) => format!("OPTIONAL INT64 {name};"),
            Cell::Money(_) => format!("OPTIONAL INT64 {name} (DECIMAL(18,6));"),
            Cell::Time(_) => format!("OPTIONAL INT64 {name} (TIMESTAMP(MICROS,true));"),
            Cell::Text(_) => format!("OPTIONAL BINARY {name} (UTF8);"),
            Cell::Required(_) => format!("REQUIRED BINARY {name} (UTF8);"),
        };
        let columns: String = Row::default().cells().into_iter().map(column).collect();
        let schema = Arc::new(parse_message_type(&format!("message result {{ {columns} }}"))?);
        let compression = Compression::ZSTD(ZstdLevel::default());
        let properties = WriterProperties::builder().set_compression(compression).build();
        Ok(Self {
            file: SerializedFileWriter::new(to, schema, Arc::new(properties))?,
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
        let cells: Vec<_> = rows.iter().map(Row::cells).collect();
        for (at, (_, kind)) in Row::default().cells().into_iter().enumerate() {
            let column = cells.iter().map(|row| row[at].1);
            let texts = || column.clone().map(|cell| cell.text().map(ByteArray::from));
            match kind {
                Cell::Integer(_) | Cell::Money(_) | Cell::Time(_) => {
                    optional::<Int64Type, _>(&mut group, column.map(Cell::number).collect())?
                }
                Cell::Text(_) => optional::<ByteArrayType, _>(&mut group, texts().collect())?,
                Cell::Required(_) => required(&mut group, &texts().flatten().collect::<Vec<_>>())?,
            }
        }
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
    assert_eq!((rows[1].get_long(9).unwrap(), rows[1].get_long(14).unwrap()), (3, 2), "tokens and attempts");
    assert_eq!(rows[0].get_decimal(11).unwrap().data(), 250_000_i64.to_be_bytes());
    assert_eq!(rows[0].get_timestamp_micros(12).unwrap(), 1_795_906_800_000_001);
    assert_eq!(rows[3].get_string(4).unwrap(), "expired_queue_wait");
    assert!(rows[3].get_string(3).is_err(), "the value is null");
    assert_eq!(
        (rows[0].get_string(6).unwrap().as_str(), rows[0].get_string(7).unwrap().as_str()),
        ("partial", "rounds")
    );
}

#[test]
fn columns_have_the_types_that_readers_of_tables_expect() {
    use parquet::{
        file::reader::{FileReader as _, SerializedFileReader},
        schema::printer::print_schema,
    };

    let mut file = Parquet::begin(tempfile::tempfile().unwrap()).unwrap();
    file.push(Row::of(&super::row::tests::lines()[0])).unwrap();
    let reader = SerializedFileReader::new(file.end().unwrap()).unwrap();
    let mut schema = Vec::new();
    print_schema(&mut schema, reader.metadata().file_metadata().schema());
    let types = String::from_utf8(schema).unwrap();
    let types: Vec<&str> = types.lines().map(str::trim).filter(|line| line.ends_with(';')).collect();
    assert_eq!(
        types,
        [
            "OPTIONAL INT64 line;",
            "OPTIONAL BYTE_ARRAY custom_id (UTF8);",
            "REQUIRED BYTE_ARRAY status (UTF8);",
            "OPTIONAL BYTE_ARRAY answer (UTF8);",
            "OPTIONAL BYTE_ARRAY error_code (UTF8);",
            "OPTIONAL BYTE_ARRAY error_message (UTF8);",
            "OPTIONAL BYTE_ARRAY outcome (UTF8);",
            "OPTIONAL BYTE_ARRAY cause (UTF8);",
            "OPTIONAL BYTE_ARRAY model (UTF8);",
            "OPTIONAL INT64 input_tokens;",
            "OPTIONAL INT64 output_tokens;",
            "OPTIONAL INT64 usd (DECIMAL(18,6));",
            "OPTIONAL INT64 started_at (TIMESTAMP(MICROS,true));",
            "OPTIONAL INT64 ended_at (TIMESTAMP(MICROS,true));",
            "OPTIONAL INT64 attempts;",
            "OPTIONAL BYTE_ARRAY thread_id (UTF8);",
            "OPTIONAL BYTE_ARRAY turn_id (UTF8);",
        ]
    );
    let columns = reader.metadata().row_group(0).columns();
    assert!(columns.iter().all(|column| matches!(column.compression(), Compression::ZSTD(_))));
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
