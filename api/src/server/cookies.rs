//! Cookies of browsers. No script of a page can read them.
//!
//! ## Why their names have a prefix with TLS
//!
//! Any host of a domain can set cookies for the others, and so put its own session or sign-in into a browser. Browsers keep a cookie whose
//! name begins with `__Host-` only if the host itself set it, with TLS and for all its paths.

use axum::http::{HeaderMap, HeaderValue, header};

use super::problem::{ApiError, Kind};

/// Start of the names of cookies that only the host itself can set.
const PREFIX: &str = "__Host-";

/// A kind of cookie.
pub(crate) struct Cookie {
    /// Name, between the prefix and the port.
    pub(crate) name: &'static str,
    /// Path below which browsers send it, without TLS.
    pub(crate) path: &'static str,
    /// Requests from pages of other sites with which browsers send it: `Strict` for none, `Lax` for links.
    pub(crate) same_site: &'static str,
}

impl Cookie {
    /// Returns the values that a request has for this cookie, as it is set with TLS or as it is set without.
    pub(crate) fn values<'a>(
        &self,
        headers: &'a HeaderMap,
        is_secure: bool,
    ) -> impl Iterator<Item = &'a str> {
        let name = self.name(headers, is_secure);
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let pairs = cookies.flat_map(|cookies| cookies.split(';')).map(str::trim);
        pairs.filter_map(move |pair| pair.strip_prefix(&*name)?.strip_prefix('='))
    }

    /// Returns the value of `Set-Cookie` that sets the cookie for this number of seconds. Zero deletes it.
    pub(crate) fn set(
        &self,
        headers: &HeaderMap,
        value: &str,
        seconds: i64,
        is_secure: bool,
    ) -> Result<HeaderValue, ApiError> {
        let (name, same_site) = (self.name(headers, is_secure), self.same_site);
        let (path, secure) = if is_secure { ("/", "; Secure") } else { (self.path, "") };
        let text =
            format!("{name}={value}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite={same_site}{secure}");
        HeaderValue::from_str(&text).map_err(|_| Kind::Internal.because("cannot write the cookie"))
    }

    /// Returns the name of the cookie for the port in the `Host` header. Browsers send a cookie to all ports of a host, and two engines on
    /// one machine would overwrite each other's.
    fn name(&self, headers: &HeaderMap, is_secure: bool) -> String {
        let (prefix, name) = (if is_secure { PREFIX } else { "" }, self.name);
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let port = host.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        match port {
            None | Some(80 | 443) => format!("{prefix}{name}"),
            Some(port) => format!("{prefix}{name}-{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static COOKIE: Cookie = Cookie { name: "kept", path: "/v1", same_site: "Strict" };

    #[test]
    fn each_port_has_a_cookie_of_its_own() {
        for (host, wanted) in [
            ("", "kept"),
            ("localhost", "kept"),
            ("turnfold.example.org:443", "kept"),
            ("localhost:2026", "kept-2026"),
            ("[::1]:2027", "kept-2027"),
            ("[::1]", "kept"),
        ] {
            let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(host))]);
            assert_eq!(COOKIE.name(&headers, false), wanted, "{host}");
            assert_eq!(COOKIE.name(&headers, true), format!("__Host-{wanted}"), "{host}");
        }
        assert_eq!(COOKIE.name(&HeaderMap::new(), false), "kept");
    }

    #[test]
    fn only_cookies_of_the_whole_name_are_read() {
        let text = HeaderValue::from_static("kept=1; kept-2=2; other=3; kept=4;kept; __Host-kept=6");
        let headers = HeaderMap::from_iter([(header::COOKIE, text)]);
        assert_eq!(COOKIE.values(&headers, false).collect::<Vec<_>>(), ["1", "4"]);
        assert_eq!(COOKIE.values(&headers, true).collect::<Vec<_>>(), ["6"]);
        let set = COOKIE.set(&headers, "5", 60, false).unwrap();
        assert_eq!(set, "kept=5; Path=/v1; Max-Age=60; HttpOnly; SameSite=Strict");
        let set = COOKIE.set(&headers, "5", 60, true).unwrap();
        assert_eq!(set, "__Host-kept=5; Path=/; Max-Age=60; HttpOnly; SameSite=Strict; Secure");
    }
}
