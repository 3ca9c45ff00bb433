//! The part of PostgreSQL's protocol that sends one statement and reads the rows as text.
//!
//! A server is thereby ready when a client would call it ready, and no client must be installed.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// Version 3.0 of the protocol.
const VERSION: u32 = 196_608;
/// Maximum time for one answer. Creating a database on a busy machine takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Connects as `postgres`, runs `sql` and disconnects.
pub(crate) fn query(port: u16, database: &str, sql: &str) -> Result<Vec<Vec<String>>, String> {
    let mut wire = connect(port, database).map_err(|error| error.to_string())?;
    answer(&mut wire)?;
    let statement = [b"Q", &frame(&[sql.as_bytes(), b"\0"])[..]].concat();
    wire.write_all(&statement).map_err(|error| error.to_string())?;
    answer(&mut wire)
}

fn connect(port: u16, database: &str) -> io::Result<TcpStream> {
    let mut wire = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    wire.set_read_timeout(Some(PATIENCE))?;
    let parameters = format!("user\0postgres\0database\0{database}\0\0");
    wire.write_all(&frame(&[&VERSION.to_be_bytes(), parameters.as_bytes()]))?;
    Ok(wire)
}

/// A message's length, which includes itself, and its body.
fn frame(parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let length = u32::try_from(body.len() + 4).expect("a short message");
    [&length.to_be_bytes()[..], &body].concat()
}

/// Reads until the server is ready for the next statement.
fn answer(wire: &mut TcpStream) -> Result<Vec<Vec<String>>, String> {
    let mut rows = Vec::new();
    let mut refused = None;
    loop {
        let (kind, body) =
            message(wire).map_err(|error| refused.take().unwrap_or_else(|| error.to_string()))?;
        match kind {
            b'D' => rows.push(row(&body).ok_or("a row that ends early")?),
            b'E' => refused = Some(complaint(&body)),
            b'Z' => return refused.map_or(Ok(rows), Err),
            // Settings, notices, column names and the like.
            _ => {}
        }
    }
}

fn message(wire: &mut TcpStream) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 5];
    wire.read_exact(&mut head)?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
    let mut body = vec![0; (length as usize).saturating_sub(4)];
    wire.read_exact(&mut body)?;
    Ok((head[0], body))
}

/// The columns of a `DataRow`.
fn row(body: &[u8]) -> Option<Vec<String>> {
    let (columns, mut rest) = body.split_first_chunk()?;
    let mut row = Vec::new();
    for _ in 0..u16::from_be_bytes(*columns) {
        let (length, behind) = rest.split_first_chunk()?;
        // NULL has the length -1.
        let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or(0);
        let (column, behind) = behind.split_at_checked(length)?;
        row.push(String::from_utf8_lossy(column).into_owned());
        rest = behind;
    }
    Some(row)
}

/// The message among an error's fields.
fn complaint(body: &[u8]) -> String {
    let mut fields = body.split(|byte| *byte == 0);
    let message = fields.find_map(|field| field.strip_prefix(b"M"));
    String::from_utf8_lossy(message.unwrap_or(b"an error without a message")).into_owned()
}
