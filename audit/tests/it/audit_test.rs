//! Three threads and two checkpoints, the subject of the attacks.

use std::{
    fs,
    path::{Path, PathBuf},
};

use audit::checkpoints::{self, Asked, Gone, Key, Made, Place, Report};
use shared::{Event, Message, TurnStarted};
use store::{DryRun, NewTurn, Opening, Store, Stored, ThreadId, ThreadScan, testing::tamper};
use threads::StrategyRegistry;

/// A store, its checkpoints, and an independent copy.
pub(crate) struct AuditTest {
    pub(crate) store: Store,
    /// The first and the last thread were attested at both checkpoints, the second at the first. The first has grown
    /// since.
    pub(crate) threads: Vec<ThreadId>,
    /// Number of events of each thread at the two checkpoints.
    pub(crate) lengths_at_checkpoints: [[u64; 3]; 2],
    pub(crate) folder: tempfile::TempDir,
    pub(crate) key: Key,
    pub(crate) place: Place,
    /// A copy of the folder as of the first checkpoint.
    pub(crate) first_checkpoint: PathBuf,
    /// An independent copy of the last note.
    pub(crate) independent_note: PathBuf,
}

impl AuditTest {
    pub(crate) async fn new(url: &str) -> Self {
        let store = Store::connect(url).await.unwrap();
        store.migrate().await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let key = Key::make(&folder.path().join("key"), "example.org/turnfold").unwrap();
        let place = Place::of(&folder.path().join("witness"));
        let mut this = Self {
            store,
            threads: Vec::new(),
            lengths_at_checkpoints: [[0; 3]; 2],
            first_checkpoint: folder.path().join("early"),
            independent_note: folder.path().join("outside.note"),
            folder,
            key,
            place,
        };
        for message in ["steps 6; echo one", "steps 6; echo two", "steps 6; echo three"] {
            let thread = this.run_turn(None, message).await;
            this.threads.push(thread);
        }
        assert_eq!(this.checkpoint(Gone::Found).await.added, 3);
        this.lengths_at_checkpoints[0] = this.lengths().await;
        fs::create_dir(&this.first_checkpoint).unwrap();
        for (file, name) in [(&this.place.note, "checkpoint"), (&this.place.heads, "checkpoint.heads")] {
            fs::copy(file, this.first_checkpoint.join(name)).unwrap();
        }
        for nth in [0, 2] {
            this.run_turn(Some(this.threads[nth]), "steps 3; echo more").await;
        }
        assert_eq!(this.checkpoint(Gone::Found).await.size, 5);
        this.lengths_at_checkpoints[1] = this.lengths().await;
        fs::copy(&this.place.note, &this.independent_note).unwrap();
        this.run_turn(Some(this.threads[0]), "steps 3; echo and more").await;
        this
    }

    /// Sends a message to a thread and runs the turn.
    pub(crate) async fn run_turn(&self, thread: Option<ThreadId>, text: &str) -> ThreadId {
        let opened =
            serde_json::from_value(serde_json::json!({ "strategy": "probe", "version": 1 })).unwrap();
        let opening = thread.map_or(Opening::New(opened), Opening::Existing);
        let new = NewTurn::of(opening, vec![Message::user(text)], "ada".to_owned());
        let turn = self.store.submit(new).await.unwrap().into_turn();
        let (head, log) = self.store.load(turn.thread).await.unwrap();
        let mut script: Vec<Event> = log.into_iter().map(|event| event.event).collect();
        let before = script.len();
        let started = TurnStarted {
            turn: turn.id,
            actor: "ada".to_owned(),
            time: queue::clock::rfc3339(turn.created_at),
            kind: shared::TurnKind::New,
            messages: turn.messages,
            caller: None,
            forgotten_models: Vec::new(),
            reply_options: None,
            toolbox: None,
            history_hash: None,
            priority: None,
            metadata: None,
            build: None,
        };
        script.push(started.into());
        let probe = strategies::all().into_iter().find(|strategy| strategy.name() == "probe").unwrap();
        let result = shared::rerun(probe, &script).unwrap();
        self.store.append(&head, &result.log[before..], None).await.unwrap();
        threads::rebuild(&self.store, &all_strategies(), &scan(Some(turn.thread)), DryRun::No).await.unwrap();
        turn.thread
    }

    pub(crate) async fn checkpoint(&self, gone: Gone) -> Made {
        let made =
            checkpoints::checkpoint(&self.store, &scan(None), &self.place, &self.key, gone).await.unwrap();
        assert_eq!(made.found, 0, "{:?}", made.findings);
        made
    }

    /// Verifies the store against the folder and further checkpoints.
    pub(crate) async fn verify(&self, more: &[&Path]) -> Report {
        let own = self.place.note.clone();
        let checkpoints = std::iter::once(own).chain(more.iter().map(|path| path.to_path_buf())).collect();
        self.verify_with(
            Asked { checkpoints, vkeys: vec![self.key.vkey().to_owned()], ..Asked::default() },
            None,
        )
        .await
    }

    pub(crate) async fn verify_with(&self, asked: Asked, thread: Option<ThreadId>) -> Report {
        checkpoints::verify(&self.store, &all_strategies(), &scan(thread), &asked).await.unwrap()
    }

    pub(crate) async fn log(&self, nth: usize) -> Vec<Stored> {
        self.store.stored(self.threads[nth], 0, 1_000).await.unwrap()
    }

    /// Replaces the log of a thread.
    pub(crate) async fn replace(&self, nth: usize, log: &[Stored]) {
        tamper::replace_log(&self.store, self.threads[nth], log).await.unwrap();
    }

    /// Replaces the log of a thread, and its rows to match.
    pub(crate) async fn forge(&self, nth: usize, log: &[Stored]) {
        self.replace(nth, log).await;
        threads::rebuild(&self.store, &all_strategies(), &scan(Some(self.threads[nth])), DryRun::No)
            .await
            .unwrap();
    }

    /// Sets a thread back to this number of events.
    pub(crate) async fn roll_back(&self, nth: usize, events: u64) {
        let mut log = self.log(nth).await;
        log.truncate(usize::try_from(events).unwrap());
        let turns = format!("DELETE FROM turns WHERE thread_id = $1 AND started_seq >= {events}");
        tamper::execute(&self.store, &turns, self.threads[nth]).await.unwrap();
        self.forge(nth, &log).await;
    }

    /// Removes the rows of a thread.
    pub(crate) async fn remove(&self, nth: usize, of_turns: tamper::Turns) {
        self.replace(nth, &[]).await;
        tamper::remove_rows(&self.store, self.threads[nth], of_turns).await.unwrap();
    }

    /// Recreates everything in the folder from the current store, with this key.
    pub(crate) async fn recreate_checkpoint(&self, key: &Key) {
        fs::remove_file(&self.place.note).unwrap();
        fs::remove_file(&self.place.heads).unwrap();
        checkpoints::checkpoint(&self.store, &scan(None), &self.place, key, Gone::Found).await.unwrap();
    }

    /// Sets the folder back to the first checkpoint.
    pub(crate) fn roll_back_folder(&self) {
        fs::copy(self.first_checkpoint.join("checkpoint"), &self.place.note).unwrap();
        fs::copy(self.first_checkpoint.join("checkpoint.heads"), &self.place.heads).unwrap();
    }

    async fn lengths(&self) -> [u64; 3] {
        let mut all = [0; 3];
        for (nth, length) in all.iter_mut().enumerate() {
            *length = self.log(nth).await.len() as u64;
        }
        all
    }
}

pub(crate) fn all_strategies() -> StrategyRegistry {
    StrategyRegistry::new(strategies::all())
}

pub(crate) fn scan(thread: Option<ThreadId>) -> ThreadScan {
    thread.map_or_else(|| ThreadScan::of_all(2), |thread| ThreadScan::of(thread, 2))
}
