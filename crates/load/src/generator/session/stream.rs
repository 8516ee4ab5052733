//! The streams of a connection that have no complete response yet.
//!
//! Streams end about in the order in which they began, so the place of one follows from its identifier: a lookup compares one number. A
//! stream that is still open when its place is needed again moves to a list, which is short because streams are limited.

use wire::h2::{ReceiveWindow, SendWindow};

use super::super::checker::Response;
use super::super::connection::Stamp;

/// A request and its response.
pub(super) struct Stream {
    /// Odd; 0: the place is free.
    pub(super) id: u32,
    pub(super) stamp: Stamp,
    pub(super) response: Response,
    /// How much of the request's content is written.
    pub(super) written: usize,
    /// The request is not completely written.
    pub(super) is_writing: bool,
    /// How much content the server allows.
    pub(super) window: SendWindow,
    /// How much content the server is allowed.
    pub(super) received: ReceiveWindow,
}

/// The open streams of one connection.
pub(super) struct Streams {
    /// A power of two.
    places: Vec<Stream>,
    /// There are no more places than that.
    places_max: usize,
    strays: Vec<Stream>,
}

impl Stream {
    pub(super) fn vacant() -> Stream {
        Stream {
            id: 0,
            stamp: Stamp::ONE,
            response: Response::new(),
            written: 0,
            is_writing: false,
            window: SendWindow::new(0),
            received: ReceiveWindow::new(0),
        }
    }
}

impl Streams {
    /// For usually up to `depth` streams.
    pub(super) fn new(depth: u32) -> Streams {
        Streams {
            places: vec![Stream::vacant()],
            places_max: (depth as usize).saturating_mul(2).next_power_of_two(),
            strays: Vec::new(),
        }
    }

    #[inline]
    fn place(&self, id: u32) -> usize {
        (id >> 1) as usize & (self.places.len() - 1)
    }

    /// An open stream; `None`: it was not opened, or has ended.
    #[inline]
    pub(super) fn get(&mut self, id: u32) -> Option<&mut Stream> {
        let place = self.place(id);
        match self.places.get_mut(place) {
            Some(stream) if stream.id == id => Some(stream),
            _ => self.strays.iter_mut().find(|it| it.id == id),
        }
    }

    /// Opens a stream and returns its vacant record.
    #[inline]
    pub(super) fn open(&mut self, id: u32) -> Option<&mut Stream> {
        let mut place = self.place(id);
        while self.is_taken(place) && self.places.len() < self.places_max {
            self.grow();
            place = self.place(id);
        }
        let stream = self.places.get_mut(place)?;
        if stream.id != 0 {
            self.strays
                .push(std::mem::replace(stream, Stream::vacant()));
        }
        stream.id = id;
        Some(stream)
    }

    #[inline]
    fn is_taken(&self, place: usize) -> bool {
        self.places.get(place).is_some_and(|it| it.id != 0)
    }

    /// Doubles the number of places. Streams that had different ones still do.
    #[cold]
    fn grow(&mut self) {
        let doubled = 2 * self.places.len();
        let streams = std::mem::take(&mut self.places);
        self.places.resize_with(doubled, Stream::vacant);
        for stream in streams.into_iter().filter(|it| it.id != 0) {
            let place = self.place(stream.id);
            if let Some(free) = self.places.get_mut(place) {
                *free = stream;
            }
        }
    }

    /// Forgets a stream that has ended.
    #[inline]
    pub(super) fn close(&mut self, id: u32) {
        let place = self.place(id);
        match self.places.get_mut(place) {
            Some(stream) if stream.id == id => stream.id = 0,
            _ => self.strays.retain(|it| it.id != id),
        }
    }

    /// All that are open, in no order.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        let all = self.places.iter_mut().chain(&mut self.strays);
        all.filter(|it| it.id != 0)
    }

    /// The same, without changing them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Stream> {
        let all = self.places.iter().chain(&self.strays);
        all.filter(|it| it.id != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_found_until_it_ends_however_many_begin_meanwhile() {
        let mut streams = Streams::new(3);
        let slow = [1, 7];
        for id in (1..2000).step_by(2) {
            streams.open(id).expect("a place").stamp.position = id;
            if !slow.contains(&id) {
                streams.close(id);
                assert!(streams.get(id).is_none());
            }
            for known in slow.iter().filter(|it| **it <= id) {
                assert_eq!(streams.get(*known).expect("open").stamp.position, *known);
            }
        }
        let mut open: Vec<u32> = streams.iter().map(|it| it.id).collect();
        open.sort_unstable();
        assert_eq!(open, slow);
        streams.close(1);
        streams.close(7);
        assert_eq!(streams.iter().count() + streams.strays.len(), 0);
    }
}
