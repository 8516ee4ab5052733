//! Responses of several connections that are sent one after the other.
//!
//! The application's code and the kernel's send path each need more than the processor's caches hold, so alternating between them evicts
//! both. Several calls followed by as many sends cost up to a tenth less (bench: keep-alive, asgi, wsgi). A response therefore waits for
//! the next tick of the clock, and for the call that runs then, unless something sends it earlier ([`Batch::send_now`]). Waiting gains
//! nothing when calls are slow, so after a slow call no response waits for some time.

mod exits;

use net::Sent;

use crate::id::ConnectionId;

pub(crate) use self::exits::{Exit, Exits};

/// More would gain little, and the first one waits for all others.
pub(crate) const RESPONSES_MAX: usize = 8;
/// A connection with more than this to send is flushed at once: waiting would gain nothing, and the copy costs. A batch of 24 short
/// responses waits: several sends in a row wake the peer once instead of once each (bench: deep).
const WAITING_BYTES_MAX: usize = 8192;

/// A response that has waited this long has waited for a slow call; others would too.
const SLOW_MS: u64 = 20;
/// How long no response waits after that.
const REST_MS: u64 = 1000;

/// What an application does after a response, while the response waits, is slow if it takes this long: more than the clock's resolution.
const SLOW_END_MS: u64 = 10;
/// How long no response waits for what follows it after that.
const END_REST_MS: u64 = 60_000;

/// Responses that have been written but not sent.
#[derive(Default)]
pub(crate) struct Batch {
    is_open: bool,
    /// A connection's input follows in this pass, so that there is something to wait for.
    is_followed: bool,
    /// Until then no response waits while its application goes on.
    ends_rest_until_ms: u64,
    bytes: Vec<u8>,
    /// The connections that the bytes belong to, in their order.
    waiting: Vec<Waiting>,
    /// Where the responses are sent if they do not wait for the end of the call.
    pub(crate) exits: Exits,
    began_ms: u64,
    rests_until_ms: u64,
}

/// One connection's part of the bytes.
#[derive(Clone, Copy)]
struct Waiting {
    connection: ConnectionId,
    /// Start of its unsent bytes.
    start: usize,
    end: usize,
    /// Bytes already sent.
    sent_bytes: usize,
    /// The rest cannot be sent.
    is_broken: bool,
}

/// What is left of a connection's response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Left {
    pub(crate) connection: ConnectionId,
    /// Bytes already sent.
    pub(crate) sent_bytes: usize,
    /// The rest could not be sent, and is lost.
    pub(crate) is_broken: bool,
}

impl Batch {
    /// Allows responses to wait from now on.
    pub(crate) fn open(&mut self) {
        self.is_open = true;
    }

    /// An event is served, and another connection's input follows in this pass or does not.
    #[inline]
    pub(crate) fn event_begins(&mut self, is_followed: bool) {
        self.is_followed = is_followed;
    }

    /// Whether a response of so many bytes is sent together with others, if it waits while its application goes on.
    pub(crate) fn has_company(&self, bytes: usize, now_ms: u64) -> bool {
        self.is_open
            && self.is_followed
            && bytes <= WAITING_BYTES_MAX
            && now_ms >= self.rests_until_ms.max(self.ends_rest_until_ms)
    }

    /// A response has waited from `since_ms` on for what its application did after it.
    pub(crate) fn has_waited_for_end(&mut self, since_ms: u64, now_ms: u64) {
        if now_ms.saturating_sub(since_ms) >= SLOW_END_MS {
            self.ends_rest_until_ms = now_ms + END_REST_MS;
        }
    }

    /// Whether responses may wait: it is sent later in this pass.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Takes what a connection has to send, if it may wait; `out` is empty then.
    #[inline]
    pub(crate) fn takes(
        &mut self,
        connection: ConnectionId,
        out: &mut Vec<u8>,
        now_ms: u64,
    ) -> bool {
        if !self.is_open || out.len() > WAITING_BYTES_MAX {
            return false;
        }
        if self.waiting.is_empty() {
            self.began_ms = now_ms;
            if now_ms < self.rests_until_ms {
                return false;
            }
        }
        let start = self.bytes.len();
        self.bytes.append(out);
        self.waiting.push(Waiting {
            connection,
            start,
            end: self.bytes.len(),
            sent_bytes: 0,
            is_broken: false,
        });
        true
    }

    /// Sends the waiting responses as far as the sockets accept them; the rest stays. Returns false if there is a rest.
    ///
    /// Cost: one system call per connection.
    #[cold]
    pub(crate) fn send_now(&mut self) -> bool {
        let mut has_left = true;
        for waiting in &mut self.waiting {
            let unsent = self.bytes.get(waiting.start..waiting.end);
            let unsent = unsent.unwrap_or_default();
            let Some(transport) = self.exits.transport(waiting.connection) else {
                continue;
            };
            if unsent.is_empty() {
                continue;
            }
            match transport.send(unsent) {
                Sent::Bytes(count) => {
                    waiting.start += count;
                    waiting.sent_bytes += count;
                }
                Sent::Broken(_) => {
                    waiting.start = waiting.end;
                    waiting.is_broken = true;
                }
            }
            has_left &= waiting.start == waiting.end;
        }
        has_left
    }

    /// Whether something of a connection waits here and will be sent before the batch is opened again.
    #[inline]
    pub(crate) fn holds(&self, connection: ConnectionId) -> bool {
        let is_its = |waiting: &Waiting| waiting.connection == connection;
        self.is_open && self.waiting.iter().any(is_its)
    }

    /// Whether it has to be sent now.
    #[inline]
    pub(crate) fn is_due(&mut self, now_ms: u64) -> bool {
        if self.waiting.is_empty() {
            return false;
        }
        if now_ms.saturating_sub(self.began_ms) >= SLOW_MS {
            self.rests_until_ms = now_ms + REST_MS;
        }
        self.waiting.len() >= RESPONSES_MAX || now_ms != self.began_ms
    }

    /// Closes the batch until it is opened again, and takes its `index`-th response: moves the unsent bytes into `out`.
    pub(crate) fn take_next(&mut self, index: usize, out: &mut Vec<u8>) -> Option<Left> {
        self.is_open = false;
        self.is_followed = false;
        let Some(waiting) = self.waiting.get_mut(index) else {
            self.waiting.clear();
            self.bytes.clear();
            return None;
        };
        let unsent = self.bytes.get(waiting.start..waiting.end);
        out.extend_from_slice(unsent.unwrap_or_default());
        // The end of another connection may send what is left here.
        waiting.start = waiting.end;
        Some(Left {
            connection: waiting.connection,
            sent_bytes: waiting.sent_bytes,
            is_broken: waiting.is_broken,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    use net::Transport;

    use super::*;

    const NOW_MS: u64 = 5000;

    fn id(key: u32) -> ConnectionId {
        ConnectionId { key, generation: 1 }
    }

    fn left(batch: &mut Batch) -> Vec<(u32, Vec<u8>)> {
        let leave = |index| {
            let mut out = Vec::new();
            let left = batch.take_next(index, &mut out)?;
            Some((left.connection.key, out))
        };
        (0..).map_while(leave).collect()
    }

    #[test]
    fn a_response_has_company_if_another_event_follows_unless_calls_are_slow() {
        let mut batch = Batch::default();
        assert!(!batch.has_company(9, NOW_MS));
        batch.open();
        assert!(!batch.has_company(9, NOW_MS));
        batch.event_begins(true);
        assert!(batch.has_company(WAITING_BYTES_MAX, NOW_MS));
        assert!(!batch.has_company(WAITING_BYTES_MAX + 1, NOW_MS));
        batch.event_begins(false);
        assert!(!batch.has_company(9, NOW_MS));
        batch.event_begins(true);
        assert!(batch.takes(id(1), &mut b"first".to_vec(), NOW_MS));
        let later_ms = NOW_MS + SLOW_MS;
        assert!(batch.is_due(later_ms));
        assert!(!batch.has_company(9, later_ms) && batch.has_company(9, later_ms + REST_MS));
        assert!(batch.take_next(0, &mut Vec::new()).is_some());
        batch.open();
        assert!(!batch.has_company(9, later_ms + REST_MS));
    }

    #[test]
    fn no_response_waits_for_its_end_for_a_minute_after_a_slow_one() {
        let mut batch = Batch::default();
        batch.open();
        batch.event_begins(true);
        batch.has_waited_for_end(NOW_MS, NOW_MS + SLOW_END_MS - 1);
        assert!(batch.has_company(9, NOW_MS + SLOW_END_MS));
        batch.has_waited_for_end(NOW_MS, NOW_MS + SLOW_END_MS);
        let until_ms = NOW_MS + SLOW_END_MS + END_REST_MS;
        assert!(!batch.has_company(9, until_ms - 1) && batch.has_company(9, until_ms));
    }

    #[test]
    fn a_full_batch_is_due_and_sent_in_order() {
        let mut batch = Batch::default();
        batch.open();
        for key in 0..RESPONSES_MAX as u32 {
            let mut out = vec![b'x'; key as usize + 1];
            assert!(batch.takes(id(key), &mut out, NOW_MS) && out.is_empty());
        }
        assert!(batch.is_due(NOW_MS));
        let expected = (0..8u32).map(|it| (it, vec![b'x'; it as usize + 1]));
        assert!(left(&mut batch).into_iter().eq(expected));
        assert!(!batch.is_due(NOW_MS));
    }

    #[test]
    fn after_a_slow_call_none_waits_for_some_time() {
        let mut batch = Batch::default();
        batch.open();
        assert!(batch.takes(id(1), &mut b"first".to_vec(), NOW_MS));
        let later_ms = NOW_MS + SLOW_MS;
        assert!(batch.is_due(later_ms));
        assert_eq!(left(&mut batch).len(), 1);
        batch.open();
        assert!(!batch.takes(id(2), &mut b"second".to_vec(), later_ms + REST_MS - 1));
        assert!(batch.takes(id(3), &mut b"third".to_vec(), later_ms + REST_MS));
    }

    #[test]
    fn the_first_response_waits_no_longer_than_to_the_next_tick() {
        let mut batch = Batch::default();
        batch.open();
        assert!(batch.takes(id(7), &mut b"response".to_vec(), NOW_MS));
        assert!(!batch.is_due(NOW_MS));
        assert!(batch.is_due(NOW_MS + 1));
        assert_eq!(left(&mut batch), [(7, b"response".to_vec())]);
    }

    #[test]
    fn long_responses_and_those_outside_of_a_pass_do_not_wait() {
        let mut batch = Batch::default();
        assert!(!batch.takes(id(1), &mut b"outside".to_vec(), NOW_MS));
        batch.open();
        let mut long = vec![b'x'; WAITING_BYTES_MAX + 1];
        assert!(!batch.takes(id(1), &mut long, NOW_MS) && long.len() == WAITING_BYTES_MAX + 1);
        assert!(left(&mut batch).is_empty());
        assert!(!batch.takes(id(1), &mut b"closed".to_vec(), NOW_MS));
    }

    #[test]
    fn what_was_sent_during_a_call_is_not_sent_again() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut batch = Batch::default();
        let transport = Transport::from_blocking(theirs.into()).unwrap();
        batch
            .exits
            .open(id(1), Arc::new(Exit::new(transport, id(1), false)));
        batch.open();
        assert!(batch.takes(id(1), &mut b"response".to_vec(), NOW_MS));
        // An earlier connection in the same slot.
        let gone = ConnectionId {
            generation: 0,
            ..id(1)
        };
        assert!(batch.takes(gone, &mut b"another's".to_vec(), NOW_MS));
        assert!(batch.send_now());
        let mut arrived = [0; 64];
        let count = (&ours).read(&mut arrived).unwrap();
        assert_eq!(&arrived[..count], b"response");
        let mut out = Vec::new();
        let sent = Left {
            connection: id(1),
            sent_bytes: 8,
            is_broken: false,
        };
        assert_eq!(batch.take_next(0, &mut out), Some(sent));
        assert!(out.is_empty());
    }

    #[test]
    fn what_was_taken_is_not_sent_again() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut batch = Batch::default();
        let transport = Transport::from_blocking(theirs.into()).unwrap();
        batch
            .exits
            .open(id(1), Arc::new(Exit::new(transport, id(1), false)));
        batch.open();
        assert!(batch.takes(id(1), &mut b"response".to_vec(), NOW_MS));
        let mut out = Vec::new();
        assert!(batch.take_next(0, &mut out).is_some());
        assert_eq!(out, b"response");
        assert!(batch.send_now());
        assert!((&ours).read(&mut [0; 64]).is_err(), "it was sent twice");
    }

    #[test]
    fn what_cannot_be_sent_is_lost_with_its_connection() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut batch = Batch::default();
        let transport = Transport::from_blocking(theirs.into()).unwrap();
        batch
            .exits
            .open(id(1), Arc::new(Exit::new(transport, id(1), false)));
        batch.open();
        assert!(batch.takes(id(1), &mut b"response".to_vec(), NOW_MS));
        drop(ours);
        assert!(batch.send_now());
        let mut out = Vec::new();
        let lost = Left {
            connection: id(1),
            sent_bytes: 0,
            is_broken: true,
        };
        assert_eq!(batch.take_next(0, &mut out), Some(lost));
        assert!(out.is_empty());
    }

    #[test]
    fn what_the_socket_does_not_take_keeps_its_place() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let transport = Transport::from_blocking(theirs.into()).unwrap();
        let transport = Arc::new(Exit::new(transport, id(1), false));
        while matches!(transport.send(&[b'.'; 65536]), Sent::Bytes(65536)) {}
        while matches!(transport.send(b"."), Sent::Bytes(1)) {}
        let mut batch = Batch::default();
        batch.exits.open(id(1), Arc::clone(&transport));
        batch.open();
        assert!(batch.takes(id(1), &mut b"response".to_vec(), NOW_MS));
        assert!(!batch.send_now());
        batch.exits.close(id(1));
        drop((ours, transport));
        assert_eq!(left(&mut batch), [(1, b"response".to_vec())]);
    }
}
