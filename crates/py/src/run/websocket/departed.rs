//! Messages of clients that have left: what the application has not taken of them is held for nobody's connection, and counted here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::run::exchanges::Exchanges;

/// What is counted, until this is dropped.
pub(super) struct Departed {
    exchanges: Arc<Exchanges>,
    bytes: u64,
}

impl Departed {
    /// Counts so many bytes.
    pub(super) fn new(exchanges: &Arc<Exchanges>, bytes: u64) -> Departed {
        exchanges.departed.0.fetch_add(bytes, Ordering::Relaxed);
        Departed {
            exchanges: Arc::clone(exchanges),
            bytes,
        }
    }
}

impl Drop for Departed {
    fn drop(&mut self) {
        let all = &self.exchanges.departed.0;
        all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The sum of all.
#[derive(Default)]
pub(crate) struct DepartedBytes(AtomicU64);

impl DepartedBytes {
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
