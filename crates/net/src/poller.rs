//! Readiness notification: a few functions around epoll. All epoll calls of the project are in this file.
//!
//! Listeners and foreign descriptors are watched level-triggered: no event can be missed. Connections may be watched edge-triggered, which
//! saves the kernel a second check of each; the caller must then rearm a descriptor whenever it left something unread.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::OnceLock;

use rustix::event::{Timespec, epoll};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

/// The owner's identifier of a descriptor.
pub type Token = u64;

/// What a descriptor is watched for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Interest {
    /// Report when it can be read.
    pub read: bool,
    /// Report when it can be written.
    pub write: bool,
    /// Report when the peer will send no more, even if nothing is read; for edge-triggered descriptors.
    pub end: bool,
}

impl Interest {
    /// Report only errors and hang-up, which the kernel always reports.
    pub const NONE: Interest = Interest {
        read: false,
        write: false,
        end: false,
    };
    /// Report when it can be read.
    pub const READ: Interest = Interest {
        read: true,
        write: false,
        end: false,
    };

    fn edge_flags(self) -> epoll::EventFlags {
        let end = if self.read || self.end {
            epoll::EventFlags::RDHUP
        } else {
            epoll::EventFlags::empty()
        };
        self.flags() | end | epoll::EventFlags::ET
    }

    fn flags(self) -> epoll::EventFlags {
        let mut flags = epoll::EventFlags::empty();
        if self.read {
            flags |= epoll::EventFlags::IN;
        }
        if self.write {
            flags |= epoll::EventFlags::OUT;
        }
        flags
    }
}

/// What happened to one descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Readiness {
    /// The token it was added with.
    pub token: Token,
    // One word: a struct of booleans is copied bit by bit.
    flags: epoll::EventFlags,
}

impl Readiness {
    /// It can be read (end of input included).
    #[inline]
    pub fn is_readable(&self) -> bool {
        self.flags.contains(epoll::EventFlags::IN)
    }

    /// It can be written.
    #[inline]
    pub fn is_writable(&self) -> bool {
        self.flags.contains(epoll::EventFlags::OUT)
    }

    /// The peer will send no more. Reported for edge-triggered descriptors only.
    #[inline]
    pub fn has_ended(&self) -> bool {
        self.flags.contains(epoll::EventFlags::RDHUP)
    }

    /// Both directions are gone, or it is in error.
    #[inline]
    pub fn is_hung_up(&self) -> bool {
        self.flags
            .intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR)
    }
}

/// The results of one wait, in memory that is reused.
pub struct Events {
    ready: Vec<Readiness>,
}

/// Maximum descriptors reported by one wait; the next one reports more.
const EVENTS_MAX: usize = 256;

impl Default for Events {
    /// No results yet, and capacity for those of one wait.
    fn default() -> Events {
        Events {
            ready: Vec::with_capacity(EVENTS_MAX),
        }
    }
}

impl Events {
    /// The `index`-th result of the last wait.
    pub fn get(&self, index: usize) -> Option<Readiness> {
        self.ready.get(index).copied()
    }

    /// Whether the last wait may have left some out.
    pub fn is_full(&self) -> bool {
        self.ready.len() >= EVENTS_MAX
    }

    /// The results of the last wait.
    pub fn iter(&self) -> impl Iterator<Item = &Readiness> {
        self.ready.iter()
    }
}

impl From<&epoll::Event> for Readiness {
    fn from(event: &epoll::Event) -> Readiness {
        // The kernel's struct is packed: copy its fields before using them.
        let epoll::Event { flags, data } = *event;
        Readiness {
            token: data.u64(),
            flags,
        }
    }
}

/// One epoll set.
pub struct Poller {
    epoll: OwnedFd,
    /// Makes the set itself readable when a deadline is near, for a reactor whose set a foreign event loop watches.
    alarm: OnceLock<OwnedFd>,
}

/// The token of the alarm; its readiness only means that the wait is over.
const ALARM: Token = Token::MAX;

/// What disarms the alarm.
const NEVER: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

impl Poller {
    /// An empty set.
    ///
    /// # Errors
    /// If the process or the system has no descriptor left.
    pub fn new() -> io::Result<Poller> {
        Ok(Poller {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            alarm: OnceLock::new(),
        })
    }

    /// Watches `source`.
    ///
    /// # Errors
    /// If it is watched already, cannot be watched (a plain file), or the system's limit of watches is reached.
    pub fn add(&self, source: impl AsFd, token: Token, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(
            &self.epoll,
            source,
            epoll::EventData::new_u64(token),
            interest.flags(),
        )?)
    }

    /// Watches a listening socket that other processes watch too: one of them is woken, not all.
    ///
    /// # Errors
    /// As [`Poller::add`].
    pub fn add_shared(&self, source: impl AsFd, token: Token) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE;
        Ok(epoll::add(
            &self.epoll,
            source,
            epoll::EventData::new_u64(token),
            flags,
        )?)
    }

    /// Watches `source` edge-triggered: it is reported when something new happens, not as long as there is something to do. Saves the
    /// kernel a second check of every reported descriptor.
    ///
    /// # Errors
    /// As [`Poller::add`].
    pub fn add_edge(&self, source: impl AsFd, token: Token, interest: Interest) -> io::Result<()> {
        let data = epoll::EventData::new_u64(token);
        Ok(epoll::add(
            &self.epoll,
            source,
            data,
            interest.edge_flags(),
        )?)
    }

    /// Changes what `source` is watched for edge-triggered. What is ready now is reported once more, even if nothing is changed.
    ///
    /// # Errors
    /// If it is not watched.
    pub fn modify_edge(
        &self,
        source: impl AsFd,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        let data = epoll::EventData::new_u64(token);
        Ok(epoll::modify(
            &self.epoll,
            source,
            data,
            interest.edge_flags(),
        )?)
    }

    /// Changes what `source` is watched for.
    ///
    /// # Errors
    /// If it is not watched.
    pub fn modify(&self, source: impl AsFd, token: Token, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(
            &self.epoll,
            source,
            epoll::EventData::new_u64(token),
            interest.flags(),
        )?)
    }

    /// Stops watching `source`. Closing a descriptor does the same unless it was duplicated.
    ///
    /// # Errors
    /// If it is not watched.
    pub fn remove(&self, source: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, source)?)
    }

    /// Makes the set readable in `wait_ms`, once (`None`: not before another event does).
    ///
    /// # Errors
    /// If no timer descriptor can be created.
    pub fn set_alarm(&self, wait_ms: Option<u64>) -> io::Result<()> {
        // Zero would disarm it.
        let wait = wait_ms.map_or(NEVER, |ms| timespec(ms.max(1)));
        let watch = |alarm: &OwnedFd| self.add(alarm, ALARM, Interest::READ);
        self.arm(TimerfdTimerFlags::empty(), wait, watch)
    }

    /// Ends one wait at a time of [`crate::precise_ns`] (`None`: not before another event does). A set has either this kind of alarm or the
    /// other.
    ///
    /// # Errors
    /// If no timer descriptor can be created.
    pub fn set_alarm_at(&self, at_ns: Option<u64>) -> io::Result<()> {
        let at = at_ns.map_or(NEVER, |ns| Timespec {
            tv_sec: i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (ns.max(1) % 1_000_000_000) as _,
        });
        let watch = |alarm: &OwnedFd| self.add_edge(alarm, ALARM, Interest::READ);
        self.arm(TimerfdTimerFlags::ABSTIME, at, watch)
    }

    fn arm(
        &self,
        flags: TimerfdTimerFlags,
        it_value: Timespec,
        watch: impl FnOnce(&OwnedFd) -> io::Result<()>,
    ) -> io::Result<()> {
        let alarm = match self.alarm.get() {
            Some(alarm) => alarm,
            None => {
                let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
                let alarm = timerfd_create(TimerfdClockId::Monotonic, flags)?;
                watch(&alarm)?;
                self.alarm.get_or_init(|| alarm)
            }
        };
        let it_interval = NEVER;
        timerfd_settime(
            alarm,
            flags,
            &Itimerspec {
                it_interval,
                it_value,
            },
        )?;
        Ok(())
    }

    /// Waits until something is ready, `timeout_ms` have passed (`None`: no limit), or a signal arrives (nothing is ready then).
    ///
    /// # Errors
    /// If the set itself is broken; never for an interruption.
    pub fn wait(&self, events: &mut Events, timeout_ms: Option<u64>) -> io::Result<Interrupted> {
        let timeout = timeout_ms.map(timespec);
        events.ready.clear();
        let mut list = [MaybeUninit::uninit(); EVENTS_MAX];
        match epoll::wait(&self.epoll, &mut list, timeout.as_ref()) {
            Ok((ready, _)) => {
                events.ready.extend(ready.iter().map(Readiness::from));
                Ok(Interrupted(false))
            }
            Err(rustix::io::Errno::INTR) => Ok(Interrupted(true)),
            Err(error) => Err(error.into()),
        }
    }
}

fn timespec(ms: u64) -> Timespec {
    let tv_sec = i64::try_from(ms / 1000).unwrap_or(i64::MAX);
    Timespec {
        tv_sec,
        tv_nsec: ((ms % 1000) * 1_000_000) as _,
    }
}

/// Whether a signal interrupted a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interrupted(pub bool);

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl AsRawFd for Poller {
    fn as_raw_fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::precise_ns;

    #[test]
    fn an_alarm_at_a_time_ends_one_wait_not_before() {
        let poller = Poller::new().unwrap();
        let mut events = Events::default();
        for wait_ns in [0, 300_000, 3_000_000] {
            let at_ns = precise_ns() + wait_ns;
            poller.set_alarm_at(Some(at_ns)).unwrap();
            // This would block forever if the alarm were lost.
            poller.wait(&mut events, None).unwrap();
            assert!(precise_ns() >= at_ns);
            poller.wait(&mut events, Some(0)).unwrap();
            assert_eq!(events.iter().count(), 0);
        }
        poller.set_alarm_at(Some(precise_ns() + 1_000_000)).unwrap();
        poller.set_alarm_at(None).unwrap();
        poller.wait(&mut events, Some(3)).unwrap();
        assert_eq!(events.iter().count(), 0);
    }
}
