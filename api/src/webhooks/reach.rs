//! What a webhook's URL may reach, and the clients that reach no more.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use reqwest::{
    Client, Url,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect::Policy,
};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);

/// Where a webhook may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Anywhere.
    Anywhere,
    /// At a public address, with TLS.
    Public,
}

/// A client for each.
pub(super) struct Clients {
    anywhere: Client,
    public: Client,
}

impl Reach {
    pub(super) fn of(anywhere: bool) -> Self {
        if anywhere { Self::Anywhere } else { Self::Public }
    }

    /// Why a webhook may not be there, if it may not. A name's addresses are looked at when it is connected to.
    pub(super) fn refuses(self, url: &str) -> Option<String> {
        let Ok(parsed) = Url::parse(url) else { return Some(format!("{url:?} is no URL")) };
        let Some(host) = parsed.host_str() else { return Some(format!("{url:?} names no host")) };
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Some("a name or a password in it would stand in every list".to_owned());
        }
        match (parsed.scheme(), self) {
            ("https", _) | ("http", Self::Anywhere) => (),
            ("http", Self::Public) => return Some("it must begin with https://".to_owned()),
            (scheme, _) => return Some(format!("{scheme}: is neither https: nor http:")),
        }
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        match address {
            Ok(address) if self == Self::Public && !is_public(address) => {
                Some(format!("{address} is no public address"))
            }
            Ok(_) | Err(_) => None,
        }
    }
}

impl Clients {
    pub(super) fn new(timeout: Duration) -> reqwest::Result<Self> {
        let client = || {
            Client::builder()
                // What is elsewhere by now must be told so by its owner.
                .redirect(Policy::none())
                .timeout(timeout)
                .connect_timeout(CONNECT)
                // A proxy would look the name up by itself.
                .no_proxy()
                .user_agent(concat!("turnfold/", env!("CARGO_PKG_VERSION")))
        };
        let public = client().dns_resolver(Arc::new(PublicOnly)).build()?;
        Ok(Self { anywhere: client().build()?, public })
    }

    pub(super) fn of(&self, reach: Reach) -> &Client {
        match reach {
            Reach::Anywhere => &self.anywhere,
            Reach::Public => &self.public,
        }
    }
}

/// Looks names up, and knows of no address that is not public: so a name that is pointed elsewhere after it was looked at
/// reaches nothing.
struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let public: Vec<SocketAddr> = found.filter(|it| is_public(it.ip())).collect();
            if public.is_empty() {
                let words = format!("{} has no public address", name.as_str());
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, words).into());
            }
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

/// Whether an address is one of the whole internet's, by the registries of special-purpose addresses.
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(it) => is_public_v4(it),
        IpAddr::V6(it) => is_public_v6(it),
    }
}

fn is_public_v4(it: Ipv4Addr) -> bool {
    let [a, b, c, _] = it.octets();
    let special = it.is_private()
        || it.is_loopback()
        || it.is_link_local()
        || it.is_documentation()
        || a == 0
        // Multicast, reserved and broadcast.
        || 224 <= a
        // Shared by carriers, protocol assignments, benchmarks, relays of 6to4.
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (b == 18 || b == 19))
        || (a == 192 && b == 88 && c == 99);
    !special
}

fn is_public_v6(it: Ipv6Addr) -> bool {
    let [a, b, ..] = it.segments();
    let global = a & 0xe000 == 0x2000;
    // Protocol assignments and tunnels (2001::/23), documentation, 6to4.
    let special = (a == 0x2001 && (b < 0x0200 || b == 0x0db8)) || a == 0x2002 || a == 0x3fff;
    global && !special
}

#[cfg(test)]
mod tests {
    use super::{Reach, is_public};

    #[test]
    fn only_what_is_everybodys_is_public() {
        for public in ["1.1.1.1", "93.184.216.34", "172.32.0.1", "2606:4700::1111", "2a00:1450:4001::200e"] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        let not = "0.0.0.0 10.1.2.3 100.64.0.1 127.0.0.1 169.254.169.254 172.16.0.1 192.0.0.8 192.0.2.1 192.168.1.1 \
                   198.18.0.1 203.0.113.9 224.0.0.1 255.255.255.255 :: ::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 fe80::1 \
                   fc00::1 fd12::1 ff02::1 64:ff9b::a00:1 2001:db8::1 2001::1 2002:7f00:1::1";
        for private in not.split_whitespace() {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
    }

    #[test]
    fn a_url_is_refused_with_its_reason() {
        for (url, word) in [
            ("https://127.0.0.1/hook", "public"),
            ("https://2130706433/hook", "127.0.0.1"),
            ("https://0x7f.1/", "127.0.0.1"),
            ("https://[::1]:8080/", "public"),
            ("https://[::ffff:10.0.0.1]/", "public"),
            ("http://example.org/", "https://"),
            ("ftp://example.org/", "neither"),
            ("https://ann:secret@example.org/", "password"),
            ("hook", "no URL"),
        ] {
            let why = Reach::Public.refuses(url).unwrap_or_else(|| panic!("{url} is taken"));
            assert!(why.contains(word), "{url}: {why}");
        }
        assert_eq!(Reach::Public.refuses("https://example.org/hook?x=1"), None);
        assert_eq!(Reach::Anywhere.refuses("http://127.0.0.1:8080/hook"), None);
        assert!(Reach::Anywhere.refuses("file:///etc/passwd").is_some());
    }
}
