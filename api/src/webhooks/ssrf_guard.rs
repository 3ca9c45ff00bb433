//! Protection against server-side request forgery: checks of webhook URLs, and HTTP clients that connect only to
//! allowed addresses.

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

use crate::server::state::AppState;

/// Maximum time to establish a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// Maximum time to resolve the name of a new webhook.
const LOOKUP: Duration = Duration::from_secs(3);

/// Allowed targets of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TargetPolicy {
    /// Any address, with or without TLS.
    Anywhere,
    /// Public addresses, with TLS only.
    Public,
}

/// One HTTP client for each policy.
pub(super) struct Clients {
    anywhere: Client,
    public: Client,
}

impl TargetPolicy {
    /// Returns the policy for webhooks of this tenant, or of operators.
    pub(super) fn for_tenant(app: &AppState, tenant: Option<&str>) -> Self {
        if tenant.is_none() || app.webhooks.private_addresses || app.keys.is_open() {
            Self::Anywhere
        } else {
            Self::Public
        }
    }

    /// Returns the reason why a URL is not allowed. The addresses of a host name are checked when connecting.
    pub(super) fn violation(self, url: &str) -> Option<String> {
        let Ok(parsed) = Url::parse(url) else { return Some(format!("{url:?} is not a URL")) };
        let Some(host) = parsed.host_str() else { return Some(format!("{url:?} has no host")) };
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Some("it must not contain a user name or password, because lists show it".to_owned());
        }
        match (parsed.scheme(), self) {
            ("https", _) | ("http", Self::Anywhere) => (),
            ("http", Self::Public) => return Some("it must start with https://".to_owned()),
            (scheme, _) => return Some(format!("the scheme {scheme} is neither https nor http")),
        }
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        match address {
            Ok(address) if self == Self::Public && !is_public(address) => {
                Some(format!("{address} is not a public address"))
            }
            Ok(_) | Err(_) => None,
        }
    }
}

/// Warning about a URL whose host has no public address at the moment; none if it has, or any address is allowed.
///
/// ## Why it does not tell a private address from none
///
/// A tenant could otherwise learn which names exist in the operator's network.
pub(super) async fn warning(policy: TargetPolicy, url: &str) -> Option<String> {
    let host = Url::parse(url).ok()?.host_str()?.trim_matches(['[', ']']).to_owned();
    if policy == TargetPolicy::Anywhere || host.parse::<IpAddr>().is_ok() {
        return None;
    }
    let found = tokio::time::timeout(LOOKUP, public_addresses(&host)).await;
    let is_unreachable = found.map_or(true, |found| found.is_err());
    is_unreachable.then(|| format!("{}; deliveries fail until it does", no_public_address(&host)))
}

/// Resolves a name. Fails in the same way if it does not exist, and if none of its addresses is public.
async fn public_addresses(host: &str) -> io::Result<Vec<SocketAddr>> {
    let found = tokio::net::lookup_host((host, 0)).await.into_iter().flatten();
    let public: Vec<SocketAddr> = found.filter(|address| is_public(address.ip())).collect();
    if public.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, no_public_address(host)));
    }
    Ok(public)
}

fn no_public_address(host: &str) -> String {
    format!("{host} does not resolve to a public address")
}

impl Clients {
    pub(super) fn new(timeout: Duration) -> reqwest::Result<Self> {
        let client = || {
            Client::builder()
                // Redirects are not followed: the owner must update the URL.
                .redirect(Policy::none())
                .timeout(timeout)
                .connect_timeout(CONNECT)
                // A proxy would resolve the name itself.
                .no_proxy()
                .user_agent(concat!("turnfold/", env!("CARGO_PKG_VERSION")))
        };
        let public = client().dns_resolver(Arc::new(PublicOnly)).build()?;
        Ok(Self { anywhere: client().build()?, public })
    }

    pub(super) fn of(&self, policy: TargetPolicy) -> &Client {
        match policy {
            TargetPolicy::Anywhere => &self.anywhere,
            TargetPolicy::Public => &self.public,
        }
    }
}

/// A resolver that ignores addresses that are not public. A name that resolves to a private address after its URL was
/// checked reaches nothing.
struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let public = public_addresses(name.as_str()).await?;
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

/// Reports whether an address is globally reachable, according to the IANA special-purpose address registries.
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || a == 0
        // Multicast, reserved and broadcast.
        || 224 <= a
        // Carrier-grade NAT, protocol assignments, benchmarking, 6to4 relays.
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (b == 18 || b == 19))
        || (a == 192 && b == 88 && c == 99);
    !special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    let global = a & 0xe000 == 0x2000;
    // Protocol assignments and tunnels (2001::/23), documentation, 6to4.
    let special = (a == 0x2001 && (b < 0x0200 || b == 0x0db8)) || a == 0x2002 || a == 0x3fff;
    global && !special
}

#[cfg(test)]
mod tests {
    use super::{TargetPolicy, is_public};

    #[test]
    fn special_purpose_addresses_are_not_public() {
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
    fn a_disallowed_url_returns_the_reason() {
        for (url, word) in [
            ("https://127.0.0.1/hook", "public"),
            ("https://2130706433/hook", "127.0.0.1"),
            ("https://0x7f.1/", "127.0.0.1"),
            ("https://[::1]:8080/", "public"),
            ("https://[::ffff:10.0.0.1]/", "public"),
            ("http://example.org/", "https://"),
            ("ftp://example.org/", "neither"),
            ("https://ann:secret@example.org/", "password"),
            ("hook", "not a URL"),
        ] {
            let why = TargetPolicy::Public.violation(url).unwrap_or_else(|| panic!("{url} is allowed"));
            assert!(why.contains(word), "{url}: {why}");
        }
        assert_eq!(TargetPolicy::Public.violation("https://example.org/hook?x=1"), None);
        assert_eq!(TargetPolicy::Anywhere.violation("http://127.0.0.1:8080/hook"), None);
        assert!(TargetPolicy::Anywhere.violation("file:///etc/passwd").is_some());
    }
}
