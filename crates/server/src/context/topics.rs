//! Which WebSockets subscribe to which topic. The subscribers of a topic are contiguous, so that a publication reaches them without looking at
//! places of those that have left. Subscribing and unsubscribing take constant time, so that ten thousand subscribers may leave at once, also
//! during a publication.

use std::collections::HashMap;

use net::memory::{NoMemory, check_growth, copy, reserve_entry};
use slab::Slab;

use crate::id::ExchangeId;

/// One subscription, as its WebSocket remembers it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Subscription {
    topic: usize,
    /// Where its topic notes the place of the subscriber.
    key: usize,
}

struct Subscriber {
    id: ExchangeId,
    /// That of its [`Subscription`].
    key: usize,
}

struct Topic {
    name: Vec<u8>,
    subscribers: Vec<Subscriber>,
    /// The places of the subscribers, by their keys: another subscriber takes the place of one that leaves.
    places: Slab<usize>,
    /// The publication that is under way has reached all subscribers from this place on.
    reached: usize,
}

/// The topics that have subscribers.
#[derive(Default)]
pub(crate) struct Topics {
    by_name: HashMap<Vec<u8>, usize>,
    topics: Slab<Topic>,
}

impl Topic {
    /// Removes the subscriber with that key, and fills its place.
    fn remove(&mut self, key: usize) {
        let Some(place) = self.places.try_remove(key) else {
            return;
        };
        // The last one that a publication has not reached takes the place of one that it has not reached either.
        let mut free = place;
        if place < self.reached {
            self.reached -= 1;
            self.exchange(place, self.reached);
            free = self.reached;
        }
        let last = self.subscribers.len().saturating_sub(1);
        self.exchange(free, last);
        self.subscribers.pop();
    }

    /// Exchanges two subscribers, and notes their places.
    fn exchange(&mut self, first: usize, second: usize) {
        if first != second {
            self.subscribers.swap(first, second);
        }
        for place in [first, second] {
            if let Some(subscriber) = self.subscribers.get(place)
                && let Some(noted) = self.places.get_mut(subscriber.key)
            {
                *noted = place;
            }
        }
    }
}

impl Topics {
    fn find(&self, name: &[u8]) -> Option<usize> {
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
        let topic = match found {
            Some(topic) => topic,
            None => self.add(name)?,
        };
        if let Some(of) = self.topics.get_mut(topic) {
            check_growth::<(usize, usize)>(of.places.len(), of.places.capacity())?;
            reserve_entry(&mut of.subscribers)?;
            let key = of.places.insert(of.subscribers.len());
            of.subscribers.push(Subscriber { id, key });
            subscriptions.push(Subscription { topic, key });
        }
        Ok(())
    }

    /// Adds a topic, whose first subscriber follows. The first of a topic always has a place: its memory is left here.
    fn add(&mut self, name: Vec<u8>) -> Result<usize, NoMemory> {
        check_growth::<Topic>(self.topics.len(), self.topics.capacity())?;
        check_growth::<(Vec<u8>, usize)>(self.by_name.len(), self.by_name.capacity())?;
        let key = self.topics.insert(Topic {
            name: copy(&name)?,
            subscribers: Vec::with_capacity(1),
            places: Slab::with_capacity(1),
            reached: 0,
        });
        self.by_name.insert(name, key);
        Ok(key)
    }

    /// Removes a subscriber, if it is one.
    pub(crate) fn unsubscribe(&mut self, name: &[u8], subscriptions: &mut Vec<Subscription>) {
        let topic = self.find(name);
        let place = subscriptions.iter().position(|it| Some(it.topic) == topic);
        if let Some(place) = place {
            self.remove(subscriptions.swap_remove(place));
        }
    }

    /// Removes a subscriber from a topic.
    pub(crate) fn remove(&mut self, Subscription { topic, key }: Subscription) {
        let Some(of) = self.topics.get_mut(topic) else {
            return;
        };
        of.remove(key);
        if of.subscribers.is_empty() {
            self.by_name.remove(&of.name);
            self.topics.remove(topic);
        }
    }

    /// Starts a publication. Returns the key of the topic, if that has subscribers.
    pub(crate) fn publish(&mut self, name: &[u8]) -> Option<usize> {
        let key = self.find(name)?;
        let topic = self.topics.get_mut(key)?;
        topic.reached = topic.subscribers.len();
        Some(key)
    }

    /// The next subscriber that the publication reaches: each that was there when it started and has not left, once.
    #[inline]
    pub(crate) fn next(&mut self, key: usize) -> Option<ExchangeId> {
        let topic = self.topics.get_mut(key)?;
        topic.reached = topic.reached.checked_sub(1)?;
        let next = topic.subscribers.get(topic.reached);
        next.map(|subscriber| subscriber.id)
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.by_name.is_empty() && self.topics.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(connection: usize) -> ExchangeId {
        ExchangeId {
            connection: connection as u32,
            sequence: connection as u64,
        }
    }

    /// Those that a publication reaches, in the order of their numbers. After each of them, `leave` may remove some.
    fn reached(
        topics: &mut Topics,
        name: &[u8],
        mut leave: impl FnMut(&mut Topics, u32),
    ) -> Vec<u32> {
        let Some(key) = topics.publish(name) else {
            return Vec::new();
        };
        let mut reached = Vec::new();
        while let Some(id) = topics.next(key) {
            reached.push(id.connection());
            leave(topics, id.connection());
        }
        reached.sort_unstable();
        reached
    }

    fn subscribers(topics: &mut Topics, name: &[u8]) -> Vec<u32> {
        reached(topics, name, |_, _| ())
    }

    fn subscribe(topics: &mut Topics, number: usize, name: &[u8], of: &mut Vec<Subscription>) {
        assert_eq!(topics.subscribe(id(number), name.to_vec(), of), Ok(()));
    }

    #[test]
    fn each_subscriber_is_there_once_until_it_leaves() {
        let mut topics = Topics::default();
        let mut of = [Vec::new(), Vec::new(), Vec::new()];
        for (number, subscriptions) in of.iter_mut().enumerate() {
            for name in [b"a", b"b", b"a"] {
                subscribe(&mut topics, number, name, subscriptions);
            }
            assert_eq!(subscriptions.len(), 2);
        }
        assert_eq!(subscribers(&mut topics, b"a"), [0, 1, 2]);
        let [first, second, third] = &mut of;
        topics.unsubscribe(b"a", second);
        topics.unsubscribe(b"a", second);
        topics.unsubscribe(b"unknown", second);
        assert_eq!(subscribers(&mut topics, b"a"), [0, 2]);
        assert_eq!(subscribers(&mut topics, b"b"), [0, 1, 2]);
        for subscriptions in [first, second, third] {
            for subscription in subscriptions.drain(..) {
                topics.remove(subscription);
            }
        }
        assert!(topics.is_empty());
    }

    #[test]
    fn a_publication_looks_at_no_place_of_those_that_have_left() {
        let mut topics = Topics::default();
        let mut of: Vec<Vec<Subscription>> = vec![Vec::new(); 10_000];
        for (number, subscriptions) in of.iter_mut().enumerate() {
            subscribe(&mut topics, number, b"a", subscriptions);
        }
        for (number, subscriptions) in of.iter_mut().enumerate() {
            if number % 4000 != 1000 {
                topics.unsubscribe(b"a", subscriptions);
            }
        }
        let topic = &topics.topics[topics.by_name[&b"a"[..]]];
        assert_eq!((topic.subscribers.len(), topic.places.len()), (3, 3));
        assert_eq!(subscribers(&mut topics, b"a"), [1000, 5000, 9000]);
    }

    /// Any of them may leave after any other was reached, and all others are reached once.
    #[test]
    fn those_that_leave_during_a_publication_change_nothing_for_others() {
        const COUNT: usize = 6;
        for sets in 0..1_u32 << COUNT {
            for at in 0..COUNT as u32 {
                let mut topics = Topics::default();
                let mut of: Vec<Vec<Subscription>> = vec![Vec::new(); COUNT];
                for (number, subscriptions) in of.iter_mut().enumerate() {
                    subscribe(&mut topics, number, b"a", subscriptions);
                }
                let leaves = |number: u32| sets & 1 << number != 0;
                let mut before = Vec::new();
                let mut count = 0;
                let reached = reached(&mut topics, b"a", |topics, number| {
                    before.push(number);
                    count += 1;
                    if count == at + 1 {
                        for number in (0..COUNT).filter(|number| leaves(*number as u32)) {
                            topics.unsubscribe(b"a", &mut of[number]);
                        }
                    }
                });
                let expected = |number: &u32| {
                    let was_before = before.iter().take(at as usize + 1).any(|it| it == number);
                    was_before || !leaves(*number)
                };
                let expected: Vec<u32> = (0..COUNT as u32).filter(expected).collect();
                assert_eq!(reached, expected, "{sets:b} leave after {at}");
                let left: Vec<u32> = (0..COUNT as u32).filter(|it| !leaves(*it)).collect();
                assert_eq!(subscribers(&mut topics, b"a"), left);
            }
        }
    }
}
