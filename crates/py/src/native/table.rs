//! What a `bolide.App` consists of: its router, its handlers, and the functions that the core calls.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyString, PyTuple};
use server::{MessageKind, Overrides, PatternError, Router, pattern_parameters};

use crate::native::request::Parameter;
use crate::native::websocket::{Sendable, prepare_class, sendable};
use crate::run::exchanges::Exchanges;
use crate::run::websocket::check_topic;

/// The router and the handlers of a `bolide.App`.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct NativeApp {
    /// A running server has its own reference, and checks this one once per pass.
    table: Mutex<Arc<Table>>,
    /// The servers that serve it.
    servers: Mutex<Vec<Weak<Exchanges>>>,
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
    pub(crate) websocket_type: Py<PyAny>,
    /// The routes of WebSockets.
    pub(crate) sockets: Router,
    pub(crate) socket_routes: Vec<Arc<Route>>,
}

fn refused(error: PatternError) -> PyErr {
    PyValueError::new_err(error.0)
}

/// One route's handler.
pub(crate) struct Route {
    pub(crate) pattern: Box<str>,
    pub(crate) handler: Py<PyAny>,
    pub(crate) is_async: bool,
    pub(crate) parameters: Arc<[Parameter]>,
    /// The parameters that the handler takes, as indexes; positional ones first.
    pub(crate) taken: Vec<usize>,
    pub(crate) names: Option<Py<PyTuple>>,
    /// What bounds its requests, as far as it differs from the server's settings.
    pub(crate) bounds: Overrides,
}

impl Route {
    /// The route of a handler that takes these parameters of the pattern by position and by keyword.
    fn new(
        py: Python<'_>,
        pattern: &str,
        handler: Py<PyAny>,
        (positional, keyword): (&[String], &[String]),
        is_async: bool,
    ) -> PyResult<Route> {
        let all = pattern_parameters(pattern).map_err(refused)?;
        let index_of = |name: &String| {
            let found = all.iter().position(|(own, _)| own == name);
            found.ok_or_else(|| {
                PyValueError::new_err(format!("{pattern:?} has no parameter {name}"))
            })
        };
        let taken = positional.iter().chain(keyword).map(index_of);
        let taken = taken.collect::<PyResult<Vec<usize>>>()?;
        let names = match keyword.is_empty() {
            true => None,
            false => Some(PyTuple::new(py, keyword)?.unbind()),
        };
        Ok(Route {
            pattern: pattern.into(),
            handler,
            is_async,
            parameters: all.into(),
            taken,
            names,
            bounds: Overrides::default(),
        })
    }
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
            websocket_type: self.websocket_type.clone_ref(py),
            sockets: self.sockets.clone(),
            socket_routes: self.socket_routes.clone(),
        }
    }
}

impl NativeApp {
    pub(crate) fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn servers(&self) -> MutexGuard<'_, Vec<Weak<Exchanges>>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A server serves it from now on.
    pub(crate) fn is_served_by(&self, exchanges: &Arc<Exchanges>) {
        let mut servers = self.servers();
        servers.retain(|server| server.strong_count() > 0);
        servers.push(Arc::downgrade(exchanges));
    }

    /// Changes the table, of which a server may use a copy.
    fn change<R>(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&mut Table) -> PyResult<R>,
    ) -> PyResult<R> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if Arc::get_mut(&mut table).is_none() {
            *table = Arc::new(table.copy(py));
        }
        match Arc::get_mut(&mut table) {
            Some(table) => change(table),
            None => Err(PyValueError::new_err("the application is in use")),
        }
    }
}

#[pymethods]
impl NativeApp {
    #[new]
    #[pyo3(signature = (*, app, request_type, websocket_type, on_error, on_status, stream_async, disconnected))]
    #[allow(
        clippy::too_many_arguments,
        reason = "keywords of one constructor call, named on both sides"
    )]
    fn new(
        py: Python<'_>,
        app: Py<PyAny>,
        request_type: Py<PyAny>,
        websocket_type: Py<PyAny>,
        on_error: Py<PyAny>,
        on_status: Py<PyAny>,
        stream_async: Py<PyAny>,
        disconnected: Py<PyAny>,
    ) -> NativeApp {
        prepare_class(websocket_type.bind(py));
        let table = Table {
            app,
            request_type,
            on_error,
            on_status,
            stream_async,
            disconnected,
            router: Router::new(),
            routes: Vec::new(),
            websocket_type,
            sockets: Router::new(),
            socket_routes: Vec::new(),
        };
        NativeApp {
            table: Mutex::new(Arc::new(table)),
            servers: Mutex::default(),
        }
    }

    /// Adds a route; ValueError with a one-line message for an invalid pattern or a duplicate route.
    #[pyo3(signature = (method, pattern, handler, parameters, keyword_parameters, is_async, body_bytes_max=None, handler_timeout_ms=None))]
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
        body_bytes_max: Option<u64>,
        handler_timeout_ms: Option<u64>,
    ) -> PyResult<()> {
        let mut route = Route::new(
            py,
            pattern,
            handler,
            (&parameters, &keyword_parameters),
            is_async,
        )?;
        route.bounds = Overrides {
            body_bytes_max,
            handler_timeout_ms,
        };
        self.change(py, |table| {
            // From here on nothing may fail: routes and the router's numbers must match.
            table.router.add(method, pattern).map_err(refused)?;
            table.routes.push(Arc::new(route));
            Ok(())
        })
    }

    /// Adds the route of a WebSocket; ValueError as `add_route`.
    fn add_websocket_route(
        &self,
        py: Python<'_>,
        pattern: &str,
        handler: Py<PyAny>,
        parameters: Vec<String>,
        keyword_parameters: Vec<String>,
    ) -> PyResult<()> {
        let taken = (parameters.as_slice(), keyword_parameters.as_slice());
        let route = Route::new(py, pattern, handler, taken, true)?;
        self.change(py, |table| {
            table.sockets.add("GET", pattern).map_err(refused)?;
            table.socket_routes.push(Arc::new(route));
            Ok(())
        })
    }

    /// Sends a message to all WebSockets that subscribe to a topic, in this process; MemoryError if there is no memory for it.
    fn publish(&self, topic: &Bound<'_, PyString>, message: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = topic.py();
        let topic = topic.to_str()?.as_bytes();
        check_topic(topic)?;
        let sendable = sendable(message)?;
        let (kind, content) = match &sendable {
            Sendable::Text(content) => (MessageKind::Text, *content),
            Sendable::Bytes(content) => (MessageKind::Binary, *content),
            Sendable::Copy(content) => (MessageKind::Binary, content.as_slice()),
        };
        let servers: Vec<_> = self.servers().iter().filter_map(Weak::upgrade).collect();
        for server in servers {
            server.publish(py, topic, kind, content)?;
        }
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
        let mut routes = table.routes.iter().chain(&table.socket_routes);
        routes.try_for_each(|route| visit.call(&route.handler))
    }

    fn __clear__(&self, py: Python<'_>) {
        if let Ok(mut table) = self.table.try_lock()
            && let Some(table) = Arc::get_mut(&mut table)
        {
            table.routes.clear();
            table.socket_routes.clear();
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
