//! Addresses: networks in the configuration, and whose address a request counts under.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use axum::http::HeaderMap;

/// `10.0.0.0/8`, `::1`, …
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// This machine.
    pub(crate) fn here() -> Self {
        Self { address: IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), bits: 8 }
    }

    /// The address lies in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (network, address) = (whole(self.address), whole(address));
        let bits = if self.address.is_ipv4() { self.bits + 96 } else { self.bits };
        let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
        network & mask == address & mask
    }
}

/// IPv4 as the mapped IPv6, so that `::ffff:10.0.0.1` is `10.0.0.1`.
fn whole(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let wrong = || format!("{text}: not an address such as 10.0.0.1 or a network such as 10.0.0.0/8");
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), |bits| bits.parse().map_err(|_| wrong()))?;
        if bits > most { Err(wrong()) } else { Ok(Self { address, bits }) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// Whose request it is: the peer's, unless that is a proxy that is trusted to say. The rightmost address
/// that no trusted proxy has counts; what stands left of it anybody may have written.
pub(crate) fn client_address(peer: IpAddr, headers: &HeaderMap, trusted: &[Network]) -> IpAddr {
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
    if !is_trusted(peer) {
        return peer.to_canonical();
    }
    let lines: Vec<&str> =
        headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok()).collect();
    let mut nearest = peer;
    for hop in lines.iter().rev().flat_map(|line| line.rsplit(',')) {
        let Some(address) = parse_hop(hop.trim()) else { break };
        nearest = address;
        if !is_trusted(address) {
            break;
        }
    }
    nearest.to_canonical()
}

/// The trusted proxy took the request over TLS.
pub(crate) fn came_over_tls(peer: IpAddr, headers: &HeaderMap, trusted: &[Network]) -> bool {
    trusted.iter().any(|network| network.contains(peer))
        && headers
            .get("x-forwarded-proto")
            .is_some_and(|proto| proto.as_bytes().eq_ignore_ascii_case(b"https"))
}

fn parse_hop(hop: &str) -> Option<IpAddr> {
    let bare = hop.trim_matches('"');
    bare.parse()
        .ok()
        .or_else(|| bare.parse::<std::net::SocketAddr>().ok().map(|socket| socket.ip()))
        .or_else(|| bare.trim_matches(['[', ']']).parse().ok())
}

/// What an address counts under: one home or machine has a whole /64 of IPv6.
pub(crate) fn counted(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << 64))),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(texts: &[&str]) -> Vec<Network> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn networks_hold_what_they_should() {
        let check = |network: &str, address: &str, expected: bool| {
            let network: Network = network.parse().unwrap();
            assert_eq!(network.contains(address.parse().unwrap()), expected, "{network} {address}");
        };
        check("10.0.0.0/8", "10.200.3.4", true);
        check("10.0.0.0/8", "11.0.0.1", false);
        check("10.0.0.0/8", "::ffff:10.1.1.1", true);
        check("127.0.0.1", "127.0.0.1", true);
        check("127.0.0.1", "127.0.0.2", false);
        check("0.0.0.0/0", "9.9.9.9", true);
        check("fd00::/8", "fd12::1", true);
        check("::/0", "1.2.3.4", true);
        for wrong in ["", "10.0.0.0/33", "ten", "10.0.0.0/x", "::/129"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_trusted_proxies_say_whose_request_it_is() {
        let check = |peer: &str, forwarded: &[&str], expected: &str| {
            let mut headers = HeaderMap::new();
            for line in forwarded {
                headers.append("x-forwarded-for", line.parse().unwrap());
            }
            let trusted = networks(&["10.0.0.0/8"]);
            let address = client_address(peer.parse().unwrap(), &headers, &trusted);
            assert_eq!(address.to_string(), expected, "{peer} {forwarded:?}");
        };
        check("203.0.113.9", &["1.1.1.1"], "203.0.113.9");
        check("10.0.0.1", &["1.1.1.1"], "1.1.1.1");
        check("10.0.0.1", &["6.6.6.6, 1.1.1.1, 10.0.0.2"], "1.1.1.1");
        check("10.0.0.1", &["6.6.6.6", "1.1.1.1"], "1.1.1.1");
        check("10.0.0.1", &["1.1.1.1:4711"], "1.1.1.1");
        check("10.0.0.1", &["[2001:db8::1]"], "2001:db8::1");
        check("10.0.0.1", &["rubbish"], "10.0.0.1");
        check("10.0.0.1", &[], "10.0.0.1");
    }

    #[test]
    fn a_whole_64_of_ipv6_counts_as_one() {
        let address = |text: &str| counted(text.parse().unwrap());
        assert_eq!(address("2001:db8::1"), address("2001:db8::ffff:1"));
        assert_ne!(address("2001:db8::1"), address("2001:db8:0:1::1"));
        assert_eq!(address("::ffff:1.2.3.4").to_string(), "1.2.3.4");
    }
}
