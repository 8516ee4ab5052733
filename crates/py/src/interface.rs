//! The interfaces that applications speak, as one type for the server.

mod mounted;
mod websocket;

use net::{Numbers, Poller};
use std::mem::MaybeUninit;

use pyo3::prelude::*;
use server::{
    Abort, App, Appetite, Closed, Config, ExchangeId, FilePart, Head, MessageContent, MessageKind,
    Offer, Outcome, Overrides, Pulled, Request, Responder, Shortage,
};

pub(crate) use self::mounted::MountedApp;
use self::mounted::{Mount, Mounted};
use crate::asgi::{Asgi, AsgiApp};
use crate::ffi;
use crate::native::app::Native;
use crate::native::table::NativeApp;
use crate::run::exchanges::Exchanges;
use crate::run::log::{cut_short, log_detail, log_shortage, log_warning};
use crate::run::runner::Runner;
use crate::wsgi::{HiddenLoop, Placement, Wsgi, WsgiApp};

/// An application of any kind. A worker serves one.
#[expect(clippy::large_enum_variant, reason = "a worker has one")]
pub(crate) enum Interface {
    Native(Native),
    Asgi(Asgi),
    Wsgi(Wsgi),
    /// A native application with others mounted below prefixes.
    Mounted(Box<Mounted>),
}

impl Interface {
    /// Converts what Python passes as the application.
    ///
    /// # Errors
    /// `TypeError` for anything but a `NativeApp`, an `AsgiApp`, a `WsgiApp` or a `MountedApp`.
    pub(crate) fn of(
        app: &Bound<'_, PyAny>,
        exchanges: std::sync::Arc<Exchanges>,
        placement: Placement,
        config: &Config,
    ) -> PyResult<Interface> {
        if let Ok(app) = app.cast::<AsgiApp>() {
            return Ok(Interface::Asgi(Asgi::new(app, exchanges)?));
        }
        if let Ok(app) = app.cast::<WsgiApp>() {
            return Ok(Interface::Wsgi(Wsgi::new(
                app, exchanges, placement, config,
            )?));
        }
        if let Ok(app) = app.cast::<MountedApp>() {
            let mounted = Mounted::new(app, &exchanges, placement, config)?;
            return Ok(Interface::Mounted(Box::new(mounted)));
        }
        let native = app.cast::<NativeApp>()?.clone().unbind();
        Ok(Interface::Native(Native::new(native, exchanges)))
    }

    /// The exception that reports a disconnection to an application.
    ///
    /// # Errors
    /// As [`Interface::of`].
    pub(crate) fn disconnected(app: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = app.py();
        if let Ok(app) = app.cast::<AsgiApp>() {
            return Ok(app.get().disconnected().clone_ref(py));
        }
        if let Ok(app) = app.cast::<WsgiApp>() {
            return Ok(app.get().disconnected().clone_ref(py));
        }
        if let Ok(app) = app.cast::<MountedApp>() {
            return Interface::disconnected(app.get().native(py).as_any());
        }
        let table = app.cast::<NativeApp>()?.get().table();
        Ok(table.disconnected.clone_ref(py))
    }

    /// What runs its coroutines: one runner for each application.
    pub(crate) fn runners(&mut self) -> impl Iterator<Item = &mut Runner> {
        let (first, mounts): (_, &mut [Mount]) = match self {
            Interface::Native(native) => (&mut native.calls.runner, &mut []),
            Interface::Asgi(asgi) => (&mut asgi.runner, &mut []),
            Interface::Wsgi(wsgi) => (&mut wsgi.runner, &mut []),
            Interface::Mounted(mounted) => mounted.parts(),
        };
        std::iter::once(first).chain(mounts.iter_mut().map(Mount::runner))
    }

    /// Whether an exception that ends the process was raised.
    pub(crate) fn is_fatal(&mut self) -> bool {
        self.runners().any(|runner| runner.fatal.is_some())
    }

    /// Whether callbacks wait for the loop to run them.
    fn has_callbacks(&mut self) -> bool {
        ffi::attached(|py| {
            let mut runners = self.runners();
            runners.any(|runner| runner.tasks.has_callbacks(py))
        })
    }

    /// Called at the start of a pass. Returns whether routes have been added since the last one.
    pub(crate) fn pass_begins(&mut self) -> bool {
        match self {
            Interface::Native(native) => native.pass_begins(),
            Interface::Mounted(mounted) => mounted.pass_begins(),
            Interface::Asgi(_) | Interface::Wsgi(_) => false,
        }
    }

    /// Whether the reactor needs no interpreter, because the application runs in threads of its own.
    pub(crate) fn is_pooled(&self) -> bool {
        matches!(self, Interface::Wsgi(wsgi) if wsgi.is_pooled())
    }

    /// Hides the event loop that waits in the reactor from an application that is called there and must not see it. For mounted
    /// applications, it is hidden call by call.
    ///
    /// # Errors
    /// If asyncio cannot be imported.
    pub(crate) fn hide_loop<'py>(&self, py: Python<'py>) -> PyResult<Option<HiddenLoop<'py>>> {
        match self {
            Interface::Wsgi(wsgi) if !wsgi.is_pooled() => HiddenLoop::hide(py).map(Some),
            _ => Ok(None),
        }
    }

    /// Lets other threads that respond wake the thread waiting in `poller`.
    ///
    /// # Errors
    /// When the system's limit of watches is reached.
    pub(crate) fn watch(&self, poller: &Poller) -> std::io::Result<()> {
        match self {
            Interface::Wsgi(wsgi) => wsgi.watch(poller),
            Interface::Mounted(mounted) => mounted.watch(poller),
            _ => Ok(()),
        }
    }

    /// Counts from now on what the server cannot see.
    pub(crate) fn measure(&self, numbers: Numbers) {
        match self {
            Interface::Wsgi(wsgi) => wsgi.measure(numbers),
            Interface::Mounted(mounted) => mounted.measure(numbers),
            Interface::Native(_) | Interface::Asgi(_) => {}
        }
    }

    /// The reactor is about to wait for at most `wait_ms`. Returns how long it may wait.
    pub(crate) fn wait_begins(&mut self, wait_ms: Option<u64>) -> Option<u64> {
        match self {
            Interface::Wsgi(wsgi) => wsgi.wait_begins(wait_ms),
            Interface::Mounted(mounted) => mounted.wait_begins(wait_ms),
            _ => wait_ms,
        }
    }

    /// The reactor has woken up.
    pub(crate) fn wait_ends(&self) {
        match self {
            Interface::Wsgi(wsgi) => wsgi.wait_ends(),
            Interface::Mounted(mounted) => mounted.wait_ends(),
            Interface::Native(_) | Interface::Asgi(_) => {}
        }
    }
}

/// Forwards a call to the application of either kind.
macro_rules! whichever {
    ($self:ident, $app:ident => $call:expr) => {
        match $self {
            Interface::Native($app) => $call,
            Interface::Asgi($app) => $call,
            Interface::Wsgi($app) => $call,
            Interface::Mounted($app) => $call,
        }
    };
}

impl Interface {
    /// Exists once for each of its two callers, so that all of it can be inlined there: no request pays for the other's (bench: calls.py).
    #[inline]
    fn respond_to<const IN_STREAM: bool>(
        &mut self,
        request: &Request<'_>,
        responder: &mut Responder,
    ) -> Outcome {
        let (native, mounts) = match self {
            Interface::Native(native) => (native, None),
            Interface::Mounted(mounted) => {
                let (native, mounts) = mounted.in_order();
                (native, Some(mounts))
            }
            Interface::Asgi(asgi) => return asgi.call(request, responder),
            Interface::Wsgi(wsgi) => return wsgi.call(request, responder),
        };
        native.call::<IN_STREAM>(mounts, request, responder)
    }
}

impl App for Interface {
    #[inline]
    fn call(&mut self, request: &Request<'_>, responder: &mut Responder) -> Outcome {
        self.respond_to::<false>(request, responder)
    }

    #[inline(never)]
    fn call_stream(&mut self, request: &Request<'_>, responder: &mut Responder) -> Outcome {
        self.respond_to::<true>(request, responder)
    }

    fn pull(&mut self, id: ExchangeId, out: &mut Vec<u8>) -> Pulled {
        whichever!(self, app => app.pull(id, out))
    }

    fn response_written(&mut self, responder: &mut Responder) {
        match self {
            Interface::Wsgi(wsgi) => wsgi.response_written(responder),
            Interface::Mounted(mounted) => mounted.response_written(responder),
            Interface::Native(_) | Interface::Asgi(_) => {}
        }
    }

    fn is_waited_for(&mut self) -> bool {
        // The reactor does not hold the interpreter while it serves a pool of threads, and its passes are short then.
        !self.is_pooled() && self.has_callbacks()
    }

    fn content(&mut self, id: ExchangeId, content: &[u8], is_last: bool) -> bool {
        whichever!(self, app => app.content(id, content, is_last))
    }

    fn lacked_memory(&mut self, shortage: &Shortage) {
        match self {
            Interface::Wsgi(wsgi) => wsgi.lacked_memory(shortage),
            _ => ffi::attached(|py| log_shortage(py, shortage)),
        }
    }

    fn warn(&mut self, line: &str) {
        match self {
            Interface::Wsgi(wsgi) => wsgi.warn(line),
            _ => ffi::attached(|py| log_warning(py, line)),
        }
    }

    fn handshake_failed(&mut self, line: &str) {
        match self {
            Interface::Wsgi(wsgi) => wsgi.handshake_failed(line),
            _ => ffi::attached(|py| log_detail(py, line)),
        }
    }

    fn content_room(&mut self, id: ExchangeId, bytes: usize) -> Option<&mut [MaybeUninit<u8>]> {
        whichever!(self, app => app.content_room(id, bytes))
    }

    fn content_was_read(&mut self, id: ExchangeId, bytes: usize, is_last: bool) {
        whichever!(self, app => app.content_was_read(id, bytes, is_last));
    }

    fn writable(&mut self, id: ExchangeId) {
        if !self.socket_is_writable(id) {
            whichever!(self, app => app.writable(id));
        }
    }

    fn peer_ended(&mut self, id: ExchangeId) {
        whichever!(self, app => app.peer_ended(id));
        self.offer_is_withdrawn(id);
    }

    fn has_begun(&mut self, id: ExchangeId) -> bool {
        match self {
            Interface::Asgi(asgi) => asgi.has_begun(id),
            Interface::Mounted(mounted) => mounted.has_begun(id),
            Interface::Native(_) | Interface::Wsgi(_) => false,
        }
    }

    fn file_was_short(&mut self, id: ExchangeId, part: &FilePart) {
        match self {
            Interface::Wsgi(wsgi) => wsgi.file_was_short(id, part),
            _ => ffi::attached(|py| log_warning(py, &cut_short(part))),
        }
    }

    fn route(&self, method_name: &[u8], path: &[u8]) -> Option<&str> {
        match self {
            Interface::Native(native) => native.route(method_name, path),
            Interface::Mounted(mounted) => mounted.native().route(method_name, path),
            Interface::Asgi(_) | Interface::Wsgi(_) => None,
        }
    }

    fn takes_websocket(&mut self, head: &Head<'_>) -> bool {
        match self {
            Interface::Native(native) => native.takes_websocket(*head),
            Interface::Asgi(_) => true,
            Interface::Wsgi(_) => false,
            Interface::Mounted(mounted) => mounted.takes_websocket(*head),
        }
    }

    fn has_websockets(&self) -> bool {
        match self {
            Interface::Native(native) => native.has_websockets(),
            Interface::Asgi(_) => true,
            Interface::Wsgi(_) => false,
            Interface::Mounted(mounted) => mounted.has_websockets(),
        }
    }

    fn websocket(&mut self, request: &Request<'_>, offer: &Offer<'_>, responder: &mut Responder) {
        ffi::attached(|py| match self {
            Interface::Native(native) => native.websocket(py, request, offer, responder),
            Interface::Asgi(asgi) => asgi.websocket(py, request, offer, responder),
            Interface::Wsgi(_) => {}
            Interface::Mounted(mounted) => mounted.websocket(py, request, offer, responder),
        });
    }

    fn message(
        &mut self,
        id: ExchangeId,
        kind: MessageKind,
        content: MessageContent<'_>,
    ) -> Appetite {
        self.message_arrives(id, kind, &content)
    }

    fn messages_end(&mut self, id: ExchangeId, responder: &mut Responder) {
        self.serve_messages(id, responder);
    }

    fn websocket_closed(&mut self, id: ExchangeId, closed: &Closed) {
        self.socket_ends(id, closed);
    }

    #[inline]
    fn departed_bytes(&self) -> u64 {
        match self {
            Interface::Native(native) => native.calls.runner.exchanges.departed.get(),
            Interface::Asgi(asgi) => asgi.runner.exchanges.departed.get(),
            Interface::Mounted(mounted) => mounted.exchanges().departed.get(),
            Interface::Wsgi(_) => 0,
        }
    }

    /// Other threads have the interpreter meanwhile. Their calls to the server find it busy (`Server::worker`).
    fn step_back<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match self.is_pooled() {
            true => work(),
            false => ffi::attached(|py| py.detach(work)),
        }
    }

    fn abort(&mut self, id: ExchangeId, why: Abort) {
        whichever!(self, app => app.abort(id, why));
        self.offer_ends(id);
    }

    fn owes_response(&self, id: ExchangeId) -> bool {
        match self {
            Interface::Native(native) => native.calls.runner.exchanges.owes_response(id),
            Interface::Asgi(asgi) => asgi.runner.exchanges.owes_response(id),
            Interface::Mounted(mounted) => mounted.exchanges().owes_response(id),
            // Threads cannot be cancelled.
            Interface::Wsgi(_) => false,
        }
    }

    fn running(&self) -> usize {
        match self {
            Interface::Native(native) => native.calls.runner.exchanges.running.requests(),
            Interface::Asgi(asgi) => asgi.runner.exchanges.running.requests(),
            Interface::Mounted(mounted) => mounted.exchanges().running.requests(),
            Interface::Wsgi(_) => 0,
        }
    }

    fn has_bounds(&self) -> bool {
        match self {
            Interface::Native(native) => native.has_bounds(),
            Interface::Mounted(mounted) => mounted.native().has_bounds(),
            Interface::Asgi(_) | Interface::Wsgi(_) => false,
        }
    }

    fn bounds(&mut self, head: &Head<'_>) -> Overrides {
        match self {
            Interface::Native(native) => native.bounds(head),
            Interface::Mounted(mounted) => mounted.native().bounds(head),
            Interface::Asgi(_) | Interface::Wsgi(_) => Overrides::default(),
        }
    }

    fn is_occupied(&self) -> bool {
        match self {
            Interface::Wsgi(wsgi) => wsgi.is_occupied(),
            // Requests of a mounted application are some among others.
            Interface::Native(_) | Interface::Asgi(_) | Interface::Mounted(_) => false,
        }
    }

    fn is_running(&mut self, id: ExchangeId) -> bool {
        match self {
            Interface::Native(native) => native.calls.runner.exchanges.is_open(id),
            Interface::Asgi(asgi) => asgi.runner.exchanges.is_open(id),
            Interface::Wsgi(wsgi) => wsgi.has_thread_for(id),
            Interface::Mounted(mounted) => mounted.is_running(id),
        }
    }
}
