//! Questions to a judge about answers that changed. Each is a thread in the database of the run.

use audit::{
    judge::{Choice, Judge as Strategy, Opinion, Pair, Task},
    whatif::{Comparison, Ending, Judged, Start, Verdict, people_wrote},
};
use serde::de::DeserializeOwned;
use shared::{Retried, RunStatus};
use store::{Error, ThreadId};
use threads::{ThreadLog, import_thread};

use super::{
    lanes::{Lane, Lanes, own_log, stuck},
    world::GAVE_UP,
};
use crate::commands::judge::Judge;

/// A question about a thread.
pub(super) struct Asked<'a> {
    pub(super) thread: ThreadId,
    pub(super) tenant: &'a str,
    pub(super) task: Task,
    /// The answers, as JSON.
    pub(super) content: String,
}

impl Lanes {
    /// Asks a judge about both answers of a thread, in both orders, if they differ.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if a database does not answer.
    pub(super) async fn judged(
        &self,
        judge: &Judge,
        lane: &Lane,
        compared: &Comparison,
    ) -> Result<Option<Judged>, Error> {
        if compared.not_decided.is_some() || compared.has_same_answer() {
            return Ok(None);
        }
        let input = people_wrote(&lane.record);
        let answer = |ending: &Ending| ending.answer.clone().unwrap_or_default();
        let (recorded, changed) = (answer(&compared.recorded), answer(&compared.changed));
        let question = |first: &String, second: &String| {
            let pair = Pair { input: input.clone(), first: first.clone(), second: second.clone() };
            let content = serde_json::to_string(&pair).unwrap_or_default();
            Asked { thread: lane.start.thread, tenant: &lane.tenant, task: Task::Compare, content }
        };
        let (recorded_first, changed_first) = tokio::try_join!(
            self.ask::<Choice>(judge, question(&recorded, &changed)),
            self.ask::<Choice>(judge, question(&changed, &recorded)),
        )?;
        Ok(Some(Judged::of(recorded_first, changed_first)))
    }

    /// Asks a judge, unless its verdict is stored.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if a database does not answer.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        judge: &Judge,
        asked: Asked<'_>,
    ) -> Result<Verdict<T>, Error> {
        match self.try_to_ask(judge, asked).await {
            Err(error @ Error::Unavailable(_)) => Err(error),
            Err(error) => Ok(Verdict { opinion: Err(error.to_string()), requests: 0, usd: 0.0 }),
            verdict => verdict,
        }
    }

    async fn try_to_ask<T: DeserializeOwned>(
        &self,
        judge: &Judge,
        Asked { thread, tenant, task, content }: Asked<'_>,
    ) -> Result<Verdict<T>, Error> {
        let id = judge.question(thread, &content);
        match self.parts.store.thread(id).await? {
            Some(_) => self.retry(id).await?,
            None => {
                let log = judge.opening(id, task, tenant, content);
                let log = log.map_err(|error| Error::Corrupt { thread: id, what: error.to_string() })?;
                import_thread(&self.parts.store, &self.strategies, id, log, Vec::new()).await?;
            }
        }
        let (start, tenant) = (Start { thread: id, seq: 0 }, tenant.to_owned());
        let (record, inputs) = (Vec::new(), Vec::new());
        let mut lane = Lane { start, graph: &Strategy, record, tenant, inputs, next: 0 };
        let why = self.to_end(&mut lane).await?;
        let own = own_log(&self.parts.store, id).await?;
        let events = own.iter().map(|recorded| &recorded.event);
        let ending = Ending::of(&Strategy, events, 0, &*self.prices).map_err(|error| stuck(id, &error))?;
        let opinion = match why {
            Some(why) => Err(why),
            None => Opinion::parse(&ending.answer.unwrap_or_default()),
        };
        Ok(Verdict { opinion, requests: ending.model_requests, usd: ending.rest.usd })
    }

    /// Has a question asked again that an earlier command could not get answered.
    async fn retry(&self, id: ThreadId) -> Result<(), Error> {
        let mut log = ThreadLog::open(&self.parts, &self.strategies, id).await?;
        if let RunStatus::Failed { .. } = log.thread().status() {
            let actor = GAVE_UP.trim_end_matches([':', ' ']).to_owned();
            log.push(Retried { actor, caller: None, forgotten_models: Vec::new() }.into())?;
            log.flush(&self.parts).await?;
        }
        Ok(())
    }
}
