//! Attacks on the checkpoint and its list, by an attacker who can write to them.

use std::fs;

use audit::checkpoints::{Gone, Key, checkpoint};
use store::testing::tamper::{Turns, rehash};

use super::{Expected, Unchecked, at, found, found_with_copy, of};
use crate::audit_test::{AuditTest, scan};

pub(super) const ALL: usize = 9;

pub(super) async fn attack(nth: usize, test: &AuditTest) -> (&'static str, Expected) {
    let mut b = test.log(1).await;
    b[2].at += 1;
    rehash(&mut b);
    match nth {
        0 => {
            test.forge(1, &b).await;
            let other = Key::make(&test.folder.path().join("other"), "example.org/turnfold").unwrap();
            test.recreate_checkpoint(&other).await;
            let mut expected = found(&[of(None, "forged")]);
            expected.with_copy = vec![of(None, "rolled_back")];
            ("rehash, rebuild the tree, sign with another key", expected)
        }
        1 => {
            test.forge(1, &b).await;
            test.recreate_checkpoint(&test.key).await;
            (
                "rehash, rebuild the tree, sign with the stolen key",
                found_with_copy(&[of(None, "rolled_back")]),
            )
        }
        2 => {
            // As long as the true list, and signed: only the holder of the other note can detect it.
            test.forge(1, &b).await;
            test.recreate_checkpoint(&test.key).await;
            for message in ["echo one more", "echo another"] {
                test.run_turn(None, message).await;
                test.checkpoint(Gone::Found).await;
            }
            ("fork the checkpoint at the same size", found_with_copy(&[of(None, "forked")]))
        }
        3 => {
            let list = fs::read_to_string(&test.place.heads).unwrap();
            let (line, forged) = (list.lines().nth(1).unwrap(), test.threads[0].to_string());
            let other = line.replace(&test.threads[1].to_string(), &forged);
            fs::write(&test.place.heads, list.replace(line, &other)).unwrap();
            ("edit the list of heads", found(&[of(None, "forked")]))
        }
        4 => {
            let list = fs::read_to_string(&test.place.heads).unwrap();
            let shorter: Vec<&str> = list.lines().take(4).collect();
            fs::write(&test.place.heads, shorter.join("\n") + "\n").unwrap();
            ("cut off the list of heads", found(&[of(None, "rolled_back")]))
        }
        5 => {
            fs::copy(test.first_checkpoint.join("checkpoint"), &test.place.note).unwrap();
            // Events that the older note does not attest are reported; the independent copy attests them.
            ("put an older note over the checkpoint", Expected { unchecked: Unchecked::Alone, ..found(&[]) })
        }
        6 => {
            fs::write(&test.place.note, "example.org/turnfold\n5\nnothing\n").unwrap();
            ("damage the checkpoint", found(&[of(None, "forged")]))
        }
        7 => {
            fs::write(&test.place.heads, [b'\xff'; 4096]).unwrap();
            ("damage the list of heads", found(&[of(None, "forged")]))
        }
        _ => {
            // As after `store prune`, attested as deleted; then the thread is restored.
            test.remove(1, Turns::Delete).await;
            let all = scan(None);
            let refused = checkpoint(&test.store, &all, &test.place, &test.key, Gone::Found).await.unwrap();
            assert_eq!(refused.findings[0].wrong, store::Wrong::Removed);
            assert_eq!(
                test.checkpoint(Gone::Known { count: 1, reason: "on request".to_owned() }).await.gone,
                1
            );
            assert_eq!(test.verify(&[]).await.found, 0, "its deletion is attested");
            test.forge(1, &b).await;
            ("restore a thread whose deletion was attested", found(&[at(1, 0, "reappeared")]))
        }
    }
}
