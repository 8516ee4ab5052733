//! Whether TLS with the server can succeed at all.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// So many refused certificates, or one for each connection, show that every one will be.
const REFUSED_MIN: u64 = 100;

/// What is known of the server's certificate.
#[derive(Default)]
pub(in crate::generator) struct Trust {
    /// A handshake was completed.
    is_accepted: AtomicBool,
    refused: AtomicU64,
    is_hopeless: AtomicBool,
    first_failure: OnceLock<String>,
}

impl Trust {
    /// A handshake was completed.
    pub(in crate::generator) fn accept(&self) {
        if !self.is_accepted.load(Ordering::Relaxed) {
            self.is_accepted.store(true, Ordering::Relaxed);
        }
    }

    /// TLS failed.
    pub(in crate::generator) fn note_failure(&self, reason: impl FnOnce() -> String) {
        self.first_failure.get_or_init(reason);
    }

    /// The certificate was refused on one of so many connections. Returns whether it always will be.
    pub(in crate::generator) fn refuse(&self, connections: u64) -> bool {
        let refused = self.refused.fetch_add(1, Ordering::Relaxed) + 1;
        let is_hopeless =
            refused >= connections.min(REFUSED_MIN) && !self.is_accepted.load(Ordering::Relaxed);
        if is_hopeless {
            self.is_hopeless.store(true, Ordering::Relaxed);
        }
        is_hopeless
    }

    /// Whether no handshake can succeed.
    pub(in crate::generator) fn is_hopeless(&self) -> bool {
        // Another thread may have completed one since.
        self.is_hopeless.load(Ordering::Relaxed) && !self.is_accepted.load(Ordering::Relaxed)
    }

    /// Why TLS failed first; empty if it did not.
    pub(in crate::generator) fn first_failure(&self) -> String {
        self.first_failure.get().cloned().unwrap_or_default()
    }
}
