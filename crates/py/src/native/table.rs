//! What a `bolide.App` consists of: its router, its handlers, and the functions that the core calls.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyTuple;
use server::{PatternError, Router, pattern_parameters};

use crate::native::request::Parameter;

/// The router and the handlers of a `bolide.App`.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct NativeApp {
    /// A running server has its own reference, and checks this one once per pass.
    table: Mutex<Arc<Table>>,
}

/// Everything that a call needs and that does not change between calls.
pub(crate) struct Table {
    pub(crate) app: Py<PyAny>,
    pub(crate) request_type: Py<PyAny>,
    pub(crate) on_error: Py<PyAny>,
    pub(crate) on_status: Py<PyAny>,
    pub(crate) stream_async: Py<PyAny>,
    pub(crate) disconnected: Py<PyAny>,
    pub(crate) router: Router,
    pub(crate) routes: Vec<Arc<Route>>,
}

/// One route's handler.
pub(crate) struct Route {
    pub(crate) handler: Py<PyAny>,
    pub(crate) is_async: bool,
    pub(crate) parameters: Arc<[Parameter]>,
    /// The parameters that the handler takes, as indexes; positional ones first.
    pub(crate) taken: Vec<usize>,
    pub(crate) names: Option<Py<PyTuple>>,
}

impl Table {
    /// A copy to which a route can be added while a server uses this one.
    fn copy(&self, py: Python<'_>) -> Table {
        Table {
            app: self.app.clone_ref(py),
            request_type: self.request_type.clone_ref(py),
            on_error: self.on_error.clone_ref(py),
            on_status: self.on_status.clone_ref(py),
            stream_async: self.stream_async.clone_ref(py),
            disconnected: self.disconnected.clone_ref(py),
            router: self.router.clone(),
            routes: self.routes.clone(),
        }
    }
}

impl NativeApp {
    pub(crate) fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl NativeApp {
    #[new]
    #[pyo3(signature = (*, app, request_type, on_error, on_status, stream_async, disconnected))]
    #[allow(
        clippy::too_many_arguments,
        reason = "keywords of one constructor call, named on both sides"
    )]
    fn new(
        app: Py<PyAny>,
        request_type: Py<PyAny>,
        on_error: Py<PyAny>,
        on_status: Py<PyAny>,
        stream_async: Py<PyAny>,
        disconnected: Py<PyAny>,
    ) -> NativeApp {
        let table = Table {
            app,
            request_type,
            on_error,
            on_status,
            stream_async,
            disconnected,
            router: Router::new(),
            routes: Vec::new(),
        };
        NativeApp {
            table: Mutex::new(Arc::new(table)),
        }
    }

    /// Adds a route; ValueError with a one-line message for an invalid pattern or a duplicate route.
    #[allow(
        clippy::too_many_arguments,
        reason = "the same arguments as the stub names"
    )]
    fn add_route(
        &self,
        py: Python<'_>,
        method: &str,
        pattern: &str,
        handler: Py<PyAny>,
        parameters: Vec<String>,
        keyword_parameters: Vec<String>,
        is_async: bool,
    ) -> PyResult<()> {
        let refused = |error: PatternError| PyValueError::new_err(error.0);
        let all = pattern_parameters(pattern).map_err(refused)?;
        let index_of = |name: &String| {
            let found = all.iter().position(|(own, _)| own == name);
            found.ok_or_else(|| {
                PyValueError::new_err(format!("{pattern:?} has no parameter {name}"))
            })
        };
        let taken = parameters
            .iter()
            .chain(&keyword_parameters)
            .map(index_of)
            .collect::<PyResult<Vec<usize>>>()?;
        let names = match keyword_parameters.is_empty() {
            true => None,
            false => Some(PyTuple::new(py, &keyword_parameters)?.unbind()),
        };
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if Arc::get_mut(&mut table).is_none() {
            *table = Arc::new(table.copy(py));
        }
        let Some(table) = Arc::get_mut(&mut table) else {
            return Ok(());
        };
        // From here on nothing may fail: routes and the router's numbers must match.
        table.router.add(method, pattern).map_err(refused)?;
        table.routes.push(Arc::new(Route {
            handler,
            is_async,
            parameters: all.into(),
            taken,
            names,
        }));
        Ok(())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Ok(table) = self.table.try_lock() else {
            return Ok(());
        };
        // A server that uses the table keeps it alive in a way that the collector cannot see: no part of it may look like garbage then.
        if Arc::strong_count(&table) > 1 {
            return Ok(());
        }
        for object in [
            &table.app,
            &table.on_error,
            &table.on_status,
            &table.stream_async,
        ] {
            visit.call(object)?;
        }
        table
            .routes
            .iter()
            .try_for_each(|route| visit.call(&route.handler))
    }

    fn __clear__(&self, py: Python<'_>) {
        if let Ok(mut table) = self.table.try_lock()
            && let Some(table) = Arc::get_mut(&mut table)
        {
            table.routes.clear();
            for object in [
                &mut table.app,
                &mut table.on_error,
                &mut table.on_status,
                &mut table.stream_async,
            ] {
                *object = py.None();
            }
        }
    }
}
