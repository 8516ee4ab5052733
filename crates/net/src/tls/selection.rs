//! Which pair a client gets, by the name that it asks for (RFC 6066 section 3).

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::pair::ServerPair;

thread_local! {
    /// What was chosen within the call of [`Chosen::within`] that runs; nothing outside of one.
    static CHOSEN: RefCell<Option<Box<Chosen>>> = const { RefCell::new(None) };
}

/// What a client asked for, and what it got.
pub(super) struct Chosen {
    /// The name that it asked for.
    pub(super) name: Option<String>,
    key: Arc<CertifiedKey>,
}

impl Chosen {
    /// Processes records of one connection, and returns what was chosen for it meanwhile, if anything was.
    ///
    /// rustls does not say which pair a connection uses. It asks for one twice after a HelloRetryRequest, and not at all until a
    /// ClientHello has arrived as a whole. What is chosen therefore never outlives the call in which it was, and the last one counts.
    pub(super) fn within<R>(process: impl FnOnce() -> R) -> (R, Option<Box<Chosen>>) {
        CHOSEN.set(None);
        let result = process();
        (result, CHOSEN.take())
    }

    /// The server's certificate, in DER.
    pub(super) fn certificate(&self) -> Option<&[u8]> {
        self.key.cert.first().map(AsRef::as_ref)
    }
}

/// Pairs by name; the first one is for clients that ask for no name, or for one that no certificate has.
pub(super) struct Selection {
    pairs: Vec<ServerPair>,
    /// The pairs whose certificates have a name, in order. A wildcard's name starts with `*.`.
    by_name: HashMap<String, Vec<usize>>,
}

impl Selection {
    /// Selects from `pairs`; None if there are none.
    pub(super) fn new(pairs: Vec<ServerPair>) -> Option<Selection> {
        let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
        for (index, pair) in pairs.iter().enumerate() {
            for name in &pair.names {
                let indexes = by_name.entry(name.clone()).or_default();
                if indexes.last() != Some(&index) {
                    indexes.push(index);
                }
            }
        }
        (!pairs.is_empty()).then_some(Selection { pairs, by_name })
    }

    pub(super) fn pairs(&self) -> &[ServerPair] {
        &self.pairs
    }

    /// The pairs for a client that asks for no name, or for one that no certificate has: the first one, and those that share its first name,
    /// which may have another kind of key.
    fn for_others(&self) -> &[usize] {
        let first = self.pairs.first().and_then(|pair| pair.names.first());
        let same = first.and_then(|name| self.by_name.get(name));
        same.map_or(&[0], Vec::as_slice)
    }

    /// The pairs for a name; empty if no certificate has it. A wildcard stands for one label (RFC 9525 section 6.3).
    fn named(&self, name: &str) -> &[usize] {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let exact = self.by_name.get(&name);
        let wildcard = || {
            let (_, parent) = name.split_once('.')?;
            self.by_name.get(&format!("*.{parent}"))
        };
        exact.or_else(wildcard).map_or(&[], Vec::as_slice)
    }
}

impl ResolvesServerCert for Selection {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let named = hello.server_name().map_or(&[][..], |name| self.named(name));
        let indexes = match named {
            [] => self.for_others(),
            named => named,
        };
        let candidates = indexes.iter().filter_map(|index| self.pairs.get(*index));
        let schemes = hello.signature_schemes();
        let mut usable = candidates
            .clone()
            .filter(|pair| pair.key.key.choose_scheme(schemes).is_some());
        let pair = usable.next().or_else(|| candidates.clone().next())?;
        CHOSEN.set(Some(Box::new(Chosen {
            name: hello.server_name().map(str::to_owned),
            key: Arc::clone(&pair.key),
        })));
        Some(Arc::clone(&pair.key))
    }
}

impl fmt::Debug for Selection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(&self.pairs).finish()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::super::Pair;
    use super::*;

    fn pair(names: &[&str]) -> ServerPair {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let (certificates, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let pair = Pair {
            certificates: certificates.as_bytes(),
            key: key.as_bytes(),
        };
        ServerPair::read(pair, None).unwrap()
    }

    #[test]
    fn an_exact_name_precedes_a_wildcard_and_the_first_pair_is_for_the_others() {
        let all = [
            pair(&["first.example"]),
            pair(&["*.example.org", "example.org"]),
            pair(&["a.example.org"]),
        ];
        let selection = Selection::new(all.into()).unwrap();
        for (name, expected) in [
            ("first.example", &[0][..]),
            ("example.org", &[1]),
            ("B.Example.org.", &[1]),
            ("a.example.org", &[2]),
            ("b.a.example.org", &[]),
            ("other.example", &[]),
            ("org", &[]),
            ("", &[]),
        ] {
            assert_eq!(selection.named(name), expected, "{name}");
        }
        assert!(Selection::new(Vec::new()).is_none());
    }

    #[test]
    fn pairs_with_the_same_name_are_kept_in_order() {
        let selection =
            Selection::new(vec![pair(&["a.test"]), pair(&["a.test", "A.test"])]).unwrap();
        assert_eq!(selection.named("a.test"), [0, 1]);
    }

    #[test]
    fn a_client_without_a_known_name_gets_the_first_pair_or_one_of_the_same_name() {
        let all = [
            pair(&["a.test", "b.test"]),
            pair(&["b.test"]),
            pair(&["a.test"]),
        ];
        assert_eq!(Selection::new(all.into()).unwrap().for_others(), [0, 2]);
        let unnamed = Selection::new(vec![pair(&[]), pair(&["a.test"])]).unwrap();
        assert_eq!(unnamed.for_others(), [0]);
    }
}
