//! The tests of a strategy as a list of cases, for a run without a test crate.

use std::io;

use serde_json::Value;

use crate::{
    snapshot::Snapshot,
    suite::{Broken, Suite},
};

/// One test, named so that a CI system recognizes it in the next run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Kind of the test, and the fixture if it is of one: `transcript two_tasks`, `map`.
    pub name: String,
    /// Result of the test.
    pub verdict: Verdict,
}

/// Result of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The test passed.
    Passed,
    /// The output differs from the accepted one, or none is accepted yet.
    Changed {
        /// Output of today's code.
        today: Snapshot,
        /// Output that a person accepted, if any.
        accepted: Option<String>,
    },
    /// Today's code rejects a fixture, or does not continue it after a crash.
    Failed(Broken),
}

impl Suite {
    /// Runs the tests of all fixtures: transcripts, crash anywhere, the map, the prompts, and the settings if the project configures
    /// the strategy or has accepted settings.
    ///
    /// The accepted map is a ratchet: an edge that no fixture takes any more changes it.
    ///
    /// # Errors
    ///
    /// A snapshot cannot be read.
    pub fn cases(&self, config: Option<&Value>) -> io::Result<Vec<Case>> {
        let mut cases = Vec::new();
        for fixture in &self.fixtures {
            let name = &fixture.name;
            cases.push(Case {
                name: format!("transcript {name}"),
                verdict: compared(self.transcript(fixture))?,
            });
            let verdict = self.crash_of(fixture).map_or_else(Verdict::Failed, |()| Verdict::Passed);
            cases.push(Case { name: format!("crash anywhere {name}"), verdict });
        }
        for (name, made) in self.of_all(config) {
            cases.push(Case { name: name.to_owned(), verdict: compared(made)? });
        }
        Ok(cases)
    }

    /// Returns the snapshots of all fixtures together, by name: the map, the prompts, and the settings if there are any.
    pub fn of_all(&self, config: Option<&Value>) -> Vec<(&'static str, Result<Snapshot, Broken>)> {
        let mut made = vec![("map", self.map()), ("prompts", self.prompts())];
        if config.is_some() || self.folder.join("settings.snap").exists() {
            made.push(("settings", self.settings(config.unwrap_or(&Value::Null))));
        }
        made
    }
}

fn compared(made: Result<Snapshot, Broken>) -> io::Result<Verdict> {
    let today = match made {
        Ok(today) => today,
        Err(broken) => return Ok(Verdict::Failed(broken)),
    };
    let accepted = today.accepted()?;
    Ok(match accepted {
        Some(accepted) if accepted == today.contents.trim_end() => Verdict::Passed,
        accepted => Verdict::Changed { today, accepted },
    })
}
