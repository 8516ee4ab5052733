//! The request as a handler sees it. It owns its bytes, and decodes nothing before it is needed.

use std::sync::Arc;

use net::memory::{NoMemory, append};
use net::{Peer, TlsDetails};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use server::{Circumstances, Content, ExchangeId, LazyHead, ParameterKind, Parameters, Span};
use wire::Scheme;

use crate::ffi;
use crate::ffi::GilCell;
use crate::native::stream::{Departure, Part};
use crate::native::tls::Tls;
use crate::run::awaitable::Ready;
use crate::run::exchanges::Exchanges;
use crate::run::log::push_id;
use crate::run::memory;
use crate::run::target::decoded;

/// An object that grew beyond this for its head or its content is not reused.
const KEPT_BYTES: usize = 16_384;

/// One parameter of a path: name, what it matches.
pub(crate) type Parameter = (String, ParameterKind);

/// What is filled in for each request. Instances are reused when nothing else references them.
#[pyclass(subclass, frozen, module = "bolide._core")]
#[derive(Default)]
pub(crate) struct Request {
    state: GilCell<State>,
}

/// What a request object holds.
#[derive(Default)]
pub(crate) struct State {
    head: LazyHead,
    /// The content has not arrived completely: it is received part by part.
    comes_in_parts: bool,
    /// The end of the content was returned.
    is_exhausted: bool,
    is_async: bool,
    /// Its handler is in its first step, in which nothing is known about the client: afterwards its exchange is open or over.
    is_in_call: bool,
    client: Peer,
    server: Option<Arc<Peer>>,
    /// That of no exchange, until it is filled in.
    id: ExchangeId,
    exchanges: Option<Arc<Exchanges>>,
    app: Option<Py<PyAny>>,
    /// None until its path has had parameters.
    matched: Option<Box<Matched>>,
    rare: Option<Box<Rare>>,
}

/// What a path with parameters has matched.
#[derive(Default)]
struct Matched {
    values: Vec<Span>,
    /// None for a path without any.
    parameters: Option<Arc<[Parameter]>>,
}

/// What most objects never have.
#[derive(Default)]
struct Rare {
    content: Vec<u8>,
    tls: Option<Arc<TlsDetails>>,
    /// The scheme and the prefix that trusted proxies have said.
    forwarded: Option<Box<(Option<Scheme>, Box<str>)>>,
    cache: Option<Py<PyDict>>,
    /// None if it is no handshake of a WebSocket, or offers none.
    subprotocols: Option<Box<Subprotocols>>,
}

/// The subprotocols of a WebSocket (RFC 6455 1.9).
#[derive(Default)]
pub(crate) struct Subprotocols {
    pub(crate) offered: Vec<Vec<u8>>,
    pub(crate) accepted: Option<String>,
}

impl State {
    /// Sets what never changes, once for each new object.
    pub(crate) fn prepare(&mut self, exchanges: Arc<Exchanges>, app: Py<PyAny>) {
        self.exchanges = Some(exchanges);
        self.app = Some(app);
    }

    /// Fills in a request, replacing everything of the previous one.
    ///
    /// # Errors
    /// When there is no memory for its content.
    #[inline]
    fn fill(&mut self, request: &server::Request<'_>, is_async: bool) -> Result<(), NoMemory> {
        self.head.copy(request.head);
        // One test of all: most objects have none of it (bench: calls.py).
        let had_circumstances = match &mut self.rare {
            None => false,
            Some(rare) => {
                rare.content.clear();
                rare.tls.is_some() | rare.forwarded.is_some()
            }
        };
        self.comes_in_parts = match request.content {
            Content::Whole(b"") => false,
            Content::Whole(content) => {
                append(&mut self.rare().content, content)?;
                false
            }
            Content::Later => true,
        };
        self.is_exhausted = false;
        self.is_async = is_async;
        self.is_in_call = true;
        let now = request.circumstances;
        self.client = now.client;
        let own = self.server.as_ref();
        if !own.is_some_and(|own| Arc::ptr_eq(own, &now.server)) {
            self.set_server(now);
        }
        if now.tls.is_some() | now.forwarded.is_some() | had_circumstances {
            self.set_circumstances(now);
        }
        self.id = request.id;
        if let Some(matched) = &mut self.matched {
            matched.parameters = None;
        }
        Ok(())
    }

    /// Stores the local address, which nearly all connections share. Counting references is not free.
    #[cold]
    #[inline(never)]
    fn set_server(&mut self, now: &Circumstances) {
        self.server = Some(Arc::clone(&now.server));
    }

    /// Stores the connection's TLS session, and what proxies have said. Counting references is not free, and a connection sends many requests.
    #[cold]
    #[inline(never)]
    fn set_circumstances(&mut self, now: &Circumstances) {
        let rare = self.rare();
        if rare.tls.as_ref().map(Arc::as_ptr) != now.tls.as_ref().map(Arc::as_ptr) {
            rare.tls.clone_from(&now.tls);
        }
        let said = now.forwarded.as_ref();
        rare.forwarded = said.map(|said| Box::new((said.scheme, said.prefix.clone())));
    }

    /// What most objects never have, created if necessary.
    #[inline]
    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// The content that has arrived with the head.
    fn content(&self) -> &[u8] {
        let rare = self.rare.as_ref();
        rare.map_or(&[], |rare| rare.content.as_slice())
    }

    /// What trusted proxies have said.
    fn forwarded(&self) -> Option<&(Option<Scheme>, Box<str>)> {
        self.rare.as_ref()?.forwarded.as_deref()
    }

    /// The parameters of its path.
    fn parameters(&self) -> &[Parameter] {
        let matched = self.matched.as_ref();
        matched
            .and_then(|matched| matched.parameters.as_deref())
            .unwrap_or_default()
    }

    /// It is a handshake whose client offers these subprotocols.
    pub(crate) fn offers(&mut self, offered: Vec<Vec<u8>>) {
        let subprotocols = self.rare().subprotocols.get_or_insert_default();
        subprotocols.offered = offered;
    }

    /// The subprotocols of a handshake, if its client offers any.
    pub(crate) fn subprotocols(&mut self) -> Option<&mut Subprotocols> {
        self.rare.as_mut()?.subprotocols.as_deref_mut()
    }

    /// Stores where the path's parameters are.
    pub(crate) fn set_parameters(
        &mut self,
        parameters: &Arc<[Parameter]>,
        found: &Parameters,
        path: Span,
    ) {
        let matched = self.matched.get_or_insert_default();
        matched.parameters = Some(Arc::clone(parameters));
        matched.values.clear();
        for index in 0..parameters.len() {
            let (start, end) = found.span(index).unwrap_or_default();
            matched.values.push(path.within(start, end));
        }
    }

    /// The `index`-th parameter as a Python object.
    pub(crate) fn parameter<'py>(
        &self,
        py: Python<'py>,
        index: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let kind = self.parameters().get(index).map(|(_, kind)| *kind);
        let matched = self.matched.as_ref();
        let value = matched
            .and_then(|matched| matched.values.get(index))
            .map_or(&b""[..], |span| self.head.slice(*span));
        if kind == Some(ParameterKind::Integer) {
            return Ok(integer(value).into_pyobject(py)?.into_any());
        }
        Ok(decoded(py, value).into_any())
    }

    /// Whether it may serve another request: buffers that a large one has grown are not kept.
    pub(crate) fn is_reusable(&mut self) -> bool {
        let is_small = match &mut self.rare {
            None => true,
            Some(rare) => {
                rare.cache = None;
                rare.content.capacity() <= KEPT_BYTES
            }
        };
        is_small && self.head.capacity() <= KEPT_BYTES
    }

    /// The first step of its handler has ended, and other code has kept it. Returns its exchange.
    pub(crate) fn call_ended(&mut self) -> ExchangeId {
        self.is_in_call = false;
        self.id
    }
}

/// An integer that the router has accepted: at most 18 digits after an optional `-`.
fn integer(bytes: &[u8]) -> i64 {
    let (is_negative, digits) = match bytes {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let add = |number: i64, digit: &u8| {
        let digit = i64::from(digit.wrapping_sub(b'0'));
        number.wrapping_mul(10).wrapping_add(digit)
    };
    let number = digits.iter().fold(0, add);
    if is_negative { -number } else { number }
}

#[cold]
fn not_filled(lacking: Option<Result<(), NoMemory>>) -> Box<PyErr> {
    Box::new(match lacking {
        Some(Err(lack)) => memory::error(lack),
        _ => ffi::in_use(),
    })
}

fn address<'py>(py: Python<'py>, peer: Peer) -> PyResult<Option<Bound<'py, PyTuple>>> {
    match peer {
        Peer::Internet(address) => {
            let items = (address.ip().to_string(), address.port());
            Ok(Some(items.into_pyobject(py)?))
        }
        Peer::Unix(_) | Peer::Local => Ok(None),
    }
}

impl Request {
    /// Fills in a request, replacing everything of the previous one.
    ///
    /// # Errors
    /// `MemoryError` when there is none for its content.
    #[inline]
    pub(crate) fn fill(
        &self,
        py: Python<'_>,
        request: &server::Request<'_>,
        is_async: bool,
    ) -> Result<(), Box<PyErr>> {
        match self.state.with(py, |state| state.fill(request, is_async)) {
            Some(Ok(())) => Ok(()),
            lacking => Err(not_filled(lacking)),
        }
    }

    /// Accesses the state.
    #[inline]
    pub(crate) fn with<R>(
        &self,
        py: Python<'_>,
        reach: impl FnOnce(&mut State) -> R,
    ) -> PyResult<R> {
        self.state.reach(py, reach)
    }
}

impl Request {
    /// The exchange, if its client is connected as far as is known; None if it has disconnected or the exchange is over.
    pub(crate) fn waits_for_departure(
        &self,
        py: Python<'_>,
    ) -> PyResult<Option<(Arc<Exchanges>, ExchangeId)>> {
        let (exchange, is_in_call) = self.with(py, |state| {
            let exchanges = state.exchanges.clone();
            (exchanges.zip(Some(state.id)), state.is_in_call)
        })?;
        Ok(exchange.filter(|(exchanges, id)| {
            let has_client = exchanges.has_client(py, *id);
            has_client.unwrap_or(is_in_call)
        }))
    }
}

#[pymethods]
impl Request {
    #[new]
    fn new() -> Request {
        Request::default()
    }

    #[getter]
    fn method<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        self.with(py, |state| match state.head.method_name() {
            b"GET" => pyo3::intern!(py, "GET").clone(),
            b"POST" => pyo3::intern!(py, "POST").clone(),
            other => ffi::latin1(py, other),
        })
    }

    #[getter]
    fn path<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        self.with(py, |state| decoded(py, state.head.path()))
    }

    #[getter]
    fn raw_path<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.with(py, |state| PyBytes::new(py, state.head.path()))
    }

    #[getter]
    fn query_string<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.with(py, |state| PyBytes::new(py, state.head.query()))
    }

    #[getter]
    fn http_version(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.with(py, |state| state.head.version().number())
    }

    #[getter]
    fn scheme(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.with(py, |state| {
            if let Some((Some(scheme), _)) = state.forwarded() {
                return scheme.name();
            }
            let exchanges = state.exchanges.as_ref();
            exchanges.map_or("http", |exchanges| exchanges.scheme)
        })
    }

    /// The start of the path that proxies have removed; empty without one.
    #[getter]
    fn root_path<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        self.with(py, |state| {
            let forwarded = state.forwarded();
            PyString::new(py, forwarded.map_or("", |(_, prefix)| prefix))
        })
    }

    /// The request's id; None if requests have none (`request_id`).
    #[getter]
    fn id(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.with(py, State::request_id)
    }

    #[getter]
    fn client<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        address(py, self.with(py, |state| state.client)?)
    }

    #[getter]
    fn server<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let server = self.with(py, |state| state.server.as_deref().copied())?;
        address(py, server.unwrap_or_default())
    }

    /// What is known of the connection's TLS session; None if it has none.
    #[getter]
    fn tls(&self, py: Python<'_>) -> PyResult<Option<Tls>> {
        self.with(py, |state| {
            let rare = state.rare.as_ref();
            rare.and_then(|rare| rare.tls.clone()).map(Tls::new)
        })
    }

    #[getter]
    fn host<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        self.with(py, |state| ffi::latin1(py, state.head.authority()))
    }

    #[getter]
    fn path_params<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.with(py, |state| {
            let parameters = PyDict::new(py);
            for (index, (name, _)) in state.parameters().iter().enumerate() {
                parameters.set_item(name, state.parameter(py, index)?)?;
            }
            Ok(parameters)
        })?
    }

    /// Every field line in order: the name in lower case, the value as Latin-1 text.
    fn field_lines<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.with(py, |state| {
            let lines = PyList::empty(py);
            for (name, value) in state.head.field_section().lines() {
                let name = ffi::latin1(py, &name.to_ascii_lowercase());
                lines.append((name, ffi::latin1(py, value)))?;
            }
            Ok(lines)
        })?
    }

    #[getter]
    fn cache<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.with(py, |state| {
            state
                .rare()
                .cache
                .get_or_insert_with(|| PyDict::new(py).unbind())
                .bind(py)
                .clone()
        })
    }

    #[getter]
    fn app(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.with(py, |state| state.app.as_ref().map(|app| app.clone_ref(py)))
    }

    #[getter]
    fn is_async(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |state| state.is_async)
    }

    /// Whether the client has disconnected or the exchange is over.
    #[getter]
    fn is_disconnected(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.waits_for_departure(py)?.is_none())
    }

    /// An awaitable of the client's disconnection or the end of the exchange.
    fn disconnected<'py>(slf: Bound<'py, Request>) -> PyResult<Bound<'py, PyAny>> {
        if slf.get().is_async(slf.py())? {
            return Departure::of(slf);
        }
        Err(PyRuntimeError::new_err(
            "disconnected() is for async handlers: a def handler blocks the thread that would detect a disconnection",
        ))
    }

    /// The whole content, for handlers that are not coroutines.
    fn read<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let content = self.with(py, |state| {
            (!state.comes_in_parts).then(|| ffi::bytes(py, state.content()))
        })?;
        content.transpose()?.ok_or_else(|| {
            PyRuntimeError::new_err(
                "read() is for `def` handlers; in an `async def` handler await request.body()",
            )
        })
    }

    /// The next part of the content, as an awaitable; None at the end. With `whole`, all that follows is one part, which the server holds
    /// until it is complete.
    #[pyo3(signature = (whole=false))]
    fn receive<'py>(&self, py: Python<'py>, whole: bool) -> PyResult<Bound<'py, PyAny>> {
        let (part, source) = self.with(py, |state| {
            if state.comes_in_parts {
                return (None, state.exchanges.clone().zip(Some(state.id)));
            }
            let is_fresh = !std::mem::replace(&mut state.is_exhausted, true);
            (
                (is_fresh && !state.content().is_empty()).then(|| ffi::bytes(py, state.content())),
                None,
            )
        })?;
        let part = part.transpose()?;
        match source {
            Some(source) => Part::of(py, source, whole),
            None => Ready::with(py, part.map(|part| part.into_any().unbind())),
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // The collector runs with the interpreter attached, and never while a request is filled.
        let visited = crate::ffi::attached(|py| {
            self.state.with(py, |state| {
                visit.call(&state.app)?;
                match &state.rare {
                    Some(rare) => visit.call(&rare.cache),
                    None => Ok(()),
                }
            })
        });
        visited.unwrap_or(Ok(()))
    }

    fn __clear__(&self) {
        let taken = crate::ffi::attached(|py| {
            self.state.with(py, |state| {
                let rare = state.rare.as_mut();
                (state.app.take(), rare.and_then(|rare| rare.cache.take()))
            })
        });
        drop(taken);
    }
}

impl State {
    /// The name of the request in the log, in plain characters.
    pub(crate) fn title(&mut self) -> String {
        let method = self.head.method_name().escape_ascii().to_string();
        let mut title = format!("{method} {}", self.head.path().escape_ascii()).into_bytes();
        if let Some(id) = self.request_id() {
            push_id(&mut title, &id);
        }
        String::from_utf8(title).unwrap_or_default()
    }

    /// The id of the request, if requests have ids.
    fn request_id(&mut self) -> Option<String> {
        if !self.exchanges.as_ref()?.has_request_ids {
            return None;
        }
        let section = self.head.field_section();
        let id = wire::value_of(wire::last_line(section.lines().rest()));
        String::from_utf8(id.to_vec()).ok()
    }
}
