//! Native applications: what the server calls besides the handlers themselves ([`crate::native::calls`]).

use std::mem::MaybeUninit;
use std::sync::Arc;

use pyo3::prelude::*;
use server::{
    Abort, ExchangeId, Head, Match, Offer, Outcome, Overrides, Parameters, Pulled, Responder,
    Router,
};
use wire::Method;

use crate::ffi;
use crate::native::calls::{Calls, Fallback};
use crate::native::log::log_failure;
use crate::native::request::Request;
use crate::native::table::{NativeApp, Route, Table};
use crate::run::coroutine::ends_task;
use crate::run::exchanges::Exchanges;

/// The application as the server calls it.
pub(crate) struct Native {
    app: Py<NativeApp>,
    table: Arc<Table>,
    pub(crate) calls: Calls,
}

impl Native {
    pub(crate) fn new(app: Py<NativeApp>, exchanges: Arc<Exchanges>) -> Native {
        let table = app.get().table();
        app.get().is_served_by(&exchanges);
        let calls = Calls::new(exchanges);
        Native { app, table, calls }
    }

    /// Called at the start of a pass: takes over routes that were added since the last one. Returns whether there were some.
    pub(crate) fn pass_begins(&mut self) -> bool {
        let table = self.app.get().table();
        let has_changed = !Arc::ptr_eq(&table, &self.table);
        if has_changed {
            self.table = table;
        }
        has_changed
    }

    /// Handles a request by its route or, if it has none, by what is mounted.
    #[inline]
    pub(crate) fn call<const IN_STREAM: bool>(
        &mut self,
        mounts: Option<&mut impl Fallback>,
        request: &server::Request<'_>,
        responder: &mut Responder,
    ) -> Outcome {
        ffi::attached(|py| {
            self.calls
                .call::<IN_STREAM>(py, &self.table, mounts, request, responder)
        })
    }

    /// Whether a WebSocket may be opened at the path of a request.
    pub(crate) fn takes_websocket(&self, head: Head<'_>) -> bool {
        has_path(&self.table.sockets, head)
    }

    /// Whether WebSockets may be opened at some path.
    pub(crate) fn has_websockets(&self) -> bool {
        !self.table.socket_routes.is_empty()
    }

    /// Whether some routes have bounds of their own.
    pub(crate) fn has_bounds(&self) -> bool {
        let table = self.app.get().table();
        let mut routes = table.routes.iter();
        routes.any(|route| route.bounds != Overrides::default())
    }

    /// See [`server::App::bounds`].
    pub(crate) fn bounds(&self, head: &Head<'_>) -> Overrides {
        let route = self.find(head.method(), head.method_name(), head.path());
        route.map_or_else(Overrides::default, |route| route.bounds)
    }

    /// See [`server::App::route`].
    pub(crate) fn route(&self, method_name: &[u8], path: &[u8]) -> Option<&str> {
        let method = Method::from_bytes(method_name);
        let route = self.find(method, method_name, path)?;
        Some(&route.pattern)
    }

    fn find(&self, method: Method, method_name: &[u8], path: &[u8]) -> Option<&Route> {
        let mut parameters = Parameters::default();
        let router = &self.table.router;
        match router.find(method, method_name, path, &mut parameters) {
            Match::Route(index) => self.table.routes.get(index).map(Arc::as_ref),
            Match::OtherMethods(_) | Match::None => None,
        }
    }

    /// Whether a handler serves the path, whatever the method.
    pub(crate) fn has_route(&self, head: Head<'_>) -> bool {
        has_path(&self.table.router, head)
    }

    /// See [`server::App::websocket`].
    pub(crate) fn websocket(
        &mut self,
        py: Python<'_>,
        request: &server::Request<'_>,
        offer: &Offer<'_>,
        responder: &mut Responder,
    ) {
        self.calls
            .websocket(py, &self.table, request, offer, responder);
    }

    /// See [`server::App::pull`]; the next three implement that trait's methods too.
    pub(crate) fn pull(&mut self, id: ExchangeId, out: &mut Vec<u8>) -> Pulled {
        ffi::attached(|py| self.pull_part(py, id, out))
    }

    fn pull_part(&mut self, py: Python<'_>, id: ExchangeId, out: &mut Vec<u8>) -> Pulled {
        self.calls.runner.tasks.leave(py);
        let parts = self
            .calls
            .runner
            .exchanges
            .lock()
            .get(&id)
            .and_then(|exchange| Some(exchange.known_rare()?.parts.as_ref()?.clone_ref(py)));
        let Some(parts) = parts else {
            return Pulled::Failed;
        };
        match parts.next(py, out) {
            Ok(true) => Pulled::More,
            Ok(false) => {
                self.calls.runner.exchanges.end(py, id, true);
                Pulled::End
            }
            Err(error) => {
                let exchange = self.calls.runner.exchanges.end(py, id, false);
                let exchange = exchange.unwrap_or_default();
                parts.close(py);
                if ends_task(py, &error) {
                    self.calls.runner.keep_fatal(py, error);
                } else {
                    let request = exchange
                        .known_rare()
                        .and_then(|rare| Some(rare.request.as_ref()?.bind(py)));
                    let request = request.and_then(|request| request.cast::<Request>().ok());
                    log_failure(py, &error, request.map(Bound::as_unbound));
                }
                Pulled::Failed
            }
        }
    }

    pub(crate) fn content(&mut self, id: ExchangeId, content: &[u8], is_last: bool) -> bool {
        let exchanges = &self.calls.runner.exchanges;
        ffi::attached(|py| exchanges.take_content(py, id, content, is_last))
    }

    pub(crate) fn content_room(
        &mut self,
        _: ExchangeId,
        bytes: usize,
    ) -> Option<&mut [MaybeUninit<u8>]> {
        ffi::attached(|py| self.calls.runner.content_room(py, bytes))
    }

    pub(crate) fn content_was_read(&mut self, id: ExchangeId, bytes: usize, is_last: bool) {
        let runner = &mut self.calls.runner;
        ffi::attached(|py| runner.content_was_read(py, id, bytes, is_last));
    }

    pub(crate) fn writable(&mut self, id: ExchangeId) {
        ffi::attached(|py| self.calls.runner.exchanges.writable(py, id));
    }

    pub(crate) fn peer_ended(&mut self, id: ExchangeId) {
        ffi::attached(|py| {
            self.calls.runner.tasks.leave(py);
            self.calls.runner.exchanges.peer_ended(py, id);
        });
    }

    pub(crate) fn abort(&mut self, id: ExchangeId, why: Abort) {
        ffi::attached(|py| self.calls.runner.abort(py, id, why));
    }
}

/// Whether a router has a route for the path of a request.
pub(super) fn has_path(router: &Router, head: Head<'_>) -> bool {
    let mut parameters = Parameters::default();
    let found = router.find(Method::Get, b"GET", head.path(), &mut parameters);
    !matches!(found, Match::None)
}
