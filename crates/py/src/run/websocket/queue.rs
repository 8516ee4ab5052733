//! A queue that is empty or has one item most of the time: it holds the first item itself, and allocates only for more.

use std::collections::VecDeque;

/// Items in the order of their arrival.
pub(super) struct Queue<T> {
    first: Option<T>,
    /// Those after the first. Not empty only if there is a first one.
    #[allow(
        clippy::box_collection,
        reason = "most queues have none, and hold 8 bytes instead of 32"
    )]
    others: Option<Box<VecDeque<T>>>,
}

impl<T> Default for Queue<T> {
    fn default() -> Queue<T> {
        Queue {
            first: None,
            others: None,
        }
    }
}

impl<T> Queue<T> {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// How many items there are.
    #[inline]
    pub(super) fn len(&self) -> usize {
        let others = self.others.as_ref().map_or(0, |others| others.len());
        usize::from(self.first.is_some()) + others
    }

    /// Adds an item at the end.
    #[inline]
    pub(super) fn push(&mut self, item: T) {
        match self.first {
            None => self.first = Some(item),
            Some(_) => self.others.get_or_insert_default().push_back(item),
        }
    }

    /// Takes the first item.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        let next = self.others.as_mut().and_then(|others| others.pop_front());
        std::mem::replace(&mut self.first, next)
    }

    /// Frees what more items than one have needed, if they are gone.
    #[inline]
    pub(super) fn shrink(&mut self) {
        if self.others.as_ref().is_some_and(|others| others.is_empty()) {
            self.others = None;
        }
    }

    /// Puts earlier items before these.
    pub(super) fn prepend(&mut self, earlier: Queue<T>) {
        let mut later = std::mem::replace(self, earlier);
        while let Some(item) = later.pop() {
            self.push(item);
        }
    }

    /// The items that `keeps` returns true for.
    pub(super) fn filtered(mut self, mut keeps: impl FnMut(&T) -> bool) -> Queue<T> {
        let mut kept = Queue::default();
        while let Some(item) = self.pop() {
            if keeps(&item) {
                kept.push(item);
            }
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut queue: Queue<u8>) -> Vec<u8> {
        std::iter::from_fn(move || queue.pop()).collect()
    }

    #[test]
    fn items_keep_their_order() {
        let mut queue = Queue::default();
        assert_eq!(
            (queue.pop(), queue.len(), queue.is_empty()),
            (None, 0, true)
        );
        for item in 0..5 {
            queue.push(item);
        }
        assert_eq!((queue.pop(), queue.len()), (Some(0), 4));
        queue.push(5);
        let mut later = Queue::default();
        later.push(6);
        later.prepend(queue);
        assert_eq!(later.len(), 6);
        let even = later.filtered(|item| item % 2 == 0);
        assert_eq!(all(even), [2, 4, 6]);
    }

    #[test]
    fn one_item_needs_no_memory() {
        let mut queue = Queue::default();
        queue.push(0);
        assert!(queue.others.is_none());
        queue.push(1);
        assert_eq!((queue.pop(), queue.pop()), (Some(0), Some(1)));
        queue.shrink();
        assert!(queue.others.is_none() && queue.is_empty());
    }
}
