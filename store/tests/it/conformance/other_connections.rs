//! Checks that also run on SQLite in memory and through a pooler. These run the same statements as a file and a direct
//! connection; only connections, transactions and locks differ. One check of each kind of statement is therefore enough.

macro_rules! on_other_connections {
    ($tables:ident $($topic:ident $(:: $part:ident)? . $check:ident),+ $(,)?) => {
        $(mod $check {
            use crate::conformance::{engines, $topic $(::$part)? as topic};

            #[tokio::test(flavor = "multi_thread")]
            async fn sqlite_memory() {
                engines::sqlite_memory(stringify!($tables), topic::$check).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn real_pooler() {
                engines::pooler(stringify!($tables), topic::$check).await;
            }
        })+
    };
}

on_other_connections!(empty tables.missing_then_made_once);

on_other_connections! {
    migrated
    append.has_one_winner,
    append.is_all_or_nothing_however_long,
    batches.batches_are_kept_by_one_at_a_time,
    batches::prune.goes_or_is_wanted,
    bytes.are_read_together,
    bytes.come_back_exactly,
    conditions.find_the_same_rows,
    files.go_piece_by_piece,
    fork.races_with_itself,
    submit.takes_many_at_once,
}
