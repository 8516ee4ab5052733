//! Whether an application computes while something that it has written waits to be sent, as far as that is visible without the interpreter.
//!
//! What a call writes is sent when the call ends, and so are responses of other connections that wait for it in a batch; what tasks post is
//! sent by the next pass. Both may take long, so a thread checks from time to time (`server/flusher.rs`). This is the state that it checks,
//! which costs a store per call.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::Thread;

use net::Numbers;
use server::metrics::LONG_CALL_NS;

/// What calls record for the thread that watches.
#[derive(Default)]
pub(crate) struct Watch {
    /// Changes at the start of each call.
    beat: AtomicU32,
    /// Changes with each pass.
    passes: AtomicU32,
    /// The call has written something since it was last sent.
    has_written: AtomicBool,
    is_parked: AtomicBool,
    thread: OnceLock<Thread>,
    /// Where long calls are marked; none without metrics.
    numbers: OnceLock<Numbers>,
}

impl Watch {
    /// A call starts.
    #[inline]
    pub(crate) fn call_begins(&self) {
        let before = self.beat.load(Ordering::Relaxed);
        self.beat.store(before.wrapping_add(1), Ordering::Relaxed);
    }

    /// Nothing was written that may be sent.
    #[inline]
    pub(crate) fn has_written_nothing(&self) {
        self.has_written.store(false, Ordering::Relaxed);
    }

    /// The call has written something.
    #[inline]
    pub(crate) fn has_written(&self) {
        self.has_written.store(true, Ordering::Relaxed);
    }

    /// Something was posted.
    #[inline]
    pub(crate) fn has_posted(&self) {
        if self.is_parked.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    /// A pass starts, which takes the mail.
    #[inline]
    pub(crate) fn pass_begins(&self) {
        let passes = self.passes.load(Ordering::Relaxed);
        self.passes.store(passes.wrapping_add(1), Ordering::Relaxed);
    }

    /// The reactor has events to serve: calls may follow.
    pub(crate) fn calls_follow(&self) {
        self.pass_begins();
        self.has_posted();
    }

    #[cold]
    fn wake(&self) {
        self.is_parked.store(false, Ordering::Relaxed);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Sets the thread that watches.
    pub(crate) fn is_watched_by(&self, thread: Thread) {
        let _ = self.thread.set(thread);
    }

    /// Marks long calls from now on.
    pub(crate) fn measure(&self, numbers: Numbers) {
        let _ = self.numbers.set(numbers);
    }

    /// Whether long calls are marked.
    pub(crate) fn is_measured(&self) -> bool {
        self.numbers.get().is_some()
    }

    /// The call that is under way, and began after `after_ns` of [`net::precise_ns`], takes long.
    pub(crate) fn call_is_long(&self, after_ns: u64) {
        if let Some(numbers) = self.numbers.get() {
            numbers.set(LONG_CALL_NS, after_ns);
        }
    }

    /// The calls and passes so far.
    pub(crate) fn moment(&self, is_in_call: bool) -> Moment {
        Moment {
            is_in_call,
            beat: self.beat.load(Ordering::Relaxed),
            passes: self.passes.load(Ordering::Relaxed),
        }
    }

    /// Whether the call has written anything since this was last called.
    pub(crate) fn take_written(&self) -> bool {
        self.has_written.swap(false, Ordering::Relaxed)
    }

    /// From now on the thread has to be woken.
    pub(crate) fn parks(&self) {
        self.is_parked.store(true, Ordering::SeqCst);
    }

    /// Whether the thread has not been woken since.
    pub(crate) fn is_parked(&self) -> bool {
        self.is_parked.load(Ordering::SeqCst)
    }
}

/// The progress of calls and passes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    is_in_call: bool,
    beat: u32,
    passes: u32,
}

impl Moment {
    /// Whether a call is under way.
    pub(crate) fn is_in_call(self) -> bool {
        self.is_in_call
    }
}
