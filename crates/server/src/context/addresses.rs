//! The local addresses of connections. There are few of them, and every connection and request has one: so they share them.

use std::sync::Arc;

use net::Peer;

/// So many are remembered: those of a machine that listens at several of its addresses. Where there are more, some connections have a copy of
/// their own.
const KEPT_MAX: usize = 8;

/// Addresses that connections share.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    kept: Vec<Arc<Peer>>,
    /// The one that is forgotten next.
    oldest: usize,
}

impl Addresses {
    /// The shared copy of an address.
    pub(crate) fn shared(&mut self, address: Peer) -> Arc<Peer> {
        if let Some(kept) = self.kept.iter().find(|kept| ***kept == address) {
            return Arc::clone(kept);
        }
        let shared = Arc::new(address);
        if self.kept.len() < KEPT_MAX {
            self.kept.push(Arc::clone(&shared));
        } else if let Some(place) = self.kept.get_mut(self.oldest) {
            *place = Arc::clone(&shared);
            self.oldest = (self.oldest + 1) % KEPT_MAX;
        }
        shared
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn at(port: u16) -> Peer {
        Peer::Internet(SocketAddr::from(([127, 0, 0, 1], port)))
    }

    #[test]
    fn connections_share_an_address() {
        let mut addresses = Addresses::default();
        let first = addresses.shared(at(1));
        assert!(Arc::ptr_eq(&first, &addresses.shared(at(1))));
        assert_eq!(*addresses.shared(Peer::Local), Peer::Local);
        assert!(Arc::ptr_eq(&first, &addresses.shared(at(1))));
    }

    #[test]
    fn few_addresses_are_remembered() {
        let mut addresses = Addresses::default();
        let first = addresses.shared(at(0));
        for port in 1..=100 {
            assert_eq!(*addresses.shared(at(port)), at(port));
        }
        assert_eq!(addresses.kept.len(), KEPT_MAX);
        assert_eq!(Arc::strong_count(&first), 1);
        assert!(!Arc::ptr_eq(&first, &addresses.shared(at(0))));
    }
}
