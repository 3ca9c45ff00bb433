//! The servers start, are found, survive a restart, and leave nothing behind.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use test_servers::{Postgres, Proxy, Redis, free_port};

#[test]
fn real_part_is_made_once_and_anew_when_half_made() {
    let wanted = [("ms", "2.1.3")];
    let folder = test_servers::npm(&wanted);
    let ours = folder.join("ours");
    fs::write(&ours, "").unwrap();
    assert_eq!(test_servers::npm(&wanted), folder);
    assert!(ours.exists(), "what is there is made again");

    // As left by a killed process.
    fs::remove_file(folder.join("whole")).unwrap();
    fs::remove_dir_all(folder.join("node_modules")).unwrap();
    assert_eq!(test_servers::npm(&wanted), folder);
    assert!(!ours.exists(), "what is half made is taken for whole");
    assert!(folder.join("node_modules/ms/index.js").is_file());
}

#[test]
fn real_part_that_cannot_be_had_fails_with_words() {
    let never = std::panic::catch_unwind(|| test_servers::npm(&[("ms", "0.0.0-never")]));
    let words = never.unwrap_err().downcast::<String>().unwrap();
    for part in ["ms", "0.0.0-never", "from npm", "cannot be had", "check the network"] {
        assert!(words.contains(part), "{part:?} is not in: {words}");
    }
}

#[test]
fn real_postgres_keeps_its_data_over_a_kill() {
    let mut postgres = Postgres::start();
    let url = postgres.url();
    postgres.query("CREATE TABLE kept (word text)");
    postgres.query("INSERT INTO kept VALUES ('still here'), (NULL)");

    postgres.kill();
    assert!(!answers(&url), "a killed server answers");
    postgres.kill();
    postgres.restart();

    assert_eq!(postgres.url(), url);
    assert_eq!(postgres.query("SELECT word FROM kept ORDER BY word"), [["still here"], [""]]);
    assert_eq!(postgres.query("SHOW synchronous_commit"), [["on"]]);
    postgres.restart();
    assert!(answers(&url));
}

#[test]
fn real_postgres_comes_back_while_clients_were_busy() {
    let mut postgres = Postgres::start();
    let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'";
    thread::scope(|scope| {
        let client = scope.spawn(|| std::panic::catch_unwind(|| postgres.query("SELECT pg_sleep(20)")));
        until("a client is busy", || postgres.query(sleeping) == [["1"]]);
        // A second handle on the server would need a lock; its process id is enough to kill it.
        let server =
            postgres.query("SELECT pg_read_file('postmaster.pid')")[0][0].lines().next().map(str::to_owned);
        let kill = format!("kill -KILL {}", server.expect("a number"));
        // The shell's built-in: a minimal Debian has no other.
        assert!(Command::new("sh").args(["-c", &kill]).status().expect("a shell").success());
        assert!(client.join().expect("caught").is_err(), "a query outlived its server");
    });
    postgres.restart();
    assert_eq!(postgres.query(sleeping), [["0"]]);
}

#[test]
fn real_postgres_databases_are_apart() {
    let postgres = Postgres::start();
    let other = postgres.database("other");
    assert_eq!(other, postgres.url().replace("/turnfold", "/other"));
    assert_eq!(postgres.query("SELECT count(*) FROM pg_database WHERE datname = 'other'"), [["1"]]);
    assert!(std::panic::catch_unwind(|| postgres.database("other")).is_err(), "one name, two databases");
    assert!(std::panic::catch_unwind(|| postgres.database("a\"b")).is_err(), "a name that needs quoting");
}

#[test]
fn real_shared_databases_are_separate_and_dropped() {
    let (one, mut two) = (Postgres::shared(), Postgres::shared());
    assert_ne!(one.url(), two.url());
    one.query("CREATE TABLE kept (word text)");
    assert_eq!(two.query("SELECT count(*) FROM pg_class WHERE relname = 'kept'"), [["0"]]);
    let name = one.url().rsplit('/').next().unwrap().to_owned();
    let other = one.database("other").rsplit('/').next().unwrap().to_owned();
    let left = format!("SELECT count(*) FROM pg_database WHERE datname IN ('{name}', '{other}')");
    assert_eq!(two.query(&left), [["2"]]);
    drop(one);
    assert_eq!(two.query(&left), [["0"]]);
    let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| two.kill()));
    assert!(killed.unwrap_err().downcast_ref::<&str>().unwrap().contains("start a private one"));
    assert_eq!(two.query("SELECT 1"), [["1"]], "a test killed the server of the others");
}

#[test]
fn real_prepared_databases_are_copies_of_one_that_is_prepared_once() {
    let prepared = AtomicUsize::new(0);
    let copy = || {
        Postgres::prepared("template_of_the_test", |url| {
            assert!(answers(url) && url.ends_with("/template_of_the_test"), "{url}");
            prepared.fetch_add(1, Ordering::Relaxed);
        })
    };
    let (one, two) = (copy(), copy());
    assert_eq!(prepared.load(Ordering::Relaxed), 1);
    one.query("CREATE TABLE kept (word text)");
    assert_eq!(two.query("SELECT count(*) FROM pg_class WHERE relname = 'kept'"), [["0"]]);
    let closed = "SELECT datallowconn FROM pg_database WHERE datname = 'template_of_the_test'";
    assert_eq!(two.query(closed), [["f"]], "a client can disturb the copies");
}

#[test]
fn real_shared_server_ends_with_its_run() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // The shell is the runner; both programs are tests of its run.
    let run = r#""$1" shared </dev/null && "$1" shared </dev/null; read -r _"#;
    let mut runner = Command::new("sh");
    runner.args(["-c", run, "runner", env!("CARGO_BIN_EXE_servers")]).env("TMPDIR", folder.path());
    let mut runner = runner.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(runner.stdout.take().unwrap()).lines();
    let urls: Vec<String> = output.take(2).map(|line| line.unwrap()).collect();
    let server = |url: &str| url.rsplit_once('/').unwrap().0.to_owned();
    assert_eq!(server(&urls[0]), server(&urls[1]), "two servers in one run");
    assert!(answers(&urls[0]), "the server ended with the test that started it");

    runner.kill().unwrap();
    runner.wait().unwrap();
    until("the server has ended", || !answers(&urls[0]));
    until("every file is removed", || fs::read_dir(folder.path()).unwrap().next().is_none());
}

#[test]
fn real_redis_forgets() {
    let mut redis = Redis::start();
    let url = redis.url();
    redis.ask("SET key value");
    assert_eq!(redis.ask("GET key"), "value");
    redis.flush_all();
    assert_eq!(redis.ask("EXISTS key"), "0");

    redis.ask("SET key value");
    redis.kill();
    assert!(!answers(&url), "a killed server answers");
    redis.restart();
    assert_eq!((redis.url(), redis.ask("EXISTS key")), (url, "0".to_owned()));
}

/// The kernel's death signal belongs to the thread that starts a child, and a test may start its servers from a
/// short-lived thread.
#[test]
fn real_servers_outlive_the_thread_that_started_them() {
    let redis = thread::spawn(Redis::start).join().expect("started");
    thread::sleep(Duration::from_millis(100));
    assert_eq!(redis.ask("PING"), "PONG");
}

#[test]
fn free_ports_differ() {
    let mut ports: Vec<u16> = (0..50).map(|_| free_port()).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 50);
}

#[test]
fn real_servers_leave_nothing_behind_when_dropped() {
    let mut holder = Holder::start();
    drop(holder.process.stdin.take());
    assert!(holder.process.wait().expect("waited").success());
    assert_eq!(holder.processes(), [0_u32; 0], "processes are left");
    assert_eq!(holder.files(), [""; 0], "files are left");
}

#[test]
fn real_servers_leave_nothing_behind_when_their_parent_is_killed() {
    let mut holder = Holder::start();
    assert!(holder.processes().len() > 3, "the servers were not where this test looks");
    holder.process.kill().expect("killed");
    holder.process.wait().expect("waited");
    until("every process has ended", || holder.processes().is_empty());
    until("every file is removed", || holder.files().is_empty());
    assert!(holder.urls.iter().all(|url| !answers(url)), "a server answers");
}

/// Another process that holds servers, with its own temporary folder, which is checked for leftovers.
struct Holder {
    process: Child,
    urls: Vec<String>,
    folder: tempfile::TempDir,
}

impl Holder {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        // PostgreSQL may run as another user.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("opened");
        let mut process = Command::new(env!("CARGO_BIN_EXE_servers"))
            .env("TMPDIR", folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let said = BufReader::new(process.stdout.take().expect("piped")).lines();
        let urls: Vec<String> = said.take(2).map(|line| line.expect("read")).collect();
        assert!(urls.len() == 2 && urls.iter().all(|url| answers(url)), "{urls:?}");
        Self { process, urls, folder }
    }

    /// Processes whose working directory is in the folder.
    fn processes(&self) -> Vec<u32> {
        let all = fs::read_dir("/proc").expect("listed").flatten();
        let here = |process: &u32| {
            let place = fs::read_link(format!("/proc/{process}/cwd"));
            place.is_ok_and(|place| place.starts_with(self.folder.path()))
        };
        all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(here).collect()
    }

    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).expect("listed").flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}

/// Reports whether a server listens at the URL.
fn answers(url: &str) -> bool {
    let place = url.rsplit(['@', '/']).find(|part| part.contains(':')).expect("a port");
    TcpStream::connect(place).is_ok()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(20), "still not so: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn real_durable_redis_keeps_its_keys() {
    let mut redis = Redis::durable();
    redis.ask("SET key kept");
    // The file is synced once a second, but written at once, so it survives the process.
    redis.restart();
    assert_eq!(redis.ask("GET key"), "kept");
    redis.flush_all();
    redis.restart();
    assert_eq!(redis.ask("EXISTS key"), "0");
}

#[test]
fn a_wire_is_cut_silenced_and_mended() {
    let port = free_port();
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    thread::spawn(move || {
        for mut peer in server.incoming().flatten() {
            thread::spawn(move || {
                let mut letter = [0];
                while peer.read_exact(&mut letter).and_then(|()| peer.write_all(&letter)).is_ok() {}
            });
        }
    });
    let wire = Proxy::before(&format!("echo://127.0.0.1:{port}/path"));
    let place = wire.url().strip_prefix("echo://").unwrap().strip_suffix("/path").unwrap().to_owned();
    let echo = |peer: &mut TcpStream| {
        let mut letter = [0];
        peer.write_all(b"a").and_then(|()| peer.read_exact(&mut letter)).map(|()| letter)
    };
    let connect = || {
        let peer = TcpStream::connect(&place).unwrap();
        peer.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        peer
    };

    let mut peer = connect();
    assert_eq!(echo(&mut peer).unwrap(), *b"a");

    wire.silence();
    let silence = echo(&mut peer).unwrap_err();
    assert_eq!(silence.kind(), std::io::ErrorKind::WouldBlock, "{silence}");
    wire.mend();
    peer.set_read_timeout(None).unwrap();
    peer.read_exact(&mut [0]).unwrap();

    wire.cut();
    assert!(echo(&mut peer).is_err(), "a wire that is cut carries on");
    assert!(echo(&mut connect()).is_err(), "a wire that is cut lets somebody in");
    wire.mend();
    assert_eq!(echo(&mut connect()).unwrap(), *b"a");
}
