//! Tool pins of a database file.

use store::{Pin, Store};

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_file_keeps_a_pin_after_its_process_ended() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("log.db").display());
    let store = Store::connect(&url).await.unwrap();
    store.migrate().await.unwrap();
    let pin = store.pin_if_absent(Pin::new("mail", "[]", "first use")).await.unwrap();
    let another = Store::connect(&url).await.unwrap();
    assert_eq!(another.pins().await.unwrap(), [pin]);
}
