//! Which lists are used, and which of them together.
//!
//! webpki looks a certificate up in one list only: the first of its issuer's name whose scope it is in. So an older list must not precede a
//! newer one, and lists of one name by several keys cannot be used together.

use super::super::config::TlsError;
use super::Found;

/// How many ways there may be to choose a key of each authority. A handshake verifies with all of them.
const CHOICES_MAX: usize = 8;

impl Found {
    /// What is more in a newer list. The time precedes the number, as in OpenSSL: an authority that loses its records counts from 1 again.
    fn age(&self) -> (i64, usize, &[u8]) {
        (self.list.issued, self.number.len(), &self.number)
    }

    /// Whether another list is about the same certificates.
    fn is_like(&self, other: &Found) -> bool {
        (&self.issuer, &self.key, &self.scope) == (&other.issuer, &other.key, &other.scope)
    }
}

/// Puts the newest lists first, and marks those that newer ones supersede. Returns the others in groups, each with one key of every
/// authority; all combinations of their keys. Without lists, there is one group without lists.
///
/// # Errors
/// If authorities have too many keys.
pub(in super::super) fn choose(found: &mut [Found]) -> Result<Vec<Vec<&Found>>, TlsError> {
    found.reverse(); // Of equal lists, the last that was given is the newest.
    found.sort_by(|one, other| other.age().cmp(&one.age()));
    for index in 0..found.len() {
        let (newer, rest) = found.split_at_mut(index);
        if let Some(it) = rest.first_mut() {
            it.list.is_superseded = newer.iter().any(|newer| newer.is_like(it));
        }
    }
    let used: Vec<&Found> = found.iter().filter(|it| !it.list.is_superseded).collect();
    let mut groups: Vec<Vec<&Found>> = vec![Vec::new()];
    for issuer in distinct(used.iter().map(|it| &it.issuer)) {
        let lists = || used.iter().copied().filter(move |it| it.issuer == *issuer);
        let keys = distinct(lists().map(|it| &it.key));
        if groups.len() * keys.len() > CHOICES_MAX {
            return Err(too_many(lists().next_back()));
        }
        let mut combined = Vec::new();
        for group in &groups {
            for key in &keys {
                let of_key = lists().filter(|it| it.key == **key);
                combined.push(group.iter().copied().chain(of_key).collect());
            }
        }
        groups = combined;
    }
    Ok(groups)
}

fn distinct<T: Ord>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = all.collect();
    all.sort();
    all.dedup();
    all
}

fn too_many(oldest: Option<&Found>) -> TlsError {
    let (file, issuer) = oldest.map_or((0, ""), |it| (it.list.file, &it.list.issuer));
    let text = format!(
        "its list of {issuer} is by one of several keys, and there are more than {CHOICES_MAX} ways to choose a key of each authority; \
         remove the lists of keys that have signed no certificate in use"
    );
    TlsError::BadList(file, text)
}
