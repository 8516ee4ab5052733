//! TLS in a plan, and what is counted of it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use net::{Agreement, Expected, Pair, TlsClientConfig, TlsFailure};
use serde::Serialize;

use super::plan::Protocol;

/// How TLS is used. All files are in PEM.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tls {
    /// The name or IP address for which the server's certificate has to be. A name is sent to the server (SNI).
    pub server_name: String,
    /// The file of certificates to which the server's has to lead; `None`: nothing is verified.
    pub authorities: Option<PathBuf>,
    /// The files of the client's certificate and its key.
    pub pair: Option<(PathBuf, PathBuf)>,
    /// Sessions are not resumed: every handshake is a full one.
    pub is_always_full: bool,
    /// TLS 1.2 is not offered.
    pub is_tls13_only: bool,
    /// TLS 1.3 is not offered.
    pub is_tls12_only: bool,
}

/// What handshakes a run did, and why TLS failed.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct TlsReport {
    /// The version of the first handshake: "TLS 1.3".
    pub version: String,
    /// Its cipher suite.
    pub cipher_suite: String,
    /// Handshakes with certificates, in the whole run.
    pub handshakes_full: u64,
    /// Handshakes that resumed an earlier session, in the whole run.
    pub handshakes_resumed: u64,
    /// Full handshakes per second of the measured time.
    pub handshakes_full_per_s: f64,
    /// Resumed ones per second of the measured time.
    pub handshakes_resumed_per_s: f64,
    /// Connections on which TLS failed, by cause, in the whole run.
    pub failures: BTreeMap<&'static str, u64>,
    /// What was wrong with the first of them.
    pub first_failure: String,
}

/// Counts of one thread.
#[derive(Default)]
pub(super) struct TlsCounts {
    agreement: Option<Agreement>,
    full: Handshakes,
    resumed: Handshakes,
    failures: BTreeMap<&'static str, u64>,
    first_failure: Option<String>,
}

#[derive(Clone, Copy, Default)]
struct Handshakes {
    all: u64,
    measured: u64,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// If one cannot be read or used; one line that names it.
    pub(super) fn config(&self, protocol: Protocol) -> Result<TlsClientConfig, String> {
        let read = |path: &Path| {
            fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
        };
        let authorities = self.authorities.as_deref().map(read).transpose()?;
        let pair = match &self.pair {
            Some((certificate, key)) => Some((read(certificate)?, read(key)?)),
            None => None,
        };
        TlsClientConfig::new(Expected {
            server_name: &self.server_name,
            authorities: authorities.as_deref(),
            pair: pair
                .as_ref()
                .map(|(certificates, key)| Pair { certificates, key }),
            is_always_full: self.is_always_full,
            is_tls13_only: self.is_tls13_only,
            is_tls12_only: self.is_tls12_only,
            protocols: &[protocol.alpn()],
        })
    }
}

impl TlsCounts {
    pub(super) fn note_handshake(&mut self, agreement: Agreement, is_measured: bool) {
        self.agreement.get_or_insert(agreement);
        let counts = match agreement.is_resumed {
            true => &mut self.resumed,
            false => &mut self.full,
        };
        counts.all += 1;
        counts.measured += u64::from(is_measured);
    }

    /// The server selected another protocol than HTTP/2, or none.
    pub(super) fn note_other_protocol(&mut self, selected: Option<&[u8]>) {
        *self.failures.entry("no_http2").or_insert(0) += 1;
        self.first_failure.get_or_insert_with(|| match selected {
            Some(name) => format!("the server selected {}", name.escape_ascii()),
            None => String::from("the server selected no protocol (ALPN)"),
        });
    }

    /// Returns false if the error is not one of TLS.
    pub(super) fn note_failure(&mut self, error: &io::Error) -> bool {
        let Some(failure) = TlsFailure::of(error) else {
            return false;
        };
        *self.failures.entry(failure.name()).or_insert(0) += 1;
        self.first_failure.get_or_insert_with(|| error.to_string());
        true
    }
}

impl TlsReport {
    /// Combines the counts of all threads.
    pub(super) fn new<'a>(threads: impl Iterator<Item = &'a TlsCounts>, seconds: f64) -> TlsReport {
        let mut report = TlsReport::default();
        let per_s = |count: u64| {
            if seconds > 0.0 {
                count as f64 / seconds
            } else {
                0.0
            }
        };
        for counts in threads {
            if let Some(agreement) = counts.agreement.filter(|_| report.version.is_empty()) {
                report.version = agreement.version_name().to_owned();
                report.cipher_suite = agreement.cipher_suite_name();
            }
            report.handshakes_full += counts.full.all;
            report.handshakes_resumed += counts.resumed.all;
            report.handshakes_full_per_s += per_s(counts.full.measured);
            report.handshakes_resumed_per_s += per_s(counts.resumed.measured);
            for (cause, count) in &counts.failures {
                *report.failures.entry(cause).or_insert(0) += count;
            }
            if let Some(text) = counts
                .first_failure
                .as_ref()
                .filter(|_| report.first_failure.is_empty())
            {
                report.first_failure.clone_from(text);
            }
        }
        report
    }
}
