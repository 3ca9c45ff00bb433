//! The shape of every statement over a distributed table: it names threads by value, and changes no local table too.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// Tables that Citus distributes.
const DISTRIBUTED: [&str; 2] = ["events", "attachments"];

/// Statements over all threads, which all nodes execute: a page of threads for a scan, and the number of all events.
const OF_ALL_THREADS: [&str; 2] =
    ["SELECT DISTINCT thread_id AS id FROM events WHERE thread_id >", "SELECT COUNT(\"events\".\"seq\")"];

/// Statements of the test itself, which tampers with a log.
const TAMPERING: &str = "UPDATE events SET";

/// First message of a connection that does not ask for encryption.
const STARTUP: [u8; 4] = [0, 3, 0, 0];

/// Records every statement on its way to a PostgreSQL server.
pub(crate) struct Recorder {
    url: String,
    statements: Arc<Mutex<Vec<String>>>,
}

impl Recorder {
    /// Listens before the server of this URL.
    pub(crate) fn before(url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (_, place) = url.split_once('@').unwrap();
        let (server, _) = place.split_once('/').unwrap();
        let url = url.replacen(server, &listener.local_addr().unwrap().to_string(), 1);
        let (server, statements) = (server.to_owned(), Arc::<Mutex<Vec<String>>>::default());
        let recorded = Arc::clone(&statements);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(&server) else { continue };
                // Small messages are passed on at once.
                [&client, &server].iter().for_each(|stream| stream.set_nodelay(true).unwrap());
                let (mut replies, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                thread::spawn(move || io::copy(&mut replies, &mut to_client));
                let recorded = Arc::clone(&recorded);
                thread::spawn(move || forward(client, server, &recorded));
            }
        });
        Self { url, statements }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the statements so far in order, each in one line.
    pub(crate) fn statements(&self) -> Vec<String> {
        self.statements.lock().unwrap().clone()
    }
}

/// Passes the messages of a client on, and records the statements that it executes.
fn forward(mut client: TcpStream, mut server: TcpStream, recorded: &Mutex<Vec<String>>) -> io::Result<()> {
    let mut prepared = BTreeMap::<String, String>::new();
    let mut is_started = false;
    loop {
        let mut message = vec![0; if is_started { 5 } else { 4 }];
        client.read_exact(&mut message)?;
        let start = message.len();
        let length: [u8; 4] = message[start - 4..].try_into().unwrap();
        message.resize(start - 4 + u32::from_be_bytes(length) as usize, 0);
        client.read_exact(&mut message[start..])?;
        let mut texts = message[start..].split(|byte| *byte == 0).map(String::from_utf8_lossy);
        let mut text = || texts.next().unwrap_or_default().into_owned();
        match (is_started, message[0]) {
            (false, _) => is_started = message[4..].starts_with(&STARTUP),
            (true, b'Q') => recorded.lock().unwrap().push(in_one_line(&text())),
            (true, b'P') => drop(prepared.insert(text(), in_one_line(&text()))),
            // The name of a portal comes before that of its statement.
            (true, b'B') => {
                text();
                recorded.lock().unwrap().extend(prepared.get(&text()).cloned());
            }
            (true, _) => {}
        }
        server.write_all(&message)?;
    }
}

fn in_one_line(sql: &str) -> String {
    sql.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the rule that a statement breaks.
pub(crate) fn broken_rule(sql: &str) -> Option<&'static str> {
    let tables: Vec<&str> = DISTRIBUTED.into_iter().filter(|table| reads_or_changes(sql, table)).collect();
    let is_exempt = OF_ALL_THREADS.iter().any(|part| sql.contains(part)) || sql.starts_with(TAMPERING);
    if tables.is_empty() || is_exempt {
        return None;
    }
    let inserts = |table: &str| {
        sql.contains(&format!("INSERT INTO {table} (thread_id,"))
            || sql.contains(&format!("INSERT INTO \"{table}\" (\"thread_id\","))
    };
    let names_threads = ["thread_id = $", "\"thread_id\" = $", "thread_id = ANY ($", "thread_id IN ("]
        .iter()
        .any(|key| sql.contains(key));
    if sql.contains("LATERAL") {
        return Some("it has no LATERAL");
    }
    if !names_threads && !tables.iter().any(|table| inserts(table)) {
        return Some("it names its threads by value");
    }
    let changes =
        ["INSERT INTO", "UPDATE ", "DELETE FROM"].iter().map(|verb| sql.matches(verb).count()).sum::<usize>();
    let is_upsert = sql.contains("DO UPDATE SET");
    (changes > 1 && !is_upsert).then_some("it changes one table")
}

fn reads_or_changes(sql: &str, table: &str) -> bool {
    let word = |part: &str| part.trim_matches(|char: char| !char.is_alphanumeric() && char != '_') == table;
    let words: Vec<&str> = sql.split_whitespace().collect();
    words.windows(2).any(|pair| {
        ["FROM", "JOIN", "INTO", "UPDATE"].contains(&pair[0].trim_start_matches('(')) && word(pair[1])
    })
}

#[test]
fn rules_are_those_of_a_distributed_planner() {
    for (sql, broken) in [
        ("SELECT thread_id FROM events WHERE thread_id = $1 AND seq BETWEEN $2 AND $3", None),
        ("SELECT * FROM threads WHERE status = $1", None),
        ("DELETE FROM attachments WHERE thread_id = ANY ($1::uuid[])", None),
        ("SELECT * FROM events WHERE seq = 0", Some("it names its threads by value")),
        (
            "SELECT log.* FROM unnest($1::uuid[]) AS it (id) CROSS JOIN LATERAL (SELECT * FROM events WHERE thread_id = it.id) AS log",
            Some("it has no LATERAL"),
        ),
        (
            "WITH begun AS (INSERT INTO events (thread_id, seq) SELECT $1, 0) UPDATE threads SET status = $2",
            Some("it changes one table"),
        ),
    ] {
        assert_eq!(broken_rule(sql), broken, "{sql}");
    }
}
