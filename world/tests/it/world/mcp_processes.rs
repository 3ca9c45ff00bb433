//! MCP servers as processes: slow starts, many starts, and the end of everything that a server started.

use std::{
    collections::BTreeMap,
    io::BufRead as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use shared::Safety;
use world::{LiveWorld, Server, Servers, Transport};

use super::{Stage, child, live, mcp_misbehaviour::calling, perform, servers};

/// Environment variables that make this program run as a server, or as a worker.
const AS_SERVER: &str = "TURNFOLD_TEST_SLOW_MCP_SERVER";
const AS_WORKER: &str = "TURNFOLD_TEST_WORKER_OF_SHELL";

/// Environment variable with the time that a server needs to start, in milliseconds.
const SLEEPS: &str = "TURNFOLD_TEST_SLEEPS_MS";

/// Environment variable with a folder that has a file for each server that is starting. A server that finds more than
/// [`AT_ONCE`] never comes up.
const STARTING: &str = "TURNFOLD_TEST_STARTING";
const AT_ONCE: usize = 3;

fn slow(env: impl IntoIterator<Item = (&'static str, &'static str)>) -> Server {
    let env = env.into_iter().chain([(AS_SERVER, "yes")]);
    Server {
        connect_timeout: Duration::from_secs(60),
        ..child::started("world::mcp_processes::speaks_late", env)
    }
}

/// Time in which a server that is asked for its protocol looks for a second question.
const LOOKS_MS: u64 = 200;

/// The server that other tests start. It returns at once unless [`AS_SERVER`] is set. It refuses a second `initialize`, and never
/// comes up if anything follows the question for its protocol before its answer.
#[test]
fn speaks_late() {
    if std::env::var_os(AS_SERVER).is_none() {
        return;
    }
    child::say_raw("");
    let starting = std::env::var_os(STARTING).map(PathBuf::from);
    let own = starting.as_ref().map(|folder| folder.join(std::process::id().to_string()));
    if let (Some(starting), Some(own)) = (&starting, &own) {
        std::fs::write(own, "").unwrap();
        if AT_ONCE < std::fs::read_dir(starting).unwrap().count() {
            child::rest(Duration::MAX);
        }
    }
    let time = std::env::var(SLEEPS).ok().and_then(|time| time.parse().ok());
    child::rest(Duration::from_millis(time.unwrap_or_default()));
    let mut is_initialized = false;
    let (sender, lines) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        std::io::stdin().lock().lines().for_each(|line| sender.send(line.unwrap()).unwrap_or_default());
    });
    while let Ok(line) = lines.recv() {
        let request: Value = serde_json::from_str(&line).unwrap();
        if request["method"] == "server/discover"
            && lines.recv_timeout(Duration::from_millis(LOOKS_MS)).is_ok()
        {
            child::rest(Duration::MAX);
        }
        let Some(id) = request.get("id") else { continue };
        let answer = match request["method"].as_str().unwrap() {
            "initialize" if !std::mem::replace(&mut is_initialized, true) => {
                own.as_ref().map(std::fs::remove_file).transpose().unwrap();
                child::initialized(&request["params"])
            }
            "tools/call" => Ok(json!({ "content": [{ "type": "text", "text": "up" }] })),
            method => Err(json!({ "code": -32601, "message": format!("no method {method}") })),
        };
        let (field, value) = match answer {
            Ok(result) => ("result", result),
            Err(error) => ("error", error),
        };
        child::say_raw(&json!({ "jsonrpc": "2.0", "id": id, field: value }).to_string());
    }
}

async fn is_up(world: &LiveWorld, server: &str) {
    let outcome = perform(world, &Stage::default(), &calling(server, "look", Safety::Read)).await.0;
    assert!(outcome.is_ok(), "{server}: {outcome:?}");
}

#[tokio::test]
#[expect(clippy::print_stdout, reason = "the figure is what the test is for")]
async fn a_server_that_takes_twenty_seconds_to_start_is_connected() {
    let world = live([], servers([("desk", slow([(SLEEPS, "20000")]))]));
    let began = Instant::now();
    is_up(&world, "desk").await;
    println!("a server that takes 20 s to start answered after {:?}", began.elapsed());
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::print_stdout, reason = "the figure is what the test is for")]
async fn forty_servers_at_once_all_come_up() {
    let starting = tempfile::tempdir().unwrap();
    let server = || {
        let mut server = slow([(SLEEPS, "100")]);
        if let Transport::Stdio { env, .. } = &mut server.transport {
            env.insert(STARTING.to_owned(), starting.path().display().to_string());
        }
        server
    };
    let names: Vec<String> = (0..40).map(|nth| format!("desk{nth}")).collect();
    let all: BTreeMap<String, Server> = names.iter().map(|name| (name.clone(), server())).collect();
    let world = live([], Servers::starting_at_once(all, AT_ONCE));
    let began = Instant::now();
    futures::future::join_all(names.iter().map(|name| is_up(&world, name))).await;
    println!("40 servers were up after {:?}", began.elapsed());
    world.close().await;
}

/// A server behind a shell, which also starts a process that ignores everything but SIGKILL.
fn behind_a_shell(pid_file: &Path) -> Server {
    let Transport::Stdio { command, args, env, .. } = slow([]).transport else { panic!("it is a child") };
    let server =
        std::iter::once(command).chain(args).map(|part| format!("'{part}'")).collect::<Vec<_>>().join(" ");
    let stubborn = format!(
        "(trap '' TERM HUP INT; echo started > '{}'; while :; do sleep 1; done) &",
        pid_file.display()
    );
    let script = format!("{stubborn} echo $! > '{0}.pid'; {server}; exit $?", pid_file.display());
    let args = vec!["-c".to_owned(), script];
    Server {
        connect_timeout: Duration::from_secs(60),
        ..child::command_of(Transport::Stdio { command: "sh".to_owned(), args, env, cwd: None })
    }
}

/// Waits until the process whose id is in the file has ended.
async fn is_gone(pid_file: &Path) {
    let pid = std::fs::read_to_string(format!("{}.pid", pid_file.display())).unwrap();
    let stat = format!("/proc/{}/stat", pid.trim());
    let began = Instant::now();
    while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(began.elapsed() < Duration::from_secs(30), "process {pid} lives on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn whatever_a_server_started_ends_when_it_is_closed_dropped_or_dies() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let world = |file: &Path| live([], servers([("desk", behind_a_shell(file))]));

    let closed = world(&file("closed"));
    is_up(&closed, "desk").await;
    closed.close().await;
    is_gone(&file("closed")).await;

    let dropped = world(&file("dropped"));
    is_up(&dropped, "desk").await;
    drop(dropped);
    is_gone(&file("dropped")).await;

    // The server itself never answers, so connecting fails.
    let mut silent = behind_a_shell(&file("silent"));
    silent.connect_timeout = Duration::from_millis(500);
    if let Transport::Stdio { args, env, .. } = &mut silent.transport {
        env.insert(SLEEPS.to_owned(), "600000".to_owned());
        assert!(args[1].contains("speaks_late"));
    }
    let silent = live([], servers([("desk", silent)]));
    perform(&silent, &Stage::default(), &calling("desk", "look", Safety::Read)).await.0.unwrap_err();
    is_gone(&file("silent")).await;
}

/// The worker that another test kills. It returns at once unless [`AS_WORKER`] is set.
#[tokio::test]
async fn serves_until_it_is_killed() {
    let Some(file) = std::env::var_os(AS_WORKER) else { return };
    let world = live([], servers([("desk", behind_a_shell(Path::new(&file)))]));
    is_up(&world, "desk").await;
    std::fs::write(Path::new(&file).with_extension("up"), "").unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn whatever_a_server_started_ends_when_the_worker_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("killed");
    let mut worker = tokio::process::Command::new(std::env::current_exe().unwrap());
    worker
        .args(["--exact", "world::mcp_processes::serves_until_it_is_killed", "--nocapture"])
        .env(AS_WORKER, &file);
    let mut worker = worker.kill_on_drop(true).spawn().unwrap();
    let began = Instant::now();
    while !file.with_extension("up").exists() {
        assert!(began.elapsed() < Duration::from_secs(60), "the worker is not up");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    worker.kill().await.unwrap();
    is_gone(&file).await;
}
