//! The web console as `turnfold dev` serves it: embedded, cached, compressed, and safe to open.

use std::{path::Path, time::Duration};

use reqwest::{
    Client, Response, StatusCode,
    header::{
        ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
        IF_NONE_MATCH, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    },
};
use test_servers::free_port;

use crate::engine::{Process, log, turnfold};

struct Served {
    url: String,
    http: Client,
    _dev: Process,
}

impl Served {
    /// Starts `turnfold dev` with a key, which the page does not need.
    async fn start(folder: &Path) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listen = format!("127.0.0.1:{}", free_port());
        let mut command = turnfold(folder);
        let dev = Process::start(
            command
                .env("CONSOLE_KEY", "a-key-of-the-test")
                .args(["--set", "api.keys=[\"env:CONSOLE_KEY\"]", "dev", "--listen", &listen])
                .stderr(log(folder, "dev")),
        );
        let served = Self { url: format!("http://{listen}"), http: Client::new(), _dev: dev };
        for _ in 0..600 {
            if served.http.get(format!("{}/livez", served.url)).send().await.is_ok() {
                return served;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the engine does not start");
    }

    async fn get(&self, path: &str, headers: &[(reqwest::header::HeaderName, &str)]) -> Response {
        let request = self.http.get(format!("{}{path}", self.url));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(name, *value));
        request.send().await.unwrap()
    }
}

fn header(response: &Response, name: reqwest::header::HeaderName) -> String {
    response.headers().get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
}

/// Returns the paths of the script and the style that the page loads.
fn linked(page: &str) -> Vec<String> {
    let paths = page.split('"').filter(|path| path.starts_with("/assets/"));
    paths.map(str::to_owned).collect()
}

#[tokio::test]
async fn the_page_and_its_files_are_embedded() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path()).await;
    let page = served.get("/", &[]).await;
    assert_eq!(page.status(), StatusCode::OK);
    assert_eq!(header(&page, CONTENT_TYPE), "text/html; charset=utf-8");
    assert_eq!(header(&page, CACHE_CONTROL), "no-cache");
    let policy = header(&page, CONTENT_SECURITY_POLICY);
    assert!(
        policy.starts_with("default-src 'self';") && policy.contains("frame-ancestors 'none'"),
        "{policy}"
    );
    assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
    assert_eq!(header(&page, X_CONTENT_TYPE_OPTIONS), "nosniff");
    assert_eq!(header(&page, REFERRER_POLICY), "no-referrer");
    let page = page.text().await.unwrap();
    assert!(!page.contains("<script>") && !page.contains("<style") && !page.contains(" style="), "{page}");
    let files = linked(&page);
    assert!(
        files.iter().any(|file| file.ends_with(".js")) && files.iter().any(|file| file.ends_with(".css")),
        "{page}"
    );
    for path in files {
        let file = served.get(&path, &[]).await;
        assert_eq!(file.status(), StatusCode::OK, "{path}");
        assert!(header(&file, CACHE_CONTROL).contains("immutable"), "{path}");
        assert_eq!(header(&file, X_CONTENT_TYPE_OPTIONS), "nosniff", "{path}");
        assert_eq!(header(&file, CONTENT_ENCODING), "", "{path}");
    }
    assert_eq!(served.get("/assets/nothing.js", &[]).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(served.get("/v1/turns", &[]).await.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_known_file_is_not_sent_again_and_a_new_one_is_compressed() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path()).await;
    let plain = served.get("/", &[(ACCEPT_ENCODING, "identity, br;q=0")]).await;
    assert_eq!(header(&plain, CONTENT_ENCODING), "");
    let script = linked(&plain.text().await.unwrap()).into_iter().find(|file| file.ends_with(".js")).unwrap();
    let plain = served.get(&script, &[]).await;
    let compressed = served.get(&script, &[(ACCEPT_ENCODING, "gzip, deflate, br")]).await;
    assert_eq!(header(&compressed, CONTENT_ENCODING), "br");
    let (tag, tag_of_plain) = (header(&compressed, ETAG), header(&plain, ETAG));
    let zipped = served.get(&script, &[(ACCEPT_ENCODING, "gzip")]).await;
    assert_eq!(header(&zipped, CONTENT_ENCODING), "gzip");
    // RFC 9110, 8.8.3: a strong tag must not name two encodings.
    assert!(tag.starts_with("W/\"") && tag == tag_of_plain && tag == header(&zipped, ETAG), "{tag}");
    let sizes = [compressed.bytes().await.unwrap().len(), plain.bytes().await.unwrap().len()];
    assert!(sizes[0] * 2 < sizes[1], "{sizes:?}");
    for (encoding, known, status) in [
        ("br", tag.as_str(), StatusCode::NOT_MODIFIED),
        ("", "\"other\", *", StatusCode::NOT_MODIFIED),
        ("", tag.as_str(), StatusCode::NOT_MODIFIED),
        ("gzip", tag.as_str(), StatusCode::NOT_MODIFIED),
        ("", tag.trim_start_matches("W/"), StatusCode::NOT_MODIFIED),
        ("", "W/\"other\"", StatusCode::OK),
    ] {
        let again = served.get(&script, &[(ACCEPT_ENCODING, encoding), (IF_NONE_MATCH, known)]).await;
        assert_eq!(again.status(), status, "{encoding} {known}");
    }
}
