//! The API as a process while clients hold connections, guess keys, and reach limits.

use std::{
    fs,
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use reqwest::{Client, StatusCode};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use test_servers::free_port;
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpSocket, TcpStream},
};

use crate::{
    engine::{Engine, Process, log, turnfold},
    first_minutes::line_of,
};

/// Connections that clients hold at the same time.
const HELD: usize = 2_000;

/// Every hundredth of them is a stream whose client never reads, until the API can send no more.
const STREAM_EVERY: usize = 100;

/// Maximum time of an answer while they are held; 100 ms on a machine that does nothing else.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

/// Wrong keys that one address sends.
const GUESSES: usize = 3_000;

/// Opens a connection, sends a text, and reads nothing.
async fn hold(address: SocketAddr, text: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    // Small, so that a stream that is not read soon waits for its reader.
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

fn is_open(stream: &TcpStream) -> bool {
    stream
        .try_read(&mut [0; 1])
        .map_or_else(|error| error.kind() == std::io::ErrorKind::WouldBlock, |bytes| 0 < bytes)
}

/// Sends a request on a connection of its own. Returns the time until it is answered.
async fn time_of(client: &Client, url: &str) -> Duration {
    let began = Instant::now();
    let answer = client.get(url).send().await.expect("it is answered");
    let status = answer.status();
    answer.bytes().await.expect("the answer is complete");
    assert_eq!(status, StatusCode::OK, "{url}");
    began.elapsed()
}

#[expect(clippy::print_stderr, reason = "it reports the times that it measures")]
fn report(phase: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let [median, late, worst] = [0.5, 0.95, 1.0].map(at);
    eprintln!("{} answers {phase}: median {median:?}, 95 % within {late:?}, slowest {worst:?}", times.len());
    assert!(worst < ANSWERED_WITHIN, "{times:?}");
}

/// Runs a turn with a log of about 4 MiB.
async fn long_thread(engine: &Engine) -> String {
    let turn = json!({"strategy": "probe", "input": "steps 20; echo done", "config": {"padding": 200_000}});
    let turn = engine.post("/v1/turns?wait=60", &turn).await;
    assert_eq!(turn["status"], "completed", "{turn}");
    turn["thread_id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn real_engine_answers_while_two_thousand_connections_are_held() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    // No time limit ends them during the test.
    let engine = Engine::start("header_timeout_seconds = 600\nbody_timeout_seconds = 600\n").await;
    let worker = engine.worker("w1");
    let thread = long_thread(&engine).await;
    worker.kill();
    let address: SocketAddr = engine.url.trim_start_matches("http://").parse().unwrap();
    let host = "HTTP/1.1\r\nhost: 127.0.0.1\r\n";
    // Nothing, a part of the request line, of the headers, of the body, and an idle connection.
    let kinds = [
        String::new(),
        "GET /v1/tur".to_owned(),
        format!("GET /v1/turns {host}x-a"),
        format!(
            "POST /v1/turns {host}content-type: application/json\r\ncontent-length: 100\r\n\r\n{{\"input\""
        ),
        format!("GET /livez {host}\r\n"),
    ];
    let stream = format!("GET /v1/threads/{thread}/events {host}accept: text/event-stream\r\n\r\n");
    let urls = ["/livez", "/v1/turns?limit=1"].map(|path| format!("{}{path}", engine.url));
    let client = Client::builder().pool_max_idle_per_host(0).build().unwrap();
    let (mut held, mut opening, mut holding) = (Vec::new(), Vec::new(), Vec::new());
    for (nth, kind) in kinds.iter().cycle().take(HELD).enumerate() {
        let text = if nth % STREAM_EVERY == 0 { &stream } else { kind };
        held.push(hold(address, text).await);
        if nth % 20 == 0 {
            opening.push(time_of(&client, &urls[nth / 20 % 2]).await);
        }
    }
    for nth in 0..400 {
        holding.push(time_of(&client, &urls[nth % 2]).await);
    }
    let open = held.iter().filter(|stream| is_open(stream)).count();
    assert_eq!(open, HELD, "the connections were held throughout");
    report("while 2,000 connections are opened", &mut opening);
    report("while 2,000 connections are held", &mut holding);
}

/// A client that sends from this loopback address.
fn client_at(address: [u8; 4]) -> Client {
    Client::builder().local_address(IpAddr::from(address)).build().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_keys_are_slowed_down_by_address_and_logged_in_few_lines() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let config = "[api]\nkeys = ['env:ALICE_KEY']\naccess_log = false\n";
    fs::write(folder.path().join("turnfold.toml"), config).unwrap();
    let listen = format!("127.0.0.1:{}", free_port());
    let key = "k".repeat(40);
    let mut command = turnfold(folder.path());
    command.args(["dev", "--listen", &listen]).env("ALICE_KEY", &key).stderr(log(folder.path(), "dev"));
    let _dev = Process::start(&mut command);
    let log = folder.path().join("dev.log");
    line_of(&log, "turnfold is ready at ");
    let url = format!("http://{listen}/v1/turns?limit=1");
    let ask = async |client: &Client, key: &str| client.get(&url).bearer_auth(key).send().await.unwrap();

    let (guesser, other) = (client_at([127, 0, 0, 2]), client_at([127, 0, 0, 3]));
    let (began, mut checked) = (Instant::now(), 0);
    for nth in 0..GUESSES {
        let answer = ask(&guesser, &format!("guess-{nth}")).await;
        match answer.status() {
            StatusCode::UNAUTHORIZED => checked += 1,
            status => {
                assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
                assert!(answer.headers().contains_key("retry-after"));
            }
        }
        if nth % 500 == 499 {
            assert_eq!(ask(&guesser, &key).await.status(), StatusCode::OK, "a right key is not slowed down");
            let answer = ask(&other, &format!("other-{nth}")).await;
            assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "nor is another address");
        }
    }
    // 20 at once and one in three seconds, which a busy machine may take to send them.
    let seconds = usize::try_from(began.elapsed().as_secs()).unwrap();
    assert!((20..=21 + seconds / 3).contains(&checked), "{checked} of {GUESSES} keys were looked up");
    let text = fs::read_to_string(&log).unwrap();
    let lines = |address: &str| {
        let of = |line: &&str| line.contains("wrong API key") && line.contains(address);
        text.lines().filter(of).count()
    };
    for address in ["127.0.0.2", "127.0.0.3"] {
        assert!((1..=1 + seconds / 60).contains(&lines(address)), "{address}: {text}");
    }
    assert!(!text.contains("guess-"), "a key is never logged: {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_limit_that_refuses_requests_is_logged_once() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let config = "[api]\nwaiting_max = 3\nmax_streams_per_key = 1\nmax_connections = 20\naccess_log = false\n\
                  [tenants.acme]\nmax_waiting_turns = 1\nstorage_mib = 1\n";
    fs::write(folder.path().join("turnfold.toml"), config).unwrap();
    let listen = format!("127.0.0.1:{}", free_port());
    let mut command = turnfold(folder.path());
    let _dev = Process::start(command.args(["dev", "--listen", &listen]).stderr(log(folder.path(), "dev")));
    let log = folder.path().join("dev.log");
    line_of(&log, "turnfold is ready at ");
    let (client, url) = (Client::new(), format!("http://{listen}"));
    let submit = async |tenant: &str| {
        let turn = json!({"strategy": "probe", "input": "echo hi", "delay_seconds": 3_600});
        let request = client.post(format!("{url}/v1/turns")).header("x-turnfold-tenant", tenant).json(&turn);
        request.send().await.unwrap()
    };
    let first: Value = submit("acme").await.json().await.unwrap();
    let stream = format!("{url}/v1/threads/{}/events", first["thread_id"].as_str().unwrap());
    let follow = async || client.get(&stream).header("accept", "text/event-stream").send().await.unwrap();
    let _open = follow().await;
    for _ in 0..3 {
        assert_eq!(submit("acme").await.status(), StatusCode::TOO_MANY_REQUESTS, "the limit of acme");
    }
    for _ in 0..2 {
        assert_eq!(submit("bell").await.status(), StatusCode::ACCEPTED);
    }
    for _ in 0..3 {
        assert_eq!(submit("bell").await.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(follow().await.status(), StatusCode::TOO_MANY_REQUESTS);
        let upload = client.post(format!("{url}/v1/files")).header("x-turnfold-tenant", "acme");
        let upload = upload.header("content-type", "multipart/form-data; boundary=x").body(form());
        assert_eq!(upload.send().await.unwrap().status(), StatusCode::INSUFFICIENT_STORAGE);
    }
    let address: SocketAddr = listen.parse().unwrap();
    let mut held = Vec::new();
    for _ in 0..30 {
        held.push(hold(address, "").await);
    }
    let warned = |limit: &str| {
        let field = format!("limit={limit} ");
        line_of(&log, &field);
        let text = fs::read_to_string(&log).unwrap();
        let of = |line: &&str| line.contains(&field);
        assert_eq!(text.lines().filter(of).count(), 1, "{text}");
        text.lines().find(|line| of(line)).unwrap().to_owned()
    };
    for limit in ["waiting_max", "max_streams_per_key", "max_connections"] {
        let line = warned(limit);
        assert!(line.contains("WARN") && line.contains("times=1"), "{line}");
    }
    for limit in ["max_waiting_turns", "storage_mib"] {
        assert!(warned(limit).contains("tenant=acme"));
    }
}

/// An upload of 2 MiB.
fn form() -> Vec<u8> {
    let head = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.jsonl\"\r\n\r\n";
    [head.as_bytes(), &vec![b'x'; 2 << 20], b"\r\n--x--\r\n"].concat()
}
