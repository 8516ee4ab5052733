//! A server with a client that uses HTTP/2, and time that a test decides.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use server::Config;

use super::Server;
use super::h2::H2Client;

/// A deadline is noticed so much later at most.
pub(crate) const TICK_MS: u64 = 300;

/// A server and one client.
pub(crate) struct Connected {
    pub(crate) server: Server,
    pub(crate) client: H2Client,
    pub(crate) clock: Arc<AtomicU64>,
}

impl Connected {
    pub(crate) fn new() -> Connected {
        Connected::with(|_| ())
    }

    pub(crate) fn with(set: impl FnOnce(&mut Config)) -> Connected {
        let mut it = Connected::unsettled(set);
        it.client.send(usize::MAX);
        it.server.settle();
        it.client.receive();
        it
    }

    /// A client that has neither sent nor read anything.
    pub(crate) fn unsettled(set: impl FnOnce(&mut Config)) -> Connected {
        let (mut server, clock) = Server::with_manual_clock(|config| {
            config.accepts_prior_knowledge = true;
            set(config);
        });
        let client = H2Client::new(server.connect());
        Connected {
            server,
            client,
            clock,
        }
    }

    /// Sends what is written, and reads what comes.
    pub(crate) fn settle(&mut self) {
        self.client.send(usize::MAX);
        self.server.settle();
        self.client.receive();
        // Acknowledgements.
        self.client.send(usize::MAX);
        self.server.settle();
        self.client.receive();
    }

    /// Lets time pass, deadline by deadline.
    pub(crate) fn advance(&mut self, ms: u64) {
        let end_ms = self.clock.load(Ordering::Relaxed) + ms;
        loop {
            let wait_ms = self.server.worker.before_wait().unwrap_or(u64::MAX);
            let now_ms = self.clock.load(Ordering::Relaxed);
            let step_ms = wait_ms.max(1).min(end_ms - now_ms);
            self.clock.fetch_add(step_ms, Ordering::Relaxed);
            self.server.pass();
            if now_ms + step_ms >= end_ms {
                break;
            }
        }
        self.server.settle();
        self.client.receive();
    }

    pub(crate) fn status(&self, stream: u32) -> u16 {
        self.client.streams[&stream].status
    }
}
