//! WSGI applications (PEP 3333).
//!
//! With one thread the application is called on the reactor's thread ([`inline`]); with more, a pool of threads calls it, and the reactor
//! never needs the interpreter ([`pool`]). Both share how an environ is made ([`environ`]), how an answer begins ([`exchange`], [`head`])
//! and what is done with what the application returned ([`blocks`]).

mod blocks;
mod environ;
mod exchange;
mod file_wrapper;
mod head;
mod inline;
mod input;
mod lane;
mod log;
mod outbox;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use server::{Abort, App, ExchangeId, Outcome, Pulled, Responder};

pub(crate) use self::file_wrapper::FileWrapper;
use self::inline::Inline;
use self::input::Input;
use crate::runner::Runner;
use crate::shared::Shared;

/// A WSGI application and what its environs begin with.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct WsgiApp {
    app: Py<PyAny>,
    root_path: String,
    errors: Py<PyAny>,
    disconnected: Py<PyAny>,
    dropped: Arc<AtomicU64>,
}

#[pymethods]
impl WsgiApp {
    #[new]
    #[pyo3(signature = (app, *, root_path, errors, disconnected))]
    fn new(
        app: Py<PyAny>,
        root_path: String,
        errors: Py<PyAny>,
        disconnected: Py<PyAny>,
    ) -> WsgiApp {
        WsgiApp {
            app,
            root_path,
            errors,
            disconnected,
            dropped: Arc::default(),
        }
    }

    /// Fields that were left out of environs because their name has an underscore.
    #[getter]
    fn dropped_fields(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// Where and beside how many others an application runs.
#[derive(Clone, Copy, Default)]
pub(crate) struct Placement {
    /// Threads that call it; with one it is the reactor's.
    pub(crate) threads: usize,
    /// Other processes may call it too.
    pub(crate) is_multiprocess: bool,
}

impl WsgiApp {
    /// The exception that tells an application of its client's end.
    pub(crate) fn disconnected(&self) -> &Py<PyAny> {
        &self.disconnected
    }

    /// The items that are the same in every environ.
    fn constants<'py>(
        &self,
        py: Python<'py>,
        placement: Placement,
    ) -> PyResult<Bound<'py, PyDict>> {
        let constants = PyDict::new(py);
        let set = |key: &str, value: Bound<'py, PyAny>| {
            constants.set_item(PyString::intern(py, key), value)
        };
        let truth = |value: bool| {
            value
                .into_pyobject(py)
                .map(|bound| bound.to_owned().into_any())
        };
        let software = concat!("bolide/", env!("CARGO_PKG_VERSION"));
        set("SERVER_SOFTWARE", PyString::new(py, software).into_any())?;
        set("wsgi.version", (1, 0).into_pyobject(py)?.into_any())?;
        set("wsgi.url_scheme", PyString::new(py, "http").into_any())?;
        set("wsgi.input", Bound::new(py, Input::whole(b""))?.into_any())?;
        set("wsgi.input_terminated", truth(true)?)?;
        set("wsgi.errors", self.errors.bind(py).clone())?;
        set("wsgi.multithread", truth(placement.threads > 1)?)?;
        set("wsgi.multiprocess", truth(placement.is_multiprocess)?)?;
        set("wsgi.run_once", truth(false)?)?;
        set("wsgi.file_wrapper", py.get_type::<FileWrapper>().into_any())?;
        Ok(constants)
    }
}

/// The application as the server calls it.
pub(crate) struct Wsgi {
    pub(crate) runner: Runner,
    inline: Inline,
}

impl Wsgi {
    pub(crate) fn new(
        app: &Bound<'_, WsgiApp>,
        shared: Arc<Shared>,
        placement: Placement,
    ) -> PyResult<Wsgi> {
        Ok(Wsgi {
            runner: Runner::new(shared),
            inline: Inline::new(app, placement)?,
        })
    }
}

impl App for Wsgi {
    fn call(&mut self, request: &server::Request<'_>, responder: &mut Responder<'_>) -> Outcome {
        self.inline.call(&mut self.runner, request, responder)
    }

    fn pull(&mut self, id: ExchangeId, out: &mut Vec<u8>) -> Pulled {
        self.inline.pull(&mut self.runner, id, out)
    }

    fn content(&mut self, _: ExchangeId, _: &[u8], _: bool) {}

    fn writable(&mut self, _: ExchangeId) {}

    fn abort(&mut self, id: ExchangeId, _: Abort) {
        self.inline.abort(id);
    }
}
