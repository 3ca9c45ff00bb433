//! The vector index in Milvus, where it differs from a database: collections by vector length, a separate server, and
//! an address.

use std::collections::BTreeSet;

use crate::conformance::index_conformance;
use shared::Metric;
use store::{Embedded, Entry, Error, MilvusIndex, VectorIndex};
use test_servers::{Milvus, free_port};

fn index(milvus: &Milvus) -> MilvusIndex {
    MilvusIndex::new(&milvus.url(), None).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn real_milvus_conforms() {
    let milvus = Milvus::start();
    index_conformance(&index(&milvus)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_milvus_keeps_its_entries_over_a_kill() {
    let mut milvus = Milvus::start();
    let kept = index(&milvus);
    let entries = [entry("mail", "m/two", &[1.0, 0.5]), entry("maps", "m/two", &[0.0, 1.0])];
    kept.upsert(entries.to_vec()).await.unwrap();

    milvus.kill();
    let gone = kept.all().await.unwrap_err();
    assert!(matches!(gone, Error::IndexUnavailable(_)), "{gone:?}");
    let port = milvus.url().rsplit_once(':').unwrap().1.to_owned();
    assert!(gone.to_string().contains(&format!("Milvus at 127.0.0.1:{port}")), "{gone}");

    milvus.restart();
    assert_eq!(kept.all().await.unwrap(), entries);
    let to = Embedded { model: "m/two".to_owned(), vector: vec![0.0, 3.0] };
    assert_eq!(
        index(&milvus).nearest(&to, Metric::Cosine, 1).await.unwrap()[0].server,
        "maps",
        "a new connection"
    );
}

/// Vectors of another model differ in length: the next build replaces all of them.
#[tokio::test(flavor = "multi_thread")]
async fn real_milvus_takes_vectors_of_another_length() {
    let milvus = Milvus::start();
    let index = index(&milvus);
    let two = |server| entry(server, "m/two", &[1.0, 0.0]);
    let three = |server| entry(server, "m/three", &[0.0, 1.0, 0.0]);
    let models = |names: &[&str]| names.iter().map(|name| Some((*name).to_owned())).collect::<BTreeSet<_>>();
    index.upsert(vec![two("mail"), two("maps")]).await.unwrap();
    index.upsert(vec![three("mail")]).await.unwrap();
    assert_eq!(index.all().await.unwrap(), [three("mail"), two("maps")]);
    assert_eq!(index.models().await.unwrap(), models(&["m/three", "m/two"]));
    index.upsert(vec![three("maps")]).await.unwrap();
    assert_eq!(index.models().await.unwrap(), models(&["m/three"]));
    let to = Embedded { model: "m/two".to_owned(), vector: vec![1.0, 0.0] };
    assert_eq!(index.nearest(&to, Metric::Cosine, 9).await.unwrap(), [], "nothing is left of the old model");
    assert_eq!(index.remove(&["mail".to_owned(), "maps".to_owned()]).await.unwrap(), ["mail", "maps"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn real_milvus_takes_what_people_write_and_refuses_what_is_too_long() {
    let milvus = Milvus::start();
    let index = index(&milvus);
    let odd = r#"a"b\c'd, ü] or server != ""#;
    let entries = [entry(odd, r#"m/"x" \ y"#, &[1.0, 0.0]), entry("mail", "m/z", &[1.0, 0.0])];
    index.upsert(entries.to_vec()).await.unwrap();
    assert_eq!(index.all().await.unwrap(), entries);
    let to = Embedded { model: r#"m/"x" \ y"#.to_owned(), vector: vec![1.0, 0.0] };
    let near = index.nearest(&to, Metric::Cosine, 9).await.unwrap();
    assert_eq!((near.len(), near[0].server.as_str()), (1, odd));
    assert_eq!(index.remove(&[odd.to_owned()]).await.unwrap(), [odd]);

    let text = "ü".repeat(40_000);
    let long =
        index.upsert(vec![entry("news", "m/z", &[1.0, 0.0]), Entry { text, ..entries[1].clone() }]).await;
    let words = long.unwrap_err().to_string();
    assert!(
        words.contains("mail") && words.contains("80000 bytes") && words.contains("characters"),
        "{words}"
    );
    assert_eq!(index.all().await.unwrap(), entries[1..], "all or none");
    // More entries than one response can hold.
    let many =
        |n: usize| Entry { text: "x".repeat(60_000), ..entry(&format!("s{n:03}"), "m/z", &[1.0, 0.0]) };
    let many: Vec<Entry> = (0..100).map(many).collect();
    index.upsert(many.clone()).await.unwrap();
    assert_eq!(index.all().await.unwrap()[1..], many);
    let to = Embedded { model: "m/z".to_owned(), vector: vec![1.0, 0.0] };
    assert_eq!(index.nearest(&to, Metric::Cosine, 200).await.unwrap().len(), 101);
}

#[tokio::test]
async fn a_milvus_that_is_not_there_is_named() {
    let port = free_port();
    let index = MilvusIndex::new(&format!("http://127.0.0.1:{port}/elsewhere"), Some("s3cret")).unwrap();
    let error = index.all().await.unwrap_err();
    assert!(matches!(error, Error::IndexUnavailable(_)), "{error:?}");
    let words = error.to_string();
    assert!(
        words.contains(&format!("Milvus at 127.0.0.1:{port}"))
            && words.contains("hint: check that it is running"),
        "{words}"
    );
    assert!(!words.contains("s3cret"), "{words}");
}

#[test]
fn an_address_that_cannot_work_says_what_would() {
    for (wrong, mend) in [
        ("", "milvus:http://HOST:PORT"),
        ("127.0.0.1:19530", "milvus:http://HOST:PORT"),
        ("ftp://host:1", "milvus:http://HOST:PORT"),
        ("http://host", "a host and a port"),
        ("http://:19530", "a host and a port"),
        ("http://root:s3cret@host:19530", "index.token"),
    ] {
        let error = MilvusIndex::new(wrong, None).map(drop).unwrap_err();
        assert!(matches!(error, Error::IndexRefused(_)), "{error:?}");
        let words = error.to_string();
        assert!(words.contains(mend) && !words.contains("s3cret"), "{wrong}: {words}");
    }
}

fn entry(server: &str, model: &str, vector: &[f32]) -> Entry {
    let embedded = Some(Embedded { model: model.to_owned(), vector: vector.to_vec() });
    let (hash, text) = ("h".to_owned(), format!("{server} does things"));
    Entry { server: server.to_owned(), hash, text, embedded, updated_at: 7 }
}
