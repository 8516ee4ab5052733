//! Taking in connections, and where that stops: for a while, or for good.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use net::{Accepted, Listener, Peer, Token};

use super::{LISTENER, Worker};
use crate::app::App;
use crate::link::Fate;

/// Connections accepted from one listener before the others have their turn.
const ACCEPTS_PER_PASS: usize = 256;
/// How long a pass accepts. The first request of a connection is served at once, and an application that takes its time over each must not
/// keep the other connections, the timers and the loop waiting for all of them.
const ACCEPTING_MAX: Duration = Duration::from_millis(10);
/// How long accepting rests when the process has no descriptor left.
const EXHAUSTED_MS: u64 = 250;
/// Reminder keys of listeners; connections count up from 0.
pub(super) const LISTENER_KEY: u32 = u32::MAX - 1024;

pub(super) struct ListenerSlot {
    listener: Listener,
    /// The address every connection of it reaches; `None` when it listens on all addresses and each has to be asked.
    local: Option<Peer>,
    is_paused: bool,
}

impl<A: App> Worker<A> {
    /// Accepts connections from a listening socket from now on.
    ///
    /// # Errors
    /// When it cannot be watched.
    pub fn add_listener(&mut self, socket: OwnedFd) -> io::Result<()> {
        let listener = Listener::new(socket)?;
        self.poller
            .add_shared(&listener, LISTENER | self.listeners.len() as Token)?;
        let local = match listener.local() {
            Peer::Internet(address) if address.ip().is_unspecified() => None,
            local => Some(local),
        };
        self.listeners.push(ListenerSlot {
            listener,
            local,
            is_paused: false,
        });
        Ok(())
    }

    /// Stops accepting, and lets every connection end with its next response, an idle one soon.
    pub fn drain(&mut self) {
        self.context.draining_since_ms = Some(self.context.clock.tick());
        // Whoever is connected already, as far as its client knows, is served.
        for index in 0..self.listeners.len() {
            self.accept(index, Duration::MAX);
        }
        self.stop_accepting();
        for key in self.keys() {
            // Its deadline is another one now.
            self.with_connection(key, |_, _, _, _| Fate::Open);
        }
    }

    pub(super) fn stop_accepting(&mut self) {
        for slot in self.listeners.drain(..) {
            // Closing our copy is not enough: the socket is shared with other processes.
            let _ = self.poller.remove(&slot.listener);
        }
    }

    pub(super) fn accept_from(&mut self, index: usize) {
        self.accept(index, ACCEPTING_MAX);
    }

    fn accept(&mut self, index: usize, most: Duration) {
        let began = Instant::now();
        for _ in 0..ACCEPTS_PER_PASS {
            let Some(slot) = self.listeners.get_mut(index) else {
                return;
            };
            match slot.listener.accept() {
                Accepted::Connection(transport, client) => {
                    let server = slot.local.unwrap_or_else(|| transport.local());
                    self.open(transport, client, server);
                    if began.elapsed() >= most {
                        // The listener is reported again.
                        return;
                    }
                }
                Accepted::None => return,
                Accepted::Lost => {}
                Accepted::Exhausted(_) => {
                    slot.is_paused = self.poller.remove(&slot.listener).is_ok();
                    let again_ms = self.context.clock.now_ms() + EXHAUSTED_MS;
                    self.timers.remind(LISTENER_KEY + index as u32, again_ms);
                    return;
                }
            }
        }
    }

    /// A listener that rested is watched again.
    pub(super) fn rest_is_over(&mut self, index: usize) {
        if let Some(slot) = self.listeners.get_mut(index)
            && std::mem::take(&mut slot.is_paused)
        {
            slot.is_paused = self
                .poller
                .add_shared(&slot.listener, LISTENER | index as Token)
                .is_err();
        }
    }
}
