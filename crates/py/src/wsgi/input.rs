//! `wsgi.input`: the content of a request as a file.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use server::ExchangeId;

use super::lane::Lane;
use crate::ffi::{self, GilCell};
use crate::run::memory::append;

/// The content of a request. At its end, reading returns `b""`, as for a file.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct Input {
    state: GilCell<State>,
    /// Where the rest comes from; `None` when all of it has arrived.
    source: Option<(Arc<Lane>, ExchangeId)>,
}

#[derive(Default)]
struct State {
    content: Vec<u8>,
    /// How much of `content` was returned.
    used: usize,
    has_ended: bool,
}

impl State {
    fn rest(&self) -> &[u8] {
        self.content.get(self.used..).unwrap_or_default()
    }

    fn take<'py>(&mut self, py: Python<'py>, count: usize) -> PyResult<Bound<'py, PyBytes>> {
        let rest = self.rest();
        let part = rest.get(..count).unwrap_or(rest);
        let (bytes, taken) = (ffi::bytes(py, part)?, part.len());
        self.used += taken;
        if self.used >= self.content.len() {
            self.content = Vec::new();
            self.used = 0;
        }
        Ok(bytes)
    }

    fn add(&mut self, part: Option<Vec<u8>>) -> PyResult<()> {
        let Some(part) = part else {
            self.has_ended = true;
            return Ok(());
        };
        if self.content.is_empty() {
            self.content = part;
        } else {
            self.content.drain(..self.used);
            self.used = 0;
            append(&mut self.content, &part)?;
        }
        self.used = 0;
        Ok(())
    }
}

impl Input {
    /// Content that has arrived completely.
    pub(super) fn whole(content: Vec<u8>) -> Input {
        let state = State {
            content,
            used: 0,
            has_ended: true,
        };
        Input {
            state: GilCell::of(state),
            source: None,
        }
    }

    /// Content that is fetched as it is read.
    pub(super) fn later(lane: Arc<Lane>, id: ExchangeId) -> Input {
        Input {
            state: GilCell::default(),
            source: Some((lane, id)),
        }
    }

    fn with<R>(&self, py: Python<'_>, reach: impl FnOnce(&mut State) -> R) -> PyResult<R> {
        self.state.reach(py, reach)
    }

    /// Waits for more. Returns false at the end.
    fn fetch(&self, py: Python<'_>) -> PyResult<bool> {
        if self.with(py, |state| state.has_ended)? {
            return Ok(false);
        }
        let part = match &self.source {
            Some((lane, id)) => lane.read(py, *id)?,
            None => None,
        };
        let is_more = part.is_some();
        self.with(py, |state| state.add(part))??;
        Ok(is_more)
    }

    /// The next line with its line end, or the part of it within `size`.
    fn next_line<'py>(&self, py: Python<'py>, size: Option<i64>) -> PyResult<Bound<'py, PyBytes>> {
        let most = most_of(size);
        let mut searched = 0;
        loop {
            let count = self.with(py, |state| {
                let rest = state.rest();
                let within = rest.get(..most).unwrap_or(rest);
                let unsearched = within.get(searched..).unwrap_or_default();
                let end = unsearched.iter().position(|byte| *byte == b'\n');
                let count = match end {
                    Some(end) => Some(searched + end + 1),
                    None if within.len() == most => Some(most),
                    None => None,
                };
                searched = within.len();
                count
            })?;
            if count.is_some() || !self.fetch(py)? {
                return self.with(py, |state| state.take(py, count.unwrap_or(searched)))?;
            }
        }
    }
}

/// The number of bytes that a size stands for: all for None and for a negative one.
fn most_of(size: Option<i64>) -> usize {
    size.and_then(|size| usize::try_from(size).ok())
        .unwrap_or(usize::MAX)
}

#[pymethods]
impl Input {
    /// `size` bytes, fewer only at the end.
    #[pyo3(signature = (size=None, /))]
    fn read<'py>(&self, py: Python<'py>, size: Option<i64>) -> PyResult<Bound<'py, PyBytes>> {
        let most = most_of(size);
        while self.with(py, |state| state.rest().len())? < most && self.fetch(py)? {}
        self.with(py, |state| state.take(py, most))?
    }

    #[pyo3(signature = (size=None, /))]
    fn readline<'py>(&self, py: Python<'py>, size: Option<i64>) -> PyResult<Bound<'py, PyBytes>> {
        self.next_line(py, size)
    }

    #[pyo3(signature = (hint=None, /))]
    fn readlines<'py>(&self, py: Python<'py>, hint: Option<i64>) -> PyResult<Bound<'py, PyList>> {
        let most = match hint {
            Some(0) => usize::MAX,
            hint => most_of(hint),
        };
        let lines = PyList::empty(py);
        let mut total = 0;
        while total < most {
            let line = self.next_line(py, None)?;
            let length = line.as_bytes().len();
            if length == 0 {
                break;
            }
            total += length;
            lines.append(line)?;
        }
        Ok(lines)
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let line = self.next_line(py, None)?;
        Ok(Some(line).filter(|line| !line.as_bytes().is_empty()))
    }
}
