//! Copies of dicts that no application may change for another: each scope has its own.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::ffi;

/// The references to an object of the template of the scopes that nobody else holds: the template's and ours.
pub(crate) const REFERENCES: isize = 2;

/// An original, and the copy that the last scope was given. The copy serves the next scope too if nobody holds it any more and it is
/// still as the original: then nobody can tell that it is not new.
pub(crate) struct Fresh {
    original: Py<PyDict>,
    copy: Option<Py<PyDict>>,
}

impl Fresh {
    pub(crate) fn new(original: Py<PyDict>) -> Fresh {
        Fresh {
            original,
            copy: None,
        }
    }

    /// A new copy for the template, or None when the one that it has is as good as new.
    pub(crate) fn renewed<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let original = self.original.bind(py);
        if let Some(copy) = &self.copy
            && ffi::references(copy) == REFERENCES
            && is_same(original, copy.bind(py))
        {
            return Ok(None);
        }
        let copy = original.copy()?;
        self.copy = Some(copy.clone().unbind());
        Ok(Some(copy))
    }
}

/// Whether two dicts hold the same objects in the same order.
fn is_same(one: &Bound<'_, PyDict>, other: &Bound<'_, PyDict>) -> bool {
    let (mut position, mut other_position) = (0, 0);
    while let Some((key, value)) = ffi::next_entry(one, &mut position) {
        match ffi::next_entry(other, &mut other_position) {
            Some((other_key, other)) if other_key.is(&key) && other.is(&value) => {}
            _ => return false,
        }
    }
    one.len() == other.len()
}
