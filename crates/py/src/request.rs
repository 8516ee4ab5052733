//! The request as a handler sees it. Its bytes are its own; nothing is decoded before it is asked for.

use std::sync::Arc;

use net::Peer;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use server::{Command, Content, ExchangeId, ParameterKind, Parameters};
use wire::{RequestHead, Version};

use crate::shared::Shared;
use crate::stream::Ready;

/// An object that grew beyond this for its head or its content is not used again.
const KEPT_BYTES: usize = 16_384;

/// A part of the request's bytes.
#[derive(Clone, Copy, Default)]
struct Span {
    start: u32,
    end: u32,
}

/// One parameter of a path: name, what it matches.
pub(crate) type Parameter = (String, ParameterKind);

/// What is filled in for each request. Instances are used again when nobody kept them.
#[pyclass(subclass, module = "bolide._core")]
#[derive(Default)]
pub(crate) struct Request {
    bytes: Vec<u8>,
    method: Span,
    path: Span,
    query: Option<Span>,
    authority: Span,
    fields: Span,
    is_http10: bool,
    content: Vec<u8>,
    /// The content has not arrived as a whole: it is received part by part.
    comes_in_parts: bool,
    /// The end of the content was given out.
    is_exhausted: bool,
    is_async: bool,
    client: Option<Peer>,
    server: Option<Peer>,
    values: Vec<Span>,
    parameters: Option<Arc<[Parameter]>>,
    id: Option<ExchangeId>,
    shared: Option<Arc<Shared>>,
    app: Option<Py<PyAny>>,
    cache: Option<Py<PyDict>>,
}

impl Request {
    /// Gives a fresh object what never changes.
    pub(crate) fn prepare(&mut self, shared: Arc<Shared>, app: Py<PyAny>) {
        self.shared = Some(shared);
        self.app = Some(app);
    }

    /// Takes a request over. Everything of the one before is gone.
    #[inline]
    pub(crate) fn fill(&mut self, request: &server::Request<'_>, is_async: bool) {
        let head = request.head;
        self.bytes.clear();
        self.bytes.extend_from_slice(head.bytes);
        self.method = Span { start: 0, end: head.method_name.len() as u32 };
        self.path = span_of(head, head.path);
        self.query = head.query.map(|query| span_of(head, query));
        self.authority = head.authority.or(head.host).map_or(Span::default(), |authority| span_of(head, authority));
        self.fields = span_of(head, head.field_section);
        self.is_http10 = head.version == Version::Http10;
        self.content.clear();
        self.comes_in_parts = true;
        if let Content::Whole(content) = request.content {
            self.comes_in_parts = false;
            self.content.extend_from_slice(content);
        }
        self.is_exhausted = false;
        self.is_async = is_async;
        self.client = Some(request.client);
        self.server = Some(request.server);
        self.id = Some(request.id);
        self.values.clear();
        self.parameters = None;
        self.cache = None;
    }

    /// Keeps where the path's parameters are.
    pub(crate) fn set_parameters(&mut self, parameters: &Arc<[Parameter]>, found: &Parameters) {
        self.parameters = Some(Arc::clone(parameters));
        for index in 0..parameters.len() {
            let (start, end) = found.span(index).unwrap_or_default();
            self.values.push(Span { start: self.path.start + start, end: self.path.start + end });
        }
    }

    /// The `index`-th parameter as Python sees it.
    pub(crate) fn parameter<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyAny>> {
        let kind = self.parameters.as_ref().and_then(|parameters| parameters.get(index)).map(|(_, kind)| *kind);
        let value = self.values.get(index).map_or(&b""[..], |span| self.slice(*span));
        if kind == Some(ParameterKind::Integer) {
            let number: i64 = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).unwrap_or_default();
            return Ok(number.into_pyobject(py)?.into_any());
        }
        Ok(decoded(py, value).into_any())
    }

    /// Whether it may serve another request: what a large one left behind is not kept.
    pub(crate) fn is_reusable(&mut self) -> bool {
        self.cache = None;
        self.bytes.capacity() <= KEPT_BYTES && self.content.capacity() <= KEPT_BYTES
    }

    fn slice(&self, span: Span) -> &[u8] {
        self.bytes.get(span.start as usize..span.end as usize).unwrap_or_default()
    }
}

/// Where `part`, which lies inside the head's bytes, begins and ends.
fn span_of(head: &RequestHead<'_>, part: &[u8]) -> Span {
    let offset = (part.as_ptr() as usize).wrapping_sub(head.bytes.as_ptr() as usize);
    if offset > head.bytes.len() {
        // Not a part of the head: the parser's constant for an empty path or asterisk.
        return Span::default();
    }
    Span { start: offset as u32, end: (offset + part.len()) as u32 }
}

/// Percent-decoded UTF-8; what is not UTF-8 becomes U+FFFD.
fn decoded<'py>(py: Python<'py>, bytes: &[u8]) -> Bound<'py, PyString> {
    if memchr::memchr(b'%', bytes).is_none() {
        return PyString::new(py, &String::from_utf8_lossy(bytes));
    }
    PyString::new(py, &String::from_utf8_lossy(&server::percent_decode(bytes)))
}

/// Bytes as text, one character each.
fn latin1(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

fn address<'py>(py: Python<'py>, peer: Option<Peer>) -> PyResult<Option<Bound<'py, PyTuple>>> {
    match peer {
        Some(Peer::Internet(address)) => {
            let items = (address.ip().to_string(), address.port());
            Ok(Some(items.into_pyobject(py)?))
        }
        _ => Ok(None),
    }
}

#[pymethods]
impl Request {
    #[new]
    fn new() -> Request {
        Request::default()
    }

    #[getter]
    fn method<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        match self.slice(self.method) {
            b"GET" => pyo3::intern!(py, "GET").clone(),
            b"POST" => pyo3::intern!(py, "POST").clone(),
            other => PyString::new(py, &latin1(other)),
        }
    }

    #[getter]
    fn path<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        decoded(py, self.raw())
    }

    #[getter]
    fn raw_path<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.raw())
    }

    #[getter]
    fn query_string<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.query.map_or(b"", |query| self.slice(query)))
    }

    #[getter]
    fn http_version(&self) -> &'static str {
        if self.is_http10 { "1.0" } else { "1.1" }
    }

    #[getter]
    fn scheme(&self) -> &'static str {
        "http"
    }

    #[getter]
    fn client<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        address(py, self.client)
    }

    #[getter]
    fn server<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        address(py, self.server)
    }

    #[getter]
    fn host(&self) -> String {
        latin1(self.slice(self.authority))
    }

    #[getter]
    fn path_params<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let parameters = PyDict::new(py);
        for (index, (name, _)) in self.parameters.iter().flat_map(|all| all.iter()).enumerate() {
            parameters.set_item(name, self.parameter(py, index)?)?;
        }
        Ok(parameters)
    }

    /// Every field line in order: the name in lower case, the value as Latin-1 text.
    fn field_lines<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let lines = PyList::empty(py);
        for (name, value) in wire::field_lines(self.slice(self.fields)) {
            lines.append((latin1(&name.to_ascii_lowercase()), latin1(value)))?;
        }
        Ok(lines)
    }

    #[getter]
    fn cache<'py>(&mut self, py: Python<'py>) -> Bound<'py, PyDict> {
        self.cache.get_or_insert_with(|| PyDict::new(py).unbind()).bind(py).clone()
    }

    #[getter]
    fn app(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.app.as_ref().map(|app| app.clone_ref(py))
    }

    #[getter]
    fn is_async(&self) -> bool {
        self.is_async
    }

    /// The whole content, in a handler that is not a coroutine.
    fn read<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        if self.comes_in_parts {
            return Err(PyRuntimeError::new_err("read() is for `def` handlers; in an `async def` handler await request.body()"));
        }
        Ok(PyBytes::new(py, &self.content))
    }

    /// The next part of the content, as an awaitable; None at the end.
    fn receive<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if !self.comes_in_parts {
            let part = (!self.content.is_empty() && !self.is_exhausted).then(|| PyBytes::new(py, &self.content).into_any().unbind());
            self.is_exhausted = true;
            return Ready::new(py, part);
        }
        let (Some(shared), Some(id)) = (&self.shared, self.id) else {
            return Err(PyRuntimeError::new_err("this request belongs to no server"));
        };
        let is_over = {
            let mut exchanges = shared.exchanges();
            let exchange = exchanges.entry(id).or_default();
            (exchange.content.is_empty(), exchange.content_ended, exchange.is_disconnected)
        };
        match is_over {
            (false, _, _) => Ready::new(py, shared.next_content(py, id).map(Py::into_any)),
            (true, true, _) => Ready::new(py, None),
            (true, false, true) => Err(shared.disconnection(py)),
            (true, false, false) => {
                let future = shared.create_future(py)?;
                if let Some(exchange) = shared.exchanges().get_mut(&id) {
                    exchange.reader = Some(future.clone().unbind());
                }
                shared.post(py, id, Command::Read);
                Ok(future)
            }
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.app)?;
        visit.call(&self.cache)
    }

    fn __clear__(&mut self) {
        self.app = None;
        self.cache = None;
    }
}

impl Request {
    fn raw(&self) -> &[u8] {
        // An absolute-form target may have no path; then it is the root (RFC 9112 section 3.2.2).
        match self.slice(self.path) {
            b"" => b"/",
            path => path,
        }
    }
}
