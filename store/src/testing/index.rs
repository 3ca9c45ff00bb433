//! The index: one entry a server, whole or not at all.

use crate::{Embedded, Entry, Error, VectorIndex};

pub(super) async fn keeps_one_entry_a_server(index: &dyn VectorIndex) -> Result<(), Error> {
    assert_eq!(index.all().await?, []);
    index.upsert(Vec::new()).await?;
    let (mail, apples) = (entry("mail", "1", None), entry("Apples", "2", Some(vec![0.25, -1.5e-8, 3.0e7])));
    index.upsert(vec![mail.clone(), apples.clone()]).await?;
    assert_eq!(index.all().await?, [apples.clone(), mail.clone()], "by name, the vector bit for bit");

    let newer = entry("mail", "3", Some(vec![1.0]));
    index.upsert(vec![newer.clone(), entry("zebra", "4", None)]).await?;
    assert_eq!(index.all().await?, [apples.clone(), newer, entry("zebra", "4", None)]);
    // What had a vector may have none later.
    index.upsert(vec![mail.clone()]).await?;
    assert_eq!(index.all().await?, [apples.clone(), mail, entry("zebra", "4", None)]);

    let names = ["zebra", "mail", "never"].map(str::to_owned);
    assert_eq!(index.remove(&names).await?, ["mail", "zebra"]);
    assert_eq!(index.all().await?, [apples]);
    assert_eq!(index.remove(&["Apples".to_owned()]).await?, ["Apples"]);
    Ok(())
}

pub(super) async fn takes_many_at_once(index: &dyn VectorIndex) -> Result<(), Error> {
    let many: Vec<Entry> =
        (0..1_001).map(|n| entry(&format!("s{n:04}"), "h", Some(vec![n as f32; 8]))).collect();
    index.upsert(many.clone()).await?;
    assert_eq!(index.all().await?, many);
    let names: Vec<String> = many.iter().map(|it| it.server.clone()).collect();
    assert_eq!(index.remove(&names).await?, names);
    Ok(())
}

fn entry(server: &str, hash: &str, vector: Option<Vec<f32>>) -> Entry {
    Entry {
        server: server.to_owned(),
        hash: hash.to_owned(),
        text: format!("{server} does für {hash}\n- and more"),
        embedded: vector.map(|vector| Embedded { model: "local/small".to_owned(), vector }),
        updated_at: 1_795_302_000_000_001,
    }
}
