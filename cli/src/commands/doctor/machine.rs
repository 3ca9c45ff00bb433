//! Checks of this machine: disk, open files, memory.

use std::{fs, path::Path};

use indicatif::HumanBytes;
use rustix::process::Resource;
use secrecy::ExposeSecret as _;
use store::Store;

use super::{Finding, Status};
use crate::config::Settings;

const MIB: u64 = 1 << 20;

/// Free space of the disk below which it is almost full, and soon full.
const DISK_FAIL: u64 = 100 * MIB;
const DISK_WARN: u64 = 1024 * MIB;

/// Memory below which a worker with many slots may be killed.
const MEMORY_WARN: u64 = 512 * MIB;

/// Open files in addition to the connections to the API: databases, models, MCP servers.
const OTHER_FILES: u64 = 256;

pub(super) fn check(settings: &Settings) -> Vec<Finding> {
    [disk(settings), Some(files(settings)), memory()].into_iter().flatten().collect()
}

/// Checks the disk of a SQLite file. The disk of a server is not this machine's.
fn disk(settings: &Settings) -> Option<Finding> {
    let url = settings.store.url.resolve().ok()?;
    let file = Store::sqlite_file(url.expose_secret())?;
    let folder = file
        .ancestors()
        .skip(1)
        .find(|ancestor| ancestor.exists())
        .filter(|ancestor| !ancestor.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(of_disk(disk.f_bavail.saturating_mul(disk.f_frsize), folder))
}

fn of_disk(free: u64, folder: &Path) -> Finding {
    let text = format!("{} free at {}", HumanBytes(free), folder.display());
    let hint = "; hint: delete old threads with `turnfold store prune`, or use another disk";
    match free {
        ..DISK_FAIL => Finding::fail("disk", text + hint),
        DISK_FAIL..DISK_WARN => Finding::warn("disk", text + hint),
        DISK_WARN.. => Finding::ok("disk", text),
    }
}

/// Checks the limit of open files, to which servers raise theirs.
fn files(settings: &Settings) -> Finding {
    of_files(rustix::process::getrlimit(Resource::Nofile).maximum, settings.api.max_connections)
}

fn of_files(limit: Option<u64>, max_connections: u64) -> Finding {
    let needed = max_connections.saturating_add(OTHER_FILES);
    match limit {
        Some(limit) if limit < needed => Finding::warn(
            "open files",
            format!(
                "at most {limit}, but api.max_connections = {max_connections} needs {needed}; hint: raise it (ulimit -Hn, \
                 LimitNOFILE= of systemd), or lower api.max_connections"
            ),
        ),
        Some(limit) => Finding::ok("open files", format!("at most {limit}")),
        None => Finding::ok("open files", "no limit"),
    }
}

/// Checks the memory of this machine or container.
fn memory() -> Option<Finding> {
    let read = |path: &str| fs::read_to_string(path).ok();
    let of_container = read("/sys/fs/cgroup/memory.max").and_then(|text| text.trim().parse().ok());
    let of_machine = read("/proc/meminfo").as_deref().and_then(total);
    of_container.into_iter().chain(of_machine).min().map(of_memory)
}

fn of_memory(bytes: u64) -> Finding {
    let status = if bytes < MEMORY_WARN { Status::Warn } else { Status::Ok };
    let hint = match status {
        Status::Warn => "; hint: lower worker.slots, or give it more memory",
        Status::Ok | Status::Fail => "",
    };
    Finding::new("memory", status, &format!("{}{hint}", HumanBytes(bytes)))
}

/// Reads the total memory in bytes from the text of `/proc/meminfo`.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[test]
fn a_scarce_machine_is_reported_with_a_hint() {
    let cases = [
        (of_disk(DISK_FAIL - 1, Path::new("/data")), Status::Fail),
        (of_disk(DISK_FAIL, Path::new("/data")), Status::Warn),
        (of_disk(DISK_WARN, Path::new("/data")), Status::Ok),
        (of_files(Some(1_024), 4_096), Status::Warn),
        (of_files(Some(4_096 + OTHER_FILES), 4_096), Status::Ok),
        (of_files(None, 4_096), Status::Ok),
        (of_memory(MEMORY_WARN - 1), Status::Warn),
        (of_memory(MEMORY_WARN), Status::Ok),
    ];
    for (finding, status) in cases {
        assert_eq!(finding.status, status, "{finding:?}");
        assert_eq!(finding.hint.is_some(), status != Status::Ok, "{finding:?}");
    }
}

#[test]
fn the_memory_of_the_machine_is_read() {
    assert_eq!(total("MemFree: 1 kB\nMemTotal:        8152 kB\n"), Some(8152 * 1024));
    assert_eq!(total("nothing"), None);
}
