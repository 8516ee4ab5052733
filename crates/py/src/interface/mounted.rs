//! A native application with ASGI and WSGI applications mounted below prefixes.
//!
//! A route of the native application takes precedence, whatever its method. A path without a route goes to the mount with the longest
//! prefix. All applications share one reactor, one event loop and the open exchanges ([`Exchanges`]), so events for an exchange need no
//! owner; only streams that are pulled from have one. Each application lends its own task and context, and the one called before steps
//! aside for the next.

use std::mem::MaybeUninit;
use std::sync::Arc;

use net::{Numbers, Poller};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use server::{Abort, App, Config, ExchangeId, Head, Offer, Outcome, Pulled, Responder};

use crate::asgi::{Asgi, AsgiApp};
use crate::ffi;
use crate::native::app::Native;
use crate::native::calls::Fallback;
use crate::native::table::NativeApp;
use crate::run::exchanges::Exchanges;
use crate::run::failure::fail;
use crate::run::log::log_failure;
use crate::run::runner::Runner;
use crate::wsgi::{HiddenLoop, Placement, Wsgi, WsgiApp};

/// A native application, and others by prefix.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct MountedApp {
    native: Py<NativeApp>,
    mounts: Vec<(String, Py<PyAny>)>,
}

#[pymethods]
impl MountedApp {
    #[new]
    fn new(native: Py<NativeApp>, mounts: Vec<(String, Py<PyAny>)>) -> MountedApp {
        MountedApp { native, mounts }
    }
}

impl MountedApp {
    pub(super) fn native<'py>(&self, py: Python<'py>) -> &Bound<'py, NativeApp> {
        self.native.bind(py)
    }
}

/// The applications as the server calls them.
pub(crate) struct Mounted {
    native: Native,
    mounts: Mounts,
}

/// The applications that are not native.
pub(crate) struct Mounts {
    /// Longest prefix first.
    all: Vec<Mount>,
    /// The one called last: what it lends may still be current.
    last: Option<usize>,
}

/// An application below a prefix.
pub(crate) struct Mount {
    /// The segments of the prefix, none for `/`.
    prefix: Vec<Vec<u8>>,
    guest: Guest,
}

#[expect(clippy::large_enum_variant, reason = "a worker has a few")]
enum Guest {
    Asgi(Asgi),
    Wsgi(Wsgi),
}

impl Mounted {
    pub(super) fn new(
        app: &Bound<'_, MountedApp>,
        exchanges: &Arc<Exchanges>,
        placement: Placement,
        config: &Config,
    ) -> PyResult<Mounted> {
        let (py, own) = (app.py(), app.get());
        let mut all = Vec::with_capacity(own.mounts.len());
        for (prefix, guest) in &own.mounts {
            let guest = Guest::of(guest.bind(py), exchanges, placement.clone(), config)?;
            let prefix = segments(prefix.as_bytes()).map(<[u8]>::to_vec).collect();
            all.push(Mount { prefix, guest });
        }
        all.sort_by_key(|mount| std::cmp::Reverse(mount.prefix.len()));
        Ok(Mounted {
            native: Native::new(own.native.clone_ref(py), Arc::clone(exchanges)),
            mounts: Mounts { all, last: None },
        })
    }

    /// The runner of the native application, and the mounts with theirs.
    pub(super) fn parts(&mut self) -> (&mut Runner, &mut [Mount]) {
        (&mut self.native.calls.runner, &mut self.mounts.all)
    }

    pub(super) fn pass_begins(&mut self) -> bool {
        self.native.pass_begins()
    }

    pub(super) fn watch(&self, poller: &Poller) -> std::io::Result<()> {
        self.mounts.wsgi().try_for_each(|wsgi| wsgi.watch(poller))
    }

    pub(super) fn measure(&self, numbers: Numbers) {
        self.mounts.wsgi().for_each(|wsgi| wsgi.measure(numbers));
    }

    pub(super) fn wait_begins(&mut self, wait_ms: Option<u64>) -> Option<u64> {
        let wsgi = self.mounts.wsgi_mut();
        wsgi.fold(wait_ms, |wait_ms, wsgi| wsgi.wait_begins(wait_ms))
    }

    pub(super) fn wait_ends(&self) {
        self.mounts.wsgi().for_each(Wsgi::wait_ends);
    }

    /// The native application, which is called first, and the mounts, to which it forwards calls.
    pub(super) fn in_order(&mut self) -> (&mut Native, &mut Mounts) {
        (&mut self.native, &mut self.mounts)
    }

    pub(super) fn exchanges(&self) -> &Exchanges {
        &self.native.calls.runner.exchanges
    }

    pub(super) fn native(&self) -> &Native {
        &self.native
    }

    /// Whether a request that asks for a WebSocket is a handshake: a native route comes first, even one for other requests.
    pub(super) fn takes_websocket(&self, head: Head<'_>) -> bool {
        if self.native.takes_websocket(head) || self.native.has_route(head) {
            return self.native.takes_websocket(head);
        }
        let index = self.mounts.find(head.path());
        let mount = index.and_then(|index| self.mounts.all.get(index));
        mount.is_some_and(|mount| matches!(mount.guest, Guest::Asgi(_)))
    }

    /// Whether WebSockets may be opened at some path.
    pub(super) fn has_websockets(&self) -> bool {
        let mut mounts = self.mounts.all.iter();
        self.native.has_websockets() || mounts.any(|mount| matches!(mount.guest, Guest::Asgi(_)))
    }

    pub(super) fn websocket(
        &mut self,
        py: Python<'_>,
        request: &server::Request<'_>,
        offer: &Offer<'_>,
        responder: &mut Responder,
    ) {
        if self.native.takes_websocket(request.head) {
            self.mounts.step_aside(py);
            return self.native.websocket(py, request, offer, responder);
        }
        self.native.calls.runner.steps_aside(py);
        let index = self.mounts.find(request.head.path());
        let mount = index.and_then(|index| self.mounts.turn_to(py, index));
        if let Some(Guest::Asgi(asgi)) = mount.map(|mount| &mut mount.guest) {
            asgi.websocket(py, request, offer, responder);
        }
    }

    /// See [`server::App::response_written`].
    pub(super) fn response_written(&mut self, responder: &mut Responder) {
        let mut wsgi = self.mounts.wsgi_mut();
        let Some(wsgi) = wsgi.find(|wsgi| wsgi.has_call()) else {
            return;
        };
        ffi::attached(|py| {
            let hidden = HiddenLoop::hide(py);
            if let Err(error) = &hidden {
                log_failure(py, error, None);
            }
            wsgi.response_written(responder);
        });
    }

    /// See [`server::App::pull`]; the next four implement that trait's methods too.
    pub(super) fn pull(&mut self, id: ExchangeId, out: &mut Vec<u8>) -> Pulled {
        ffi::attached(|py| self.pull_part(py, id, out))
    }

    fn pull_part(&mut self, py: Python<'_>, id: ExchangeId, out: &mut Vec<u8>) -> Pulled {
        self.all_step_aside(py);
        let owner = self.mounts.wsgi_mut().find(|wsgi| wsgi.is_streaming(id));
        match owner.map(|wsgi| (HiddenLoop::hide(py), wsgi)) {
            Some((Ok(_hidden), wsgi)) => wsgi.pull(id, out),
            Some((Err(error), _)) => {
                log_failure(py, &error, None);
                Pulled::Failed
            }
            None => self.native.pull(id, out),
        }
    }

    pub(super) fn content(&mut self, id: ExchangeId, content: &[u8], is_last: bool) -> bool {
        let mut wsgi = self.mounts.wsgi_mut();
        let is_taken = wsgi.all(|wsgi| wsgi.content(id, content, is_last));
        is_taken && self.native.content(id, content, is_last)
    }

    /// For native and ASGI applications, which share the open exchanges. Threads of WSGI applications get content in another way.
    pub(super) fn content_room(
        &mut self,
        id: ExchangeId,
        bytes: usize,
    ) -> Option<&mut [MaybeUninit<u8>]> {
        let runner = &self.native.calls.runner;
        let is_shared = runner.exchanges.lock().contains_key(&id);
        is_shared.then_some(())?;
        self.native.content_room(id, bytes)
    }

    pub(super) fn content_was_read(&mut self, id: ExchangeId, bytes: usize, is_last: bool) {
        self.native.content_was_read(id, bytes, is_last);
    }

    pub(super) fn writable(&mut self, id: ExchangeId) {
        self.native.writable(id);
        self.mounts.wsgi_mut().for_each(|wsgi| wsgi.writable(id));
    }

    pub(super) fn peer_ended(&mut self, id: ExchangeId) {
        ffi::attached(|py| self.all_step_aside(py));
        self.native.peer_ended(id);
        let wsgi = self.mounts.wsgi_mut();
        wsgi.for_each(|wsgi| wsgi.peer_ended(id));
    }

    pub(super) fn has_begun(&self, id: ExchangeId) -> bool {
        self.native.calls.runner.exchanges.has_begun(id)
    }

    pub(super) fn abort(&mut self, id: ExchangeId, why: Abort) {
        ffi::attached(|py| self.abort_now(py, id, why));
    }

    pub(super) fn is_running(&self, id: ExchangeId) -> bool {
        let is_open = self.native.calls.runner.exchanges.is_open(id);
        is_open || self.mounts.wsgi().any(|wsgi| wsgi.has_thread_for(id))
    }

    fn abort_now(&mut self, py: Python<'_>, id: ExchangeId, why: Abort) {
        self.all_step_aside(py);
        self.native.abort(id, why);
        for wsgi in self.mounts.wsgi_mut() {
            // Closing a stream runs the application.
            let hidden = wsgi.is_streaming(id).then(|| HiddenLoop::hide(py));
            wsgi.abort(id, why);
            drop(hidden);
        }
    }

    /// No call is under way: nothing that is lent may be current.
    fn all_step_aside(&mut self, py: Python<'_>) {
        self.native.calls.runner.steps_aside(py);
        self.mounts.step_aside(py);
    }
}

impl Fallback for Mounts {
    #[inline(never)]
    fn call(
        &mut self,
        runner: &mut Runner,
        request: &server::Request<'_>,
        responder: &mut Responder,
    ) -> Option<Outcome> {
        ffi::attached(|py| {
            let Some(index) = self.find(request.head.path()) else {
                self.step_aside(py);
                return None;
            };
            runner.steps_aside(py);
            let mount = self.turn_to(py, index)?;
            Some(mount.guest.call(py, request, responder))
        })
    }

    fn step_aside(&mut self, py: Python<'_>) {
        if let Some(mount) = self.last.take().and_then(|last| self.all.get_mut(last)) {
            mount.runner().steps_aside(py);
        }
    }
}

impl Mounts {
    /// The mount whose prefix the path is below.
    fn find(&self, path: &[u8]) -> Option<usize> {
        let mut all = self.all.iter();
        all.position(|mount| is_below(path, &mount.prefix))
    }

    fn wsgi(&self) -> impl Iterator<Item = &Wsgi> {
        self.all.iter().filter_map(|mount| match &mount.guest {
            Guest::Wsgi(wsgi) => Some(wsgi),
            Guest::Asgi(_) => None,
        })
    }

    fn wsgi_mut(&mut self) -> impl Iterator<Item = &mut Wsgi> {
        let all = self.all.iter_mut();
        all.filter_map(|mount| match &mut mount.guest {
            Guest::Wsgi(wsgi) => Some(wsgi),
            Guest::Asgi(_) => None,
        })
    }

    /// Selects a mount before it is called, so that what it lends is taken back even after a panic.
    fn turn_to(&mut self, py: Python<'_>, index: usize) -> Option<&mut Mount> {
        if self.last != Some(index) {
            self.step_aside(py);
            self.last = Some(index);
        }
        self.all.get_mut(index)
    }
}

impl Mount {
    pub(super) fn runner(&mut self) -> &mut Runner {
        match &mut self.guest {
            Guest::Asgi(asgi) => &mut asgi.runner,
            Guest::Wsgi(wsgi) => &mut wsgi.runner,
        }
    }
}

impl Guest {
    fn of(
        app: &Bound<'_, PyAny>,
        exchanges: &Arc<Exchanges>,
        placement: Placement,
        config: &Config,
    ) -> PyResult<Guest> {
        let exchanges = Arc::clone(exchanges);
        if let Ok(app) = app.cast::<AsgiApp>() {
            return Ok(Guest::Asgi(Asgi::new(app, exchanges)?));
        }
        let Ok(app) = app.cast::<WsgiApp>() else {
            return Err(PyTypeError::new_err("only AsgiApp and WsgiApp are mounted"));
        };
        Ok(Guest::Wsgi(Wsgi::new(app, exchanges, placement, config)?))
    }

    fn call(
        &mut self,
        py: Python<'_>,
        request: &server::Request<'_>,
        responder: &mut Responder,
    ) -> Outcome {
        match self {
            Guest::Asgi(asgi) => asgi.call(request, responder),
            Guest::Wsgi(wsgi) if wsgi.is_pooled() => wsgi.call(request, responder),
            Guest::Wsgi(wsgi) => match HiddenLoop::hide(py) {
                Ok(_hidden) => wsgi.call(request, responder),
                Err(error) => {
                    log_failure(py, &error, None);
                    fail(responder)
                }
            },
        }
    }
}

/// The segments of a path, none for `/`.
fn segments(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let below_root = path.strip_prefix(b"/").unwrap_or_default();
    let count = match below_root {
        b"" => 0,
        _ => usize::MAX,
    };
    below_root.split(|byte| *byte == b'/').take(count)
}

/// Whether a path, as received, starts with these segments. They are compared as in the router: percent-decoded one by one, so that `%2F`
/// does not end a segment.
fn is_below(path: &[u8], prefix: &[Vec<u8>]) -> bool {
    let mut own = segments(path);
    prefix.iter().all(|expected| {
        own.next()
            .is_some_and(|segment| match segment.contains(&b'%') {
                true => server::percent_decode(segment) == *expected,
                false => segment == expected,
            })
    })
}
