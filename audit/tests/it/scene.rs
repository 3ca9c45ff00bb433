//! Three threads and two checkpoints: what attacks are tried on.

use std::{
    fs,
    path::{Path, PathBuf},
};

use audit::witness::{self, Asked, Gone, Key, Made, Place, Report};
use shared::{Event, Heard, Message, strategies};
use store::{
    Conditions, DryRun, NewTurn, Opening, Round, Store, Stored, Strategies, ThreadId, testing::intruder,
};

/// A store, what was attested of it, and what somebody else kept.
pub(crate) struct Scene {
    pub(crate) store: Store,
    /// The first and the last were attested at both checkpoints, the second at the first. The first has gone on since.
    pub(crate) threads: Vec<ThreadId>,
    /// How many events each had at the two checkpoints.
    pub(crate) then: [[u64; 3]; 2],
    pub(crate) folder: tempfile::TempDir,
    pub(crate) key: Key,
    pub(crate) place: Place,
    /// A copy of the place as it was at the first checkpoint.
    pub(crate) early: PathBuf,
    /// A copy of the last note, in other hands.
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

    /// A thread hears words, and all comes of it that the strategy makes of them.
    pub(crate) async fn says(&self, thread: Option<ThreadId>, words: &str) -> ThreadId {
        let opened =
            serde_json::from_value(serde_json::json!({ "strategy": "probe", "version": 1 })).unwrap();
        let opening = thread.map_or(Opening::New(opened), Opening::Existing);
        let new = NewTurn::of(opening, vec![Message::user(words)], "ada".to_owned());
        let turn = self.store.submit(new).await.unwrap().into_turn();
        let (head, log) = self.store.load(turn.thread).await.unwrap();
        let mut script: Vec<Event> = log.into_iter().map(|it| it.event).collect();
        let before = script.len();
        let heard = Heard {
            turn: turn.id,
            by: "ada".to_owned(),
            time: store::time::rfc3339(turn.created_at),
            hearing: shared::Hearing::Input,
            messages: turn.messages,
        };
        script.push(heard.into());
        let probe = strategies::all().into_iter().find(|it| it.name() == "probe").unwrap();
        let lived = shared::reenact(probe, &script).unwrap();
        self.store.append(&head, &lived.log[before..], None).await.unwrap();
        self.store.rebuild(&strategies_here(), &round(Some(turn.thread)), DryRun::No).await.unwrap();
        turn.thread
    }

    pub(crate) async fn attest(&self, gone: Gone) -> Made {
        let made =
            witness::checkpoint(&self.store, &round(None), &self.place, &self.key, gone).await.unwrap();
        assert_eq!(made.found, 0, "{:?}", made.findings);
        made
    }

    /// Held against what is kept in the folder, and against more.
    pub(crate) async fn verify(&self, more: &[&Path]) -> Report {
        let own = self.place.note.clone();
        let checkpoints = std::iter::once(own).chain(more.iter().map(|it| it.to_path_buf())).collect();
        self.asked(Asked { checkpoints, vkey: Some(self.key.vkey().to_owned()) }, None).await
    }

    pub(crate) async fn asked(&self, asked: Asked, thread: Option<ThreadId>) -> Report {
        witness::verify(&self.store, &strategies_here(), &round(thread), &asked).await.unwrap()
    }

    pub(crate) async fn log(&self, nth: usize) -> Vec<Stored> {
        self.store.stored(self.threads[nth], 0, 1_000).await.unwrap()
    }

    /// The log of a thread is this from now on.
    pub(crate) async fn replace(&self, nth: usize, log: &[Stored]) {
        intruder::replace_log(&self.store, self.threads[nth], log).await.unwrap();
    }

    /// Its log is changed, and its rows are what the changed log says.
    pub(crate) async fn forge(&self, nth: usize, log: &[Stored]) {
        self.replace(nth, log).await;
        self.store.rebuild(&strategies_here(), &round(Some(self.threads[nth])), DryRun::No).await.unwrap();
    }

    /// A thread is as it was when it had so many events.
    pub(crate) async fn set_back(&self, nth: usize, events: u64) {
        let mut log = self.log(nth).await;
        log.truncate(usize::try_from(events).unwrap());
        let turns = format!("DELETE FROM turns WHERE thread_id = $1 AND heard_seq >= {events}");
        intruder::say(&self.store, &turns, self.threads[nth]).await.unwrap();
        self.forge(nth, &log).await;
    }

    /// The rows of a thread are gone.
    pub(crate) async fn remove(&self, nth: usize, of_turns: intruder::Turns) {
        self.replace(nth, &[]).await;
        intruder::remove_rows(&self.store, self.threads[nth], of_turns).await.unwrap();
    }

    /// Somebody makes all that is kept in the folder anew, of the store as it is, with this key.
    pub(crate) async fn attest_anew(&self, key: &Key) {
        fs::remove_file(&self.place.note).unwrap();
        fs::remove_file(&self.place.heads).unwrap();
        witness::checkpoint(&self.store, &round(None), &self.place, key, Gone::Found).await.unwrap();
    }

    /// What is kept in the folder is as it was at the first checkpoint.
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

pub(crate) fn strategies_here() -> Strategies {
    Strategies::new(strategies::all())
}

pub(crate) fn round(thread: Option<ThreadId>) -> Round {
    Round::of(Conditions::default(), 2).only(thread)
}
