//! Dicts that no application may change for another: each scope has its own.
//!
//! The last one serves the next request too if nobody else holds it any more and it was not changed: then nobody can tell that it is not
//! new.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::ffi;

/// A dict that was given out, and its version then (PEP 509).
struct Given {
    dict: Py<PyDict>,
    version: Option<u64>,
}

impl Given {
    fn new(dict: &Bound<'_, PyDict>) -> Given {
        Given {
            dict: dict.clone().unbind(),
            version: ffi::version(dict),
        }
    }

    /// Whether it has no more than `references`, and nobody has changed it. An interpreter without versions cannot tell.
    #[inline]
    fn is_as_new(&self, py: Python<'_>, references: isize) -> bool {
        ffi::references(&self.dict) == references
            && self.version.is_some()
            && ffi::version(self.dict.bind(py)) == self.version
    }
}

/// Copies of an original, which its owner may go on to change.
pub(crate) struct Fresh {
    original: Py<PyDict>,
    copied_version: Option<u64>,
    copy: Option<Given>,
}

impl Fresh {
    pub(crate) fn new(original: Py<PyDict>) -> Fresh {
        Fresh {
            original,
            copied_version: None,
            copy: None,
        }
    }

    /// A new copy, or None when the last one is as good as new: it was not changed, and has no more than `references`.
    pub(crate) fn renewed<'py>(
        &mut self,
        py: Python<'py>,
        references: isize,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let original = self.original.bind(py);
        let version = ffi::version(original);
        if let Some(copy) = &self.copy
            && copy.is_as_new(py, references)
            && self.copied_version == version
        {
            return Ok(None);
        }
        let copy = original.copy()?;
        self.copied_version = version;
        self.copy = Some(Given::new(&copy));
        Ok(Some(copy))
    }
}

/// The dict of the extensions that work, each with a dict of its own that says nothing more.
pub(crate) struct Extensions {
    names: Vec<Py<PyString>>,
    given: Option<Given>,
    /// Those in it.
    inner: Vec<Given>,
}

/// The references to a dict inside the extensions that nobody else holds: theirs and ours.
const INNER_REFERENCES: isize = 2;

impl Extensions {
    pub(crate) fn new(py: Python<'_>, names: &[&str]) -> Extensions {
        let intern = |name: &&str| PyString::intern(py, name).unbind();
        Extensions {
            names: names.iter().map(intern).collect(),
            given: None,
            inner: Vec::new(),
        }
    }

    /// A new dict, or None when the last one is as good as new: nothing of it was changed, and it has no more than `references`.
    pub(crate) fn renewed<'py>(
        &mut self,
        py: Python<'py>,
        references: isize,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let mut inner = self.inner.iter();
        if let Some(given) = &self.given
            && given.is_as_new(py, references)
            && inner.all(|given| given.is_as_new(py, INNER_REFERENCES))
        {
            return Ok(None);
        }
        let dict = PyDict::new(py);
        self.inner.clear();
        for name in &self.names {
            let nothing = PyDict::new(py);
            dict.set_item(name, &nothing)?;
            self.inner.push(Given::new(&nothing));
        }
        self.given = Some(Given::new(&dict));
        Ok(Some(dict))
    }
}
