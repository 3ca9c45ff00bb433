//! A chat completion that is asked for, as the turn that it submits.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use shared::{Budget, Message};
use store::{Idempotency, Opening, ThreadId};
use uuid::Uuid;

use super::{conversation, model, parameters, strategy};
use crate::{
    auth::{Acting, USER_MAX},
    house::House,
    problem::{Kind, Problem},
    said,
    schema::Priority,
    submit::{Tuned, opened},
    threads::find,
};

/// A chat completion that is asked for.
pub(crate) struct Asked {
    strategy: String,
    thread: Option<ThreadId>,
    messages: Vec<Message>,
    metadata: Map<String, Value>,
    user: Option<String>,
    ours: Extension,
    /// How it is to be told.
    pub(crate) manner: Manner,
}

/// How an answer is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// At once.
    Whole,
    /// In pieces.
    Streamed {
        /// Whether a last piece tells what it took.
        include_usage: bool,
    },
}

/// What only turnfold understands: the field `turnfold` of a body.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Extension {
    config: Option<Map<String, Value>>,
    budget: Option<Budget>,
    priority: Option<Priority>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StreamOptions {
    include_usage: bool,
}

impl Asked {
    /// What a body asks for, of the thread that a header names if one does. Nothing is looked up yet.
    pub(crate) fn read(mut body: Map<String, Value>, header: Option<ThreadId>) -> Result<Self, Problem> {
        // Clients write null for what they leave out.
        body.retain(|_, it| !it.is_null());
        parameters::check(&body)?;
        let name: Option<String> = field(&body, "model")?;
        let Some(name) = name else {
            let words = "model: it is missing";
            return Err(Kind::Invalid.because(words).mend("GET /v1/models lists them").about("model"));
        };
        let metadata: Map<String, Value> = field(&body, "metadata")?.unwrap_or_default();
        let thread = thread(&metadata, header)?;
        let mut messages = conversation::read(body.get("messages"))?;
        if thread.is_some() {
            // The thread remembers the others.
            messages = conversation::last_of_user(&messages).cloned().into_iter().collect();
        }
        let options: StreamOptions = field(&body, "stream_options")?.unwrap_or_default();
        let manner = match field(&body, "stream")? {
            Some(true) => Manner::Streamed { include_usage: options.include_usage },
            Some(false) | None => Manner::Whole,
        };
        Ok(Self {
            strategy: strategy(&name).to_owned(),
            thread,
            messages,
            metadata,
            user: user(&body)?,
            ours: field(&body, "turnfold")?.unwrap_or_default(),
            manner,
        })
    }

    /// The same, that urgent unless it says so itself.
    pub(crate) fn or_priority(mut self, priority: store::Priority) -> Self {
        self.ours.priority.get_or_insert(priority.into());
        self
    }

    /// The name of the model that is asked.
    pub(crate) fn model(&self) -> String {
        model(&self.strategy)
    }

    /// The turn that it submits, for `by` unless it names its user.
    pub(crate) async fn submission(
        self,
        house: &House,
        acting: &Acting,
        by: &str,
        idempotency: Option<Idempotency>,
    ) -> Result<store::NewTurn, Problem> {
        let new = match self.thread {
            None => self.opening(house, acting, by)?,
            Some(id) => self.going_on(house, acting, by, id).await?,
        };
        Ok(store::NewTurn { idempotency, ..new })
    }

    /// The turn that it submits to a thread of its own.
    pub(crate) fn opening(self, house: &House, acting: &Acting, by: &str) -> Result<store::NewTurn, Problem> {
        if self.thread.is_some() {
            let words = "metadata.thread_id: here each request opens a thread of its own";
            return Err(Kind::Invalid.because(words).mend("leave it out").about("metadata.thread_id"));
        }
        super::models::known(house, &self.strategy)?;
        let by = self.user.as_deref().unwrap_or(by);
        let tuned = Tuned { config: self.ours.config.clone(), budget: self.ours.budget.clone() };
        let opened = opened(house, acting, &self.strategy, tuned, by);
        let thread = Opening::New(opened.map_err(|it| it.about("turnfold.config"))?);
        let by = by.to_owned();
        Ok(self.turn(thread, by))
    }

    async fn going_on(
        self,
        house: &House,
        acting: &Acting,
        by: &str,
        id: ThreadId,
    ) -> Result<store::NewTurn, Problem> {
        if self.ours.config.is_some() || self.ours.budget.is_some() {
            let words = "turnfold: a thread has the configuration and the budget that it opened with";
            let mend = "leave `config` and `budget` out, or leave the thread out to open another";
            return Err(Kind::Invalid.because(words).mend(mend).about("turnfold"));
        }
        let row = find(house, acting, id).await.map_err(|it| it.about("metadata.thread_id"))?;
        if row.strategy != self.strategy {
            let words = format!("model: thread {id} is one of {}", model(&row.strategy));
            return Err(Kind::Invalid.because(words).mend("name that model").about("model"));
        }
        let by = self.user.as_deref().unwrap_or(by).to_owned();
        Ok(self.turn(Opening::Existing(id), by))
    }

    fn turn(self, thread: Opening, author: String) -> store::NewTurn {
        store::NewTurn {
            priority: self.ours.priority.unwrap_or_default().into(),
            metadata: Value::Object(self.metadata),
            ..store::NewTurn::of(thread, self.messages, author)
        }
    }
}

/// The thread to go on with: the header's, or the metadata's.
fn thread(metadata: &Map<String, Value>, header: Option<ThreadId>) -> Result<Option<ThreadId>, Problem> {
    let Some(named) = metadata.get("thread_id") else { return Ok(header) };
    let wrong = |words: &str| {
        Kind::Invalid.because(format!("metadata.thread_id: {words}")).about("metadata.thread_id")
    };
    let id = named.as_str().and_then(|it| Uuid::parse_str(it).ok());
    let id = id.ok_or_else(|| wrong("the id of a thread is wanted"))?;
    match header {
        Some(other) if other != id => Err(wrong("X-Turnfold-Thread names another thread")),
        Some(_) | None => Ok(Some(id)),
    }
}

fn user(body: &Map<String, Value>) -> Result<Option<String>, Problem> {
    match field::<String>(body, "user")? {
        Some(name) if !(1..=USER_MAX).contains(&name.chars().count()) => {
            let words = format!("user: a text of 1 to {USER_MAX} characters is wanted");
            Err(Kind::Invalid.because(words).about("user"))
        }
        user => Ok(user),
    }
}

fn field<T: DeserializeOwned>(body: &Map<String, Value>, name: &str) -> Result<Option<T>, Problem> {
    let Some(value) = body.get(name) else { return Ok(None) };
    said::read(name, value).map(Some)
}
