//! Guarantees of checkpoints beyond the detection of attacks.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use audit::checkpoints::{Asked, Error, Gone, Key, Place, Verdict, checkpoint, export};
use tlog_tiles::{Checkpoint, check_tree, prove_tree};

use crate::audit_test::{AuditTest, scan};

#[tokio::test]
async fn a_checkpoint_only_adds() {
    let test = AuditTest::new("sqlite::memory:").await;
    let (early, late) = (fs::read(test.early.join("checkpoint")).unwrap(), fs::read(&test.outside).unwrap());
    let list = fs::read_to_string(&test.place.heads).unwrap();
    assert!(list.starts_with(&fs::read_to_string(test.early.join("checkpoint.heads")).unwrap()));

    // Consistent, by the proof of RFC 6962 over the leaves in the file.
    let read = |note: &[u8]| {
        let note = signed_note::Note::from_bytes(note).unwrap();
        Checkpoint::from_bytes(note.text()).unwrap()
    };
    let (early, late) = (read(&early), read(&late));
    let leaves: Vec<&str> = list.lines().collect();
    let hashes = Stored(&leaves);
    let proof = prove_tree(late.size(), early.size(), &hashes).unwrap();
    check_tree(&proof, late.size(), *late.hash(), early.size(), *early.hash()).unwrap();
    assert_eq!((early.size(), late.size(), late.origin()), (3, 5, "example.org/turnfold"));

    let last = test.checkpoint(Gone::Found).await;
    assert_eq!((last.size, last.added), (6, 1), "the first thread had gone on");
    let note = fs::read(&test.place.note).unwrap();
    assert_eq!(test.checkpoint(Gone::Found).await.added, 0);
    assert_eq!(fs::read(&test.place.note).unwrap(), note, "nothing moved, nothing is written");
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
async fn roots_of_all_sizes_are_those_of_the_crate() {
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
async fn what_could_not_be_checked_is_told() {
    let test = AuditTest::new("sqlite::memory:").await;
    let nothing = test.verify_with(Asked::default(), None).await;
    assert_eq!((nothing.verdict, nothing.found, nothing.attested), (Verdict::NotChecked, 0, 0));
    assert!(nothing.not_checked[0].what.contains("recomputed hashes"), "{nothing:?}");

    let no_key = Asked { checkpoints: vec![test.place.note.clone()], vkey: None };
    let no_key = test.verify_with(no_key, None).await;
    assert_eq!(no_key.verdict, Verdict::NotChecked);
    assert!(0 < no_key.attested && no_key.not_checked[0].why.contains("--vkey"), "{no_key:?}");

    let vkey = Some(test.key.vkey().to_owned());
    let no_list = Asked { checkpoints: vec![test.outside.clone()], vkey: vkey.clone() };
    let no_list = test.verify_with(no_list, None).await;
    assert_eq!((no_list.verdict, no_list.attested), (Verdict::NotChecked, 0), "{no_list:?}");

    let new = test.run_turn(None, "echo new").await;
    let asked = Asked { checkpoints: vec![test.place.note.clone()], vkey };
    let unattested = test.verify_with(asked.clone(), Some(new)).await;
    assert_eq!(unattested.verdict, Verdict::NotChecked, "{unattested:?}");
    let attested = test.verify_with(asked.clone(), Some(test.threads[1])).await;
    assert_eq!((attested.verdict, attested.beyond), (Verdict::Intact, 0), "{attested:?}");

    let nobody = uuid::Uuid::now_v7();
    let strategies = crate::audit_test::all_strategies();
    let unknown = audit::checkpoints::verify(&test.store, &strategies, &scan(Some(nobody)), &asked).await;
    assert!(
        matches!(unknown, Err(Error::Store(store::Error::UnknownThread(id))) if id == nobody),
        "{unknown:?}"
    );
}

#[tokio::test]
async fn a_checkpoint_attests_nothing_that_does_not_hold() {
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
async fn what_nobody_signed_is_cut_off() {
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
async fn each_note_is_held_against_its_own_list_and_the_one_that_goes_furthest() {
    let test = AuditTest::new("sqlite::memory:").await;
    let (early, late) = (test.early.join("checkpoint"), test.place.note.clone());
    assert_eq!(both_ways(&test, &early, &late).await, [(Verdict::Intact, vec![]), (Verdict::Intact, vec![])]);

    // Heads that were added to the older list and never signed are not trusted, and are reported.
    let list = fs::read_to_string(test.early.join("checkpoint.heads")).unwrap();
    fs::write(test.early.join("checkpoint.heads"), list.repeat(3)).unwrap();
    let unsigned = (Verdict::NotChecked, vec![]);
    assert_eq!(both_ways(&test, &early, &late).await, [unsigned.clone(), unsigned]);

    // A list that was set back is found, although another folder has all of it.
    let whole = test.folder.path().join("whole");
    fs::create_dir(&whole).unwrap();
    fs::copy(&test.place.note, whole.join("checkpoint")).unwrap();
    fs::copy(&test.place.heads, whole.join("checkpoint.heads")).unwrap();
    fs::write(&test.place.heads, &list).unwrap();
    let back = (Verdict::Tampered, vec!["rolled_back"]);
    assert_eq!(both_ways(&test, &whole.join("checkpoint"), &late).await, [back.clone(), back]);

    // Two histories, each with a matching note and list.
    test.recreate_checkpoint(&test.key).await;
    test.run_turn(None, "echo new").await;
    assert_eq!(test.checkpoint(Gone::Found).await.size, 4);
    fs::write(test.early.join("checkpoint.heads"), list).unwrap();
    let forked = (Verdict::Tampered, vec!["forked"]);
    assert_eq!(both_ways(&test, &early, &late).await, [forked.clone(), forked]);
}

/// Results with the two notes in either order.
async fn both_ways(test: &AuditTest, one: &Path, other: &Path) -> [(Verdict, Vec<&'static str>); 2] {
    let mut said = Vec::new();
    for notes in [[one, other], [other, one]] {
        let checkpoints = notes.map(Path::to_owned).to_vec();
        let asked = Asked { checkpoints, vkey: Some(test.key.vkey().to_owned()) };
        let report = test.verify_with(asked, None).await;
        said.push((report.verdict, report.findings.iter().map(|finding| finding.wrong).collect()));
    }
    said.try_into().unwrap()
}

#[test]
fn a_key_is_its_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a/key");
    let key = Key::make(&file, "example.org/turnfold").unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let secret = fs::read_to_string(&file).unwrap().lines().next().unwrap().to_owned();
    assert!(secret.starts_with("PRIVATE+KEY+") && !format!("{key:?}").contains(&secret));
    assert_eq!(Key::read(&file).unwrap().vkey(), key.vkey());
    assert!(Key::make(&file, "example.org/turnfold").is_err(), "a key is never written over");
    assert!(Key::make(&folder.path().join("b"), "two words").is_err());
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    assert!(Key::read(&file).unwrap_err().to_string().contains("chmod 600"));
}

#[tokio::test]
async fn only_what_is_attested_is_proven() {
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
    assert!(export(&test.store, new, None, &to).await.is_err(), "a folder is never written over");
}
