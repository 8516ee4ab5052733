//! Which WebSockets subscribe to which topic. Subscribing, unsubscribing and finding the next subscriber take constant time, so that ten
//! thousand subscribers may leave at once.

use std::collections::HashMap;

use net::memory::{NoMemory, check_growth, copy, reserve_entry};
use slab::Slab;

use crate::id::ExchangeId;

/// One subscription, as its WebSocket remembers it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Subscription {
    topic: usize,
    slot: usize,
}

#[derive(Default)]
struct Topic {
    name: Vec<u8>,
    subscribers: Slab<ExchangeId>,
}

/// The topics that have subscribers.
#[derive(Default)]
pub(crate) struct Topics {
    by_name: HashMap<Vec<u8>, usize>,
    topics: Slab<Topic>,
}

impl Topics {
    /// The key of a topic that has subscribers.
    pub(crate) fn find(&self, name: &[u8]) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Adds a subscriber, unless one of its `subscriptions` is for this topic already.
    ///
    /// # Errors
    /// If there is no memory for that. It is not added then.
    pub(crate) fn subscribe(
        &mut self,
        id: ExchangeId,
        name: Vec<u8>,
        subscriptions: &mut Vec<Subscription>,
    ) -> Result<(), NoMemory> {
        let found = self.find(&name);
        if subscriptions.iter().any(|it| Some(it.topic) == found) {
            return Ok(());
        }
        reserve_entry(subscriptions)?;
        let key = match found {
            Some(key) => key,
            None => self.add(name)?,
        };
        if let Some(topic) = self.topics.get_mut(key) {
            let subscribers = &mut topic.subscribers;
            check_growth::<ExchangeId>(subscribers.len(), subscribers.capacity())?;
            let slot = subscribers.insert(id);
            subscriptions.push(Subscription { topic: key, slot });
        }
        Ok(())
    }

    /// Adds a topic, whose first subscriber follows. The first of a topic always has a place: its memory is left here.
    fn add(&mut self, name: Vec<u8>) -> Result<usize, NoMemory> {
        check_growth::<Topic>(self.topics.len(), self.topics.capacity())?;
        check_growth::<(Vec<u8>, usize)>(self.by_name.len(), self.by_name.capacity())?;
        let key = self.topics.insert(Topic {
            name: copy(&name)?,
            subscribers: Slab::with_capacity(1),
        });
        self.by_name.insert(name, key);
        Ok(key)
    }

    /// Removes a subscriber, if it is one.
    pub(crate) fn unsubscribe(&mut self, name: &[u8], subscriptions: &mut Vec<Subscription>) {
        let key = self.find(name);
        let place = subscriptions.iter().position(|it| Some(it.topic) == key);
        if let Some(place) = place {
            self.remove(subscriptions.swap_remove(place));
        }
    }

    /// Removes a subscriber from a topic.
    pub(crate) fn remove(&mut self, subscription: Subscription) {
        let Some(topic) = self.topics.get_mut(subscription.topic) else {
            return;
        };
        topic.subscribers.try_remove(subscription.slot);
        if topic.subscribers.is_empty() {
            self.by_name.remove(&topic.name);
            self.topics.remove(subscription.topic);
        }
    }

    /// The first subscriber of topic `key` in slot `from` or later, and its slot.
    pub(crate) fn next(&self, key: usize, from: usize) -> Option<(usize, ExchangeId)> {
        let subscribers = &self.topics.get(key)?.subscribers;
        // Slots of subscribers that have left are free, or reused.
        let last = subscribers.capacity();
        (from..last).find_map(|slot| subscribers.get(slot).map(|id| (slot, *id)))
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.by_name.is_empty() && self.topics.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(connection: u32) -> ExchangeId {
        ExchangeId {
            connection,
            sequence: u64::from(connection),
        }
    }

    fn subscribers(topics: &Topics, name: &[u8]) -> Vec<u32> {
        let Some(key) = topics.find(name) else {
            return Vec::new();
        };
        let next = |from: &mut usize| {
            let (slot, id) = topics.next(key, *from)?;
            *from = slot + 1;
            Some(id.connection())
        };
        let mut from = 0;
        std::iter::from_fn(|| next(&mut from)).collect()
    }

    #[test]
    fn each_subscriber_is_there_once_until_it_leaves() {
        let mut topics = Topics::default();
        let mut of = [Vec::new(), Vec::new(), Vec::new()];
        for (number, subscriptions) in of.iter_mut().enumerate() {
            for name in [b"a", b"b", b"a"] {
                let subscribed = topics.subscribe(id(number as u32), name.to_vec(), subscriptions);
                assert_eq!(subscribed, Ok(()));
            }
            assert_eq!(subscriptions.len(), 2);
        }
        assert_eq!(subscribers(&topics, b"a"), [0, 1, 2]);
        let [first, second, third] = &mut of;
        topics.unsubscribe(b"a", second);
        topics.unsubscribe(b"a", second);
        topics.unsubscribe(b"unknown", second);
        assert_eq!(subscribers(&topics, b"a"), [0, 2]);
        assert_eq!(subscribers(&topics, b"b"), [0, 1, 2]);
        for subscriptions in [first, second, third] {
            for subscription in subscriptions.drain(..) {
                topics.remove(subscription);
            }
        }
        assert!(topics.is_empty());
    }
}
