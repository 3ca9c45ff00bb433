//! Runs every command in pages of `docs/` and compares its output with the page.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use test_servers::free_port;

use crate::engine::{Process, TURNFOLD, fixtures, log, turnfold};

/// One command of a page, with the expected result.
struct Step {
    command: String,
    exit: i32,
    /// Lines of the output. `…` matches any text.
    prints: Vec<String>,
}

#[test]
fn getting_started() {
    walk("getting-started.md");
}

#[test]
fn bulk() {
    walk("bulk.md");
}

#[test]
fn people() {
    walk("people.md");
}

#[test]
fn auditing() {
    walk("auditing.md");
}

/// Runs the page's commands in order, in one folder and with one engine.
fn walk(name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let text = fs::read_to_string(fixtures().join("../docs").join(name)).unwrap();
    symlink(fixtures(), folder.join("fixtures")).unwrap();
    fs::create_dir(folder.join("bin")).unwrap();
    symlink(TURNFOLD, folder.join("bin/turnfold")).unwrap();
    let listen = format!("127.0.0.1:{}", free_port());
    let mut engine = None;
    let (configuration, steps) = read(&text);
    fs::write(folder.join("turnfold.toml"), configuration).unwrap();
    assert!(5 < steps.len(), "{} commands", steps.len());
    for Step { command, exit, prints } in steps {
        if let Some(command) = command.strip_suffix(" &") {
            let args = command.split(' ').skip(1);
            let mut dev = turnfold(folder);
            dev.args(args).args(["--listen", &listen]).stderr(log(folder, "dev"));
            engine = Some(Process::start(&mut dev));
            wait_for(folder, &listen);
            continue;
        }
        let output = run(folder, &listen, &command);
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8(printed).unwrap();
        assert_eq!(output.status.code(), Some(exit), "{command}: {printed}");
        for line in prints {
            let holds = line.split('…').all(|part| printed.contains(part.trim_end()));
            assert!(holds, "{command} does not print {line:?}, but\n{printed}");
        }
    }
    drop(engine);
}

fn run(folder: &Path, listen: &str, command: &str) -> Output {
    let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(folder).env("PATH", path);
    // With `TURNFOLD_URL`, commands that need the database refuse to run.
    shell.env_remove("TURNFOLD_URL").env("TURNFOLD__API__LISTEN", listen).output().unwrap()
}

fn wait_for(folder: &Path, listen: &str) {
    for _ in 0..200 {
        if run(folder, listen, "turnfold queue ls").status.success() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("the engine is not ready: {}", fs::read_to_string(folder.join("dev.log")).unwrap());
}

/// Reads the configuration (`toml` blocks), the commands (`sh` blocks) and their output (`text` blocks). Blocks of other
/// languages are ignored. A command whose exit code is not 0 ends with a comment such as `# exit 1`.
fn read(text: &str) -> (String, Vec<Step>) {
    let (mut configuration, mut steps, mut block) = (String::new(), Vec::<Step>::new(), "");
    for line in text.lines() {
        match (line.strip_prefix("```"), block) {
            (Some(_), open) if !open.is_empty() => block = "",
            (Some(name), _) => block = name,
            (None, "toml") => configuration += &format!("{line}\n"),
            (None, "text") => steps.last_mut().into_iter().for_each(|step| step.prints.push(line.to_owned())),
            (None, "sh") if !line.is_empty() => {
                let (command, remark) = line.split_once(" # ").unwrap_or((line, ""));
                let exit = remark.trim().strip_prefix("exit ").map_or(0, |code| code.parse().unwrap());
                steps.push(Step { command: command.trim_end().to_owned(), exit, prints: Vec::new() });
            }
            (None, _) => {}
        }
    }
    (configuration, steps)
}
