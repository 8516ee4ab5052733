//! Passes the interpreter's properties (version, with or without a GIL) to `cfg`.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
