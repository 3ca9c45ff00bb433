//! Guarantees of checkpoints beyond the detection of attacks.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use audit::checkpoints::{Asked, Error, Gone, Key, Place, Verdict, checkpoint, export, verify};
use sha2::{Digest as _, Sha256};
use store::{
    Store,
    testing::tamper::{self, Turns},
};
use tlog_tiles::{Checkpoint, check_tree, prove_tree};

use crate::audit_test::{AuditTest, all_strategies, scan};

#[tokio::test]
async fn a_checkpoint_only_adds() {
    let test = AuditTest::new("sqlite::memory:").await;
    let (first_checkpoint, late) = (
        fs::read(test.first_checkpoint.join("checkpoint")).unwrap(),
        fs::read(&test.independent_note).unwrap(),
    );
    let list = fs::read_to_string(&test.place.heads).unwrap();
    assert!(list.starts_with(&fs::read_to_string(test.first_checkpoint.join("checkpoint.heads")).unwrap()));

    // Consistent, by the proof of RFC 6962 over the leaves in the file.
    let read = |note: &[u8]| {
        let note = signed_note::Note::from_bytes(note).unwrap();
        Checkpoint::from_bytes(note.text()).unwrap()
    };
    let (first_checkpoint, late) = (read(&first_checkpoint), read(&late));
    let leaves: Vec<&str> = list.lines().collect();
    let hashes = Stored(&leaves);
    let proof = prove_tree(late.size(), first_checkpoint.size(), &hashes).unwrap();
    check_tree(&proof, late.size(), *late.hash(), first_checkpoint.size(), *first_checkpoint.hash()).unwrap();
    assert_eq!((first_checkpoint.size(), late.size(), late.origin()), (3, 5, "example.org/turnfold"));

    let last = test.checkpoint(Gone::Found).await;
    assert_eq!((last.size, last.added), (6, 1), "the first thread has grown");
    let note = fs::read(&test.place.note).unwrap();
    assert_eq!(test.checkpoint(Gone::Found).await.added, 0);
    assert_eq!(fs::read(&test.place.note).unwrap(), note, "without a new event nothing is written");
}

/// A store with an identity of its own, in a file.
async fn another_store(folder: &Path) -> Store {
    let store = Store::connect(&format!("sqlite:{}", folder.join("another.db").display())).await.unwrap();
    store.migrate().await.unwrap();
    store
}

#[tokio::test]
async fn the_list_of_a_store_takes_no_heads_of_another() {
    let test = AuditTest::new("sqlite::memory:").await;
    let files = || (fs::read(&test.place.note).unwrap(), fs::read(&test.place.heads).unwrap());
    let before = files();
    // An empty one, and one with threads of its own.
    let folder = tempfile::tempdir().unwrap();
    let other = another_store(folder.path()).await;
    for gone in [Gone::Found, Gone::Known { count: 3, reason: "lost".to_owned() }] {
        let refused = checkpoint(&other, &scan(None), &test.place, &test.key, gone).await;
        let Err(Error::Given(why)) = refused else { panic!("not refused: {refused:?}") };
        assert!(why.contains("hint: check store.url"), "{why}");
        assert_eq!(files(), before, "not a byte is written");
    }
    let asked = Asked {
        checkpoints: vec![test.place.note.clone()],
        vkeys: vec![test.key.vkey().to_owned()],
        ..Asked::default()
    };
    let found = verify(&other, &all_strategies(), &scan(None), &asked).await.unwrap();
    assert!(found.findings.iter().any(|it| it.wrong == "other_store"), "{found:#?}");
    assert!(test.verify(&[]).await.findings.is_empty());
}

#[tokio::test]
async fn a_copy_of_a_store_continues_its_list() {
    let folder = tempfile::tempdir().unwrap();
    let test = AuditTest::new(&format!("sqlite:{}", folder.path().join("log.db").display())).await;
    let copy = folder.path().join("copy.db");
    tamper::execute_with(&test.store, &format!("VACUUM INTO '{}'", copy.display()), []).await.unwrap();
    let copy = Store::connect(&format!("sqlite:{}", copy.display())).await.unwrap();
    let made = checkpoint(&copy, &scan(None), &test.place, &test.key, Gone::Found).await.unwrap();
    assert_eq!((made.found, made.size), (0, 6), "{made:?}");
}

#[tokio::test]
async fn a_deletion_is_attested_with_its_count_and_reason() {
    let test = AuditTest::new("sqlite::memory:").await;
    test.remove(1, Turns::Delete).await;
    let before = fs::read(&test.place.heads).unwrap();
    let known = |count, reason: &str| Gone::Known { count, reason: reason.to_owned() };
    for gone in [known(2, "pruned"), known(1, " "), known(1, "two\nlines"), known(1, &"x".repeat(201))] {
        let refused = checkpoint(&test.store, &scan(None), &test.place, &test.key, gone).await;
        assert!(
            matches!(&refused, Err(Error::Given(why)) if why.contains("nothing was signed")),
            "{refused:?}"
        );
        assert_eq!(fs::read(&test.place.heads).unwrap(), before);
    }
    let made = test.checkpoint(known(1, "pruned after 90 days")).await;
    assert_eq!(made.gone, 1);
    let list = fs::read_to_string(&test.place.heads).unwrap();
    let hash = hex::encode(Sha256::digest("pruned after 90 days"));
    assert!(list.lines().any(|line| line == format!("{} 0 {hash}", test.threads[1])), "{list}");
    assert_eq!(test.verify(&[]).await.found, 0);

    // All threads are gone: that is more likely another database.
    for nth in [0, 2] {
        test.remove(nth, Turns::Delete).await;
    }
    let refused = checkpoint(&test.store, &scan(None), &test.place, &test.key, Gone::Found).await;
    assert!(
        matches!(&refused, Err(Error::Given(why)) if why.contains("none of the 2 threads")),
        "{refused:?}"
    );
    assert_eq!(test.checkpoint(known(2, "the end")).await.gone, 2);
}

/// The tree's hashes as the library stores them, computed leaf by leaf: an independent implementation.
struct Stored<'a>(&'a [&'a str]);

impl tlog_tiles::HashReader for Stored<'_> {
    fn read_hashes(&self, indexes: &[u64]) -> Result<Vec<tlog_tiles::Hash>, tlog_tiles::Error> {
        struct Kept(Vec<tlog_tiles::Hash>);
        impl tlog_tiles::HashReader for Kept {
            fn read_hashes(&self, indexes: &[u64]) -> Result<Vec<tlog_tiles::Hash>, tlog_tiles::Error> {
                Ok(indexes.iter().map(|index| self.0[usize::try_from(*index).unwrap()]).collect())
            }
        }
        let mut kept = Kept(Vec::new());
        for (n, leaf) in (0..).zip(self.0) {
            let more = tlog_tiles::stored_hashes(n, leaf.as_bytes(), &kept)?;
            kept.0.extend(more);
        }
        kept.read_hashes(indexes)
    }
}

#[tokio::test]
async fn roots_of_all_sizes_equal_those_of_the_library() {
    let test = AuditTest::new("sqlite::memory:").await;
    for n in 0..20 {
        test.run_turn(None, &format!("echo {n}")).await;
        test.checkpoint(Gone::Found).await;
        let list = fs::read_to_string(&test.place.heads).unwrap();
        let leaves: Vec<&str> = list.lines().collect();
        let note = signed_note::Note::from_bytes(&fs::read(&test.place.note).unwrap()).unwrap();
        let made = Checkpoint::from_bytes(note.text()).unwrap();
        let root = tlog_tiles::tree_hash(made.size(), &Stored(&leaves)).unwrap();
        assert_eq!(root, *made.hash(), "{} heads", made.size());
    }
}

#[tokio::test]
async fn unchecked_parts_are_reported() {
    let test = AuditTest::new("sqlite::memory:").await;
    let nothing = test.verify_with(Asked::default(), None).await;
    assert_eq!((nothing.verdict, nothing.found, nothing.attested), (Verdict::NotChecked, 0, 0));
    assert!(nothing.not_checked[0].what.contains("recomputed hashes"), "{nothing:?}");

    let no_key = Asked { checkpoints: vec![test.place.note.clone()], ..Asked::default() };
    let no_key = test.verify_with(no_key, None).await;
    assert_eq!(no_key.verdict, Verdict::NotChecked);
    assert!(0 < no_key.attested && no_key.not_checked[0].why.contains("--vkey"), "{no_key:?}");

    let vkeys = vec![test.key.vkey().to_owned()];
    let asked = |checkpoint: &PathBuf| Asked {
        checkpoints: vec![checkpoint.clone()],
        vkeys: vkeys.clone(),
        ..Asked::default()
    };
    let no_list = asked(&test.independent_note);
    let no_list = test.verify_with(no_list, None).await;
    assert_eq!((no_list.verdict, no_list.attested), (Verdict::NotChecked, 0), "{no_list:?}");

    let new = test.run_turn(None, "echo new").await;
    let asked = asked(&test.place.note);
    let unattested = test.verify_with(asked.clone(), Some(new)).await;
    assert_eq!(unattested.verdict, Verdict::NotChecked, "{unattested:?}");
    let attested = test.verify_with(asked.clone(), Some(test.threads[1])).await;
    assert_eq!((attested.verdict, attested.beyond), (Verdict::Intact, 0), "{attested:?}");

    let unknown_id = uuid::Uuid::now_v7();
    let strategies = crate::audit_test::all_strategies();
    let unknown = audit::checkpoints::verify(&test.store, &strategies, &scan(Some(unknown_id)), &asked).await;
    assert!(
        matches!(unknown, Err(Error::Store(store::Error::UnknownThread(id))) if id == unknown_id),
        "{unknown:?}"
    );
}

#[tokio::test]
async fn a_checkpoint_does_not_attest_a_broken_log() {
    let test = AuditTest::new("sqlite::memory:").await;
    let mut log = test.log(0).await;
    log[4].at += 1;
    test.replace(0, &log).await;
    let new = test.run_turn(None, "echo new").await;
    let made = checkpoint(&test.store, &scan(None), &test.place, &test.key, Gone::Found).await.unwrap();
    assert_eq!((made.added, made.found, made.findings[0].seq), (1, 1, 4), "{made:?}");
    let list = fs::read_to_string(&test.place.heads).unwrap();
    assert!(list.lines().last().unwrap().starts_with(&new.to_string()));

    let other = Key::make(&test.folder.path().join("other"), "example.org/other").unwrap();
    let refused = checkpoint(&test.store, &scan(None), &test.place, &other, Gone::Found).await;
    assert!(
        matches!(&refused, Err(Error::Damaged(message)) if message.contains("is not signed by example.org/other")),
        "{refused:?}"
    );
    fs::write(&test.place.heads, list.replacen('1', "2", 1)).unwrap();
    let refused = checkpoint(&test.store, &scan(None), &test.place, &test.key, Gone::Found).await;
    assert!(
        matches!(&refused, Err(Error::Damaged(message)) if message.contains("nothing was signed")),
        "{refused:?}"
    );
}

/// An interrupted checkpoint has added heads without signing them. The next one replaces them.
#[tokio::test]
async fn unsigned_heads_are_replaced() {
    let test = AuditTest::new("sqlite::memory:").await;
    let list = fs::read_to_string(&test.place.heads).unwrap();
    let half = format!("{list}{} 7 {}\n{}", test.threads[1], "00".repeat(32), test.threads[0]);
    fs::write(&test.place.heads, half).unwrap();
    let looked = test.verify(&[]).await;
    assert_eq!((looked.verdict, looked.found), (Verdict::NotChecked, 0), "{looked:?}");
    assert_eq!(test.checkpoint(Gone::Found).await.size, 6);
    assert_eq!(test.verify(&[]).await.verdict, Verdict::Intact);
}

/// Two checkpoint folders, each with its list, in either order: yesterday's list is a prefix of today's.
#[tokio::test]
async fn each_note_is_compared_with_its_own_list_and_the_longest() {
    let test = AuditTest::new("sqlite::memory:").await;
    let (first_checkpoint, late) = (test.first_checkpoint.join("checkpoint"), test.place.note.clone());
    assert_eq!(
        verify_in_both_orders(&test, &first_checkpoint, &late).await,
        [(Verdict::Intact, vec![]), (Verdict::Intact, vec![])]
    );

    // Heads that were added to the older list and never signed are not trusted, and are reported.
    let list = fs::read_to_string(test.first_checkpoint.join("checkpoint.heads")).unwrap();
    fs::write(test.first_checkpoint.join("checkpoint.heads"), list.repeat(3)).unwrap();
    let unsigned = (Verdict::NotChecked, vec![]);
    assert_eq!(verify_in_both_orders(&test, &first_checkpoint, &late).await, [unsigned.clone(), unsigned]);

    // A list that was set back is found, although another folder has all of it.
    let whole = test.folder.path().join("whole");
    fs::create_dir(&whole).unwrap();
    fs::copy(&test.place.note, whole.join("checkpoint")).unwrap();
    fs::copy(&test.place.heads, whole.join("checkpoint.heads")).unwrap();
    fs::write(&test.place.heads, &list).unwrap();
    let back = (Verdict::Tampered, vec!["rolled_back"]);
    assert_eq!(verify_in_both_orders(&test, &whole.join("checkpoint"), &late).await, [back.clone(), back]);

    // Two histories, each with a matching note and list.
    test.recreate_checkpoint(&test.key).await;
    test.run_turn(None, "echo new").await;
    assert_eq!(test.checkpoint(Gone::Found).await.size, 4);
    fs::write(test.first_checkpoint.join("checkpoint.heads"), list).unwrap();
    let forked = (Verdict::Tampered, vec!["forked"]);
    assert_eq!(verify_in_both_orders(&test, &first_checkpoint, &late).await, [forked.clone(), forked]);
}

/// Results with the two notes in either order.
async fn verify_in_both_orders(
    test: &AuditTest,
    one: &Path,
    other: &Path,
) -> [(Verdict, Vec<&'static str>); 2] {
    let mut results = Vec::new();
    for notes in [[one, other], [other, one]] {
        let checkpoints = notes.map(Path::to_owned).to_vec();
        let asked = Asked { checkpoints, vkeys: vec![test.key.vkey().to_owned()], ..Asked::default() };
        let report = test.verify_with(asked, None).await;
        results.push((report.verdict, report.findings.iter().map(|finding| finding.wrong).collect()));
    }
    results.try_into().unwrap()
}

#[test]
fn a_key_file_is_readable_by_its_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a/key");
    let key = Key::make(&file, "example.org/turnfold").unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let secret = fs::read_to_string(&file).unwrap().lines().next().unwrap().to_owned();
    assert!(secret.starts_with("PRIVATE+KEY+") && !format!("{key:?}").contains(&secret));
    assert_eq!(Key::read(&file).unwrap().vkey(), key.vkey());
    assert!(Key::make(&file, "example.org/turnfold").is_err(), "a key is never overwritten");
    assert!(Key::make(&folder.path().join("b"), "two words").is_err());
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    assert!(Key::read(&file).unwrap_err().to_string().contains("chmod 600"));
}

#[tokio::test]
async fn only_an_attested_thread_is_exported_with_a_proof() {
    let test = AuditTest::new("sqlite::memory:").await;
    let new = test.run_turn(None, "echo new").await;
    let to = test.folder.path().join("bundle");
    let place = Place::of(test.place.note.parent().unwrap());
    let refused = export(&test.store, new, Some(&place), &to).await;
    assert!(
        matches!(&refused, Err(Error::Given(message)) if message.contains("does not attest thread")),
        "{refused:?}"
    );
    assert!(!to.exists());
    assert_eq!(export(&test.store, new, None, &to).await.unwrap().attested, None);
    assert!(export(&test.store, new, None, &to).await.is_err(), "a folder is never overwritten");
}
