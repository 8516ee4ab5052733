//! The Python module `bolide._core`: what the Rust half provides to the Python half.

mod asgi;
mod ffi;
mod interface;
mod native;
mod run;
mod selector;
mod server;
mod tools;
mod wsgi;

use pyo3::prelude::*;

/// The compiled half of Bolide.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    net::report_panics();
    ffi::reuse::prepare();
    run::awaitable::prepare(module.py());
    run::websocket::prepare(module.py());
    native::stream::prepare(module.py());
    native::websocket::prepare(module.py());
    asgi::prepare(module.py());
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("is_release_build", !cfg!(debug_assertions))?;
    module.add_function(wrap_pyfunction!(server::settings, module)?)?;
    module.add_function(wrap_pyfunction!(server::check_access_log_format, module)?)?;
    module.add_function(wrap_pyfunction!(server::share_client_rates, module)?)?;
    module.add_function(wrap_pyfunction!(server::metrics, module)?)?;
    module.add_function(wrap_pyfunction!(server::follow, module)?)?;
    module.add_function(wrap_pyfunction!(server::widen_signal_stack, module)?)?;
    module.add_function(wrap_pyfunction!(server::self_signed, module)?)?;
    module.add_function(wrap_pyfunction!(server::memory_file, module)?)?;
    module.add_function(wrap_pyfunction!(server::opened_key, module)?)?;
    module.add_function(wrap_pyfunction!(native::response::field_line, module)?)?;
    module.add_function(wrap_pyfunction!(
        native::response::complete_response,
        module
    )?)?;
    module.add_function(wrap_pyfunction!(tools::ceiling, module)?)?;
    module.add_class::<tools::Load>()?;
    module.add_function(wrap_pyfunction!(tools::merged_report, module)?)?;
    module.add_function(wrap_pyfunction!(tools::merged_progress, module)?)?;
    module.add_class::<native::response::Response>()?;
    module.add_class::<native::request::Request>()?;
    module.add_class::<native::websocket::WebSocket>()?;
    module.add_class::<native::stream::Stream>()?;
    module.add_class::<native::tls::Tls>()?;
    module.add_class::<native::table::NativeApp>()?;
    module.add_class::<asgi::AsgiApp>()?;
    module.add_class::<wsgi::WsgiApp>()?;
    module.add_class::<wsgi::FileWrapper>()?;
    module.add_class::<interface::MountedApp>()?;
    module.add_class::<server::Server>()?;
    module.add_class::<server::Siblings>()?;
    module.add_class::<server::Counts>()?;
    module.add_class::<server::TicketSecret>()?;
    module.add_class::<server::TlsConfig>()?;
    module.add_class::<server::CertificateFacts>()?;
    module.add_class::<server::RevocationFacts>()?;
    module.add_class::<selector::Selector>()?;
    module.add_function(wrap_pyfunction!(selector::selector, module)?)?;
    Ok(())
}
