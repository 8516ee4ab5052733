//! The responder of the current call, for what the application calls meanwhile and for the thread that sends.

use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::prelude::*;
use server::{ExchangeId, Responder};

use super::leave_if_forked;

/// Lends a responder during a call. It is accessed only with the interpreter attached, by one user at a time.
///
/// It is the server's, on the heap: greenlet moves parts of the stack while other greenlets run, and another thread may access it then.
#[derive(Default)]
pub(crate) struct LentResponder {
    /// Null while it is being accessed.
    responder: AtomicPtr<Responder>,
    /// The exchange of the call, if that may write.
    id: Cell<Option<ExchangeId>>,
}

// SAFETY: every access to `id` needs a `Python` token, which only one thread has at a time.
unsafe impl Sync for LentResponder {}

impl LentResponder {
    /// Lends the responder of `id` until `run` has returned. A nested call may lend another one.
    #[inline]
    pub(crate) fn lend<R>(
        &self,
        py: Python<'_>,
        id: ExchangeId,
        responder: &mut Responder,
        run: impl FnOnce() -> R,
    ) -> R {
        let _end = Named(&self.id, self.id.replace(Some(id)));
        self.lend_unnamed(py, responder, run)
    }

    /// Lends the responder of a call that does not write to it itself, until `run` has returned.
    ///
    /// Cost: two stores (bench: calls).
    #[inline(always)]
    pub(crate) fn lend_unnamed<R>(
        &self,
        py: Python<'_>,
        responder: &mut Responder,
        run: impl FnOnce() -> R,
    ) -> R {
        // Not a swap, which locks the bus: only the thread with the interpreter is here.
        let before = self.responder.load(Ordering::Relaxed);
        self.responder.store(responder, Ordering::Relaxed);
        let _back = Back(&self.responder, before);
        let result = run();
        leave_if_forked(py, None);
        result
    }

    /// Whether a call is under way, as far as that is visible without the interpreter.
    pub(crate) fn is_lent(&self) -> bool {
        !self.responder.load(Ordering::Relaxed).is_null()
    }

    /// Calls `reach` with the lent responder, if it is that of `id` or of any call. Returns None if there is none, or it is being accessed
    /// already. `reach` must not run Python.
    #[inline]
    pub(crate) fn with<R>(
        &self,
        _py: Python<'_>,
        id: Option<ExchangeId>,
        reach: impl FnOnce(&mut Responder) -> R,
    ) -> Option<R> {
        let lent = self.responder.load(Ordering::Relaxed);
        let mut responder = NonNull::new(lent)?;
        if id.is_some() && id != self.id.get() {
            return None;
        }
        self.responder.store(ptr::null_mut(), Ordering::Relaxed);
        let _back = Back(&self.responder, lent);
        // SAFETY: its owner lent it for a call that has not ended, or `Back` would have removed it, and does not use it meanwhile. No other
        // code finds it before `reach` has returned, and no other thread can run in between, because `reach` does not release the
        // interpreter.
        Some(reach(unsafe { responder.as_mut() }))
    }
}

/// Restores what was lent before, also when a panic unwinds.
struct Back<'a>(&'a AtomicPtr<Responder>, *mut Responder);

impl Drop for Back<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.store(self.1, Ordering::Relaxed);
    }
}

/// As [`Back`], for the exchange of the call.
struct Named<'a>(&'a Cell<Option<ExchangeId>>, Option<ExchangeId>);

impl Drop for Named<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.set(self.1);
    }
}
