//! The descriptors that a selector watches for the loop, and their keys, found as the standard selectors find them.
//!
//! A file object is found by its descriptor. If it has none because it was closed, it is found by identity.

use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator};

/// Descriptor to `selectors.SelectorKey`.
pub(super) struct Descriptors {
    keys: Py<PyDict>,
}

impl Descriptors {
    pub(super) fn new(py: Python<'_>) -> Descriptors {
        let keys = PyDict::new(py).unbind();
        Descriptors { keys }
    }

    pub(super) fn clone_ref(&self, py: Python<'_>) -> Descriptors {
        let keys = self.keys.clone_ref(py);
        Descriptors { keys }
    }

    pub(super) fn keys<'a, 'py>(&'a self, py: Python<'py>) -> &'a Bound<'py, PyDict> {
        self.keys.bind(py)
    }

    /// The descriptor of a file object, or the one under which it was registered before it was closed.
    ///
    /// # Errors
    /// `ValueError` for an object that has no descriptor and is not registered.
    pub(super) fn find(&self, file: &Bound<'_, PyAny>) -> PyResult<i32> {
        let error = match descriptor(file) {
            Ok(fd) => return Ok(fd),
            Err(error) if error.is_instance_of::<PyValueError>(file.py()) => error,
            Err(error) => return Err(error),
        };
        for (fd, key) in self.keys(file.py()) {
            if key.getattr(pyo3::intern!(file.py(), "fileobj"))?.is(file) {
                return fd.extract();
            }
        }
        Err(error)
    }

    /// The key of a registered file object; `None` if it is not.
    ///
    /// # Errors
    /// As [`Descriptors::find`].
    pub(super) fn get<'py>(&self, file: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.keys(file.py()).get_item(self.find(file)?)
    }

    /// The descriptor and the key of a registered file object.
    ///
    /// # Errors
    /// `KeyError` if it is not; as [`Descriptors::find`].
    pub(super) fn registered<'py>(
        &self,
        file: &Bound<'py, PyAny>,
    ) -> PyResult<(i32, Bound<'py, PyAny>)> {
        let fd = self.find(file)?;
        match self.keys(file.py()).get_item(fd)? {
            Some(key) => Ok((fd, key)),
            None => Err(not_registered(file)),
        }
    }
}

/// The descriptor of a file object: itself, or what `fileno` returns.
///
/// # Errors
/// `ValueError` for an object without one, and for a closed file.
pub(super) fn descriptor(file: &Bound<'_, PyAny>) -> PyResult<i32> {
    let fd: i32 = match file.extract() {
        Ok(fd) => fd,
        Err(_) => match fileno(file) {
            Ok(fd) => fd,
            Err(error) if is_of_no_file(&error, file.py()) => {
                let message = format!("Invalid file object: {}", file.repr()?);
                return Err(PyValueError::new_err(message));
            }
            Err(error) => return Err(error),
        },
    };
    if fd < 0 {
        let message = format!("Invalid file descriptor: {fd}");
        return Err(PyValueError::new_err(message));
    }
    Ok(fd)
}

fn fileno(file: &Bound<'_, PyAny>) -> PyResult<i32> {
    file.call_method0(pyo3::intern!(file.py(), "fileno"))?
        .extract()
}

fn is_of_no_file(error: &PyErr, py: Python<'_>) -> bool {
    use pyo3::exceptions::{PyAttributeError, PyTypeError};
    error.is_instance_of::<PyAttributeError>(py)
        || error.is_instance_of::<PyTypeError>(py)
        || error.is_instance_of::<PyValueError>(py)
}

pub(super) fn not_registered(file: &Bound<'_, PyAny>) -> PyErr {
    match file.repr() {
        Ok(shown) => PyKeyError::new_err(format!("{shown} is not registered")),
        Err(error) => error,
    }
}

/// The mapping from file objects to keys that `get_map` returns: asyncio of CPython 3.13 uses it for readers and writers.
#[pyclass(module = "bolide._core", frozen, mapping)]
pub(crate) struct DescriptorMap {
    pub(super) descriptors: Descriptors,
}

#[pymethods]
impl DescriptorMap {
    fn __len__(&self, py: Python<'_>) -> usize {
        self.descriptors.keys(py).len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.descriptors.keys(py).try_iter()
    }

    fn __getitem__<'py>(&self, file: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.get(file, None)?.ok_or_else(|| not_registered(file))
    }

    fn __contains__(&self, file: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.get(file, None)?.is_some())
    }

    #[pyo3(signature = (fileobj, default=None))]
    fn get<'py>(
        &self,
        fileobj: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.descriptors.get(fileobj)?.or(default))
    }

    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.descriptors.keys(py).call_method0("keys")
    }

    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.descriptors.keys(py).call_method0("values")
    }

    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.descriptors.keys(py).call_method0("items")
    }
}
