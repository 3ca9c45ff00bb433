//! A program that judges: JSON on stdin, a verdict on stdout.

use std::{io, path::Path, process::Stdio, time::Duration};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, Command},
};

use crate::commands::executable::Executable;

/// Maximum time of one question.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum length of the output, in bytes.
const OUTPUT_MAX: u64 = 64 * 1024;

/// Maximum length of the errors in a message, in bytes.
const ERRORS_MAX: usize = 300;

/// Beginning of the name that stands for a program in place of a model's.
const NAMED: &str = "program/";

/// Environment variables that the program gets: those of a local MCP server. The others may hold keys.
const ENVIRONMENT: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];

/// A program of the user. Another content is another judge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::commands) struct Program(Executable);

impl Program {
    /// Finds the file and reads it.
    pub(super) fn find(path: &Path) -> io::Result<Self> {
        Executable::at(path).map(Self)
    }

    pub(in crate::commands) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The program in place of a model's name.
    pub(in crate::commands) fn model(&self) -> String {
        format!("{NAMED}{}", self.0.sha256())
    }

    /// Asks one question. Returns what the program prints, or the reason why that is no answer.
    pub(in crate::commands) async fn ask(&self, question: &str) -> Result<String, String> {
        let inherited = ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        let mut command = Command::new(self.path());
        command.env_clear().envs(inherited);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let group = Group::spawn(&mut command)
            .map_err(|error| format!("the judge program cannot be started: {error}"))?;
        let late = |_| format!("the judge program did not end within {} s", TIMEOUT.as_secs());
        tokio::time::timeout(TIMEOUT, exchange(group, question)).await.map_err(late)?
    }
}

/// The process of a program, and those that it started. Dropping it ends them, unless the first one was waited for.
struct Group(Child);

impl Group {
    /// Starts a command in a group of its own: a Ctrl-C at the terminal lets questions under way finish.
    fn spawn(command: &mut Command) -> io::Result<Self> {
        command.process_group(0).kill_on_drop(true).spawn().map(Self)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that was waited for has no id here, and another one may have it by now.
        let id = self.0.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(group) = id {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Passes the question to the process, and returns its output. Dropping it ends the process and those that it started.
async fn exchange(mut group: Group, question: &str) -> Result<String, String> {
    let Group(child) = &mut group;
    let (Some(mut stdin), Some(stdout), Some(mut stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err("the judge program has no pipes".to_owned());
    };
    let write = async move {
        // A program may answer without reading.
        let _ = stdin.write_all(question.as_bytes()).await;
        Ok(())
    };
    let read = async {
        let mut output = Vec::new();
        stdout.take(OUTPUT_MAX + 1).read_to_end(&mut output).await.map_err(|error| error.to_string())?;
        match OUTPUT_MAX < output.len() as u64 {
            true => Err(format!("the judge program printed more than {OUTPUT_MAX} bytes")),
            false => Ok(output),
        }
    };
    let errors = async {
        let mut errors = Vec::new();
        let _ = (&mut stderr).take(OUTPUT_MAX).read_to_end(&mut errors).await;
        let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
        Ok(errors)
    };
    let ((), output, errors) = tokio::try_join!(write, read, errors)?;
    let status = child.wait().await.map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("the judge program ended with {status}{}", last_line(&errors)));
    }
    String::from_utf8(output).map_err(|_| "the judge program printed no UTF-8".to_owned())
}

/// Returns the last line of the errors, bounded.
fn last_line(errors: &[u8]) -> String {
    let text = String::from_utf8_lossy(errors);
    let Some(line) = text.lines().rev().find(|line| !line.trim().is_empty()) else { return String::new() };
    format!(": {}", &line[..line.floor_char_boundary(ERRORS_MAX)])
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    #[tokio::test]
    async fn a_question_that_is_given_up_ends_the_processes_of_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let (file, ticks) = (folder.path().join("judge.sh"), folder.path().join("ticks"));
        let child = format!("(while :; do echo tick >> '{}'; sleep 0.05; done) &", ticks.display());
        fs::write(&file, format!("#!/bin/sh\n{child}\nwait\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        let program = Program::find(&file).unwrap();
        let asking = tokio::spawn(async move { program.ask("{}").await });
        let written = || fs::metadata(&ticks).map_or(0, |about| about.len());
        while written() == 0 {
            assert!(!asking.is_finished(), "it waits for its child");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        asking.abort();
        assert!(asking.await.unwrap_err().is_cancelled());
        tokio::time::sleep(Duration::from_millis(200)).await;
        let ended = written();
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(written(), ended, "its child lives on");
    }
}
