//! Attacks on the events of threads.

use store::{
    Stored,
    testing::tamper::{Turns, rehash},
};

use super::{Expected, at, found, found_with_copy, of, undetectable};
use crate::audit_test::AuditTest;

pub(super) const ALL: usize = 32;

/// Renumbers from an event on; hashes stay.
fn renumber(log: &mut [Stored]) {
    for (seq, event) in (0..).zip(log) {
        event.seq = seq;
    }
}

fn forged(event: &mut Stored) {
    event.payload.push(' ');
    event.at += 1;
}

pub(super) async fn attack(nth: usize, test: &AuditTest) -> (&'static str, Expected) {
    let [first, second] = test.lengths_at_checkpoints;
    let mut a = test.log(0).await;
    let mut b = test.log(1).await;
    let mut c = test.log(2).await;
    let ends = |log: &[Stored]| log.len() as u64;
    match nth {
        0 => {
            a[3].payload.push(' ');
            test.replace(0, &a).await;
            ("edit a payload", found(&[at(0, 3, "broken")]))
        }
        1 => {
            a[3].kind = "cancelled".to_owned();
            test.replace(0, &a).await;
            ("edit a kind", found(&[at(0, 3, "broken")]))
        }
        2 => {
            a[3].at += 1;
            test.replace(0, &a).await;
            ("edit a time", found(&[at(0, 3, "broken")]))
        }
        3 => {
            a[3].hash[7] ^= 1;
            test.replace(0, &a).await;
            ("edit a hash", found(&[at(0, 3, "broken")]))
        }
        4 => {
            a[5].seq = 99;
            test.replace(0, &a).await;
            ("edit a number", found(&[at(0, 5, "broken")]))
        }
        5 => {
            a.remove(0);
            test.replace(0, &a).await;
            ("delete the first event", found(&[at(0, 0, "broken")]))
        }
        6 => {
            a.remove(4);
            test.replace(0, &a).await;
            ("delete an event in the middle", found(&[at(0, 4, "broken")]))
        }
        7 => {
            b.remove(4);
            renumber(&mut b);
            test.replace(1, &b).await;
            ("delete an event and renumber", found(&[at(1, 4, "broken")]))
        }
        8 => {
            b.pop();
            test.replace(1, &b).await;
            ("delete the last event", found(&[at(1, ends(&b), "truncated")]))
        }
        9 => {
            c.truncate(c.len() - 3);
            test.forge(2, &c).await;
            ("cut off a tail", found(&[at(2, ends(&c), "truncated")]))
        }
        10 => {
            c.truncate(first[2] as usize - 2);
            test.forge(2, &c).await;
            ("cut off more than a checkpoint", found(&[at(2, ends(&c), "truncated")]))
        }
        11 => {
            a[3..6].rotate_left(1);
            renumber(&mut a);
            test.replace(0, &a).await;
            ("reorder three", found(&[at(0, 3, "broken")]))
        }
        12 => {
            a.swap(3, 4);
            renumber(&mut a);
            test.replace(0, &a).await;
            ("swap two", found(&[at(0, 3, "broken")]))
        }
        13 => {
            let mut new = a[4].clone();
            forged(&mut new);
            a.insert(4, new);
            renumber(&mut a);
            test.replace(0, &a).await;
            ("insert an event", found(&[at(0, 4, "broken")]))
        }
        14 => {
            let mut new = a[4].clone();
            forged(&mut new);
            new.hash = store::integrity::hash_chain::link(&a[3].hash, 4, new.at, &new.kind, &new.payload);
            a.insert(4, new);
            renumber(&mut a);
            test.replace(0, &a).await;
            ("insert an event that fits what is before", found(&[at(0, 5, "broken")]))
        }
        15 => {
            a.insert(4, a[4].clone());
            renumber(&mut a);
            test.replace(0, &a).await;
            ("insert a copy", found(&[at(0, 5, "broken")]))
        }
        16 => {
            let moved = a.remove(4);
            b.push(Stored { seq: ends(&b), ..moved });
            test.replace(0, &a).await;
            test.replace(1, &b).await;
            ("move an event to another thread", found(&[at(0, 4, "broken"), at(1, ends(&b) - 1, "broken")]))
        }
        17 => {
            test.replace(0, &b).await;
            test.replace(1, &a).await;
            ("swap the logs of two threads", found(&[at(0, 0, "exchanged"), at(1, 0, "exchanged")]))
        }
        18 => {
            test.replace(1, &c).await;
            ("put a copy of another thread's log", found(&[at(1, 0, "exchanged")]))
        }
        19 => {
            test.remove(1, Turns::Delete).await;
            ("remove a thread with all rows", found(&[at(1, 0, "removed")]))
        }
        20 => {
            test.remove(1, Turns::Keep).await;
            ("remove a thread and its row, not its turns", found(&[at(1, 0, "removed")]))
        }
        21 => {
            test.replace(1, &[]).await;
            ("remove all events of a thread", found(&[at(1, 0, "removed")]))
        }
        22 => {
            let at_event = first[2] as usize + 1;
            forged(&mut c[at_event]);
            rehash(&mut c);
            test.forge(2, &c).await;
            ("edit, and rehash the suffix", found(&[at(2, first[2], "rewritten")]))
        }
        23 => {
            forged(&mut b[1]);
            rehash(&mut b);
            test.forge(1, &b).await;
            ("edit, and rehash the thread", found(&[at(1, 0, "rewritten")]))
        }
        24 => {
            c.remove(first[2] as usize + 1);
            rehash(&mut c);
            test.forge(2, &c).await;
            ("delete, and rehash", found(&[at(2, ends(&c), "truncated")]))
        }
        25 => {
            c.insert(4, c[3].clone());
            rehash(&mut c);
            test.forge(2, &c).await;
            ("insert, and rehash", found(&[at(2, 0, "rewritten")]))
        }
        26 => {
            forged(&mut c[4]);
            c.truncate(c.len() - 2);
            rehash(&mut c);
            test.forge(2, &c).await;
            let both = [at(2, 0, "rewritten"), at(2, ends(&c), "truncated")];
            ("edit, cut off, and rehash", found(&both))
        }
        27 => {
            test.roll_back(0, first[0]).await;
            test.roll_back(2, first[2]).await;
            let all = [at(0, first[0], "truncated"), at(2, first[2], "truncated"), of(None, "rolled_back")];
            ("set the store back to an earlier state", found(&all))
        }
        28 => {
            test.roll_back(0, first[0]).await;
            test.roll_back(2, first[2]).await;
            test.roll_back_folder();
            ("set the store and the folder back", found_with_copy(&[of(None, "rolled_back")]))
        }
        29 => {
            let last = a.len() - 1;
            forged(&mut a[last]);
            rehash(&mut a);
            test.forge(0, &a).await;
            assert!(second[0] <= last as u64);
            ("edit what no checkpoint attests, and rehash", undetectable())
        }
        30 => {
            test.roll_back(0, second[0]).await;
            ("cut off what no checkpoint attests", undetectable())
        }
        _ => {
            test.run_turn(None, "echo a forged message").await;
            ("forge a thread since the checkpoint", undetectable())
        }
    }
}
