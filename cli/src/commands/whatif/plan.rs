//! The folder of a what-if run: its plan, which never changes, and the database of its threads.

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use audit::{
    cohort::Cohort,
    whatif::{Changes, Report, Start},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use store::ThreadId;

use super::offline::Asked;
use crate::{
    args::{Selection, ToolPolicy},
    commands::{executable::Executable, judge::Judge},
    exit::{CliError, Exit},
};

/// Parent of the folders of runs.
pub(super) const RUNS: &str = ".turnfold/whatif";

/// Parent of the folders of questions about recorded replies.
const JUDGES: &str = ".turnfold/judge";

/// File of the plan within the folder.
const PLAN: &str = "plan.json";

/// Length of the name of a run, in hexadecimal digits.
const NAME_LENGTH: usize = 12;

/// The threads of a run, their changes, and the quote.
#[derive(Serialize, Deserialize)]
pub(super) struct Plan {
    /// Identity of the database of the recorded threads.
    pub(super) store: String,
    /// Hash of what the run selects, changes and allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) identity: Option<String>,
    pub(super) changes: Changes,
    pub(super) tools: ToolPolicy,
    pub(super) report: Report,
    /// Number of events of each thread of a cohort, which are its record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) heads: Option<BTreeMap<ThreadId, u64>>,
    /// The build that runs the threads, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) build: Option<Executable>,
}

/// The other side of a run: the same build with changes, or another build without.
pub(super) struct Changed {
    pub(super) changes: Changes,
    pub(super) build: Option<Executable>,
}

impl Changed {
    /// The question of a replay.
    pub(super) fn asked(&self) -> Asked<'_> {
        match &self.build {
            Some(build) => Asked::Build(build.path()),
            None => Asked::Changes(self.changes.clone()),
        }
    }
}

impl Plan {
    /// The threads to run.
    pub(super) fn starts(&self) -> Vec<Start> {
        self.report.clusters.iter().flat_map(audit::whatif::Cluster::starts).collect()
    }
}

/// The folder of a run.
pub(super) struct Folder(PathBuf);

impl Folder {
    /// The folder of a run of these threads, with these changes: the same for the same command.
    pub(super) fn of(to: Option<&Path>, identity: &serde_json::Value) -> Self {
        Self::named(to, RUNS, identity)
    }

    /// The folder of the questions to a judge about the replies of a store.
    pub(super) fn of_judge(to: Option<&Path>, judge: &Judge, store: &str) -> Self {
        Self::named(to, JUDGES, &json!([store, judge.id()]))
    }

    fn named(to: Option<&Path>, parent: &str, identity: &serde_json::Value) -> Self {
        let name = || {
            let mut name = hash(identity);
            name.truncate(NAME_LENGTH);
            Path::new(parent).join(name)
        };
        Self(to.map_or_else(name, Path::to_owned))
    }

    /// Finds the folder of a run by its name or its path.
    pub(super) fn find(named: &Path) -> anyhow::Result<Self> {
        let candidates = [Path::new(RUNS).join(named), named.to_owned()];
        let found = candidates.into_iter().find(|folder| folder.join(PLAN).is_file());
        found.map(Self).ok_or_else(|| {
            let message = format!(
                "there is no what-if run {}\nhint: the runs of this folder are in {RUNS}/; leave out --resume to start one",
                named.display()
            );
            CliError::with_exit(Exit::NotFound, message)
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Argument of `--resume`.
    pub(super) fn name(&self) -> String {
        let name = self.0.strip_prefix(RUNS).unwrap_or(&self.0);
        name.display().to_string()
    }

    /// URL of the database of its threads.
    pub(super) fn url(&self) -> String {
        format!("sqlite:{}", self.0.join("threads.db").display())
    }

    /// Reads the plan; `None` if there is none yet.
    pub(super) fn read(&self) -> anyhow::Result<Option<Plan>> {
        let file = self.0.join(PLAN);
        let failed = |why: String| {
            let message =
                format!("cannot read {}: {why}\nhint: delete the folder to start again", file.display());
            CliError::with_exit(Exit::Usage, message)
        };
        match fs::read(&file) {
            Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|error| failed(error.to_string())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    /// Writes the plan, whole or not at all.
    pub(super) fn write(&self, plan: &Plan) -> anyhow::Result<()> {
        self.write_file(PLAN, plan)
    }

    /// Returns true if a judge was confirmed for the run.
    pub(super) fn has_judge(&self, judge: &Judge) -> bool {
        self.0.join(judge_file(judge)).is_file()
    }

    /// Writes a judge that was confirmed for the run.
    pub(super) fn write_judge(&self, judge: &Judge) -> anyhow::Result<()> {
        self.write_file(&judge_file(judge), &judge.by)
    }

    fn write_file(&self, name: &str, content: &impl Serialize) -> anyhow::Result<()> {
        let write = || -> io::Result<()> {
            fs::create_dir_all(&self.0)?;
            let (file, unfinished) = (self.0.join(name), self.0.join(format!("{name}.new")));
            // The plan has prompts, and words of the threads.
            let mut open =
                OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&unfinished)?;
            open.write_all(&serde_json::to_vec_pretty(content)?)?;
            open.sync_all()?;
            fs::rename(unfinished, file)
        };
        write().map_err(|error| {
            let message =
                format!("cannot write {}: {error}\nhint: --to FOLDER names another", self.0.display());
            CliError::with_exit(Exit::Usage, message)
        })
    }
}

/// File of a judge within the folder.
fn judge_file(judge: &Judge) -> String {
    let mut id = judge.id();
    id.truncate(NAME_LENGTH);
    format!("judge-{id}.json")
}

/// Hash of an identity.
pub(super) fn hash(identity: &serde_json::Value) -> String {
    hex::encode(Sha256::digest(identity.to_string()))
}

/// Identity of a run: what it selects, changes and allows.
pub(super) fn identity(
    selection: &Selection,
    cohort: Option<&Cohort>,
    tenant: Option<&str>,
    store: &str,
    changed: &Changed,
    tools: ToolPolicy,
) -> serde_json::Value {
    let Selection { thread, filter, since, jobs: _ } = selection;
    let since = since.map(|age| age.as_secs());
    let mut identity = vec![json!(store), json!(tenant), json!(thread), json!(filter), json!(since)];
    identity.extend([json!(changed.changes), json!(tools)]);
    identity.extend(cohort.map(|cohort| json!(cohort.sha256())));
    identity.extend(changed.build.as_ref().map(|build| json!({"build": build})));
    identity.into()
}
