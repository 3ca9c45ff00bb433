//! The vector index: one entry per server, written completely or not at all, and found by its vector.

use std::collections::BTreeSet;

use shared::Metric;
use store::{Embedded, Entry, Error, Near, VectorIndex};

/// Runs all checks of an index, which must be empty.
pub(crate) async fn index_conformance(index: &dyn VectorIndex) {
    keeps_one_entry_a_server(index).await.unwrap();
    takes_many_at_once(index).await.unwrap();
    finds_what_is_nearest(index).await.unwrap();
}

mod on_database {
    use store::{Error, Store};

    async fn keeps_one_entry_a_server(store: &Store) -> Result<(), Error> {
        super::keeps_one_entry_a_server(store).await
    }

    async fn takes_many_at_once(store: &Store) -> Result<(), Error> {
        super::takes_many_at_once(store).await
    }

    async fn finds_what_is_nearest(store: &Store) -> Result<(), Error> {
        super::finds_what_is_nearest(store).await
    }

    on_databases!(keeps_one_entry_a_server, takes_many_at_once, finds_what_is_nearest);
}

async fn keeps_one_entry_a_server(index: &dyn VectorIndex) -> Result<(), Error> {
    assert_eq!(index.all().await?, []);
    index.upsert(Vec::new()).await?;
    let (mail, apples) = (entry("mail", "1", None), entry("Apples", "2", Some(vec![0.25, -1.5e-8, 3.0e7])));
    index.upsert(vec![mail.clone(), apples.clone()]).await?;
    assert_eq!(index.all().await?, [apples.clone(), mail.clone()], "by name, the vector bit for bit");

    let newer = entry("mail", "3", Some(vec![1.0, 0.5]));
    index.upsert(vec![newer.clone(), entry("zebra", "4", None)]).await?;
    assert_eq!(index.all().await?, [apples.clone(), newer, entry("zebra", "4", None)]);
    // An entry may lose its vector in a later write.
    index.upsert(vec![mail.clone()]).await?;
    assert_eq!(index.all().await?, [apples.clone(), mail, entry("zebra", "4", None)]);

    let names = ["zebra", "mail", "never"].map(str::to_owned);
    assert_eq!(index.remove(&names).await?, ["mail", "zebra"]);
    assert_eq!(index.all().await?, [apples]);
    assert_eq!(index.remove(&["Apples".to_owned()]).await?, ["Apples"]);
    Ok(())
}

async fn takes_many_at_once(index: &dyn VectorIndex) -> Result<(), Error> {
    let many: Vec<Entry> =
        (0..1_001).map(|n| entry(&format!("s{n:04}"), "h", Some(vec![n as f32; 8]))).collect();
    index.upsert(many.clone()).await?;
    assert_eq!(index.all().await?, many);
    let names: Vec<String> = many.iter().map(|entry| entry.server.clone()).collect();
    assert_eq!(index.remove(&names).await?, names);
    Ok(())
}

async fn finds_what_is_nearest(index: &dyn VectorIndex) -> Result<(), Error> {
    assert_eq!(index.models().await?, BTreeSet::new());
    let named = |model: &str, vector: &[f32]| Embedded { model: model.to_owned(), vector: vector.to_vec() };
    let small = |vector: &[f32]| named("local/small", vector);
    assert_eq!(index.nearest(&small(&[1.0, 0.0]), Metric::Cosine, 3).await?, []);
    let of = |server, embedded| Entry { embedded, ..entry(server, "h", None) };
    let entries = vec![
        of("zebra", Some(small(&[3.0, 4.0]))),
        of("mail", Some(small(&[0.6, 0.8]))),
        of("apples", Some(small(&[-1.0, 0.0]))),
        of("maps", Some(small(&[0.5, 0.0]))),
        of("longer", Some(small(&[1.0, 0.0, 0.0]))),
        of("other", Some(named("local/other", &[1.0, 0.0]))),
        of("none", None),
    ];
    let servers: Vec<String> = entries.iter().map(|entry| entry.server.clone()).collect();
    index.upsert(entries).await?;
    let models = [None, Some("local/other".to_owned()), Some("local/small".to_owned())];
    assert_eq!(index.models().await?, BTreeSet::from(models));

    let near = index.nearest(&small(&[2.0, 0.0]), Metric::Cosine, 9).await?;
    for (Near { server, text, score }, (wanted, cosine)) in
        near.iter().zip([("maps", 1.0), ("mail", 0.6), ("zebra", 0.6), ("apples", -1.0)])
    {
        assert!(server == wanted && (score - cosine).abs() < 1e-6, "{near:?}");
        assert_eq!(*text, entry(server, "h", None).text);
    }
    assert_eq!(near.len(), 4, "neither of another model nor of another length: {near:?}");
    assert_eq!(index.nearest(&small(&[2.0, 0.0]), Metric::Cosine, 1).await?, near[..1]);
    assert_eq!(index.nearest(&small(&[2.0, 0.0]), Metric::Cosine, 0).await?, []);
    assert_eq!(index.nearest(&small(&[]), Metric::Cosine, 9).await?, []);
    for (metric, wanted) in [
        (Metric::Dot, [("zebra", 6.0), ("mail", 1.2), ("maps", 1.0)]),
        (Metric::Euclidean, [("maps", 0.4), ("mail", 0.382), ("apples", 0.25)]),
    ] {
        let near = index.nearest(&small(&[2.0, 0.0]), metric, 3).await?;
        let fits = |(near, (server, score)): (&Near, (&str, f64))| {
            near.server == server && (near.score - score).abs() < 1e-3
        };
        assert!(near.len() == 3 && near.iter().zip(wanted).all(fits), "{metric:?}: {near:?}");
    }
    assert_eq!(index.remove(&servers).await?.len(), servers.len());
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
