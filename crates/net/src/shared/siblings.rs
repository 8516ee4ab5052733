//! Processes that accept from the same listening sockets, and which of them is to accept next.
//!
//! Nothing is handed over: a connection waits in the listening socket until one of them accepts it, so none is lost with a process. The
//! processes share how many connections each has. A process with clearly more than another *leaves* the next one and *asks* that process to
//! accept it. A process that was asked and has not responded in time is late (a slow call occupies it, or it has ended) and does not count
//! until it does.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::poller::{Poller, Token};
use crate::shared::{Words, shared};
use crate::waker::Waker;

/// Accepts nothing: it has not started to, has stopped, or has ended.
const ABSENT: u32 = 0;
/// Accepts.
const PRESENT: u32 = 1;
/// Participates, but can accept nothing now.
const FULL: u32 = 2;

/// How long a process that was asked to accept may take. Longer than a short call and than a time slice of another process. A client waits
/// this long if the process with the fewest connections is occupied by a slow call.
pub const LATE_AFTER_MS: u64 = 10;
/// Surplus of connections over another process from which the next one is left to that process: asking takes time too.
const SURPLUS_MAX: u32 = 1;
/// Plus one for this many connections of the other process.
const SURPLUS_SHARE: u32 = 8;

/// What the processes share. Created before they are forked.
#[derive(Clone)]
pub struct Siblings {
    words: &'static [Words],
    wakers: Arc<[Waker]>,
}

/// Whose turn it is to accept a connection that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// Ours, as far as is known.
    Ours,
    /// That of the sibling with this index.
    Sibling(usize),
    /// Not ours, and the processes that could take it are late: a call occupies them.
    Late,
}

impl Siblings {
    /// Shared state for `count` processes, none of which accepts yet.
    ///
    /// # Errors
    /// If the process or the system has no memory or descriptor left.
    pub fn new(count: usize) -> io::Result<Siblings> {
        let wakers: io::Result<Vec<Waker>> = (0..count).map(|_| Waker::new()).collect();
        Ok(Siblings {
            words: shared(count)?,
            wakers: wakers?.into(),
        })
    }

    /// Records that the process in this seat has ended.
    ///
    /// The others check for connections: the kernel wakes one process for a connection, and this one may have ended before it accepted.
    pub fn clear(&self, index: usize) {
        let Some(ended) = self.words.get(index) else {
            return;
        };
        ended.state.store(ABSENT, Release);
        for (other, waker) in self.words.iter().zip(&*self.wakers) {
            if other.state.load(Acquire) == PRESENT {
                waker.wake();
            }
        }
    }

    /// The seat of this process, which is absent until [`Seat::open`]; `None` if there are fewer.
    pub fn seat(&self, index: usize) -> Option<Seat> {
        let own = self.words.get(index)?;
        own.state.store(ABSENT, Release);
        own.open.store(0, Relaxed);
        own.asked_ms.store(0, Release);
        Some(Seat {
            siblings: self.clone(),
            own,
            index,
        })
    }
}

/// One process's place among its siblings. Dropping it has no effect: a child that the application forks has a copy of it too.
/// [`Siblings::clear`] records that the process has ended.
pub struct Seat {
    siblings: Siblings,
    own: &'static Words,
    index: usize,
}

impl Seat {
    /// Lets the siblings wake the thread waiting in `poller`, with this token, to ask this process to accept. Each time is reported once.
    ///
    /// # Errors
    /// As [`Poller::add`].
    pub fn watch(&self, poller: &Poller, token: Token) -> io::Result<()> {
        match self.siblings.wakers.get(self.index) {
            Some(waker) => waker.watch_as(poller, token),
            None => Ok(()),
        }
    }

    /// Records that this process accepts.
    pub fn open(&self) {
        self.own.state.store(PRESENT, Release);
    }

    /// Records that this process can accept nothing for a while.
    pub fn pause(&self) {
        self.own.state.store(FULL, Release);
    }

    /// Records that this process accepts no more.
    pub fn close(&self) {
        self.own.state.store(ABSENT, Release);
    }

    /// Records how many connections are open here.
    #[inline]
    pub fn set_open(&self, open: usize) {
        self.own
            .open
            .store(u32::try_from(open).unwrap_or(u32::MAX), Relaxed);
    }

    /// Which process is to accept a waiting connection, if none may have more than `most`. This one also if all are full.
    pub fn turn(&self, most: usize, now_ms: u64) -> Turn {
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        let own = match self.own.state.load(Relaxed) {
            FULL => u32::MAX,
            _ => self.own.open.load(Relaxed),
        };
        if own <= SURPLUS_MAX && own < most {
            return Turn::Ours;
        }
        let (mut least, mut are_full) = (None, true);
        for index in self.others() {
            let Some(open) = self.room_of(index, most) else {
                continue;
            };
            are_full = false;
            if !self.is_late(index, now_ms) && least.is_none_or(|(fewest, _)| open < fewest) {
                least = Some((open, index));
            }
        }
        match least {
            _ if are_full => Turn::Ours,
            Some((open, index))
                if own >= most || own.saturating_sub(open) > SURPLUS_MAX + open / SURPLUS_SHARE =>
            {
                Turn::Sibling(index)
            }
            None if own >= most => Turn::Late,
            _ => Turn::Ours,
        }
    }

    /// Asks a sibling to accept. It may find nothing, if another one was faster.
    ///
    /// Cost: a system call, if it has not been asked already.
    pub fn ask(&self, index: usize, now_ms: u64) {
        let (words, wakers) = (self.siblings.words, &self.siblings.wakers);
        let (Some(words), Some(waker)) = (words.get(index), wakers.get(index)) else {
            return;
        };
        if words
            .asked_ms
            .compare_exchange(0, now_ms.max(1), AcqRel, Relaxed)
            .is_ok()
        {
            waker.wake();
        }
    }

    /// Acknowledges a request: this process will check for connections next.
    pub fn acknowledge(&self) {
        self.own.asked_ms.swap(0, AcqRel);
    }

    /// The others, starting with the next one, so that none is always the first of equals.
    fn others(&self) -> impl Iterator<Item = usize> {
        (self.index + 1..self.siblings.words.len()).chain(0..self.index)
    }

    /// The number of connections of a process that accepts more; `None` for one that does not.
    fn room_of(&self, index: usize, most: u32) -> Option<u32> {
        let words = self.siblings.words.get(index)?;
        let open = words.open.load(Relaxed);
        (words.state.load(Acquire) == PRESENT && open < most).then_some(open)
    }

    fn is_late(&self, index: usize, now_ms: u64) -> bool {
        let words = self.siblings.words.get(index);
        let asked_ms = words.map_or(0, |words| words.asked_ms.load(Acquire));
        asked_ms != 0 && now_ms >= asked_ms + LATE_AFTER_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poller::Events;

    const MOST: usize = 1000;

    fn seats(open: &[usize]) -> Vec<Seat> {
        let siblings = Siblings::new(open.len()).unwrap();
        let seats: Vec<Seat> = (0..open.len())
            .map(|index| siblings.seat(index).unwrap())
            .collect();
        for (seat, open) in seats.iter().zip(open) {
            seat.set_open(*open);
            seat.open();
        }
        seats
    }

    #[test]
    fn a_process_with_clearly_more_leaves_the_next_to_the_one_with_the_fewest() {
        let cases = [
            (vec![0, 0, 0], Turn::Ours),
            (vec![1, 0, 0], Turn::Ours),
            (vec![2, 0, 0], Turn::Sibling(1)),
            (vec![2, 1, 1], Turn::Ours),
            (vec![5, 4, 2], Turn::Sibling(2)),
            (vec![90, 79, 80], Turn::Sibling(1)),
            (vec![89, 79, 80], Turn::Ours),
            (vec![91, 80, 80], Turn::Ours),
            (vec![999, 1000, 1000], Turn::Ours),
        ];
        for (open, turn) in cases {
            assert_eq!(seats(&open)[0].turn(MOST, 1), turn, "{open:?}");
        }
    }

    #[test]
    fn a_full_process_accepts_only_when_all_are_full() {
        let all = seats(&[3, 2, 3]);
        assert_eq!(all[0].turn(3, 1), Turn::Sibling(1));
        all[1].pause();
        assert_eq!(all[0].turn(3, 1), Turn::Ours);
        assert_eq!(all[1].turn(4, 1), Turn::Sibling(2));
        all[1].open();
        all[2].ask(1, 1);
        assert_eq!(all[0].turn(3, LATE_AFTER_MS), Turn::Sibling(1));
        // It is late, but not full: its clients wait rather than be refused.
        assert_eq!(all[0].turn(3, 1 + LATE_AFTER_MS), Turn::Late);
        all[1].set_open(3);
        assert_eq!(all[0].turn(3, 1 + LATE_AFTER_MS), Turn::Ours);
    }

    #[test]
    fn an_absent_or_late_process_does_not_count() {
        let all = seats(&[5, 0, 3]);
        assert_eq!(all[0].turn(MOST, 1), Turn::Sibling(1));
        all[0].ask(1, 1);
        assert_eq!(all[0].turn(MOST, 1 + LATE_AFTER_MS), Turn::Sibling(2));
        all[1].acknowledge();
        assert_eq!(all[0].turn(MOST, 1 + LATE_AFTER_MS), Turn::Sibling(1));
        all[1].close();
        assert_eq!(all[0].turn(MOST, 1), Turn::Sibling(2));
        all[0].siblings.clear(2);
        assert_eq!(all[0].turn(MOST, 1), Turn::Ours);
    }

    #[test]
    fn a_process_is_woken_once_until_it_acknowledges() {
        let all = seats(&[2, 0]);
        let (poller, mut events) = (Poller::new().unwrap(), Events::default());
        all[1].watch(&poller, 7).unwrap();
        for _ in 0..2 {
            all[0].ask(1, 1);
            all[0].ask(1, 2);
            // This would block forever if it were not woken.
            poller.wait(&mut events, None).unwrap();
            assert_eq!(events.get(0).map(|event| event.token), Some(7));
            all[0].ask(1, 3);
            poller.wait(&mut events, Some(0)).unwrap();
            assert_eq!(events.iter().count(), 0);
            all[1].acknowledge();
        }
    }

    #[test]
    fn the_end_of_a_process_wakes_those_that_accept() {
        let all = seats(&[1, 1]);
        let (poller, mut events) = (Poller::new().unwrap(), Events::default());
        all[1].watch(&poller, 7).unwrap();
        all[0].siblings.clear(0);
        // This would block forever if it were not woken.
        poller.wait(&mut events, None).unwrap();
        assert_eq!(events.get(0).map(|event| event.token), Some(7));
    }

    #[test]
    fn a_forked_process_and_this_one_see_the_same() {
        // A thread represents it: memory shared between processes is shared between threads too. tests/server/test_fairness.py forks.
        let siblings = Siblings::new(2).unwrap();
        let (ours, theirs) = (siblings.seat(0).unwrap(), siblings.seat(1).unwrap());
        ours.set_open(9);
        std::thread::spawn(move || {
            theirs.set_open(3);
            theirs.open();
        })
        .join()
        .unwrap();
        assert_eq!(ours.turn(MOST, 1), Turn::Sibling(1));
    }
}
