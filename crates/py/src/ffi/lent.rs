//! The responder of the call that is under way, for what the application calls meanwhile.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use pyo3::prelude::*;
use server::{ExchangeId, Responder};

/// Lends a responder during a call. It is reached only with the interpreter attached, by one at a time.
///
/// Meanwhile it is on the heap: greenlet moves parts of the stack away while other greenlets run, and another thread may reach it then.
#[derive(Default)]
pub(crate) struct LentResponder {
    loan: Cell<Option<Loan>>,
    /// Where the last one was.
    spare: Cell<Option<Place>>,
}

/// Room for a responder on the heap, which is never given back: there are as many as calls were ever nested.
type Place = NonNull<MaybeUninit<Responder<'static>>>;

#[derive(Clone, Copy)]
struct Loan {
    id: ExchangeId,
    responder: NonNull<Responder<'static>>,
}

// SAFETY: every access needs a `Python` token, which only one thread has at a time, and a responder may be used on any thread.
unsafe impl Sync for LentResponder {}
// SAFETY: as above.
unsafe impl Send for LentResponder {}

impl LentResponder {
    /// Lends the responder of `id` until `run` has returned. A call inside of it may lend another one.
    #[inline]
    pub(crate) fn lend<R>(
        &self,
        _py: Python<'_>,
        id: ExchangeId,
        responder: &mut Responder<'_>,
        run: impl FnOnce() -> R,
    ) -> R {
        let owner: NonNull<Responder<'static>> = NonNull::from(responder).cast();
        let new = || NonNull::from(Box::leak(Box::new_uninit()));
        let place = self.spare.take().unwrap_or_else(new);
        let lent: NonNull<Responder<'static>> = place.cast();
        // SAFETY: it is moved: its owner does not use it before `End` has moved it back. The place has its layout, and nobody else uses it.
        unsafe { lent.copy_from_nonoverlapping(owner, 1) };
        let before = self.loan.replace(Some(Loan {
            id,
            responder: lent,
        }));
        let end = End {
            lender: self,
            owner,
            place,
            before,
        };
        let result = run();
        drop(end);
        result
    }

    /// Calls `reach` with the responder that is lent, if it is that of `id` or of any call; None if there is none, or it is being
    /// reached already. It must not run Python.
    #[inline]
    pub(crate) fn with<R>(
        &self,
        _py: Python<'_>,
        id: Option<ExchangeId>,
        reach: impl FnOnce(&mut Responder<'_>) -> R,
    ) -> Option<R> {
        let mut loan = self.loan.get()?;
        if id.is_some_and(|id| id != loan.id) {
            return None;
        }
        self.loan.set(None);
        let back = Back {
            place: &self.loan,
            loan,
        };
        // SAFETY: its owner lent it for a call that has not ended, or `End` would have taken it back, and does not use it meanwhile. Nobody else
        // finds it before `Back` is dropped. `reach` accepts any lifetime, so it keeps nothing of it.
        let result = reach(unsafe { loan.responder.as_mut() });
        drop(back);
        Some(result)
    }
}

/// Puts the loan back, also when a panic unwinds.
struct Back<'a> {
    place: &'a Cell<Option<Loan>>,
    loan: Loan,
}

impl Drop for Back<'_> {
    fn drop(&mut self) {
        self.place.set(Some(self.loan));
    }
}

/// Ends the loan, also when a panic unwinds.
struct End<'a> {
    lender: &'a LentResponder,
    owner: NonNull<Responder<'static>>,
    place: Place,
    before: Option<Loan>,
}

impl Drop for End<'_> {
    #[inline]
    fn drop(&mut self) {
        let loan = self.lender.loan.replace(self.before);
        let Some(loan) = loan else {
            // Another thread is still reaching it.
            std::process::abort();
        };
        // SAFETY: it was moved from there when it was lent, by a caller that waits for this.
        unsafe { self.owner.copy_from_nonoverlapping(loan.responder, 1) };
        self.lender.spare.set(Some(self.place));
    }
}
