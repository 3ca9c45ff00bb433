//! Fixtures under the configuration of a project, in place of the one that they were recorded with.

use serde_json::Value;
use shared::{Divergence, Replayer, with_config};

use crate::{
    generic::json,
    snapshot::Snapshot,
    suite::{Broken, Fixture, Suite},
};

impl Suite {
    /// Returns the operator's configuration of the strategy, and for each fixture the first decision that would differ under it.
    ///
    /// A fixture is recorded with the configuration of its thread. So a changed threshold, model or prompt in `turnfold.toml` changes
    /// no transcript; it changes this snapshot.
    ///
    /// # Errors
    ///
    /// [`Broken`] if today's code rejects a fixture.
    pub fn settings(&self, config: &Value) -> Result<Snapshot, Broken> {
        let mut contents = format!("── configuration\n{}\n\n── fixtures\n", json(config));
        for fixture in &self.fixtures {
            let effect = match self.under(fixture, config)? {
                None => "as recorded".to_owned(),
                Some(Divergence { seq, node, field, then, today }) => {
                    format!("event {seq}, {node}/{field}\n  recorded: {then}\n  now:      {today}")
                }
            };
            contents += &format!("{}: {effect}\n", fixture.name);
        }
        Ok(Snapshot { folder: self.folder.clone(), name: "settings".to_owned(), contents })
    }

    /// Returns the first decision of today's code that differs when `config` is laid over the recorded configuration.
    fn under(&self, fixture: &Fixture, config: &Value) -> Result<Option<Divergence>, Broken> {
        let mut replayer = Replayer::new(self.graph);
        for event in self.rerun(fixture)?.log {
            let event = with_config(&event, config).unwrap_or(event);
            match replayer.see(&event) {
                Ok(None) => {}
                Ok(difference) => return Ok(difference),
                Err(error) => return Err(fixture.broken(0, error.to_string())),
            }
        }
        Ok(None)
    }
}
