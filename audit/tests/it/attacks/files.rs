//! Attacks on the checkpoint and its list, by an attacker who can write to them.

use std::fs;

use audit::checkpoints::{Gone, Key, checkpoint};
use store::testing::tamper::{Turns, rehash};

use super::{Expected, Unchecked, at, found, of, only_outside};
use crate::scene::{Scene, round};

pub(super) const ALL: usize = 9;

pub(super) async fn attack(nth: usize, scene: &Scene) -> (&'static str, Expected) {
    let mut b = scene.log(1).await;
    b[2].at += 1;
    rehash(&mut b);
    match nth {
        0 => {
            scene.forge(1, &b).await;
            let other = Key::make(&scene.folder.path().join("other"), "example.org/turnfold").unwrap();
            scene.attest_anew(&other).await;
            let mut expected = found(&[of(None, "forged")]);
            expected.with_outside = vec![of(None, "rolled_back")];
            ("hash anew, make the tree anew, sign with another key", expected)
        }
        1 => {
            scene.forge(1, &b).await;
            scene.attest_anew(&scene.key).await;
            (
                "hash anew, make the tree anew, sign with the stolen key",
                only_outside(&[of(None, "rolled_back")]),
            )
        }
        2 => {
            // As long as the true list, and signed: only the holder of the other note can detect it.
            scene.forge(1, &b).await;
            scene.attest_anew(&scene.key).await;
            for words in ["echo one more", "echo another"] {
                scene.says(None, words).await;
                scene.attest(Gone::Found).await;
            }
            ("fork the checkpoint at the same size", only_outside(&[of(None, "forked")]))
        }
        3 => {
            let list = fs::read_to_string(&scene.place.heads).unwrap();
            let (line, forged) = (list.lines().nth(1).unwrap(), scene.threads[0].to_string());
            let other = line.replace(&scene.threads[1].to_string(), &forged);
            fs::write(&scene.place.heads, list.replace(line, &other)).unwrap();
            ("edit the list of heads", found(&[of(None, "forked")]))
        }
        4 => {
            let list = fs::read_to_string(&scene.place.heads).unwrap();
            let shorter: Vec<&str> = list.lines().take(4).collect();
            fs::write(&scene.place.heads, shorter.join("\n") + "\n").unwrap();
            ("cut off the list of heads", found(&[of(None, "rolled_back")]))
        }
        5 => {
            fs::copy(scene.early.join("checkpoint"), &scene.place.note).unwrap();
            // Events that the older note does not attest are reported; the independent copy attests them.
            ("put an older note over the checkpoint", Expected { unchecked: Unchecked::Alone, ..found(&[]) })
        }
        6 => {
            fs::write(&scene.place.note, "example.org/turnfold\n5\nnothing\n").unwrap();
            ("damage the checkpoint", found(&[of(None, "forged")]))
        }
        7 => {
            fs::write(&scene.place.heads, [b'\xff'; 4096]).unwrap();
            ("damage the list of heads", found(&[of(None, "forged")]))
        }
        _ => {
            // As after `store prune`, attested as deleted; then the thread is restored.
            scene.remove(1, Turns::Delete).await;
            let all = round(None);
            let refused =
                checkpoint(&scene.store, &all, &scene.place, &scene.key, Gone::Found).await.unwrap();
            assert_eq!(refused.findings[0].wrong, store::Wrong::Removed);
            assert_eq!(scene.attest(Gone::Known).await.gone, 1);
            assert_eq!(scene.verify(&[]).await.found, 0, "it is attested that it is gone");
            scene.forge(1, &b).await;
            ("bring a thread back that was attested to be gone", found(&[at(1, 0, "reappeared")]))
        }
    }
}
