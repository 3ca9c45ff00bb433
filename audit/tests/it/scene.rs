//! Three threads and two checkpoints, the subject of the attacks.

use std::{
    fs,
    path::{Path, PathBuf},
};

use audit::checkpoints::{self, Asked, Gone, Key, Made, Place, Report};
use shared::{Event, Message, TurnStarted};
use store::{Conditions, DryRun, NewTurn, Opening, Store, Stored, ThreadId, ThreadScan, testing::tamper};
use threads::StrategyRegistry;

/// A store, its checkpoints, and an independent copy.
pub(crate) struct Scene {
    pub(crate) store: Store,
    /// The first and the last thread were attested at both checkpoints, the second at the first. The first has grown
    /// since.
    pub(crate) threads: Vec<ThreadId>,
    /// Number of events of each thread at the two checkpoints.
    pub(crate) then: [[u64; 3]; 2],
    pub(crate) folder: tempfile::TempDir,
    pub(crate) key: Key,
    pub(crate) place: Place,
    /// A copy of the folder as of the first checkpoint.
    pub(crate) early: PathBuf,
    /// An independent copy of the last note.
    pub(crate) outside: PathBuf,
}

impl Scene {
    pub(crate) async fn new(url: &str) -> Self {
        let store = Store::connect(url).await.unwrap();
        store.migrate().await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let key = Key::make(&folder.path().join("key"), "example.org/turnfold").unwrap();
        let place = Place::of(&folder.path().join("witness"));
        let mut this = Self {
            store,
            threads: Vec::new(),
            then: [[0; 3]; 2],
            early: folder.path().join("early"),
            outside: folder.path().join("outside.note"),
            folder,
            key,
            place,
        };
        for words in ["steps 6; echo one", "steps 6; echo two", "steps 6; echo three"] {
            let thread = this.says(None, words).await;
            this.threads.push(thread);
        }
        assert_eq!(this.attest(Gone::Found).await.added, 3);
        this.then[0] = this.lengths().await;
        fs::create_dir(&this.early).unwrap();
        for (file, name) in [(&this.place.note, "checkpoint"), (&this.place.heads, "checkpoint.heads")] {
            fs::copy(file, this.early.join(name)).unwrap();
        }
        for nth in [0, 2] {
            this.says(Some(this.threads[nth]), "steps 3; echo more").await;
        }
        assert_eq!(this.attest(Gone::Found).await.size, 5);
        this.then[1] = this.lengths().await;
        fs::copy(&this.place.note, &this.outside).unwrap();
        this.says(Some(this.threads[0]), "steps 3; echo and more").await;
        this
    }

    /// Sends a message to a thread and runs the turn.
    pub(crate) async fn says(&self, thread: Option<ThreadId>, words: &str) -> ThreadId {
        let opened =
            serde_json::from_value(serde_json::json!({ "strategy": "probe", "version": 1 })).unwrap();
        let opening = thread.map_or(Opening::New(opened), Opening::Existing);
        let new = NewTurn::of(opening, vec![Message::user(words)], "ada".to_owned());
        let turn = self.store.submit(new).await.unwrap().into_turn();
        let (head, log) = self.store.load(turn.thread).await.unwrap();
        let mut script: Vec<Event> = log.into_iter().map(|it| it.event).collect();
        let before = script.len();
        let heard = TurnStarted {
            turn: turn.id,
            actor: "ada".to_owned(),
            time: queue::clock::rfc3339(turn.created_at),
            kind: shared::TurnKind::New,
            messages: turn.messages,
            caller: None,
        };
        script.push(heard.into());
        let probe = strategies::all().into_iter().find(|it| it.name() == "probe").unwrap();
        let lived = shared::rerun(probe, &script).unwrap();
        self.store.append(&head, &lived.log[before..], None).await.unwrap();
        threads::rebuild(&self.store, &strategies_here(), &round(Some(turn.thread)), DryRun::No)
            .await
            .unwrap();
        turn.thread
    }

    pub(crate) async fn attest(&self, gone: Gone) -> Made {
        let made =
            checkpoints::checkpoint(&self.store, &round(None), &self.place, &self.key, gone).await.unwrap();
        assert_eq!(made.found, 0, "{:?}", made.findings);
        made
    }

    /// Verifies the store against the folder and further checkpoints.
    pub(crate) async fn verify(&self, more: &[&Path]) -> Report {
        let own = self.place.note.clone();
        let checkpoints = std::iter::once(own).chain(more.iter().map(|it| it.to_path_buf())).collect();
        self.asked(Asked { checkpoints, vkey: Some(self.key.vkey().to_owned()) }, None).await
    }

    pub(crate) async fn asked(&self, asked: Asked, thread: Option<ThreadId>) -> Report {
        checkpoints::verify(&self.store, &strategies_here(), &round(thread), &asked).await.unwrap()
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
        threads::rebuild(&self.store, &strategies_here(), &round(Some(self.threads[nth])), DryRun::No)
            .await
            .unwrap();
    }

    /// Sets a thread back to this number of events.
    pub(crate) async fn set_back(&self, nth: usize, events: u64) {
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
    pub(crate) async fn attest_anew(&self, key: &Key) {
        fs::remove_file(&self.place.note).unwrap();
        fs::remove_file(&self.place.heads).unwrap();
        checkpoints::checkpoint(&self.store, &round(None), &self.place, key, Gone::Found).await.unwrap();
    }

    /// Sets the folder back to the first checkpoint.
    pub(crate) fn set_folder_back(&self) {
        fs::copy(self.early.join("checkpoint"), &self.place.note).unwrap();
        fs::copy(self.early.join("checkpoint.heads"), &self.place.heads).unwrap();
    }

    async fn lengths(&self) -> [u64; 3] {
        let mut all = [0; 3];
        for (nth, it) in all.iter_mut().enumerate() {
            *it = self.log(nth).await.len() as u64;
        }
        all
    }
}

pub(crate) fn strategies_here() -> StrategyRegistry {
    StrategyRegistry::new(strategies::all())
}

pub(crate) fn round(thread: Option<ThreadId>) -> ThreadScan {
    ThreadScan::of(Conditions::default(), 2).only(thread)
}
