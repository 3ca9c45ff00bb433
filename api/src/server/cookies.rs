//! Cookies of browsers. No script of a page can read them.

use std::borrow::Cow;

use axum::http::{HeaderMap, HeaderValue, header};

use super::problem::{ApiError, Kind};

/// A kind of cookie.
pub(crate) struct Cookie {
    /// Name, before the port.
    pub(crate) name: &'static str,
    /// Path below which browsers send it.
    pub(crate) path: &'static str,
    /// Requests from pages of other sites with which browsers send it: `Strict` for none, `Lax` for links.
    pub(crate) same_site: &'static str,
}

impl Cookie {
    /// Returns the values that a request has for this cookie.
    pub(crate) fn values<'a>(&self, headers: &'a HeaderMap) -> impl Iterator<Item = &'a str> {
        let name = self.name(headers);
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
        let (name, path, same_site) = (self.name(headers), self.path, self.same_site);
        let secure = if is_secure { "; Secure" } else { "" };
        let text =
            format!("{name}={value}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite={same_site}{secure}");
        HeaderValue::from_str(&text).map_err(|_| Kind::Internal.because("cannot write the cookie"))
    }

    /// Returns the name of the cookie for the port in the `Host` header. Browsers send a cookie to all ports of a host, and two engines on
    /// one machine would overwrite each other's.
    fn name(&self, headers: &HeaderMap) -> Cow<'static, str> {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let port = host.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        match port {
            None | Some(80 | 443) => self.name.into(),
            Some(port) => format!("{}-{port}", self.name).into(),
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
            assert_eq!(COOKIE.name(&headers), wanted, "{host}");
        }
        assert_eq!(COOKIE.name(&HeaderMap::new()), "kept");
    }

    #[test]
    fn only_cookies_of_the_whole_name_are_read() {
        let text = HeaderValue::from_static("kept=1; kept-2=2; other=3; kept=4;kept");
        let headers = HeaderMap::from_iter([(header::COOKIE, text)]);
        assert_eq!(COOKIE.values(&headers).collect::<Vec<_>>(), ["1", "4"]);
        let set = COOKIE.set(&headers, "5", 60, true).unwrap();
        assert_eq!(set, "kept=5; Path=/v1; Max-Age=60; HttpOnly; SameSite=Strict; Secure");
    }
}
