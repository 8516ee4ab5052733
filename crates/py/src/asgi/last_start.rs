//! Recognises starts of responses that repeat.
//!
//! A header that is a literal in a program is the same tuple each time, while the list around it is new each time. A start that consists of
//! the same objects as the last one therefore has the same head, which has been read and checked already.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyList, PyTuple};

use super::message::Start;
use crate::ffi;

/// More headers are not worth comparing.
const HEADERS_MAX: usize = 16;

/// After this many starts in a row that did not repeat, only one in `MISSES_PER_TRY` is kept.
const MISSES_MAX: u8 = 4;
const MISSES_PER_TRY: u8 = 16;

/// The last start, as long as keeping one is worthwhile.
#[derive(Default)]
pub(super) struct LastStart {
    start: Option<Parts>,
    misses: u8,
}

/// The objects of a start, all of them immutable.
struct Parts {
    status: Py<PyAny>,
    headers: Vec<Py<PyAny>>,
}

impl LastStart {
    /// Whether a start consists of the same objects as the one that is kept.
    #[inline]
    pub(super) fn is(&mut self, start: &Start<'_>) -> bool {
        let is_same = parts_of(start).is_some_and(|(status, list)| {
            let kept = self.start.as_ref();
            kept.is_some_and(|kept| status.is(&kept.status) && ffi::holds(list, &kept.headers))
        });
        self.misses = if is_same {
            0
        } else {
            self.misses.wrapping_add(1)
        };
        is_same
    }

    /// Keeps a start if all its objects are immutable.
    pub(super) fn keep(&mut self, start: &Start<'_>) {
        let is_tried = self.misses <= MISSES_MAX || self.misses.is_multiple_of(MISSES_PER_TRY);
        self.start = is_tried.then(|| immutable_parts_of(start)).flatten();
    }

    pub(super) fn forget(&mut self) {
        self.start = None;
    }
}

#[inline]
fn parts_of<'a, 'py>(
    start: &'a Start<'py>,
) -> Option<(&'a Bound<'py, PyAny>, &'a Bound<'py, PyList>)> {
    match (&start.status, &start.headers, &start.trailers) {
        (Some(status), Some(headers), None) => Some((status, headers.cast_exact().ok()?)),
        _ => None,
    }
}

fn immutable_parts_of(start: &Start<'_>) -> Option<Parts> {
    let (status, list) = parts_of(start)?;
    if list.len() > HEADERS_MAX || !status.is_exact_instance_of::<PyInt>() {
        return None;
    }
    let mut headers = Vec::with_capacity(list.len());
    for header in list.iter() {
        let pair = header.cast_exact::<PyTuple>().ok()?;
        if !pair
            .iter()
            .all(|item| item.is_exact_instance_of::<PyBytes>())
        {
            return None;
        }
        headers.push(header.unbind());
    }
    let status = status.clone().unbind();
    Some(Parts { status, headers })
}
