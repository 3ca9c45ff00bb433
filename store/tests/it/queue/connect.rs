//! Servers that cannot be used, and what is said of them: the cause, and no password.

use std::{
    collections::BTreeSet,
    error::Error,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
};

use store::queue::{Lane, Queue as _, QueueError, RedisQueue, When};
use testing::Redis;
use uuid::Uuid;

use super::LEASE;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_errors_show_no_password() {
    let redis = Redis::start();
    redis.ask("CONFIG SET requirepass correct-horse");
    let url = redis.url();
    let place = url.strip_prefix("redis://").unwrap();
    let wrong = connect(&format!("redis://:hunter2@{place}")).await.unwrap_err();
    assert!(matches!(wrong, QueueError::Refused { .. }), "{wrong:?}");
    let away = connect("redis://ada:hunter2@127.0.0.1:1/3").await.unwrap_err();
    assert!(matches!(away, QueueError::Unavailable { .. }), "{away:?}");
    let not_redis = connect("http://ada:hunter2@127.0.0.1").await.unwrap_err();
    assert!(matches!(not_redis, QueueError::Address { .. }), "{not_redis:?}");
    for error in [wrong, away, not_redis] {
        let told = format!("{error} {error:?} {}", error.source().expect("a cause"));
        assert!(!told.contains("hunter2"), "{told}");
    }
    connect(&format!("redis://:correct-horse@{place}")).await.unwrap();
}

/// An old server is the one that does not know a command and repeats it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_repeats_the_password_is_not_quoted() {
    let place = serve(|command| format!("-ERR unknown command, with args beginning with: {command:?}\r\n"));
    let error = connect(&format!("redis://ada:hunter2@{place}/?protocol=resp3")).await.unwrap_err();
    let told = format!("{error} {error:?} {}", error.source().expect("a cause"));
    assert!(told.contains("***"), "the server's words are told: {told}");
    assert!(!told.contains("hunter2"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_redis_is_told_what_it_lacks() {
    let info = "redis_version:6.0.16\r\n";
    let place = serve(move |command| match command[0].as_str() {
        "INFO" => format!("${}\r\n{info}\r\n", info.len()),
        _ => "+OK\r\n".to_owned(),
    });
    let error = connect(&format!("redis://{place}")).await.unwrap_err();
    assert!(matches!(&error, QueueError::TooOld { found } if found == "6.0.16"), "{error:?}");
    assert!(error.to_string().contains("XAUTOCLAIM"), "{error}");
}

/// A server was made a replica: whoever stayed with it would never come to the one that its name leads to by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_that_was_made_a_replica_is_left() {
    let redis = Redis::start();
    let queue = RedisQueue::connect(&redis.url(), LEASE, "ada").await.unwrap();
    let ring = async || queue.ring(Uuid::now_v7(), &Lane::default(), When::Now).await;
    let clients = || -> BTreeSet<String> {
        let list = redis.ask("CLIENT LIST TYPE normal");
        list.lines().filter_map(|it| it.split(' ').next()).map(str::to_owned).collect()
    };
    ring().await.unwrap();
    let before = clients();
    redis.ask("REPLICAOF 127.0.0.1 1");
    let refused = ring().await.unwrap_err();
    assert!(matches!(refused, QueueError::Unavailable { .. }), "{refused:?}");
    assert_eq!(queue.len().await.unwrap().waiting, 1, "it can still be read");
    let after = clients();
    assert!(!before.is_empty() && before.is_disjoint(&after), "{before:?} and now {after:?}");
    redis.ask("REPLICAOF NO ONE");
    ring().await.unwrap();
}

/// A server that answers every command so; says where it is.
fn serve(answer: impl Fn(&[String]) -> String + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for wire in listener.incoming() {
            let mut wire = BufReader::new(wire.unwrap());
            while let Some(command) = read_command(&mut wire) {
                // Whoever asked may have heard enough.
                let _ = wire.get_mut().write_all(answer(&command).as_bytes());
            }
        }
    });
    place
}

fn read_command(wire: &mut impl BufRead) -> Option<Vec<String>> {
    let words = read_number(wire, '*')?;
    let mut command = Vec::new();
    for _ in 0..words {
        let mut word = vec![0; read_number(wire, '$')? + 2];
        wire.read_exact(&mut word).ok()?;
        command.push(String::from_utf8_lossy(&word).trim_end().to_owned());
    }
    Some(command)
}

fn read_number(wire: &mut impl BufRead, mark: char) -> Option<usize> {
    let mut line = String::new();
    wire.read_line(&mut line).ok()?;
    line.trim_end().strip_prefix(mark)?.parse().ok()
}

async fn connect(url: &str) -> Result<(), QueueError> {
    RedisQueue::connect(url, LEASE, "ada").await.map(drop)
}
