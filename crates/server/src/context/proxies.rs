//! Which peers are proxies that are trusted, and what is believed of what they say.
//!
//! Nothing is looked up for a request without such a field. For one with it, the peer is compared with the networks, which are few.

use std::net::IpAddr;

use net::Peer;
use wire::{ForwardingField, ForwardingFields, Node};

/// The settings about proxies. By default none is trusted.
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    /// Networks whose hosts are trusted.
    pub networks: Vec<Network>,
    /// Clients on UNIX sockets are trusted.
    pub trusts_unix: bool,
    /// The fields that they are known to set.
    pub fields: ForwardingFields,
    /// What becomes of these fields if the peer is not trusted.
    pub untrusted: Untrusted,
    /// Connections start with a header of the PROXY protocol.
    pub expects_header: bool,
}

/// What the application gets of fields that are not believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Untrusted {
    /// As received, since other fields are the client's word too.
    #[default]
    Keep,
    /// Nothing. A field that trusted proxies are not known to set is not believed either.
    Remove,
}

/// A network: the addresses with the same first bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    address: IpAddr,
    prefix_bits: u32,
}

impl Network {
    /// The network of CIDR notation, as in `10.0.0.0/8`; an address alone is one host. None if it is neither.
    pub fn parse(text: &str) -> Option<Network> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let prefix_bits = bits.unwrap_or(bits_max);
        (prefix_bits <= bits_max).then_some(Network {
            address,
            prefix_bits,
        })
    }

    fn has(&self, address: IpAddr) -> bool {
        let differs = match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(address)) => {
                let differing = own.to_bits() ^ address.to_bits();
                differing.leading_zeros() < self.prefix_bits
            }
            (IpAddr::V6(own), IpAddr::V6(address)) => {
                let differing = own.to_bits() ^ address.to_bits();
                differing.leading_zeros() < self.prefix_bits
            }
            _ => true,
        };
        !differs
    }
}

impl Proxies {
    /// Whether a peer of this server is trusted.
    pub(crate) fn trusts(&self, peer: &Peer) -> bool {
        match peer {
            Peer::Internet(address) => self.trusts_address(address.ip()),
            Peer::Unix(_) | Peer::Local => self.trusts_unix,
        }
    }

    /// Whether a peer of a proxy is trusted.
    pub(crate) fn trusts_node(&self, node: &Node) -> bool {
        match node {
            Node::Address(address, _) => self.trusts_address(*address),
            Node::Unix => self.trusts_unix,
            Node::Hidden => false,
        }
    }

    fn trusts_address(&self, address: IpAddr) -> bool {
        // A listener of both families has IPv4 addresses in the form of IPv6 (RFC 4291 section 2.5.5.2).
        let address = address.to_canonical();
        self.networks.iter().any(|network| network.has(address))
    }

    /// Whether the application is not to get this field. In the spelling with underscores it is no proxy's.
    pub(crate) fn drops(&self, name: &[u8], is_trusted: bool) -> bool {
        let is_dropped = |(field, spelling)| {
            let is_underscored = spelling == wire::Spelling::Underscore;
            !is_trusted || is_underscored || !self.fields.has(field)
        };
        self.untrusted == Untrusted::Remove && ForwardingField::of(name).is_some_and(is_dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_the_addresses_with_its_first_bits() {
        for (network, inside, outside) in [
            ("127.0.0.0/8", "127.255.0.1", "128.0.0.1"),
            ("10.1.2.3", "10.1.2.3", "10.1.2.2"),
            ("0.0.0.0/0", "255.1.2.3", "::1"),
            ("192.0.2.128/25", "192.0.2.200", "192.0.2.127"),
            ("::1", "::1", "127.0.0.1"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
            ("::/0", "::", "0.0.0.0"),
        ] {
            let network = Network::parse(network).unwrap();
            assert!(network.has(inside.parse().unwrap()), "{network:?}");
            assert!(!network.has(outside.parse().unwrap()), "{network:?}");
        }
        for text in ["", "10.0.0.0/33", "::/129", "10.0.0/8", "10.0.0.0/", "a"] {
            assert_eq!(Network::parse(text), None, "{text}");
        }
    }

    #[test]
    fn an_address_of_ipv4_is_trusted_in_both_forms() {
        let proxies = Proxies {
            networks: vec![Network::parse("127.0.0.0/8").unwrap()],
            ..Proxies::default()
        };
        for (address, is_trusted) in [
            ("127.0.0.1:80", true),
            ("[::ffff:127.0.0.1]:80", true),
            ("[::1]:80", false),
        ] {
            let peer = Peer::Internet(address.parse().unwrap());
            assert_eq!(proxies.trusts(&peer), is_trusted, "{address}");
        }
        assert!(!proxies.trusts(&Peer::Local));
    }
}
