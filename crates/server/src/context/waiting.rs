//! Requests that wait until fewer run, first in, first out.

use std::collections::VecDeque;

use crate::id::ConnectionId;

/// A request that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) connection: ConnectionId,
    /// Its stream; 0 for the next request of an HTTP/1 connection.
    pub(crate) stream: u32,
    since_ms: u64,
}

impl Place {
    /// For how long it has waited.
    pub(crate) fn waited_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.since_ms)
    }
}

/// What becomes of a request that waited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Grant {
    /// It begins.
    Begin,
    /// It is refused, because it has waited too long.
    Refuse,
}

/// The requests of one worker that wait.
#[derive(Default)]
pub(crate) struct Waiting {
    places: VecDeque<Place>,
}

impl Waiting {
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(crate) fn add(&mut self, connection: ConnectionId, stream: u32, now_ms: u64) {
        self.places.push_back(Place {
            connection,
            stream,
            since_ms: now_ms,
        });
    }

    /// Adds a request that has waited before, before all others that have not waited for longer.
    pub(crate) fn add_again(&mut self, connection: ConnectionId, stream: u32, since_ms: u64) {
        let place = Place {
            connection,
            stream,
            since_ms,
        };
        let is_later = |other: &Place| other.since_ms >= since_ms;
        let index = self.places.iter().position(is_later);
        self.places
            .insert(index.unwrap_or(self.places.len()), place);
    }

    /// Takes the request that has waited longest, if it may begin or has waited for `timeout_ms` (0: for ever).
    pub(crate) fn next(
        &mut self,
        (now_ms, timeout_ms): (u64, u64),
        may_begin: bool,
    ) -> Option<(Place, Grant)> {
        let grant = self.grant((now_ms, timeout_ms), may_begin)?;
        Some((self.places.pop_front()?, grant))
    }

    /// Whether [`Waiting::next`] would take one.
    pub(crate) fn moves(&self, times_ms: (u64, u64), may_begin: bool) -> bool {
        self.grant(times_ms, may_begin).is_some()
    }

    fn grant(&self, (now_ms, timeout_ms): (u64, u64), may_begin: bool) -> Option<Grant> {
        let first = self.places.front()?;
        let is_late = timeout_ms > 0 && now_ms.saturating_sub(first.since_ms) >= timeout_ms;
        match (is_late, may_begin) {
            (true, _) => Some(Grant::Refuse),
            (false, true) => Some(Grant::Begin),
            (false, false) => None,
        }
    }

    /// The requests of a connection, or one of its streams, wait no longer. Returns how many they were.
    pub(crate) fn forget(&mut self, connection: ConnectionId, stream: Option<u32>) -> usize {
        let before = self.places.len();
        self.places.retain(|place| {
            place.connection != connection || stream.is_some_and(|stream| stream != place.stream)
        });
        before - self.places.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(key: u32) -> ConnectionId {
        ConnectionId { key, generation: 1 }
    }

    #[test]
    fn the_first_begins_first_and_the_late_are_refused() {
        let mut waiting = Waiting::default();
        waiting.add(id(1), 0, 100);
        waiting.add(id(2), 1, 150);
        waiting.add(id(2), 3, 160);
        assert_eq!(waiting.next((199, 100), false), None);
        let (place, grant) = waiting.next((199, 100), true).unwrap();
        assert_eq!(
            (place.connection, place.stream, grant),
            (id(1), 0, Grant::Begin)
        );
        // Even if it could begin now.
        let (place, grant) = waiting.next((250, 100), true).unwrap();
        assert_eq!(
            (place.connection, place.stream, grant),
            (id(2), 1, Grant::Refuse)
        );
        assert_eq!(waiting.next((9999, 0), false), None);
        assert_eq!(waiting.len(), 1);
    }

    #[test]
    fn one_that_has_waited_keeps_its_turn() {
        let mut waiting = Waiting::default();
        waiting.add(id(1), 0, 100);
        waiting.add(id(2), 0, 200);
        waiting.add_again(id(3), 3, 150);
        waiting.add_again(id(4), 1, 150);
        waiting.add_again(id(5), 0, 300);
        let keys = std::iter::from_fn(|| waiting.next((400, 0), true));
        let keys: Vec<u32> = keys.map(|(place, _)| place.connection.key).collect();
        assert_eq!(keys, [1, 4, 3, 2, 5]);
    }

    #[test]
    fn those_of_a_connection_are_forgotten() {
        let mut waiting = Waiting::default();
        for stream in [1, 3, 5] {
            waiting.add(id(1), stream, 0);
            waiting.add(id(2), stream, 0);
        }
        assert_eq!(waiting.forget(id(1), Some(3)), 1);
        assert_eq!(waiting.forget(id(1), None), 2);
        assert_eq!(waiting.len(), 3);
        let left: Vec<u32> = std::iter::from_fn(|| waiting.next((0, 0), true))
            .map(|(place, _)| place.stream)
            .collect();
        assert_eq!(left, [1, 3, 5]);
        assert!(waiting.is_empty());
    }
}
