//! Unusable servers: errors name the cause and no password.

use std::{
    collections::BTreeSet,
    error::Error,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
};

use queue::{Lane, Queue as _, QueueError, RedisQueue, Schedule};
use test_servers::Redis;
use uuid::Uuid;

use super::SHORT_LEASE;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_errors_show_no_password() {
    let redis = Redis::start();
    redis.ask("CONFIG SET requirepass correct-horse");
    let url = redis.url();
    let address = url.strip_prefix("redis://").unwrap();
    let wrong = connect(&format!("redis://:hunter2@{address}")).await.unwrap_err();
    assert!(matches!(wrong, QueueError::Refused { .. }), "{wrong:?}");
    let unreachable = connect("redis://ada:hunter2@127.0.0.1:1/3").await.unwrap_err();
    assert!(matches!(unreachable, QueueError::Unavailable { .. }), "{unreachable:?}");
    let not_redis = connect("http://ada:hunter2@127.0.0.1").await.unwrap_err();
    assert!(matches!(not_redis, QueueError::Address { .. }), "{not_redis:?}");
    for error in [wrong, unreachable, not_redis] {
        let message = format!("{error} {error:?} {}", error.source().expect("a cause"));
        assert!(!message.contains("hunter2"), "{message}");
    }
    connect(&format!("redis://:correct-horse@{address}")).await.unwrap();
}

/// An old server quotes commands that it does not know.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_the_server_quotes_is_redacted() {
    let address = serve(|command| format!("-ERR unknown command, with args beginning with: {command:?}\r\n"));
    let error = connect(&format!("redis://ada:hunter2@{address}/?protocol=resp3")).await.unwrap_err();
    let message = format!("{error} {error:?} {}", error.source().expect("a cause"));
    assert!(message.contains("***"), "the server's answer is quoted: {message}");
    assert!(!message.contains("hunter2"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_redis_is_rejected_with_the_missing_command() {
    let info = "redis_version:6.0.16\r\n";
    let address = serve(move |command| match command[0].as_str() {
        "INFO" => format!("${}\r\n{info}\r\n", info.len()),
        _ => "+OK\r\n".to_owned(),
    });
    let error = connect(&format!("redis://{address}")).await.unwrap_err();
    assert!(matches!(&error, QueueError::TooOld { found } if found == "6.0.16"), "{error:?}");
    assert!(error.to_string().contains("XAUTOCLAIM"), "{error}");
}

/// A server was demoted to a replica. A client that kept its connection would never reach the new primary behind the same name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_demoted_to_a_replica_is_disconnected() {
    let redis = Redis::start();
    let queue =
        RedisQueue::connect(&queue::Prefix::default(), &redis.url(), SHORT_LEASE, "ada").await.unwrap();
    let enqueue = async || queue.enqueue(Uuid::now_v7(), &Lane::default(), Schedule::Now).await;
    let clients = || -> BTreeSet<String> {
        let list = redis.ask("CLIENT LIST TYPE normal");
        list.lines().filter_map(|client| client.split(' ').next()).map(str::to_owned).collect()
    };
    enqueue().await.unwrap();
    let before = clients();
    redis.ask("REPLICAOF 127.0.0.1 1");
    let refused = enqueue().await.unwrap_err();
    assert!(matches!(refused, QueueError::Unavailable { .. }), "{refused:?}");
    assert_eq!(queue.depth().await.unwrap().waiting, 1, "reads still work");
    let after = clients();
    assert!(!before.is_empty() && before.is_disjoint(&after), "{before:?}, then {after:?}");
    redis.ask("REPLICAOF NO ONE");
    enqueue().await.unwrap();
}

/// Starts a server that answers each command with this function; returns its address.
fn serve(answer: impl Fn(&[String]) -> String + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            while let Some(command) = read_command(&mut stream) {
                // The client may have disconnected.
                let _ = stream.get_mut().write_all(answer(&command).as_bytes());
            }
        }
    });
    address
}

fn read_command(stream: &mut impl BufRead) -> Option<Vec<String>> {
    let words = read_number(stream, '*')?;
    let mut command = Vec::new();
    for _ in 0..words {
        let mut word = vec![0; read_number(stream, '$')? + 2];
        stream.read_exact(&mut word).ok()?;
        command.push(String::from_utf8_lossy(&word).trim_end().to_owned());
    }
    Some(command)
}

fn read_number(stream: &mut impl BufRead, mark: char) -> Option<usize> {
    let mut line = String::new();
    stream.read_line(&mut line).ok()?;
    line.trim_end().strip_prefix(mark)?.parse().ok()
}

async fn connect(url: &str) -> Result<(), QueueError> {
    RedisQueue::connect(&queue::Prefix::default(), url, SHORT_LEASE, "ada").await.map(drop)
}
