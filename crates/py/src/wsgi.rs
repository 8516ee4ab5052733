//! WSGI applications (PEP 3333).
//!
//! With one thread the application is called on the reactor's thread ([`inline`]). With more, a pool of threads calls it, and the reactor
//! never needs the interpreter ([`pool`]). Both use the same code to make an environ ([`environ`]), to start a response ([`call`],
//! [`head`]) and to read what the application returned ([`blocks`]).

mod blocks;
mod call;
mod environ;
mod environ_forwarded;
mod environ_memo;
mod environ_tls;
mod fairness;
mod file_wrapper;
mod head;
mod hidden_loop;
mod inline;
mod input;
mod lane;
mod log;
mod outbox;
mod pool;
mod reports;
mod spool;
mod thread;
mod unclosed;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use net::{Numbers, Poller};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use server::{
    Abort, App, Config, Content, ExchangeId, Fields, FilePart, Outcome, Pulled, Responder, Shortage,
};

pub(crate) use self::file_wrapper::FileWrapper;
pub(crate) use self::hidden_loop::HiddenLoop;
use self::inline::Inline;
use self::input::Input;
use self::pool::{Intake, Pool, Taken};
use self::spool::Spooling;
use self::thread::Thread;
use crate::ffi;
use crate::run::exchanges::Exchanges;
use crate::run::left_out::LeftOut;
use crate::run::log::{cut_short, log_detail, log_shortage, log_warning};
use crate::run::runner::Runner;

/// A WSGI application and the constant parts of its environs.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct WsgiApp {
    app: Py<PyAny>,
    root_path: String,
    errors: Arc<log::ErrorLines>,
    disconnected: Py<PyAny>,
    dropped: Arc<AtomicU64>,
    left_out: Arc<LeftOut>,
    /// The pool and placement of the server that serves it, once there is one.
    serving: OnceLock<(Arc<Pool>, Placement)>,
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
            errors: Arc::new(log::ErrorLines::new(errors)),
            disconnected,
            dropped: Arc::default(),
            left_out: Arc::default(),
            serving: OnceLock::new(),
        }
    }

    /// The number of threads that must call [`WsgiApp::run_thread`]; 0 when the server's own thread calls the application.
    #[getter]
    fn threads(&self) -> usize {
        self.serving.get().map_or(0, |(pool, _)| pool.threads())
    }

    /// How many threads run a call of the application, also for a client that has its response or has left.
    #[getter]
    fn busy_threads(&self) -> usize {
        self.serving.get().map_or(0, |(pool, _)| pool.busy())
    }

    /// How many of them do so for nobody: the client has its response or has left.
    #[getter]
    fn abandoned_threads(&self) -> usize {
        self.serving.get().map_or(0, |(pool, _)| pool.abandoned())
    }

    /// Handles requests until [`WsgiApp::close`].
    fn run_thread(&self, py: Python<'_>) -> PyResult<()> {
        let (pool, placement) = self.serving()?;
        match Thread::new(py, self, pool, placement)? {
            Some(thread) => thread.run(py),
            None => return Err(thread::too_many()),
        }
        Ok(())
    }

    /// Logs what the server reports until [`WsgiApp::close`].
    fn run_reports(&self, py: Python<'_>) -> PyResult<()> {
        thread::report(py, &self.serving()?.0);
        Ok(())
    }

    /// Ends the threads, each after the response to its current request.
    fn close(&self) {
        if let Some((pool, _)) = self.serving.get() {
            pool.close();
        }
    }

    /// The calling thread has begun a line of `errors` that it leaves unfinished, or has finished it.
    fn note_unfinished_line(&self, is_unfinished: bool) {
        self.errors.note(is_unfinished);
    }

    /// Number of fields left out of environs because their name has an underscore.
    #[getter]
    fn dropped_fields(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// Where an application runs, and in how many threads and processes.
#[derive(Clone, Default)]
pub(crate) struct Placement {
    /// Of every request's URI.
    pub(crate) scheme: &'static str,
    /// Number of threads that call it; if one, it is the reactor's.
    pub(crate) threads: usize,
    /// Other processes may call it too.
    pub(crate) is_multiprocess: bool,
    /// Where responses are spooled that clients do not read; `None` for nowhere.
    pub(crate) spool_directory: Option<Arc<Path>>,
}

impl WsgiApp {
    fn serving(&self) -> PyResult<&(Arc<Pool>, Placement)> {
        let serving = self.serving.get();
        serving.ok_or_else(|| {
            PyRuntimeError::new_err("no server with threads serves this application")
        })
    }

    /// The exception that informs an application that its client has disconnected.
    pub(crate) fn disconnected(&self) -> &Py<PyAny> {
        &self.disconnected
    }

    /// The items that are the same in every environ.
    fn constants<'py>(
        &self,
        py: Python<'py>,
        placement: &Placement,
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
        set(
            "wsgi.url_scheme",
            PyString::new(py, placement.scheme).into_any(),
        )?;
        if placement.scheme == "https" {
            set("HTTPS", PyString::new(py, "on").into_any())?;
        }
        set(
            "wsgi.input",
            Bound::new(py, Input::whole(Vec::new()))?.into_any(),
        )?;
        set("wsgi.input_terminated", truth(true)?)?;
        set("wsgi.errors", self.errors.stream.bind(py).clone())?;
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
    calls: Calls,
}

enum Calls {
    Inline(Box<Inline>),
    /// The pool, which never needs the interpreter.
    Pooled(Intake, Limits),
}

/// The part of the server's configuration that a pooled application needs.
struct Limits {
    whole_content_bytes_max: u64,
}

impl Wsgi {
    pub(crate) fn new(
        app: &Bound<'_, WsgiApp>,
        exchanges: Arc<Exchanges>,
        placement: Placement,
        config: &Config,
    ) -> PyResult<Wsgi> {
        let calls = if placement.threads > 1 {
            let spooling = Spooling::new(placement.spool_directory.clone(), &config.limits);
            let pool = Arc::new(Pool::new(placement.threads, &exchanges, spooling)?);
            let serving = (Arc::clone(&pool), placement);
            if app.get().serving.set(serving).is_err() {
                let message = "this application is served by another server already";
                return Err(PyRuntimeError::new_err(message));
            }
            let limits = Limits {
                whole_content_bytes_max: config.limits.whole_content_bytes_max,
            };
            Calls::Pooled(Intake::new(pool, config), limits)
        } else {
            Calls::Inline(Box::new(Inline::new(app, &placement, &exchanges)?))
        };
        Ok(Wsgi {
            runner: Runner::new(exchanges),
            calls,
        })
    }

    /// Whether the reactor can run without the interpreter.
    pub(crate) fn is_pooled(&self) -> bool {
        matches!(self.calls, Calls::Pooled(..))
    }

    /// Whether the rest of a response is to be pulled from it.
    pub(crate) fn is_streaming(&self, id: ExchangeId) -> bool {
        matches!(&self.calls, Calls::Inline(inline) if inline.is_streaming(id))
    }

    /// Lets other threads wake the thread waiting in `poller`.
    pub(crate) fn watch(&self, poller: &Poller) -> std::io::Result<()> {
        match &self.calls {
            Calls::Inline(_) => Ok(()),
            Calls::Pooled(intake, _) => intake.pool.outbox.watch(poller),
        }
    }

    /// Shows from now on how many requests wait for a thread.
    pub(crate) fn measure(&self, numbers: Numbers) {
        if let Calls::Pooled(intake, _) = &self.calls {
            intake.measure(numbers);
        }
    }

    /// Whether a call goes on after its response.
    pub(crate) fn has_call(&self) -> bool {
        matches!(&self.calls, Calls::Inline(inline) if inline.unclosed.is_kept())
    }

    /// The reactor is about to wait: passes on what the pass has received. Returns how long it may wait.
    pub(crate) fn wait_begins(&mut self, wait_ms: Option<u64>) -> Option<u64> {
        match &mut self.calls {
            Calls::Inline(_) => wait_ms,
            Calls::Pooled(intake, _) => intake.wait_begins(wait_ms),
        }
    }

    /// The reactor has woken up.
    pub(crate) fn wait_ends(&self) {
        if let Calls::Pooled(intake, _) = &self.calls {
            intake.pool.outbox.wait_ends();
        }
    }
}

impl App for Wsgi {
    #[inline]
    fn call(&mut self, request: &server::Request<'_>, responder: &mut Responder) -> Outcome {
        match &mut self.calls {
            Calls::Inline(inline) => inline.call(&mut self.runner, request, responder),
            Calls::Pooled(intake, limits) => queue(intake, limits, request, responder),
        }
    }

    fn response_written(&mut self, responder: &mut Responder) {
        if let Calls::Inline(inline) = &mut self.calls {
            inline.unclosed.end(&mut self.runner, responder);
        }
    }

    fn pull(&mut self, id: ExchangeId, out: &mut Vec<u8>) -> Pulled {
        match &mut self.calls {
            Calls::Inline(inline) => inline.pull(&mut self.runner, id, out),
            Calls::Pooled(..) => Pulled::Failed,
        }
    }

    fn content(&mut self, id: ExchangeId, content: &[u8], is_last: bool) -> bool {
        match &self.calls {
            Calls::Inline(_) => true,
            Calls::Pooled(intake, _) => intake.take_content(id, content, is_last),
        }
    }

    fn lacked_memory(&mut self, shortage: &Shortage) {
        match &self.calls {
            Calls::Inline(_) => ffi::attached(|py| log_shortage(py, shortage)),
            Calls::Pooled(intake, _) => {
                let reports = &intake.pool.reports;
                reports.add(|counts| counts.shortage = Some(*shortage));
            }
        }
    }

    fn warn(&mut self, line: &str) {
        match &self.calls {
            Calls::Inline(_) => ffi::attached(|py| log_warning(py, line)),
            Calls::Pooled(intake, _) => intake.pool.reports.add_warning(line),
        }
    }

    fn handshake_failed(&mut self, line: &str) {
        match &self.calls {
            Calls::Inline(_) => ffi::attached(|py| log_detail(py, line)),
            Calls::Pooled(intake, _) => intake.pool.reports.add_detail(line),
        }
    }

    fn writable(&mut self, id: ExchangeId) {
        if let Calls::Pooled(intake, _) = &self.calls {
            intake.find(|lane| lane.writable(id));
        }
    }

    fn file_was_short(&mut self, _: ExchangeId, part: &FilePart) {
        let message = cut_short(part);
        match &self.calls {
            Calls::Inline(_) => ffi::attached(|py| log_warning(py, &message)),
            Calls::Pooled(intake, _) => intake.pool.reports.add(|counts| {
                counts.short_files += 1;
                counts.short_file = message;
            }),
        }
    }

    fn peer_ended(&mut self, id: ExchangeId) {
        if let Calls::Pooled(intake, _) = &mut self.calls {
            intake.peer_ended(id);
        }
    }

    fn abort(&mut self, id: ExchangeId, why: Abort) {
        match &mut self.calls {
            Calls::Inline(inline) => inline.abort(id),
            Calls::Pooled(intake, _) => {
                if let Abort::HandlerTimeout { after_ms } = why {
                    intake.was_late(id, after_ms);
                }
                intake.abort(id);
            }
        }
    }
}

impl Wsgi {
    /// Whether a thread is still occupied with a request.
    pub(crate) fn has_thread_for(&self, id: ExchangeId) -> bool {
        match &self.calls {
            Calls::Inline(_) => false,
            Calls::Pooled(intake, _) => intake.is_running(id),
        }
    }

    /// Whether all threads have been occupied for a while.
    pub(crate) fn is_occupied(&self) -> bool {
        match &self.calls {
            Calls::Inline(_) => false,
            Calls::Pooled(intake, _) => intake.pool.is_occupied(),
        }
    }
}

/// Hands a request over to the threads, or refuses it.
fn queue(
    intake: &mut Intake,
    limits: &Limits,
    request: &server::Request<'_>,
    responder: &mut Responder,
) -> Outcome {
    let content = match request.content {
        Content::Whole(content) => Some(content),
        Content::Later if request.head.expects_continue() => None,
        Content::Later => match request.head.content_length() {
            Some(length) if length > limits.whole_content_bytes_max => None,
            // Most applications rely on CONTENT_LENGTH, which is known for every content once it is complete.
            _ => return Outcome::ReadContent,
        },
    };
    match intake.push(request, content) {
        Taken::Yes => return Outcome::Pending,
        Taken::Full => {}
        Taken::NoMemory(bytes) => {
            responder.refuse_for_memory(bytes);
            return Outcome::Responded;
        }
    }
    let fields = Fields::constant(pool::UNAVAILABLE_FIELDS);
    responder.respond(503, fields, pool::UNAVAILABLE);
    Outcome::Responded
}
