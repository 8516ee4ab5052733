//! Limits for each client: how many connections its address has, and how fast it sends requests.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use net::{Peer, Rates, Refill};

/// Servers in this process: each counts on its own. Workers, which are forked, share one number.
static SERVERS: AtomicU64 = AtomicU64::new(0);
const NS_PER_S: u64 = 1_000_000_000;

/// An address, or a network of IPv6, which often is one client's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ClientKey(u128);

impl ClientKey {
    /// The key of an address, of which only so many bits count if it is one of IPv6.
    pub(crate) fn of(address: IpAddr, ipv6_prefix_bits: u32) -> ClientKey {
        ClientKey(match address.to_canonical() {
            // As in the form of IPv6, so that it is no address of another network.
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => {
                let host_bits = 128 - ipv6_prefix_bits.min(128);
                let mask = u128::MAX.checked_shl(host_bits).unwrap_or_default();
                address.to_bits() & mask
            }
        })
    }
}

/// How many places clients have: those that have some, so there are no more than connections and WebSockets.
#[derive(Clone, Default, Debug)]
struct Counts(Arc<Mutex<HashMap<ClientKey, u64>>>);

impl Counts {
    fn all(&self) -> MutexGuard<'_, HashMap<ClientKey, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection or a WebSocket, which its client has as long as this exists.
#[derive(Debug)]
pub(crate) struct ClientPlace {
    key: ClientKey,
    counts: Counts,
}

impl Drop for ClientPlace {
    fn drop(&mut self) {
        let mut counts = self.counts.all();
        if let Some(count) = counts.get_mut(&self.key) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

/// What is counted of clients. By default, nothing.
#[derive(Default)]
pub(crate) struct Clients {
    connections_max: u64,
    ipv6_prefix_bits: u32,
    counts: Counts,
    /// The places of connections, by the connections' keys.
    places: HashMap<u32, ClientPlace>,
    rates: Option<(&'static Rates, Refill)>,
    server: u64,
}

impl Clients {
    /// `requests_per_s` and `burst` of 0 are no limit, and as many as in a second.
    ///
    /// # Errors
    /// If there is no memory for the rates: without them, no client would have a limit.
    pub(crate) fn new(
        connections_max: u64,
        (requests_per_s, burst): (u64, u64),
        ipv6_prefix_bits: u32,
    ) -> io::Result<Clients> {
        let refill = (requests_per_s > 0).then(|| Refill {
            token_ns: (NS_PER_S / requests_per_s.max(1)).max(1),
            tokens: if burst > 0 { burst } else { requests_per_s },
        });
        let rates = match refill {
            Some(refill) => Some((Rates::of_process()?, refill)),
            None => None,
        };
        Ok(Clients {
            connections_max,
            ipv6_prefix_bits,
            counts: Counts::default(),
            places: HashMap::new(),
            rates,
            server: SERVERS.fetch_add(1, Ordering::Relaxed),
        })
    }

    /// Whether requests are counted.
    pub(crate) fn limits_rates(&self) -> bool {
        self.rates.is_some()
    }

    /// Whether connections are counted.
    #[inline]
    pub(crate) fn limits_connections(&self) -> bool {
        self.connections_max > 0
    }

    /// Counts a connection. Returns false if its client has too many.
    pub(crate) fn connected(&mut self, connection: u32, client: &Peer) -> bool {
        let Peer::Internet(address) = client else {
            return true;
        };
        if self.connections_max == 0 {
            return true;
        }
        match self.place(address.ip()) {
            Some(place) => {
                self.places.insert(connection, place);
                true
            }
            None => false,
        }
    }

    /// Whether a client has as many places as it may have.
    pub(crate) fn has_all(&self, client: &Peer) -> bool {
        let Peer::Internet(address) = client else {
            return false;
        };
        let key = ClientKey::of(address.ip(), self.ipv6_prefix_bits);
        let count = self.counts.all().get(&key).copied().unwrap_or_default();
        self.connections_max > 0 && count >= self.connections_max
    }

    /// One more place of a client, unless it has as many as it may have.
    pub(crate) fn place(&self, client: IpAddr) -> Option<ClientPlace> {
        let key = ClientKey::of(client, self.ipv6_prefix_bits);
        let mut counts = self.counts.all();
        let count = counts.entry(key).or_default();
        if *count >= self.connections_max {
            return None;
        }
        *count += 1;
        let counts = self.counts.clone();
        Some(ClientPlace { key, counts })
    }

    /// A connection is closed, whether it was counted or not.
    pub(crate) fn disconnected(&mut self, connection: u32) {
        self.places.remove(&connection);
    }

    /// Counts a request. Fails if its client sends too many, with the seconds until it may send the next one.
    pub(crate) fn requested(&self, client: IpAddr, now_ms: u64) -> Result<(), u64> {
        let Some((rates, refill)) = self.rates else {
            return Ok(());
        };
        let key = ClientKey::of(client, self.ipv6_prefix_bits);
        let taken = rates.take((self.server, key), now_ms.saturating_mul(1_000_000), refill);
        taken.map_err(|wait_ns| wait_ns.div_ceil(NS_PER_S))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> Peer {
        Peer::Internet(text.parse().unwrap())
    }

    #[test]
    fn networks_of_ipv6_are_one_client() {
        let key = |text: &str, bits| ClientKey::of(text.parse().unwrap(), bits);
        assert_eq!(key("2001:db8::1", 64), key("2001:db8::ffff:1", 64));
        assert_ne!(key("2001:db8::1", 64), key("2001:db8:0:1::1", 64));
        assert_ne!(key("2001:db8::1", 128), key("2001:db8::2", 128));
        assert_eq!(key("2001:db8::1", 0), key("fe80::1", 0));
        assert_eq!(key("::ffff:192.0.2.1", 64), key("192.0.2.1", 64));
        assert_ne!(key("192.0.2.1", 64), key("192.0.2.2", 64));
        assert_ne!(key("192.0.2.1", 64), key("::1", 64));
    }

    #[test]
    fn connections_are_counted_while_they_are_open() {
        let mut clients = Clients::new(2, (0, 0), 64).unwrap();
        assert!(clients.connected(1, &peer("192.0.2.1:1")));
        assert!(clients.connected(2, &peer("[::ffff:192.0.2.1]:2")));
        assert!(clients.has_all(&peer("192.0.2.1:3")));
        assert!(!clients.connected(3, &peer("192.0.2.1:3")));
        assert!(!clients.has_all(&peer("192.0.2.2:1")) && !clients.has_all(&Peer::Local));
        assert!(clients.connected(4, &peer("192.0.2.2:1")));
        assert!(clients.connected(5, &Peer::Local));
        clients.disconnected(3);
        assert!(!clients.connected(3, &peer("192.0.2.1:3")));
        clients.disconnected(1);
        assert!(clients.connected(3, &peer("192.0.2.1:3")));
        for connection in 1..6 {
            clients.disconnected(connection);
        }
        assert!(clients.counts.all().is_empty() && clients.places.is_empty());
    }

    #[test]
    fn a_websocket_is_counted_with_the_connections() {
        let mut clients = Clients::new(2, (0, 0), 64).unwrap();
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        assert!(clients.connected(1, &peer("192.0.2.1:1")));
        let place = clients.place(address);
        assert!(place.is_some() && clients.place(address).is_none());
        assert!(!clients.connected(2, &peer("192.0.2.1:2")));
        drop(place);
        assert!(clients.connected(2, &peer("192.0.2.1:2")));
        clients.disconnected(1);
        clients.disconnected(2);
        assert!(clients.counts.all().is_empty());
    }

    #[test]
    fn requests_are_counted_for_each_server_and_client() {
        let [one, other] = [0, 3].map(|burst| Clients::new(0, (2, burst), 64).unwrap());
        let client = "192.0.2.77".parse().unwrap();
        let admitted = |clients: &Clients, now_ms| {
            (0..9)
                .take_while(|_| clients.requested(client, now_ms).is_ok())
                .count()
        };
        assert_eq!(admitted(&one, 1000), 2);
        assert_eq!(one.requested(client, 1000), Err(1));
        assert_eq!(admitted(&other, 1000), 3);
        assert_eq!(admitted(&one, 1500), 1);
        assert!(one.requested("192.0.2.78".parse().unwrap(), 1500).is_ok());
    }
}
