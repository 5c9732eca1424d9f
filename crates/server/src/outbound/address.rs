//! Which addresses are public: reached over the Internet, and by anybody. Everything else may be this machine,
//! its neighbours, or the service that hands out a cloud machine's credentials.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(super) fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    // This network, private ones, this machine, multicast, reserved, broadcast; link-local, where metadata
    // services are.
    let is_inside =
        matches!((a, b), (0 | 10 | 127 | 224..=255, _) | (169, 254) | (172, 16..=31) | (192, 168));
    // Behind a provider's NAT; protocol assignments; benchmarks.
    let is_borrowed = matches!((a, b, c), (100, 64..=127, _) | (192, 0, 0) | (198, 18..=19, _));
    // Documentation, and the old relays of 6to4.
    let is_nobody = matches!((a, b, c), (192, 0, 2) | (198, 51, 100) | (203, 0, 113) | (192, 88, 99));
    !is_inside && !is_borrowed && !is_nobody
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        // What leads to an address of IPv4 is as public as that is: NAT64 and 6to4.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => v4(high, low),
        // Tunnels of Teredo, and documentation.
        [0x2001, 0 | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // Only this eighth is given out at all.
        [first, ..] => (0x2000..=0x3fff).contains(&first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_public() {
        let public = [
            "1.1.1.1",
            "8.8.8.8",
            "172.15.255.255",
            "172.32.0.1",
            "100.63.0.1",
            "100.128.0.1",
            "169.253.1.1",
            "192.1.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:4860:4860::8888",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
        ];
        for address in public {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
        let inside = [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "100.127.255.255",
            "192.0.0.192",
            "192.0.2.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.7",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "64:ff9b:1::7f00:1",
            "2002:7f00:1::1",
            "2002:a9fe:a9fe::1",
            "2001::1",
            "2001:db8::1",
            "3fff::1",
            "4000::1",
            "100::1",
        ];
        for address in inside {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
    }
}
