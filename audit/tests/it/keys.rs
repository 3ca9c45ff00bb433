//! Keys that replace others, and witnesses that sign checkpoints too.

use std::{fs, path::PathBuf};

use audit::checkpoints::{
    Asked, Cosigned, Error, Gone, Key, Place, Verdict, checkpoint, count_witnesses, rotate,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use rand_core::OsRng;
use signed_note::{Note, Signer as _, StandardSigner, key_id};

use crate::audit_test::{AuditTest, scan};

fn asked(test: &AuditTest, vkeys: &[&str]) -> Asked {
    let vkeys = vkeys.iter().map(|vkey| (*vkey).to_owned()).collect();
    Asked { checkpoints: vec![test.place.note.clone()], vkeys, ..Asked::default() }
}

async fn wrong(test: &AuditTest, asked: Asked) -> (Verdict, Vec<&'static str>) {
    let report = test.verify_with(asked, None).await;
    (report.verdict, report.findings.iter().map(|finding| finding.wrong).collect())
}

fn intact() -> (Verdict, Vec<&'static str>) {
    (Verdict::Intact, Vec::new())
}

#[tokio::test]
async fn a_key_is_replaced_by_a_note_of_the_old_one() {
    let test = AuditTest::new("sqlite::memory:").await;
    let before = Place::of(&test.folder.path().join("before"));
    fs::create_dir(test.folder.path().join("before")).unwrap();
    for (from, to) in [(&test.place.note, &before.note), (&test.place.heads, &before.heads)] {
        fs::copy(from, to).unwrap();
    }
    let new_file = test.folder.path().join("new");
    let (new, note) = rotate(&test.place, &test.key, &new_file).unwrap();
    assert_eq!(new.name(), test.key.name());
    let (old, newer) = (test.key.vkey(), new.vkey());
    for vkeys in [vec![old], vec![newer], vec![old, newer]] {
        assert_eq!(wrong(&test, asked(&test, &vkeys)).await, intact(), "{vkeys:?}");
    }
    test.run_turn(None, "echo new").await;
    let made = checkpoint(&test.store, &scan(None), &test.place, &new, Gone::Found).await.unwrap();
    assert_eq!(made.size, 7);
    for vkeys in [vec![old], vec![newer]] {
        assert_eq!(wrong(&test, asked(&test, &vkeys)).await, intact(), "{vkeys:?}");
    }
    let refused = checkpoint(&test.store, &scan(None), &test.place, &test.key, Gone::Found).await;
    let why = refused.unwrap_err().to_string();
    assert!(why.contains("this key was replaced by") && why.contains(newer), "{why}");

    // Stolen later, the old key attests nothing more.
    checkpoint(&test.store, &scan(None), &before, &test.key, Gone::Found).await.unwrap();
    fs::copy(&before.note, &test.place.note).unwrap();
    assert_eq!(wrong(&test, asked(&test, &[old])).await.1, ["forged"]);
    fs::remove_file(&note).unwrap();
    assert_eq!(wrong(&test, asked(&test, &[old])).await, intact(), "the note alone takes its right away");
    assert_eq!(wrong(&test, asked(&test, &[newer])).await.1, ["forged"]);
}

#[tokio::test]
async fn a_key_has_one_successor() {
    let test = AuditTest::new("sqlite::memory:").await;
    let witness = Witness::new("witness.example/1");
    witness.cosign(&test.place.note, 7);
    let (file, other_file) = (test.folder.path().join("new"), test.folder.path().join("other"));
    let kept = fs::read(&test.place.note).unwrap();
    let (new, about) = rotate(&test.place, &test.key, &file).unwrap();
    let signed_by_both = fs::read(&test.place.note).unwrap();
    let line = |note: &[u8]| {
        String::from_utf8_lossy(note).lines().filter(|line| line.starts_with('\u{2014}')).count()
    };
    assert_eq!((line(&kept), line(&signed_by_both)), (2, 3), "no signature is lost");
    for file in [&file, &other_file] {
        let again = rotate(&test.place, &test.key, file).unwrap_err();
        assert!(matches!(again, Error::Given(_)), "{again:?}");
    }

    // Interrupted after the note about the new key, it is finished, and the old key signs nothing more.
    fs::write(&test.place.note, &kept).unwrap();
    let refused =
        checkpoint(&test.store, &scan(None), &test.place, &test.key, Gone::Found).await.unwrap_err();
    assert!(matches!(refused, Error::Given(_)), "{refused:?}");
    let refused = rotate(&test.place, &test.key, &other_file).unwrap_err();
    assert!(matches!(refused, Error::Given(_)) && !other_file.exists(), "{refused:?}");
    let (finished, note) = rotate(&test.place, &test.key, &file).unwrap();
    assert_eq!((finished.vkey(), &note), (new.vkey(), &about));
    assert_eq!(fs::read(&test.place.note).unwrap(), signed_by_both);
    assert_eq!(wrong(&test, asked(&test, &[test.key.vkey()])).await, intact());

    // A thief who has no note beside the checkpoint makes another successor.
    let hidden = test.folder.path().join("hidden");
    fs::rename(&about, &hidden).unwrap();
    fs::write(&test.place.note, &kept).unwrap();
    rotate(&test.place, &test.key, &other_file).unwrap();
    fs::rename(&hidden, &about).unwrap();
    let (verdict, found) = wrong(&test, asked(&test, &[test.key.vkey()])).await;
    assert!(verdict == Verdict::Tampered && found.contains(&"forked"), "{found:?}");
}

#[tokio::test]
async fn only_the_key_of_a_checkpoint_is_replaced() {
    let test = AuditTest::new("sqlite::memory:").await;
    let other = Key::make(&test.folder.path().join("thief"), "example.org/turnfold").unwrap();
    let refused = rotate(&test.place, &other, &test.folder.path().join("third")).unwrap_err();
    assert!(matches!(refused, Error::Damaged(_)), "{refused:?}");
    let nowhere = Place::of(&test.folder.path().join("nowhere"));
    let refused = rotate(&nowhere, &test.key, &test.folder.path().join("third")).unwrap_err();
    assert!(matches!(refused, Error::Given(_)), "{refused:?}");
}

/// A witness that signs whatever it sees.
struct Witness {
    signer: StandardSigner,
    vkey: String,
    id: u32,
}

impl Witness {
    fn new(name: &str) -> Self {
        let (secret, vkey) = signed_note::generate_key(&mut OsRng, name);
        let mut key = BASE64_STANDARD.decode(vkey.splitn(3, '+').nth(2).unwrap()).unwrap();
        key[0] = 4;
        let id = key_id(name, &key);
        let vkey = format!("{name}+{id:08x}+{}", BASE64_STANDARD.encode(&key));
        Self { signer: StandardSigner::new(&secret).unwrap(), vkey, id }
    }

    fn cosign(&self, note: &PathBuf, at: u64) {
        let mut text = fs::read(note).unwrap();
        let mut message = format!("cosignature/v1\ntime {at}\n").into_bytes();
        message.extend(Note::from_bytes(&text).unwrap().text());
        let signature = self.signer.sign(&message).unwrap();
        let data = [&self.id.to_be_bytes()[..], &at.to_be_bytes(), &signature].concat();
        text.extend(format!("\u{2014} {} {}\n", self.signer.name(), BASE64_STANDARD.encode(data)).bytes());
        fs::write(note, text).unwrap();
    }
}

#[tokio::test]
async fn as_many_witnesses_as_required_signed() {
    let test = AuditTest::new("sqlite::memory:").await;
    let [one, two] = ["witness.example/1", "witness.example/2"].map(Witness::new);
    let with = |witnesses: &[&Witness], min_witnesses| Asked {
        witnesses: witnesses.iter().map(|it| it.vkey.clone()).collect(),
        min_witnesses,
        ..asked(&test, &[test.key.vkey()])
    };
    assert_eq!(wrong(&test, with(&[&one], 1)).await, (Verdict::NotChecked, Vec::new()));
    one.cosign(&test.place.note, 1_764_500_000);
    let report = test.verify_with(with(&[&one, &two], 1), None).await;
    assert_eq!(report.verdict, Verdict::Intact, "{report:?}");
    let cosigned = Cosigned { witness: "witness.example/1".to_owned(), at: 1_764_500_000 };
    assert_eq!(report.checkpoints[0].cosigned, [cosigned]);
    assert_eq!(wrong(&test, with(&[&one, &two], 2)).await, (Verdict::NotChecked, Vec::new()));
    let twice = test.verify_with(with(&[&one, &one], 2), None).await;
    assert_eq!(
        (twice.verdict, twice.checkpoints[0].cosigned.len()),
        (Verdict::NotChecked, 1),
        "one counts once"
    );
    assert_eq!(count_witnesses(&with(&[&one, &two, &one], 2).witnesses).unwrap(), 2);
    two.cosign(&test.place.note, 7);
    assert_eq!(wrong(&test, with(&[&one, &two], 2)).await, intact());

    // A cosignature with another time than the witness signed.
    let note = fs::read_to_string(&test.place.note).unwrap();
    let line = note.lines().last().unwrap();
    let mut data = BASE64_STANDARD.decode(line.rsplit(' ').next().unwrap()).unwrap();
    data[11] ^= 1;
    let forged = format!("\u{2014} witness.example/2 {}", BASE64_STANDARD.encode(data));
    fs::write(&test.place.note, note.replace(line, &forged)).unwrap();
    assert_eq!(wrong(&test, with(&[&one, &two], 1)).await.1, ["forged"]);
    let other = Asked { witnesses: vec![test.key.vkey().to_owned()], ..with(&[], 0) };
    let (strategies, round) = (crate::audit_test::all_strategies(), scan(None));
    let refused = audit::checkpoints::verify(&test.store, &strategies, &round, &other);
    assert!(matches!(refused.await, Err(Error::Given(_))));
}
