//! Copies of what no application may change for another: lists and dicts that each scope has of its own.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::ffi;

/// An original, and the copy that the last scope was given. The copy serves the next scope too if nobody holds it any more and it is
/// still as the original: then nobody can tell that it is not new.
pub(crate) struct Fresh<T> {
    original: Py<T>,
    copy: Option<Py<T>>,
}

/// The references to a copy that nobody else holds: ours, and that of the template of the scopes.
const REFERENCES: isize = 2;

/// What can be copied, and compared without running Python.
pub(crate) trait Copied: Sized {
    fn copied<'py>(original: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>>;
    fn is_same(original: &Bound<'_, Self>, copy: &Bound<'_, Self>) -> bool;
}

impl<T: Copied> Fresh<T> {
    pub(crate) fn new(original: Py<T>) -> Fresh<T> {
        Fresh {
            original,
            copy: None,
        }
    }

    /// A new copy for the template, or None when the one that it has is as good as new.
    pub(crate) fn renewed<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, T>>> {
        let original = self.original.bind(py);
        if let Some(copy) = &self.copy
            && ffi::references(copy) == REFERENCES
            && T::is_same(original, copy.bind(py))
        {
            return Ok(None);
        }
        let copy = T::copied(original)?;
        self.copy = Some(copy.clone().unbind());
        Ok(Some(copy))
    }

    /// The copy that was given last is not the template's any more.
    pub(crate) fn forget(&mut self) {
        self.copy = None;
    }
}

impl Copied for PyDict {
    fn copied<'py>(original: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyDict>> {
        original.copy()
    }

    fn is_same(original: &Bound<'_, PyDict>, copy: &Bound<'_, PyDict>) -> bool {
        let (mut position, mut other_position) = (0, 0);
        while let Some((key, value)) = ffi::next_entry(original, &mut position) {
            match ffi::next_entry(copy, &mut other_position) {
                Some((other_key, other)) if other_key.is(&key) && other.is(&value) => {}
                _ => return false,
            }
        }
        original.len() == copy.len()
    }
}

impl Copied for PyList {
    fn copied<'py>(original: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyList>> {
        Ok(original.get_slice(0, original.len()))
    }

    fn is_same(original: &Bound<'_, PyList>, copy: &Bound<'_, PyList>) -> bool {
        ffi::items(original).iter().eq(ffi::items(copy))
    }
}
