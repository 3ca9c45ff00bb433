//! Children in a sandbox, and children of another user.

use std::{
    collections::BTreeMap,
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Instant,
};

use nix::unistd::geteuid;
use shared::{FaultKind, Response, Safety, ToolOutput};
use world::{Confinement, Sandbox, Server, Transport};

use super::{Outcome, Stage, child, live, mcp_misbehaviour::calling, perform, servers};

/// An MCP server whose only tool runs the command in `PROBE` and returns its output in one line.
const SERVER: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9]*\).*/\1/p')
  [ -n "$id" ] || continue
  case "$line" in
    *'"initialize"'*) answer='"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}';;
    *'"tools/call"'*)
      text=$(eval "$PROBE" 2>&1 | tr '\n"\\\t\0' '     ')
      answer="\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"$text\"}]}";;
    *) answer='"error":{"code":-32601,"message":"unknown"}';;
  esac
  printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$answer"
done
"#;

fn server(probe: &str, confinement: Confinement) -> Server {
    let env = BTreeMap::from([("PROBE".to_owned(), probe.to_owned())]);
    let args = vec!["-c".to_owned(), SERVER.to_owned()];
    let transport = Transport::Stdio { command: "/bin/sh".to_owned(), args, env, cwd: None };
    Server { confinement, ..child::command_of(transport) }
}

async fn call(server: Server) -> Outcome {
    let world = live([], servers([("desk", server)]));
    let outcome = perform(&world, &Stage::default(), &calling("desk", "run", Safety::Write)).await.0;
    world.close().await;
    outcome
}

/// Returns the output of a command that a confined child runs.
async fn output(probe: &str, confinement: Confinement) -> String {
    match call(server(probe, confinement)).await {
        Ok((Response::Output(ToolOutput::Ok(text)), _)) => text,
        other => panic!("{probe} has no output: {other:?}"),
    }
}

fn in_sandbox(sandbox: Sandbox) -> Confinement {
    Confinement { sandbox: Some(sandbox), user: None }
}

/// Returns true if sandboxes can be made here. Otherwise checks that a server with a sandbox is not started, and says so.
#[expect(clippy::print_stderr, reason = "a test that cannot show what it is for says so")]
async fn can_make_sandboxes() -> bool {
    if std::process::Command::new("bwrap")
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
    {
        return true;
    }
    eprintln!("bubblewrap is not installed, so no sandbox is tested");
    let fault = call(server("id", in_sandbox(Sandbox::default()))).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Permanent);
    assert!(fault.error.contains("its sandbox needs bwrap, which is not installed"), "{fault:?}");
    false
}

#[tokio::test]
async fn a_sandbox_shows_only_what_is_listed() {
    if !can_make_sandboxes().await {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["hidden", "read", "write"] {
        std::fs::create_dir(path(name)).unwrap();
        std::fs::write(path(name).join("file"), format!("content of {name}")).unwrap();
    }
    let sandbox = || Sandbox { read: vec![path("read")], write: vec![path("write")], ..Sandbox::default() };
    let probe = async |probe: String| output(&probe, in_sandbox(sandbox())).await;
    let cat = |name: &str| format!("cat {}", path(name).join("file").display());
    assert_eq!(probe(cat("read")).await.trim(), "content of read");
    assert_eq!(probe(cat("write")).await.trim(), "content of write");
    assert!(probe(cat("hidden")).await.contains("No such file"));
    let write = |name: &str| format!("echo changed > {}; echo $?", path(name).join("file").display());
    assert!(probe(write("read")).await.contains("Read-only file system"));
    assert_eq!(probe(write("write")).await.trim(), "0");
    assert_eq!(std::fs::read_to_string(path("write").join("file")).unwrap(), "changed\n");
    assert!(probe("echo x > /usr/turnfold".to_owned()).await.contains("Read-only file system"));
    assert_eq!(probe("echo x > $HOME/y && cat /tmp/y".to_owned()).await.trim(), "x", "a home of its own");
    let own_folder = std::env::current_dir().unwrap().join("Cargo.toml");
    assert!(probe(format!("cat {}", own_folder.display())).await.contains("No such file"));
}

#[tokio::test]
async fn a_sandbox_has_no_other_processes_and_no_network() {
    if !can_make_sandboxes().await {
        return;
    }
    let own = std::process::id();
    let processes = output("cd /proc; echo [0-9]*", in_sandbox(Sandbox::default())).await;
    assert!(!processes.split_whitespace().any(|process| process == own.to_string()), "{processes}");
    assert!(processes.split_whitespace().count() < 10, "{processes}");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = format!(":{:04X} ", listener.local_addr().unwrap().port());
    for network in [false, true] {
        let sandbox = Sandbox { network, ..Sandbox::default() };
        let sockets = output("cat /proc/net/tcp", in_sandbox(sandbox)).await;
        assert_eq!(sockets.contains(&port), network, "{sockets}");
    }
}

#[tokio::test]
async fn a_command_that_is_not_in_its_sandbox_is_reported_at_once() {
    if !can_make_sandboxes().await {
        return;
    }
    let began = Instant::now();
    let mut missing = server("id", in_sandbox(Sandbox::default()));
    if let Transport::Stdio { command, .. } = &mut missing.transport {
        "/opt/no-such-program".clone_into(command);
    }
    let folder = in_sandbox(Sandbox { read: vec![PathBuf::from("/no/such/folder")], ..Sandbox::default() });
    for server in [missing, server("id", folder)] {
        let fault = call(server).await.unwrap_err();
        assert_eq!(fault.kind, FaultKind::Permanent, "{fault:?}");
        assert!(fault.error.starts_with("cannot start MCP server desk: bwrap: "), "{fault:?}");
    }
    assert!(began.elapsed().as_secs() < 15, "it took {:?}", began.elapsed());
}

/// Another user cannot read this process, nor the files that are closed to others.
#[tokio::test]
async fn a_child_of_another_user_has_the_rights_of_that_user() {
    let as_nobody = || Confinement { sandbox: None, user: Some("nobody".to_owned()) };
    if !geteuid().is_root() {
        let fault = call(server("id", as_nobody())).await.unwrap_err();
        assert!(fault.error.contains("only a process of root can start it as user \"nobody\""), "{fault:?}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "secret").unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    let read = |path: &Path| format!("cat {}", path.display());
    let own = PathBuf::from(format!("/proc/{}/environ", std::process::id()));
    for confinement in [as_nobody(), Confinement { user: Some("65534".to_owned()), sandbox: None }] {
        assert_eq!(output("id -u; id -G", confinement.clone()).await.trim(), "65534 65534");
        for path in [&secret, &own] {
            assert!(output(&read(path), confinement.clone()).await.contains("Permission denied"));
        }
    }
    let unknown = Confinement { sandbox: None, user: Some("nobody-of-turnfold".to_owned()) };
    let fault = call(server("id", unknown)).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Permanent);
    assert!(fault.error.contains("the user \"nobody-of-turnfold\" does not exist"), "{fault:?}");
}
