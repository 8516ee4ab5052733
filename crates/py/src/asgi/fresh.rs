//! Dicts that no application may change for another: each scope has its own.
//!
//! The dict of the last scope serves the next one too if nobody else holds it any more and it was not changed: then nobody can tell that
//! it is not new.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::ffi;

/// The references to an object of the template of the scopes that nobody else holds: the template's and ours.
pub(crate) const REFERENCES: isize = 2;

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

    /// Whether only one other holds it, and nobody has changed it. An interpreter without versions cannot tell.
    #[inline]
    fn is_as_new(&self, py: Python<'_>) -> bool {
        ffi::references(&self.dict) == REFERENCES
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

    /// A new copy for the template, or None when the one that it has is as good as new.
    pub(crate) fn renewed<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let original = self.original.bind(py);
        let version = ffi::version(original);
        if let Some(copy) = &self.copy
            && copy.is_as_new(py)
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
    /// The dict, and behind it those in it.
    given: Vec<Given>,
}

impl Extensions {
    pub(crate) fn new(py: Python<'_>, names: &[&str]) -> Extensions {
        let intern = |name: &&str| PyString::intern(py, name).unbind();
        Extensions {
            names: names.iter().map(intern).collect(),
            given: Vec::new(),
        }
    }

    /// A new dict for the template, or None when the one that it has is as good as new.
    pub(crate) fn renewed<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        if !self.given.is_empty() && self.given.iter().all(|given| given.is_as_new(py)) {
            return Ok(None);
        }
        let dict = PyDict::new(py);
        let mut inner = Vec::with_capacity(self.names.len());
        for name in &self.names {
            let nothing = PyDict::new(py);
            dict.set_item(name, &nothing)?;
            inner.push(Given::new(&nothing));
        }
        self.given = vec![Given::new(&dict)];
        self.given.append(&mut inner);
        Ok(Some(dict))
    }
}
